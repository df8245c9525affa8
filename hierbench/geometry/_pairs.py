"""Two vectors in polar terms, evaluated without cancellation: what distances and angles of both spaces need.

A pair (x, y) is described by the norms ‖x‖ and ‖y‖, their difference, and the squared chord between the
directions, ‖x̂ − ŷ‖² = 2(1 − cos θ). All are float64: float32 inputs count as exact values.

NaN in gives NaN out. Special cases are told by what is small, never by what is not large: a comparison with NaN is
false, and so a NaN takes the general formula, which keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from hierbench.errors import GeometryError

TINY = 1e-30  # vectors and separations below this have no direction; 1 / TINY still fits float32 gradients
ROUNDING = 2.0**-19  # 16 float32 roundings: points nearer than this part of their norm are one point
BLOCK = 2**22  # numbers in a temporary array; bounds the memory of pairwise functions


class Polar(NamedTuple):
    """Pairs of vectors x, y; the fields broadcast to (N, M), or are (…,) where pairs go row by row."""

    a: Tensor  # ‖x‖
    b: Tensor  # ‖y‖
    gap: Tensor  # ‖y‖ − ‖x‖
    chord2: Tensor  # ‖x̂ − ŷ‖², in [0, 4]


def check_points(points: Tensor) -> None:
    """GeometryError unless `points` is a floating-point tensor (…, D)."""
    if not isinstance(points, Tensor):
        raise GeometryError(f"points must be a torch tensor of shape (…, D), got {type(points).__name__}")
    if points.ndim == 0 or not points.is_floating_point():
        raise GeometryError(
            f"points must be floating-point with shape (…, D), got {points.dtype} {tuple(points.shape)}"
        )


def check_pair(x: Tensor, y: Tensor, paired: bool) -> torch.dtype:
    """Result type of a function of (N, D) and (M, D), or row by row of two equal shapes.

    Raises GeometryError for any other shapes.
    """
    check_points(x)
    check_points(y)
    if paired and x.shape != y.shape:
        raise GeometryError(f"paired=True needs two equal shapes, got {tuple(x.shape)} and {tuple(y.shape)}")
    if not paired and (x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]):
        raise GeometryError(
            f"pairwise functions need shapes (N, D) and (M, D), got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    return torch.promote_types(torch.promote_types(x.dtype, y.dtype), torch.float32)


def wide(x: Tensor) -> Tensor:
    """`x` in float64 (float32 on Apple's MPS, which has no float64)."""
    return x.to(torch.float32 if x.device.type == "mps" else torch.float64)


def sqrt(x: Tensor) -> Tensor:
    """√x with gradient zero instead of infinity at x = 0."""
    zero = x <= TINY**2
    return torch.where(zero, 0, torch.where(zero, 1, x).sqrt())


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    """(…, D) -> norms (…,) and unit vectors (…, D); the unit vector of 0 is 0, with gradient zero."""
    norm = torch.linalg.vector_norm(x, dim=-1)
    none = (norm <= TINY)[..., None]
    return norm, torch.where(none, 0, x / torch.where(none, 1, norm[..., None]))


def evaluate(
    formula: Callable[[Polar], Tensor], x: Tensor, y: Tensor, paired: bool, dtype: torch.dtype
) -> Tensor:
    """`formula` over all pairs of the wide vectors x (N, D), y (M, D) -> (N, M), or row by row -> (…,).

    Pairwise, the work goes by blocks of rows, so that no more than the result and a few blocks are held.
    """
    if paired:
        return formula(_row_by_row(x, y)).to(dtype)
    lengths = split(y)
    rows = max(1, BLOCK // max(1, len(y)))
    if len(x) <= rows:
        return formula(_crossed(x, y, *lengths)).to(dtype)
    out = x.new_empty(len(x), len(y), dtype=dtype)
    for start in range(0, len(x), rows):
        block = slice(start, start + rows)
        out[block] = formula(_crossed(x[block], y, *lengths)).to(dtype)
    return out


def _row_by_row(x: Tensor, y: Tensor) -> Polar:
    a, x_unit = split(x)
    b, y_unit = split(y)
    between = y - x
    gap = (between * (x + y)).sum(-1) / (a + b).clamp(min=TINY)
    # ŷ − x̂ = (y − x − gap x̂) / b = (y − x − gap ŷ) / a; dividing by the larger norm keeps every digit
    shorter = torch.where((a < b)[..., None], x_unit, y_unit)
    chord = (between - gap[..., None] * shorter) / torch.maximum(a, b).clamp(min=TINY)[..., None]
    return Polar(a, b, gap, chord.square().sum(-1).clamp(max=4))


def _crossed(x: Tensor, y: Tensor, b: Tensor, y_unit: Tensor) -> Polar:
    a, x_unit = split(x)
    chord2 = torch.addmm(x.new_full((), 2.0), x_unit, y_unit.T, alpha=-2).clamp(0, 4)
    a, b = a[:, None], b[None, :]
    gap = b - a
    if chord2.device.type != "cpu" and chord2.requires_grad:
        # a training step must not wait for the device to count near pairs; good to 1e-8 of the norms
        return Polar(a, b, gap, chord2)
    # where 2 − 2 cos θ has lost half its digits, take the pair's differences instead
    near = (chord2.detach() < 8 * torch.finfo(chord2.dtype).eps ** 0.5).nonzero(as_tuple=True)
    if len(near[0]):
        exact = [
            _row_by_row(x[i], y[j])
            for i, j in zip(*(ids.split(max(1, BLOCK // x.shape[1])) for ids in near), strict=True)
        ]
        gap = gap.index_put(near, torch.cat([pairs.gap for pairs in exact]))
        chord2 = chord2.index_put(near, torch.cat([pairs.chord2 for pairs in exact]))
    return Polar(a, b, gap, chord2)


def direction(outward: Tensor, sideways: Tensor, pairs: Polar) -> Tensor:
    """Angle of the direction (outward, sideways ≥ 0) from x to y, in [0, π].

    π/2 with zero gradient where x is 0 or the two are one point. Features come from float32 (or coarser) arithmetic
    even where they are held in float64: one caption encoded at two places of a batch gives two vectors a few roundings
    apart, and the direction from one to the other is noise with a gradient of its own inverse length.
    """
    same = (pairs.gap.abs() <= ROUNDING * pairs.a) & (pairs.chord2 <= ROUNDING**2)
    least = TINY + 0 * pairs.b.detach()  # NaN where y is: from the origin there is no direction to NaN either
    unknown = same | (pairs.a <= least) | (outward.abs() + sideways <= TINY)
    return torch.atan2(torch.where(unknown, 1, sideways), torch.where(unknown, 0, outward))


def entailment_score(angle: Tensor) -> Tensor:
    """max(1 − 2φ/π, 0): 1 where the specific lies straight outward, 0 from a right angle on (ARGENT §5)."""
    return (1 - angle * (2 / torch.pi)).clamp(min=0)
