"""Do the intervals cover, and is p uniform where there is no difference? By simulation; seeds are fixed.

    python benchmarks/bench_certainty.py            # about three minutes
    python benchmarks/bench_certainty.py --trials 50

Worlds are made in which the truth is known: items of shared difficulty, models that answer them, seeds of recipes
around their mean. What came out last is in bench_certainty.txt. A share p of trials has a standard error of
√(p (1 − p) / trials): 1.0 points for 95 % of 500. The p of accuracies errs towards large, as equal differences tie.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from scipy import stats

from hierbench.leaderboard.ranks import told_apart
from hierbench.metrics import seeds, significance
from hierbench.metrics.entailment import auc_ap_statistic

GRID = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
N = 200
RESAMPLES = 400


def hits(rng: np.random.Generator, gains, n: int = N, own: float = 1.0) -> np.ndarray:
    """Whether models (M,) with the given gains answer `n` items: 0/1 (M, n); true accuracy Φ(gain / √(1 + own²))."""
    ease = rng.normal(size=n)
    return (ease + own * rng.normal(size=(len(gains), n)) + np.asarray(gains)[:, None] > 0).astype(float)


def accuracy(gain: float, own: float = 1.0) -> float:
    return float(stats.norm.cdf(gain / math.sqrt(1 + own**2)))


def resampled(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Means (M, R) of values (M, n) on resamples of the items."""
    n = values.shape[1]
    return values @ rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).T / n


def paired(rng: np.random.Generator, trials: int) -> dict[str, float]:
    """Two models: the bootstrap interval of the difference, and the p of permutation where both are alike."""
    covered, ps = 0, []
    true = accuracy(0.4) - accuracy(0.1)
    for _ in range(trials):
        drawn = resampled(rng, hits(rng, [0.4, 0.1]))
        low, high = np.quantile(drawn[0] - drawn[1], [0.025, 0.975])
        covered += low <= true <= high
        a, b = hits(rng, [0.2, 0.2])
        masks = rng.integers(0, 2, (RESAMPLES, N)) > 0
        ps.append(significance.permutation_p((a - b).mean(), np.where(masks, a - b, b - a).mean(1)))
    return {"interval of a difference covers": covered / trials} | uniform(
        "permutation p, accuracy", np.array(ps)
    )


def uniform(what: str, p: np.ndarray) -> dict[str, float]:
    return {
        f"{what}: share <= 0.05": float((p <= 0.05).mean()),
        f"{what}: share <= 0.5": float((p <= 0.5).mean()),
    }


def ranking(rng: np.random.Generator, trials: int) -> dict[str, float]:
    """AUC of two models alike whose scores lie on other scales: p of exchanging their ranks."""
    n, ps = 60, []
    unit = np.arange(n)
    for _ in range(trials):
        signal = np.r_[np.full(n, 1.0), np.zeros(n)] + rng.normal(size=2 * n)
        a, b = signal + rng.normal(size=2 * n), 50 * (signal + rng.normal(size=2 * n))
        ranked = [stats.rankdata(scores) for scores in (a, b)]
        both = np.stack(ranked)
        units = np.r_[unit, unit + n]
        joint = auc_ap_statistic(both[:, :n].ravel(), units, both[:, n:].ravel(), units, 2 * n)
        masks = (rng.integers(0, 2, (RESAMPLES // 2, n)) > 0).astype(float)
        exchanged = joint(np.hstack([masks, 1 - masks]))["auc"] - joint(np.hstack([1 - masks, masks]))["auc"]
        whole = joint(np.kron(np.eye(2), np.ones((1, n))))["auc"]
        ps.append(significance.permutation_p(whole[0] - whole[1], exchanged))
    return uniform("permutation p, AUC", np.array(ps))


def recipes(rng: np.random.Generator, trials: int, count: int, sd: float) -> dict[str, float]:
    """`count` seeds a recipe around the same mean, spread by `sd`: intervals and p of both sources of variance."""
    name = f"{count} seeds, spread {sd:g}"
    covered = naive = joint = 0
    ps = []
    true = float(np.mean([accuracy(0.2 + sd * z) for z in GRID]))  # over seeds that were not drawn
    for _ in range(trials):
        figures = hits(rng, 0.2 + sd * rng.normal(size=2 * count))
        drawn, values = resampled(rng, figures), figures.mean(1)
        found = seeds.mean(values[:count], drawn[:count])
        covered += found.low <= true <= found.high
        taken = rng.integers(0, count, (RESAMPLES, count))
        means = drawn[taken, np.arange(RESAMPLES)[:, None]].mean(1)
        low, high = np.quantile(means, [0.025, 0.975])
        naive += low <= true <= high
        tested = seeds.difference(values[:count], values[count:], drawn[:count], drawn[count:])
        joint += tested.low <= 0 <= tested.high
        ps.append(tested.p)
    shares = {
        f"{name}: interval covers": covered / trials,
        f"{name}: interval of a difference covers": joint / trials,
        f"{name}: percentiles of resampled seeds would cover": naive / trials,
    }
    return shares | uniform(f"{name}: p", np.array(ps))


def ranks(rng: np.random.Generator, trials: int) -> dict[str, float]:
    """Six models, three of them alike: do the intervals of all ranks hold at once; and six alike: is any told apart?"""
    true = np.array([0.8, 0.3, 0.3, 0.3, -0.2, -0.7])
    best, worst = np.array([1, 2, 2, 2, 5, 6]), np.array([1, 4, 4, 4, 5, 6])
    held = false = 0
    for _ in range(trials):
        figures = hits(rng, true)
        better = told_apart(figures.mean(1), resampled(rng, figures), np.zeros(6))
        low, high = 1 + better.sum(0), 6 - better.sum(1)
        held += bool(((low <= best) & (high >= worst)).all())
        alike = hits(rng, np.zeros(6))
        false += bool(told_apart(alike.mean(1), resampled(rng, alike), np.zeros(6)).any())
    return {
        "intervals of six ranks hold at once": held / trials,
        "six models alike, any pair told apart": false / trials,
    }


def holm(rng: np.random.Generator, trials: int) -> dict[str, float]:
    """Twelve tests without a difference: how often Holm's correction lets any through."""
    p = rng.random((20 * trials, 12))
    rejected = [significance.holm(row).min() <= significance.ALPHA for row in p]
    return {"12 true nulls, any rejected after Holm": float(np.mean(rejected))}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=500)
    trials = parser.parse_args().trials
    begun = time.perf_counter()
    rng = np.random.default_rng(20261202)
    table = paired(rng, trials) | ranking(rng, trials)
    for count, sd in ((2, 0.5), (3, 0.5), (5, 0.5), (3, 0.1), (3, 0.0)):
        table |= recipes(rng, trials, count, sd)
    table |= ranks(rng, trials) | holm(rng, trials)
    for what, share in table.items():
        print(f"{what:66} {100 * share:6.1f} %")
    print(f"{trials} trials, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
