"""The unit sphere of CLIP-like models; what counts as general is seen from a root point (HierarCaps)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from hierbench.errors import GeometryError
from hierbench.geometry import _pairs
from hierbench.geometry._pairs import Polar


@dataclass(frozen=True)
class Sphere:
    """Unit vectors compared by the cosine.

    The sphere has no most general point of its own: `radius`, `exterior_angle` and `entailment` measure from
    `root`, (D,), the embedding of the empty caption, in the Euclidean space around the sphere (HierarCaps).
    Distances and angles are computed in float64 and come in the type of the input.
    Raises GeometryError for points of the wrong shape and where a root or a cone would be needed.
    """

    name: ClassVar[str] = "sphere"
    has_origin: ClassVar[bool] = False
    has_cones: ClassVar[bool] = False
    entailment_definition: ClassVar[str] = "radial"

    def describe(self) -> dict[str, Any]:
        """The name, for records."""
        return {"name": self.name}

    def lift(self, tangent: Tensor) -> Tensor:
        """Unit vectors, (…, D) -> (…, D); a zero vector stays zero."""
        _pairs.check_points(tangent)
        return _pairs.split(_pairs.wide(tangent))[1].to(tangent.dtype)

    def mean(self, tangents: Tensor) -> Tensor:
        """The normalised mean of the unit vectors, (…, P, D) -> (…, D)."""
        _pairs.check_points(tangents)
        if tangents.ndim < 2:
            raise GeometryError(f"mean needs tangents of shape (…, P, D), got {tuple(tangents.shape)}")
        return self.lift(self.lift(_pairs.wide(tangents)).mean(-2)).to(tangents.dtype)

    def similarity(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
        """Cosine in [−1, 1], in the type of the input: one matrix product, for ranking."""
        _pairs.check_pair(a, b, paired)
        return (a * b).sum(-1) if paired else a @ b.T

    def distance(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
        """Angle between two points seen from the centre, in [0, π]; zero gradient where they coincide."""
        dtype = _pairs.check_pair(a, b, paired)
        return _pairs.evaluate(_central_angle, _pairs.wide(a), _pairs.wide(b), paired, dtype)

    def radius(self, points: Tensor, *, root: Tensor | None = None) -> Tensor:
        """Euclidean distance from the root, (…, D) -> (…,)."""
        _pairs.check_points(points)
        return torch.linalg.vector_norm(_from(root, points), dim=-1).to(points.dtype)

    def exterior_angle(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor:
        """Angle between `general` − root and `specific` − `general`, in [0, π].

        π/2 with zero gradient where the two coincide up to rounding (2⁻¹⁹ of the norm) or `general` is the root.
        """
        dtype = _pairs.check_pair(general, specific, paired)
        return _pairs.evaluate(
            exterior_angle_from_root, _from(root, general), _from(root, specific), paired, dtype
        )

    def half_aperture(self, points: Tensor) -> Tensor:
        """The sphere has no entailment cones: always a GeometryError."""
        raise GeometryError("the sphere has no entailment cones: compare exterior angles from a root instead")

    def entailment(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor:
        """max(1 − 2φ/π, 0), φ the exterior angle as seen from the root."""
        dtype = _pairs.check_pair(general, specific, paired)
        return _pairs.evaluate(
            lambda pairs: _pairs.entailment_score(exterior_angle_from_root(pairs)),
            _from(root, general),
            _from(root, specific),
            paired,
            dtype,
        )


def _from(root: Tensor | None, points: Tensor) -> Tensor:
    """`points` − root, wide."""
    if root is None:
        raise GeometryError(
            "the sphere has no root of its own: give root=, the embedding of the empty caption"
        )
    if not isinstance(root, Tensor) or root.shape != points.shape[-1:]:
        shape = tuple(root.shape) if isinstance(root, Tensor) else type(root).__name__
        raise GeometryError(f"root must be a tensor of shape ({points.shape[-1]},), got {shape}")
    return _pairs.wide(points) - _pairs.wide(root)


def _central_angle(pairs: Polar) -> Tensor:
    """θ = atan2(sin θ, cos θ) from the squared chord."""
    chord2 = pairs.chord2
    return torch.atan2(_pairs.sqrt(chord2 * (1 - chord2 / 4)), 1 - chord2 / 2)


def exterior_angle_from_root(pairs: Polar) -> Tensor:
    """atan2 of the sideways and outward parts of `specific` − `general`, as seen from the root.

    With the lengths r, s and the angle θ at the root: outward = s cos θ − r = (s − r) − s(1 − cos θ);
    sideways = s sin θ.
    """
    chord2 = pairs.chord2
    outward = pairs.gap - pairs.b * chord2 / 2
    sideways = pairs.b * _pairs.sqrt(chord2 * (1 - chord2 / 4))
    return _pairs.direction(outward, sideways, pairs)
