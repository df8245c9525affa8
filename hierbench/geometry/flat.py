"""The tangent space at the origin taken as it is: what a curved model's features say when they are read flat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from hierbench.errors import GeometryError
from hierbench.geometry import _pairs
from hierbench.geometry.sphere import exterior_angle_from_root


@dataclass(frozen=True)
class Flat:
    """Euclidean space around an origin: tangent features are the points, lengths count.

    `by`: whether `similarity` is the "cosine" or the negative "euclidean" distance. The exterior angle is that of a
    curved space as its curvature goes to 0: between `general` and `specific` − `general`. There are no cones: their
    half-angle goes to π/2 as the curvature goes to 0. Raises GeometryError for points of the wrong shape.
    """

    by: Literal["cosine", "euclidean"] = "euclidean"

    name: ClassVar[str] = "flat"
    has_origin: ClassVar[bool] = True
    has_cones: ClassVar[bool] = False
    entailment_definition: ClassVar[str] = "flat-angle"

    def describe(self) -> dict[str, Any]:
        """The name and what it ranks by, for records."""
        return {"name": self.name, "by": self.by}

    def lift(self, tangent: Tensor) -> Tensor:
        """The same vectors."""
        _pairs.check_points(tangent)
        return tangent

    def mean(self, tangents: Tensor) -> Tensor:
        """The mean vector, (…, P, D) -> (…, D)."""
        _pairs.check_points(tangents)
        if tangents.ndim < 2:
            raise GeometryError(f"mean needs tangents of shape (…, P, D), got {tuple(tangents.shape)}")
        return _pairs.wide(tangents).mean(-2).to(tangents.dtype)

    def similarity(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
        """Cosine, or the negative distance, in the type of the input."""
        if self.by == "euclidean":
            return -self.distance(a, b, paired=paired)
        _pairs.check_pair(a, b, paired)
        a, b = (_pairs.split(points)[1] for points in (a, b))
        return (a * b).sum(-1) if paired else a @ b.T

    def distance(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
        """Euclidean distance."""
        dtype = _pairs.check_pair(a, b, paired)
        return _pairs.evaluate(
            lambda pairs: _pairs.sqrt(pairs.gap.square() + pairs.a * pairs.b * pairs.chord2),
            _pairs.wide(a), _pairs.wide(b), paired, dtype,
        )  # fmt: skip

    def radius(self, points: Tensor, *, root: Tensor | None = None) -> Tensor:
        """Length, (…, D) -> (…,)."""
        _pairs.check_points(points)
        return torch.linalg.vector_norm(_pairs.wide(points), dim=-1).to(points.dtype)

    def exterior_angle(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor:
        """Angle between `general` and `specific` − `general`, in [0, π]; π/2 where they coincide."""
        return self._of_pairs(general, specific, paired, exterior_angle_from_root)

    def half_aperture(self, points: Tensor) -> Tensor:
        """Flat space has no entailment cones: always a GeometryError."""
        raise GeometryError("flat space has no entailment cones: compare exterior angles instead")

    def entailment(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor:
        """max(1 − 2φ/π, 0), φ the exterior angle."""
        return self._of_pairs(
            general, specific, paired, lambda pairs: _pairs.entailment_score(exterior_angle_from_root(pairs))
        )

    def _of_pairs(self, a: Tensor, b: Tensor, paired: bool, formula) -> Tensor:
        dtype = _pairs.check_pair(a, b, paired)
        return _pairs.evaluate(formula, _pairs.wide(a), _pairs.wide(b), paired, dtype)
