"""Tests of differences: paired permutation of items, and Holm's correction for several tests at once."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

SEED = "hierbench.metrics.significance"
ALPHA = 0.05


def exchanges(n: int, permutations: int, block: int = 4_000_000) -> Iterator[np.ndarray]:
    """Which of `n` items two models exchange, bool (rows, n) in blocks: each with probability ½.

    The draws depend on `n` alone, so that every comparison on the same items uses the same ones.
    """
    generator = np.random.default_rng([zlib.crc32(SEED.encode()), n])
    rows = min(100, max(1, block // n))
    for start in range(0, permutations, rows):
        height = min(rows, permutations - start)
        yield generator.integers(0, 2, (height, n), dtype=np.uint8).astype(bool)


def permutation_p(observed: float, exchanged: np.ndarray) -> float:
    """Two-sided p of a difference, given the differences after exchanges (P,): (1 + those as large) / (1 + P).

    Never 0, and valid for any P: the observed one is one of the exchanges (Phipson and Smyth, 2010). Differences that
    are equal but for rounding count as equally large.
    """
    found = np.abs(exchanged[np.isfinite(exchanged)])
    slack = 1e-9 * max(abs(observed), float(found.max(initial=0.0)))
    return (1 + int((found >= abs(observed) - slack).sum())) / (1 + found.size)


def holm(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjusted p of several tests, in their order: no true null is rejected at a level with more than that probability.

    The smallest p times the number of tests, the next one times one less, and so on, made monotone (Holm, 1979).
    """
    p = np.asarray(p, np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted
