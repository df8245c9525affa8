"""Cross-entropy of queries among targets in tiles of the matrix of pairs, forward and backward.

The matrix is never held: a tile's distances are computed, used and dropped, and computed again in the backward pass,
so that memory grows with the batch and not with its square. In an ℓ1 product a tile holds one factor at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hierbench.contracts import Geometry
from hierbench.geometry import Product

TILE_MIB = 64
"""What a tile's temporary arrays may fill, by default."""

DISTANCE_ARRAYS, COSINE_ARRAYS = 26, 5
"""Numbers held per pair at the worst moment, of one space (measured)."""
ROW_ARRAYS = 10
"""Vectors held per row and per column of a tile."""


@dataclass(frozen=True)
class Part:
    """A summand of the closeness: −weight × the distance in some of the components, or the cosine."""

    geometry: Geometry
    components: slice
    weight: float = 1.0

    @property
    def spaces(self) -> tuple[Any, ...]:
        """The factors of a product that cannot be taken apart, else the geometry."""
        return self.geometry.factors if isinstance(self.geometry, Product) else (self.geometry,)

    @property
    def pair_arrays(self) -> int:
        """Numbers held per pair while its gradient is computed."""
        return DISTANCE_ARRAYS * len(self.spaces) if self.geometry.has_cones else COSINE_ARRAYS

    @property
    def learned(self) -> list[Tensor]:
        """The curvatures that carry gradient."""
        curvatures = [getattr(space, "curvature", None) for space in self.spaces]
        return [κ for κ in curvatures if isinstance(κ, Tensor) and κ.requires_grad]

    def closeness(self, queries: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(r, D), (c, D) -> (r, c) with a graph of its own, and the two leaves of the graph.

        Always with a graph: without one the geometry takes another way, and waits for the device.
        """
        with torch.enable_grad():
            a, b = (points.detach()[:, self.components].requires_grad_() for points in (queries, targets))
            if self.geometry.has_cones:
                return self.geometry.distance(a, b) * -self.weight, a, b
            return self.geometry.similarity(a, b), a, b


def parts_of(geometry: Geometry, width: int) -> list[Part]:
    """The factors of an ℓ1 product, whose distance is the mean of theirs; any other geometry whole."""
    if not (isinstance(geometry, Product) and geometry.metric == "l1"):
        return [Part(geometry, slice(0, width))]
    count = len(geometry.factors)
    each = width // count
    return [
        Part(factor, slice(each * place, each * (place + 1)), 1 / count)
        for place, factor in enumerate(geometry.factors)
    ]


@dataclass(frozen=True)
class Ranking:
    """Which target each query is to find, among which, and in tiles of what shape."""

    parts: list[Part]
    own: Tensor  # (n,) int64
    shown: Tensor | None  # (m,) bool; other targets are no candidates
    shape: tuple[int, int]

    def tiles(self, count: int) -> Iterator[tuple[slice, slice]]:
        """Rows and columns of each tile of the matrix of all queries by `count` targets."""
        rows, columns = self.shape
        for row in range(0, len(self.own), rows):
            for column in range(0, count, columns):
                yield slice(row, row + rows), slice(column, min(column + columns, count))

    def closeness(self, queries: Tensor, targets: Tensor) -> Tensor:
        """All parts' together, (r, D), (c, D) -> (r, c), without a graph."""
        total = self.parts[0].closeness(queries, targets)[0].detach()
        for part in self.parts[1:]:
            total += part.closeness(queries, targets)[0].detach()
        return total

    def logits(self, closeness: Tensor, scale: Tensor, columns: slice) -> Tensor:
        """Scaled closeness, the least number for targets that are no candidates."""
        logits = scale * closeness
        if self.shown is not None:
            logits.masked_fill_(~self.shown[columns], torch.finfo(logits.dtype).min)
        return logits

    def own_in(self, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
        """(r,) bool: whose target is in the tile; (r, 1): its column there, any column for the others."""
        column = self.own[rows] - columns.start
        width = columns.stop - columns.start
        return (column >= 0) & (column < width), column.clamp(0, width - 1)[:, None]


class _RowLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ranking: Ranking, queries: Tensor, targets: Tensor, scale: Tensor, *learned: Tensor):
        normaliser = queries.new_full((len(queries),), -math.inf)
        found = torch.zeros_like(normaliser)
        for rows, columns in ranking.tiles(len(targets)):
            closeness = ranking.closeness(queries[rows], targets[columns])
            logits = ranking.logits(closeness, _of(scale, rows), columns)
            normaliser[rows] = torch.logaddexp(normaliser[rows], logits.logsumexp(1))
            here, column = ranking.own_in(rows, columns)
            found[rows] = torch.where(here, logits.gather(1, column)[:, 0], found[rows])
        ctx.ranking = ranking
        ctx.save_for_backward(queries, targets, scale, normaliser)
        return normaliser - found

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor) -> Any:
        ranking: Ranking = ctx.ranking
        queries, targets, scale, normaliser = ctx.saved_tensors
        to_queries, to_targets, to_scale = map(torch.zeros_like, (queries, targets, scale))
        to_learned = [[torch.zeros_like(κ) for κ in part.learned] for part in ranking.parts]
        for rows, columns in ranking.tiles(len(targets)):
            one, other = queries[rows], targets[columns]
            graph = ranking.parts[0].closeness(one, other) if len(ranking.parts) == 1 else None
            closeness = graph[0].detach() if graph else ranking.closeness(one, other)
            # d loss / d logit = softmax − [own]
            slope = ranking.logits(closeness, _of(scale, rows), columns)
            slope.sub_(normaliser[rows, None]).exp_().mul_(gradients[0][rows, None])
            here, column = ranking.own_in(rows, columns)
            slope.scatter_add_(1, column, -torch.where(here, gradients[0][rows], 0)[:, None])
            if ranking.shown is not None:
                slope.masked_fill_(~ranking.shown[columns], 0)
            _of(to_scale, rows).add_((slope * closeness).sum_to_size(_of(scale, rows).shape))
            slope.mul_(_of(scale, rows))
            del closeness
            for part, sums in zip(ranking.parts, to_learned, strict=True):
                value, a, b = graph or part.closeness(one, other)
                found = torch.autograd.grad(value, [a, b, *part.learned], slope)
                to_queries[rows, part.components] += found[0]
                to_targets[columns, part.components] += found[1]
                for total, gradient in zip(sums, found[2:], strict=True):
                    total += gradient
        return None, to_queries, to_targets, to_scale, *[total for sums in to_learned for total in sums]


def row_losses(
    geometry: Geometry,
    queries: Tensor,
    targets: Tensor,
    scale: Tensor,
    own: Tensor,
    shown: Tensor | None = None,
    tile_mib: float = TILE_MIB,
) -> Tensor:
    """−log softmax(scale · closeness)[own] of each query, (n, D), (m, D) -> (n,).

    Closeness is the negative geodesic distance where the geometry has cones, else the cosine. scale: () or (n, 1);
    own: (n,) int64; shown: (m,) bool, other targets are no candidates. Gradients, of the first order, flow to the
    points, the scale and the geometry's learned curvatures. A tile's temporary arrays fill at most `tile_mib` MiB, or
    what one pair needs; not counted are pairs within 3e-4 rad of one another, which a CPU evaluates vector by vector.
    """
    parts = parts_of(geometry, queries.shape[1])
    ranking = Ranking(parts, own, shown, tile_shape(parts[0], queries, len(targets), tile_mib))
    learned = [κ for part in parts for κ in part.learned]
    return _RowLosses.apply(ranking, queries, targets, scale, *learned)


def tile_shape(part: Part, queries: Tensor, targets: int, tile_mib: float) -> tuple[int, int]:
    """Rows and columns of a tile: nearly a square, as both sides cost memory, or as long as the short side leaves."""
    n, width = queries.shape
    budget = tile_mib * 2**20 / queries.element_size()  # in numbers
    pair, vector = part.pair_arrays, ROW_ARRAYS * width

    def longest(other: int) -> int:
        return max(1, math.floor((budget - vector * other) / (pair * other + vector)))

    # pair · side² + 2 · vector · side = budget
    side = max(1, math.floor((math.sqrt(vector**2 + pair * budget) - vector) / pair))
    columns = min(targets, longest(min(n, side)))
    return min(n, longest(columns)), columns


def _of(scale: Tensor, rows: slice) -> Tensor:
    """The rows' share of a scale of all, () or (n, 1)."""
    return scale[rows] if scale.ndim else scale
