"""A product of spaces: the components of a point are cut into runs, each a point of one factor.

PHyCLIP (Yoshikawa and Matsubara, ICLR 2026) takes hyperbolic factors, each with a curvature of its own, and the ℓ1
product metric. Every figure of a product is a mean over its factors, so that a product of one factor is that factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from hierbench.contracts import Factored, Geometry
from hierbench.errors import GeometryError
from hierbench.geometry import _pairs
from hierbench.geometry._pairs import BLOCK


def factors(geometry: Geometry, *points: Tensor) -> Iterator[tuple[Any, ...]]:
    """The factors of a product, each with its part of the points; any other geometry with the points as they are."""
    if isinstance(geometry, Factored):
        yield from zip(geometry.factors, *map(geometry.split, points), strict=True)
    else:
        yield geometry, *points


@dataclass(frozen=True)
class Product:
    """`factors` side by side, each with an equal share of the components.

    `metric`: the distance of two points is the mean of the factors' distances ("l1", PHyCLIP), or the square root of
    the mean of their squares ("l2"); the radius likewise. `ranking`: what `similarity` is, the negative distance, or
    the "inner" products summed over the factors, as PHyCLIP's released evaluators have it, which is no function of the
    distance. Angles and apertures are means over the factors; `entailment` is max(mean of (1 − 2φ/π), 0), clamped after
    the mean: clamped factor by factor, other pairs would tie than in a single space.

    Whoever needs the factors apart (a loss with a hinge in each) takes `split`. Raises GeometryError for no factors,
    for factors without an origin and cones, and for points that cannot be cut into equal runs.
    """

    factors: tuple[Geometry, ...]
    metric: Literal["l1", "l2"] = "l1"
    ranking: Literal["distance", "inner"] = "distance"

    name: ClassVar[str] = "product"
    has_origin: ClassVar[bool] = True
    has_cones: ClassVar[bool] = True
    entailment_definition: ClassVar[str] = "product-mean"

    def __post_init__(self):
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.factors:
            raise GeometryError("a product needs at least one factor")
        if odd := [factor.name for factor in self.factors if not (factor.has_origin and factor.has_cones)]:
            raise GeometryError(f"a factor of a product needs an origin and cones, which {odd[0]!r} has not")
        if self.metric not in ("l1", "l2"):
            raise GeometryError(f"metric {self.metric!r} of a product: l1 or l2")
        if self.ranking not in ("distance", "inner"):
            raise GeometryError(f"ranking {self.ranking!r} of a product: distance or inner")

    def describe(self) -> dict[str, Any]:
        """Name, metric, ranking and what each factor says of itself but its name, e.g. the list of curvatures."""
        told = [factor.describe() for factor in self.factors]
        names = {str(one["name"]) for one in told}
        each = {key: [one.get(key) for one in told] for key in told[0] if key != "name"}
        return {
            "name": self.name, "factors": len(told), "factor": "/".join(sorted(names)), "metric": self.metric,
            "ranking": self.ranking, **each,
        }  # fmt: skip

    def split(self, points: Tensor) -> tuple[Tensor, ...]:
        """(…, D) -> one (…, D / factors) for each factor, in order; tangents and points alike."""
        _pairs.check_points(points)
        width, rest = divmod(points.shape[-1], len(self.factors))
        if rest or not width:
            raise GeometryError(
                f"points of {points.shape[-1]} components cannot be cut into {len(self.factors)} equal factors"
            )
        return points.split(width, dim=-1)

    def lift(self, tangent: Tensor) -> Tensor:
        """Each factor's own lift, (…, D) -> (…, D)."""
        parts = zip(self.factors, self.split(tangent), strict=True)
        return torch.cat([factor.lift(part) for factor, part in parts], -1)

    def mean(self, tangents: Tensor) -> Tensor:
        """Each factor's own mean, (…, P, D) -> (…, D)."""
        parts = zip(self.factors, self.split(tangents), strict=True)
        return torch.cat([factor.mean(part) for factor, part in parts], -1)

    def similarity(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
        """Higher = closer: see `ranking`."""
        if self.ranking == "distance":
            return -self.distance(a, b, paired=paired)
        _pairs.check_pair(a, b, paired)
        parts = zip(self.factors, self.split(a), self.split(b), strict=True)
        return torch.stack([factor.similarity(*pair, paired=paired) for factor, *pair in parts]).sum(0)

    def distance(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
        """Mean (ℓ1) or root mean square (ℓ2) of the factors' distances."""
        if self.metric == "l1":
            return self._mean_of_pairs("distance", a, b, paired)
        squares = self._mean_of_pairs("distance", a, b, paired, Tensor.square)
        return _pairs.sqrt(squares)

    def radius(self, points: Tensor, *, root: Tensor | None = None) -> Tensor:
        """Distance from the origin, (…, D) -> (…,): the mean (ℓ1) or root mean square (ℓ2) of the factors'."""
        each = self._each("radius", points)
        return (each.mean(0) if self.metric == "l1" else _pairs.sqrt(each.square().mean(0))).to(points.dtype)

    def exterior_angle(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor:
        """Mean of the factors' exterior angles, in [0, π]."""
        return self._mean_of_pairs("exterior_angle", general, specific, paired)

    def half_aperture(self, points: Tensor) -> Tensor:
        """Mean of the half-angles of the factors' cones, (…, D) -> (…,)."""
        return self._each("half_aperture", points).mean(0).to(points.dtype)

    def entailment(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor:
        """max(mean over the factors of (1 − 2φ/π), 0)."""
        dtype = _pairs.check_pair(general, specific, paired)
        angle = self.exterior_angle(_pairs.wide(general), _pairs.wide(specific), paired=paired)
        return _pairs.entailment_score(angle).to(dtype)

    def _each(self, function: str, points: Tensor) -> Tensor:
        """`function` of every factor, wide, (…, D) -> (factors, …)."""
        parts = zip(self.factors, self.split(_pairs.wide(points)), strict=True)
        return torch.stack([getattr(factor, function)(part) for factor, part in parts])

    def _mean_of_pairs(
        self,
        function: str,
        a: Tensor,
        b: Tensor,
        paired: bool,
        change: Callable[[Tensor], Tensor] = lambda values: values,
    ) -> Tensor:
        """Mean over the factors of `change` of their `function`, evaluated wide; pairwise by blocks of rows."""
        dtype = _pairs.check_pair(a, b, paired)

        def mean(a: Tensor, b: Tensor) -> Tensor:
            parts = zip(self.factors, self.split(a), self.split(b), strict=True)
            values = [change(getattr(factor, function)(*pair, paired=paired)) for factor, *pair in parts]
            total = values[0]
            for value in values[1:]:
                total = total + value
            return (total / len(values)).to(dtype)

        a, b = _pairs.wide(a), _pairs.wide(b)
        rows = len(a) if paired else max(1, BLOCK // max(1, len(b)))
        if len(a) <= rows:
            return mean(a, b)
        return torch.cat([mean(part, b) for part in a.split(rows)])
