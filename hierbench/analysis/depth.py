"""Whether some number tells how deep a caption or class lies: rank correlation with its level, and what chance gives.

Two numbers are asked: the radius, and the level that an item's direction alone tells. Both answer to the same two
nulls, levels shuffled within each sample and among all items, and to the same resampling of the items.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hierbench.contracts import Estimate, Geometry
from hierbench.geometry import factors
from hierbench.metrics import bootstrap

SEED = "hierbench.analysis.depth"
DRAWS = 1000  # shuffles of the null, and resamples of the interval
NEIGHBOURS = 5
SAME = 1e-6  # values nearer than this part of the largest are one: float32 features are no better
ROWS = 1024  # items whose cosines are held at a time


@dataclass(frozen=True)
class Depth:
    """Spearman's correlation of a number and the level: its interval, and the middle 95 % of what shuffled levels give,
    from the lower end of the one null to the upper end of the other, whichever lie farther out.

    `correlation` is 0 where either does not vary.
    """

    correlation: Estimate
    null: tuple[float, float]
    items: int

    @property
    def shown(self) -> int:
        """1 where the number is shown to grow with the level, −1 to fall, 0 where neither is shown.

        Shown is what the null does not give and the interval does not doubt.
        """
        found = self.correlation
        if found.low is None or found.high is None:
            return 0
        if found.low > 0 and found.value > self.null[1]:
            return 1
        return -1 if found.high < 0 and found.value < self.null[0] else 0


def follow(
    values: np.ndarray, levels: np.ndarray, samples: np.ndarray, near: np.ndarray | None = None
) -> Depth:
    """How far `values` (n,) of distinct items follow their `levels` (n,).

    `samples` (S, L) holds positions of items: a sample's captions, or all classes as one sample. An item counts as
    often as samples have it. The interval resamples items (where there are several samples, those of each level apart),
    not samples: that many samples share a general caption makes it no surer. One null shuffles levels within samples;
    the other among the distinct items, each with how often samples have it, so that a level of few items shows little.
    Where the values are the levels that the items `near` (n, k) have on average, this one takes the shuffled levels.
    """
    generator = np.random.default_rng(zlib.crc32(SEED.encode()))
    values = np.round(values / max(float(np.abs(values).max()), np.finfo(float).tiny) / SAME).astype(np.int64)
    same = np.unique(values, return_inverse=True)[1]
    weights = np.bincount(samples.ravel(), minlength=len(values)).astype(np.float64)
    once = weights[None]
    value_ranks, level_ranks = _ranks(values, once), _ranks(levels, once)
    found = float(_correlation(value_ranks, level_ranks, once)[0])
    a = value_ranks[0][samples]
    shuffled = np.stack([generator.permuted(level_ranks[0][samples], axis=1).ravel() for _ in range(DRAWS)])
    even = np.ones((1, samples.size))
    within = bootstrap.interval(_correlation(a.reshape(1, -1), shuffled, even))
    among = bootstrap.interval(
        _among_items(lambda dealt: same if near is None else dealt[near].sum(1), levels, weights)
    )
    null = min(within[0], among[0]), max(within[1], among[1])
    drawn = weights * _resampled(levels if len(samples) > 1 else np.zeros_like(levels), generator)
    if len(values) < 2 or (drawn == drawn[0]).all():  # an item a level: resampling says nothing
        return Depth(Estimate(found), null, len(values))
    low, high = bootstrap.interval(_correlation(_ranks(values, drawn), _ranks(levels, drawn), drawn))
    return Depth(Estimate(found, low, high), null, len(values))


def told_by_direction(directions: Tensor, levels: np.ndarray, samples: np.ndarray) -> Depth:
    """How far the mean level of an item's nearest others by direction (n, D) follows its own; see `follow`."""
    near = nearest(directions)
    return follow(levels[near].mean(1), levels, samples, near)


def nearest(directions: Tensor, neighbours: int = NEIGHBOURS) -> np.ndarray:
    """(n, D) unit vectors -> (n, neighbours) each item's nearest others by cosine.

    Of equally near items it is chance, and not their order, that decides.
    """
    order = np.random.default_rng(zlib.crc32(SEED.encode())).permutation(len(directions))
    found = directions[order].double()
    out = np.empty((len(order), min(neighbours, len(order) - 1)), np.int64)
    for start in range(0, len(order), ROWS):
        rows = np.arange(start, min(start + ROWS, len(order)))
        near = found[rows] @ found.T
        near[np.arange(len(rows)), rows] = -torch.inf
        out[order[rows]] = order[near.topk(out.shape[1], dim=1).indices.numpy()]
    return out


def directions(geometry: Geometry, points: Tensor) -> Tensor:
    """(n, D) points -> (n, D) in which way they lie from the origin; in a product, in each factor."""
    units = [torch.nn.functional.normalize(part, dim=-1) for _, part in factors(geometry, points)]
    return torch.cat(units, -1) / len(units) ** 0.5


def _resampled(strata: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(DRAWS, n): how often each item is drawn, with replacement among those of its stratum."""
    counts = np.empty((DRAWS, len(strata)))
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        counts[:, rows] = generator.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), DRAWS)
    return counts


def _among_items(
    valued: Callable[[np.ndarray], np.ndarray],
    levels: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """(DRAWS,) correlations where levels, each with its weight, are dealt anew to the items.

    `valued`: levels (n,) -> whole numbers from 0 on (n,), in the order of the values.
    """
    generator = np.random.default_rng(zlib.crc32(SEED.encode()))
    level_ranks = _counted_ranks(levels, weights)
    found = np.empty(DRAWS)
    for draw in range(DRAWS):
        order = generator.permutation(len(levels))
        ranks = _counted_ranks(valued(levels[order]), weights[order])
        found[draw] = _correlation(ranks[None], level_ranks[None, order], weights[None, order])[0]
    return found


def _counted_ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(n,) whole numbers from 0 on, counted (n,) times -> (n,) middle ranks."""
    mass = np.bincount(values, weights)
    return (mass.cumsum() - mass / 2)[values]


def _ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(n,) values counted (R, n) times -> (R, n) middle ranks."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    mass = np.add.reduceat(weights[:, np.argsort(group, kind="stable")], starts, axis=1)
    return (mass.cumsum(1) - mass / 2)[:, group]


def _correlation(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's, of rows that broadcast to (R, n), -> (R,); 0 where either does not vary."""
    total = weights.sum(1, keepdims=True)
    a, b = (x - (weights * x).sum(1, keepdims=True) / total for x in (a, b))
    scale = np.sqrt((weights * a * a).sum(1) * (weights * b * b).sum(1))
    vary = scale > 0
    return np.where(vary, (weights * a * b).sum(1) / np.where(vary, scale, 1), 0.0)
