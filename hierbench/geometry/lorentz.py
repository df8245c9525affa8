"""Hyperbolic space as the hyperboloid; points are held as their space components.

In a space of curvature −κ a point with space components x̃ has the time component x₀ = √(1/κ + ‖x̃‖²);
⟨x, y⟩ = x̃·ỹ − x₀y₀. The operations are those of MERU (Desai et al., 2023, section 3), written so that nothing
cancels: r and s are the distances of x and y from the origin times √κ, so that sinh r = √κ‖x̃‖, and θ is the
angle between x̃ and ỹ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from hierbench.errors import GeometryError
from hierbench.geometry import _pairs
from hierbench.geometry._pairs import Polar

MAX_LIFT = math.asinh(2**15)  # √κ‖v‖ is clamped here by `lift`, as in the released models
MIN_RADIUS = 0.1  # C: where ‖x̃‖ ≤ 2C / √κ the cone is a half-space (ARGENT, eq. 5)


@dataclass(frozen=True)
class Lorentz:
    """Hyperbolic space of curvature −`curvature`.

    `curvature` κ > 0 is a number, or a tensor without dimensions that carries gradient while it is learned.
    All but `similarity` compute in float64 and answer in the type of their input (pairs: at least float32).
    `root` is ignored: the origin is the root. Raises GeometryError for a curvature that is not positive and
    finite, and for points of the wrong shape.
    """

    curvature: float | Tensor

    name: ClassVar[str] = "lorentz"
    has_origin: ClassVar[bool] = True
    has_cones: ClassVar[bool] = True
    entailment_definition: ClassVar[str] = "cone-angle"

    def __post_init__(self):
        if isinstance(self.curvature, Tensor):
            if self.curvature.ndim:
                raise GeometryError(f"curvature must be one number, got shape {tuple(self.curvature.shape)}")
            if self.curvature.device.type != "cpu":
                return  # looking at the value would make every training step wait for the device
            value = self.curvature.item()
        else:
            try:
                value = float(self.curvature)
            except (TypeError, ValueError):
                raise GeometryError(f"curvature must be a number, got {self.curvature!r}") from None
            object.__setattr__(self, "curvature", value)
        if not (math.isfinite(value) and value > 0):
            raise GeometryError(
                f"curvature must be positive and finite, got {value}: κ > 0 means a space of curvature −κ"
            )

    def describe(self) -> dict[str, Any]:
        """Name and curvature, for records."""
        κ = self.curvature
        return {"name": self.name, "curvature": κ.item() if isinstance(κ, Tensor) else κ}

    def lift(self, tangent: Tensor) -> Tensor:
        """Exponential map at the origin, (…, D) -> (…, D): sinh(√κ‖v‖) / (√κ‖v‖) · v.

        The argument of sinh is clamped at asinh(2¹⁵), as released.
        """
        _pairs.check_points(tangent)
        v = _pairs.wide(tangent)
        length = self._scale(v) * torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        none = length <= _pairs.TINY
        length = torch.where(none, 1, length)
        factor = torch.where(none, 1, length.clamp(max=MAX_LIFT).sinh() / length)
        return (factor * v).to(tangent.dtype)

    def mean(self, tangents: Tensor) -> Tensor:
        """The lift of the mean tangent, (…, P, D) -> (…, D)."""
        _pairs.check_points(tangents)
        if tangents.ndim < 2:
            raise GeometryError(f"mean needs tangents of shape (…, P, D), got {tuple(tangents.shape)}")
        return self.lift(_pairs.wide(tangents).mean(-2)).to(tangents.dtype)

    def similarity(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
        """Lorentzian inner product ⟨a, b⟩ ≤ −1/κ in the type of the input: one matrix product."""
        _pairs.check_pair(a, b, paired)
        a_time, b_time = self._time(a), self._time(b)
        if paired:
            return (a * b).sum(-1) - (a_time * b_time).squeeze(-1)
        return torch.cat([a, -a_time], 1) @ torch.cat([b, b_time], 1).T

    def distance(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
        """Geodesic distance; its gradient is zero where two points coincide."""
        return self._of_pairs(
            a, b, paired, lambda pairs, κ: 2 * _pairs.sqrt(_half_sinh2(pairs)).asinh() / κ**0.5
        )

    def radius(self, points: Tensor, *, root: Tensor | None = None) -> Tensor:
        """Distance from the origin, (…, D) -> (…,)."""
        _pairs.check_points(points)
        x = _pairs.wide(points)
        scale = self._scale(x)
        return ((scale * torch.linalg.vector_norm(x, dim=-1)).asinh() / scale).to(points.dtype)

    def exterior_angle(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor:
        """Angle at `general` between the outward ray and the geodesic to `specific`, in [0, π].

        π/2 with zero gradient where the two coincide up to rounding (2⁻¹⁹ of the norm) or `general` is the origin.
        """
        return self._of_pairs(general, specific, paired, lambda pairs, κ: _exterior_angle(pairs))

    def half_aperture(self, points: Tensor, *, min_radius: float = MIN_RADIUS) -> Tensor:
        """Half-angle of the entailment cone, asin(min(1, 2C / (√κ‖x̃‖))), (…, D) -> (…,) (ARGENT, eq. 5)."""
        _pairs.check_points(points)
        x = _pairs.wide(points)
        length = self._scale(x) * torch.linalg.vector_norm(x, dim=-1)
        half_space = length <= 2 * min_radius
        sine = torch.where(half_space, 0, 2 * min_radius / torch.where(half_space, 1, length))
        return torch.where(half_space, torch.pi / 2, sine.asin()).to(points.dtype)

    def entailment(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor:
        """Probability that `general` entails `specific`: max(1 − 2φ/π, 0), φ = exterior angle (ARGENT §5)."""
        return self._of_pairs(
            general, specific, paired, lambda pairs, κ: _pairs.entailment_score(_exterior_angle(pairs))
        )

    def _scale(self, x: Tensor) -> float | Tensor:
        """√κ, ready to multiply `x`."""
        return self._kappa(x) ** 0.5

    def _kappa(self, x: Tensor) -> float | Tensor:
        κ = self.curvature
        return κ.to(device=x.device, dtype=x.dtype) if isinstance(κ, Tensor) else κ

    def _time(self, x: Tensor) -> Tensor:
        return (1 / self._kappa(x) + x.square().sum(-1, keepdim=True)).sqrt()

    def _of_pairs(self, a: Tensor, b: Tensor, paired: bool, formula) -> Tensor:
        """`formula(pairs, κ)` of pairs whose norms are scaled by √κ."""
        dtype = _pairs.check_pair(a, b, paired)
        a, b = _pairs.wide(a), _pairs.wide(b)
        κ = self._kappa(a)
        scale = κ**0.5

        def scaled(pairs: Polar) -> Tensor:
            return formula(Polar(scale * pairs.a, scale * pairs.b, scale * pairs.gap, pairs.chord2), κ)

        return _pairs.evaluate(scaled, a, b, paired, dtype)


def _sinh_gap(pairs: Polar) -> Tensor:
    """sinh(s − r) = sinh s cosh r − cosh s sinh r = (sinh² s − sinh² r) / (sinh s cosh r + cosh s sinh r)."""
    a, b = pairs.a, pairs.b
    total = b * (1 + a.square()).sqrt() + a * (1 + b.square()).sqrt()
    return pairs.gap * (a + b) / total.clamp(min=_pairs.TINY)


def _half_sinh2(pairs: Polar) -> Tensor:
    """sinh²(√κ d / 2) = sinh²((s − r) / 2) + sinh r sinh s sin²(θ/2): the hyperbolic law of cosines."""
    sinh2 = _sinh_gap(pairs).square()
    return sinh2 / (2 * (1 + (1 + sinh2).sqrt())) + pairs.a * pairs.b * pairs.chord2 / 4


def _exterior_angle(pairs: Polar) -> Tensor:
    """atan2 of the sideways and outward parts of the direction from x to y.

    outward = cosh r sinh s cos θ − sinh r cosh s = sinh(s − r) − cosh r sinh s (1 − cos θ);
    sideways = sinh s sin θ.
    """
    a, b, chord2 = pairs.a, pairs.b, pairs.chord2
    outward = _sinh_gap(pairs) - (1 + a.square()).sqrt() * b * chord2 / 2
    sideways = b * _pairs.sqrt(chord2 * (1 - chord2 / 4))
    return _pairs.direction(outward, sideways, pairs)
