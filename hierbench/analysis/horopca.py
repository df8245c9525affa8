"""HoroPCA: hyperbolic embeddings in a plane, by horospherical projections (Chami et al., 2021, ICML).

Points are space components on the unit hyperboloid (curvature −1). An ideal point is a direction u; the quantity
A_u(x) = x₀ − u·x̃ is the exponential of its Busemann function: constant on the horospheres around u. The projection
to the plane that the origin and two ideal points span keeps both A, and folds what lies beyond the geodesic between
the ideal points to the origin's side. The two directions maximise the variance of the projection, the mean squared
distance between two points, one after the other. They are kept at right angles, so that the plane never degenerates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hierbench.data.datasets import spread

FIT_POINTS = 600  # the directions are found on at most so many, evenly spread
PRINCIPAL = 3  # principal directions, each both ways, are candidates to start the search from …
STARTS = 2  # … and the best so many are taken
ITERATIONS = 100


@dataclass(frozen=True)
class Plane:
    """Two ideal points (2, D), orthonormal, seen from the point `centre` (D,), and how much they keep.

    `kept` is the variance of the projected points over that of the points; `line` that of the first alone.
    """

    directions: Tensor
    centre: Tensor
    kept: float
    line: float

    def project(self, points: Tensor) -> Tensor:
        """(N, D) points -> (N, 2) in the open unit disc (Poincaré)."""
        plane = horospherical(boost(points.double(), self.centre), self.directions)
        return plane / (1 + time(plane)[:, None])


def fit(points: Tensor, *, centre: str = "origin") -> Plane:
    """The plane for (N, D) points on the unit hyperboloid, N ≥ 2. Same input, same output.

    `centre`: "origin" keeps the root in the middle of the picture; "mean" moves the Fréchet mean there, as the
    paper does. Raises ValueError for fewer than two distinct points or dimensions.
    """
    points = points.detach().double()
    if len(points) < 2 or points.shape[1] < 2 or bool((points == points[0]).all()):
        raise ValueError("HoroPCA needs at least two distinct points of two dimensions")
    middle = frechet_mean(points) if centre == "mean" else torch.zeros_like(points[0])
    sample = boost(points[torch.from_numpy(spread(len(points), FIT_POINTS))], middle)
    first = _best(lambda u: busemann(sample, u[None])[:, 0].var(correction=0), _starts(sample))
    across = torch.linalg.svd(first[None]).Vh[1:]  # (D − 1, D): the directions at right angles to the first
    second = _best(
        lambda w: variance(horospherical(sample, torch.stack([first, w @ across]))),
        _starts(sample @ across.T),
    )
    directions = torch.stack([first, second @ across])
    total = variance(sample)
    line = 2 * busemann(sample, first[None]).var(correction=0)  # the mean squared distance on a line
    kept = variance(horospherical(sample, directions))
    return Plane(directions, middle, float(kept / total), float(line / total))


def busemann(points: Tensor, directions: Tensor) -> Tensor:
    """(N, D) points, (K, D) unit directions -> (N, K) Busemann functions log(x₀ − u·x̃), 0 at the origin."""
    return (time(points)[:, None] - points @ directions.T).log()


def horospherical(points: Tensor, directions: Tensor) -> Tensor:
    """(N, D) points -> (N, 2) space components in the plane of two orthonormal directions (2, D).

    With A and B the values for u and v: y = B (1, u) + A (1, v) − r (1, u, v), r² = 2AB − 1, which has
    y₀ − u·ỹ = A, y₀ − v·ỹ = B and lies on the hyperboloid; r ≥ 0 is the sinh of the distance to the geodesic
    between the ideal points.
    """
    a, b = (time(points)[:, None] - points @ directions.T).unbind(1)
    r = (2 * a * b - 1).clamp(min=1e-24).sqrt()
    return torch.stack([b - r, a - r], 1)


def variance(points: Tensor) -> Tensor:
    """Mean over all pairs of the squared geodesic distance (the paper's variance)."""
    x0 = time(points)
    chord = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    # cosh d − 1 = ½ ⟨x − y, x − y⟩; then d from sinh(d / 2), which does not cancel.
    half = (chord.square() - (x0[:, None] - x0[None]).square()).clamp(min=1e-24) / 4
    return (2 * half.sqrt().asinh()).square().mean()


def frechet_mean(points: Tensor, iterations: int = 100) -> Tensor:
    """(D,) the point with the least mean squared distance to (N, D) points, on the unit hyperboloid."""
    mean = torch.zeros_like(points[0])
    for _ in range(iterations):
        seen = boost(points, mean)  # as if the current mean were the origin: there, average the tangents
        length = seen.norm(dim=1, keepdim=True).clamp(min=1e-300)
        step = (seen * (length.asinh() / length)).mean(0)
        size = step.norm().clamp(min=1e-300)
        mean = boost((step * (size.sinh() / size))[None], -mean)[0]
        if float(size) < 1e-12:
            break
    return mean


def boost(points: Tensor, to_origin: Tensor) -> Tensor:
    """The isometry that moves `to_origin` (D,) to the origin along their geodesic, on (N, D) points."""
    along, x0, m0 = points @ to_origin, time(points), time(to_origin[None])
    return points + (along / (1 + m0) - x0)[:, None] * to_origin


def time(points: Tensor) -> Tensor:
    """x₀ of (…, D) points on the unit hyperboloid."""
    return (1 + points.square().sum(-1)).sqrt()


def _starts(points: Tensor) -> Tensor:
    """Principal directions of the points, each both ways, (2 · PRINCIPAL, D) or fewer."""
    found = torch.linalg.svd(points, full_matrices=False).Vh[:PRINCIPAL]
    return torch.cat([found, -found])


def _best(objective: Callable[[Tensor], Tensor], starts: Tensor) -> Tensor:
    """The unit vector with the largest objective, by L-BFGS from the most promising starts."""
    promise = torch.stack([objective(start) for start in starts])
    best, most = starts[0], float("-inf")
    for start in starts[promise.argsort(descending=True)[:STARTS]]:
        free = start.clone().requires_grad_()
        search = torch.optim.LBFGS([free], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

        def loss(free=free, search=search) -> Tensor:
            search.zero_grad()
            value = -objective(free / free.norm())
            value.backward()
            return value

        with torch.enable_grad():
            search.step(loss)
        with torch.no_grad():
            found = free / free.norm()
            value = objective(found)
        if float(value) > most:
            best, most = found, float(value)
    return best.detach()
