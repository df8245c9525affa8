"""Point estimates with 95 % percentile bootstrap intervals.

A metric is written once, as a *statistic*: a function of how often each unit (image, sample) is counted,
(resamples, n) counts -> {name: (resamples,) values}. Counts of one give the figure; counts drawn with
replacement give its bootstrap distribution. Every model sees the same draws, so intervals of differences
between models can be had from them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from hierbench.contracts import Estimate

RESAMPLES = 1000
SEED = "hierbench.metrics.bootstrap"
LEVEL = 0.95
KEPT_DRAWS = 2_000_000  # counts of a kept set of draws at most: 16 MB

Statistic = Callable[[np.ndarray], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Statistics:
    """A task's figures as functions of how often each of its units is counted."""

    statistic: Statistic
    units: tuple[str, ...]  # ids of what is drawn (images, samples), in the order of the counts
    fixed: Mapping[str, float] = field(default_factory=dict)  # figures of which resampling makes no sense
    degenerate: Mapping[str, str] = field(
        default_factory=dict
    )  # figure -> why it says little, as far as items tell
    scored: int | None = None  # how many items the units hold; None = each is one

    @property
    def n(self) -> int:
        """Number of items scored, which a record keeps."""
        return len(self.units) if self.scored is None else self.scored

    def estimates(self) -> dict[str, Estimate]:
        """Every figure with its interval; those that are fixed have none."""
        return estimates(self.statistic, len(self.units)) | {
            name: Estimate(figure) for name, figure in self.fixed.items()
        }

    def drawn(self, seed: str = SEED) -> dict[str, np.ndarray]:
        """Each figure on every resample, (RESAMPLES,): the same resamples for every model. Not those that are fixed."""
        return collected(map(self.statistic, _draws(len(self.units), RESAMPLES, seed)))


def value(statistic: Statistic, n: int) -> dict[str, float]:
    """The figures themselves: every one of the `n` units counted once."""
    return {name: float(figure[0]) for name, figure in statistic(np.ones((1, n))).items()}


def estimates(
    statistic: Statistic, n: int, *, resamples: int = RESAMPLES, seed: str = SEED
) -> dict[str, Estimate]:
    """The figures with their intervals over `resamples` draws of `n` units.

    Resamples on which a figure is undefined (AUC without a positive) are left out of its interval; with fewer
    than two units, or no defined resample, there are no bounds.
    """
    figures = value(statistic, n)
    if n < 2:
        return {name: Estimate(figure) for name, figure in figures.items()}
    drawn = collected(map(statistic, _draws(n, resamples, seed)))
    return {name: _estimate(figures[name], values) for name, values in drawn.items()}


def collected(parts: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Figures on some resamples and on others, one after the other: name -> (resamples,); undefined ones are NaN."""
    drawn: dict[str, list[np.ndarray]] = {}
    with np.errstate(invalid="ignore", divide="ignore"):
        for part in parts:
            for name, values in part.items():
                drawn.setdefault(name, []).append(values)
    return {name: np.concatenate(blocks) for name, blocks in drawn.items()}


def interval(drawn: np.ndarray) -> tuple[float, float]:
    """95 % bounds of figures on resamples, percentiles; those that are not defined on some are left out."""
    low, high = np.quantile(drawn[np.isfinite(drawn)], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def draws(
    n: int, resamples: int = RESAMPLES, seed: str = SEED, block: int = 4_000_000
) -> Iterator[np.ndarray]:
    """How often each of `n` units is drawn, float64 (rows, n), in blocks of at most 100 rows and about
    `block` numbers.

    The draws depend on `n` and `seed` alone, not on the size of the blocks.
    """
    generator = np.random.default_rng([zlib.crc32(seed.encode()), n])
    rows = min(100, max(1, block // n))
    for start in range(0, resamples, rows):
        height = min(rows, resamples - start)
        counts = np.empty((height, n))
        for row in range(height):
            counts[row] = np.bincount(generator.integers(0, n, n), minlength=n)
        yield counts


def _draws(n: int, resamples: int, seed: str) -> Iterable[np.ndarray]:
    """As `draws`; those of few units are kept, as every task and model with as many units asks for the same."""
    return _kept_draws(n, resamples, seed) if n * resamples <= KEPT_DRAWS else draws(n, resamples, seed)


@lru_cache(maxsize=4)
def _kept_draws(n: int, resamples: int, seed: str) -> tuple[np.ndarray, ...]:
    blocks = tuple(draws(n, resamples, seed))
    for counts in blocks:
        counts.flags.writeable = False
    return blocks


def means(columns: Mapping[str, np.ndarray], unit: np.ndarray | None = None) -> Statistic:
    """Statistic: the mean of each column of per-item values (m,).

    Item j is counted as often as its unit `unit[j]`; without `unit` every item is a unit of its own.
    """
    names = list(columns)
    sums = np.stack([np.bincount(_own(unit, c), np.asarray(c, np.float64)) for c in columns.values()], axis=1)
    items = np.bincount(_own(unit, columns[names[0]])).astype(np.float64)

    def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
        averages = counts @ sums / (counts @ items)[:, None]
        return dict(zip(names, averages.T, strict=True))

    return statistic


def together(*statistics: Statistic) -> Statistic:
    """Statistic: several statistics of the same units."""
    return lambda counts: {name: values for one in statistics for name, values in one(counts).items()}


def _own(unit: np.ndarray | None, column: np.ndarray) -> np.ndarray:
    return np.arange(len(column)) if unit is None else unit


def _estimate(figure: float, drawn: np.ndarray) -> Estimate:
    return Estimate(figure, *interval(drawn)) if np.isfinite(drawn).any() else Estimate(figure)
