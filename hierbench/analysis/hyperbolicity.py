"""How tree-like distances are: Gromov's δ by four points, against points as far out in random directions."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from hierbench.contracts import Estimate, Geometry
from hierbench.geometry import factors
from hierbench.metrics import bootstrap

SEED = "hierbench.analysis.hyperbolicity"
SETS = 20
POINTS = 40  # in a set: all its 91,390 quadruples are looked at


@dataclass(frozen=True)
class Hyperbolicity:
    """2δ over the diameter, in [0, 1], 0 for a tree: medians over drawn sets of points, with the middle 95 % of sets.

    `random`: points of the same radii in random directions; `difference`: the points' less theirs, set by set.
    """

    delta: Estimate
    random: Estimate
    difference: Estimate
    points: int  # in a set


def hyperbolicity(geometry: Geometry, points: Tensor) -> Hyperbolicity | None:
    """Of (n, D) points; None of fewer than four, and where all coincide."""
    generator = np.random.default_rng(zlib.crc32(SEED.encode()))
    if len(points) < 4:
        return None
    size = min(POINTS, len(points))
    found = []
    for _ in range(SETS):
        drawn = points[generator.choice(len(points), size, replace=False)].double()
        pair = drawn, in_random_directions(geometry, drawn, generator)
        found.append([relative_delta(geometry.distance(one, one).numpy()) for one in pair])
    own, random = np.array(found).T
    if np.isnan(own).any() or np.isnan(random).any():
        return None
    return Hyperbolicity(_over_sets(own), _over_sets(random), _over_sets(own - random), size)


def relative_delta(distance: np.ndarray) -> float:
    """(n, n) distances, n ≥ 4 -> 2δ / diameter (Gromov): over all quadruples the largest gap between the two larger of
    the three sums of opposite distances. NaN where all points coincide."""
    diameter = float(distance.max())
    if diameter <= 0:
        return float("nan")
    pairs = distance.ravel()[_quadruples(len(distance))]
    one, two, three = pairs[0] + pairs[1], pairs[2] + pairs[3], pairs[4] + pairs[5]
    low, high = np.minimum(one, two), np.maximum(one, two)
    middle = np.maximum(low, np.minimum(high, three))
    return float((np.maximum(high, three) - middle).max()) / diameter


def in_random_directions(geometry: Geometry, points: Tensor, generator: np.random.Generator) -> Tensor:
    """(n, D) points as far out as these, each factor's of a product, in directions drawn evenly."""
    out = []
    for _, part in factors(geometry, points):
        drawn = torch.from_numpy(generator.standard_normal(tuple(part.shape))).to(part.dtype)
        out.append(part.norm(dim=-1, keepdim=True) * torch.nn.functional.normalize(drawn, dim=-1))
    return torch.cat(out, -1)


@cache
def _quadruples(count: int) -> np.ndarray:
    """(6, quadruples) places in a raveled (count, count) matrix: of ab, cd, ac, bd, ad, bc for each quadruple abcd."""
    a, b, c, d = np.array(list(combinations(range(count), 4))).T
    return np.stack([a, c, a, b, a, b]) * count + np.stack([b, d, c, d, d, c])


def _over_sets(values: np.ndarray) -> Estimate:
    return Estimate(float(np.median(values)), *bootstrap.interval(values))
