"""Figures of a recipe that was trained with several seeds: mean, spread, and intervals with both sources of variance.

A recipe's figure varies for two reasons: another seed gives another model, and other test items would give another
figure. With S seeds measured on the same items, `values` (S,) are the seeds' figures and `drawn` (S, R) the same
figures on R resamples of the items (`bootstrap.draws`: the same ones for every seed). Then

    variance of the mean over seeds = sd(values)² / S + variance over resamples of the mean over seeds − T / S.

T is the part of the items' variance that differs by seed (an item that is hard for one seed and easy for another);
it is in both of the other terms, and the variances over resamples of single seeds and of their mean tell it. Seeds
are few, so their part takes Student's t with S − 1 degrees of freedom, the items' the normal distribution; of one
recipe the squares of both margins add up, of a difference the degrees of freedom are Satterthwaite's. Resampling
few seeds with replacement and taking percentiles instead would be too narrow (`benchmarks/bench_certainty.py`
measures both).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from hierbench.metrics.bootstrap import LEVEL


@dataclass(frozen=True)
class Spread:
    """The mean over seeds. `low` and `high` bound the recipe's figure: seeds and items that were not drawn."""

    mean: float
    sd: float  # over seeds, with S − 1 in the denominator; NaN for one seed
    low: float
    high: float
    seeds: int


@dataclass(frozen=True)
class SeedDifference:
    """First minus second recipe, with 95 % bounds and the two-sided p of no difference."""

    difference: float
    low: float
    high: float
    p: float


def mean(values: Sequence[float] | np.ndarray, drawn: np.ndarray | None = None) -> Spread:
    """Mean and spread of S ≥ 1 seeds; without `drawn` (S, R) the bounds hold for these items alone.

    One seed says nothing about others: its spread is NaN and its bounds are those of the items.
    """
    values = np.asarray(values, np.float64)
    count, centre = len(values), float(values.mean())
    shared = max(0.0, _items_variance(drawn) - _by_seed(drawn) / count)
    own = _quantile(count - 1) * math.sqrt(_seed_variance(values)) if count > 1 else 0.0
    margin = math.hypot(own, _quantile(math.inf) * math.sqrt(shared))
    sd = float(values.std(ddof=1)) if count > 1 else math.nan
    return Spread(centre, sd, centre - margin, centre + margin, count)


def difference(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    first_drawn: np.ndarray | None = None,
    second_drawn: np.ndarray | None = None,
) -> SeedDifference:
    """The difference of two recipes' means, (S,) and (T,) seeds, measured on the same items and resamples.

    Without resamples it is Welch's test. A recipe of one seed is taken to vary as the other does (Crawford and Howell,
    1998); of two such, the difference is that of the two models alone.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    paired = None
    if first_drawn is not None and second_drawn is not None:
        paired = (first_drawn.mean(0) - second_drawn.mean(0))[None]
    parts = [(_seed_variance(a), len(a)), (_seed_variance(b), len(b))]
    twice = _by_seed(first_drawn) / len(a) + _by_seed(second_drawn) / len(b)
    if 1 in (len(a), len(b)) and max(len(a), len(b)) > 1:
        many, drawn = (a, first_drawn) if len(a) > 1 else (b, second_drawn)
        parts = [(float(many.var(ddof=1)) * (1 + 1 / len(many)), len(many))]
        twice = _by_seed(drawn) * (1 + 1 / len(many))
    variance = _total(parts, _items_variance(paired), twice)
    freedom = _freedom(parts, variance)
    margin = _quantile(freedom) * math.sqrt(variance)
    found = float(a.mean() - b.mean())
    return SeedDifference(found, found - margin, found + margin, p_value(found, math.sqrt(variance), freedom))


def p_value(difference: float, error: float, freedom: float = math.inf) -> float:
    """Two-sided p of a difference with a standard error and its degrees of freedom; 1 for a difference of none."""
    if difference == 0:
        return 1.0
    if error == 0:
        return 0.0
    return float(2 * stats.t.sf(abs(difference) / error, freedom))


def replicates(values: np.ndarray, drawn: np.ndarray, key: str) -> np.ndarray:
    """Hierarchical bootstrap of the mean over seeds, (R,): seeds redrawn with replacement, items as in `drawn` (S, R).

    For quantities that have no standard error, such as ranks. Deviations of redrawn seeds are scaled so that their
    variance is without bias: by √(S/(S−1)), and for what items have added to them. The redrawn seeds depend on `key`
    (the recipe's name), S and R alone: they are the same for all metrics of a recipe, so what a seed does to several
    metrics goes together.
    """
    count, resamples = drawn.shape
    if count == 1:
        return drawn[0]
    generator = np.random.default_rng([zlib.crc32(key.encode()), count, resamples])
    taken = generator.multinomial(count, np.full(count, 1 / count), size=resamples) / count
    deviations = np.asarray(values, np.float64) - np.mean(values)
    spread = float(np.var(values, ddof=1))
    own = max(0.0, 1 - _by_seed(drawn) / spread) if spread else 0.0  # share of the spread that is the seeds'
    return drawn.mean(0) + math.sqrt(own * count / (count - 1)) * (taken @ deviations)


def _seed_variance(values: np.ndarray) -> float:
    """Of the mean over seeds; 0 where one seed tells nothing."""
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


def _items_variance(drawn: np.ndarray | None) -> float:
    """Of the mean over seeds, over resamples of items; those on which it is undefined are left out."""
    if drawn is None:
        return 0.0
    means = drawn.mean(0)
    means = means[np.isfinite(means)]
    return float(means.var(ddof=1)) if means.size > 1 else 0.0


def _by_seed(drawn: np.ndarray | None) -> float:
    """Of one seed: the part T of the items' variance that it does not share with other seeds; 0 for a single one."""
    if drawn is None or len(drawn) < 2:
        return 0.0
    finite = drawn[:, np.isfinite(drawn).all(0)]
    if finite.shape[1] < 2:
        return 0.0
    excess = float(finite.var(1, ddof=1).mean()) - _items_variance(drawn)
    return max(0.0, excess) * len(drawn) / (len(drawn) - 1)


def _total(parts: Sequence[tuple[float, int]], items: float, twice: float) -> float:
    """Seed variances and items' variance together, less what is in both; no less than that of the items."""
    return max(sum(part for part, _ in parts) + items - twice, items)


def _freedom(parts: Sequence[tuple[float, int]], variance: float) -> float:
    """Satterthwaite's degrees of freedom of a variance, of which `parts` are seed variances, each of so many seeds."""
    share = sum(part**2 / (count - 1) for part, count in parts if count > 1)
    return max(1.0, variance**2 / share) if share else math.inf


def _quantile(freedom: float) -> float:
    return float(stats.t.ppf((1 + LEVEL) / 2, freedom))
