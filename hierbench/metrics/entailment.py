"""How well scores tell true pairs from false ones: AUC-ROC, average precision, ties; the curves behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hierbench.errors import MetricError
from hierbench.metrics import _checks, bootstrap

if TYPE_CHECKING:
    from scipy import sparse

DENSE = 4_000_000  # numbers of a table that is held whole


def entailment(scores, labels) -> dict[str, float]:
    """AUC-ROC, average precision and tie diagnostics of scored pairs.

    `scores` (n,) finite, higher = more likely true; `labels` (n,) of 0 and 1, both present. `auc` and `ap`
    are fractions with ties handled as scikit-learn's `roc_auc_score` and `average_precision_score` do;
    `zero_fraction` is the share of scores that are exactly 0, `distinct` the number of different scores.
    Raises MetricError.
    """
    scores, labels = _labelled(scores, labels)
    positive, negative = scores[labels], scores[~labels]
    one = np.zeros(len(scores), np.int64)  # all pairs in one unit
    statistic = auc_ap_statistic(positive, one[labels], negative, one[~labels], 1)
    return {**bootstrap.value(statistic, 1), **ties(scores)}


@dataclass(frozen=True)
class Curves:
    """ROC and precision-recall over one list of thresholds, (T + 1,) each, T the number of distinct scores.

    A pair is called true where its score is at least the threshold. The first threshold is infinite: nothing is called
    true, and precision is 1 by convention, as in scikit-learn. Fractions.
    """

    threshold: np.ndarray  # falling
    false_positive_rate: np.ndarray
    recall: np.ndarray  # also the ROC's true positive rate
    precision: np.ndarray


def curves(scores, labels) -> Curves:
    """ROC and precision-recall curves of scored pairs, a point for each distinct score.

    Arguments as for `entailment`. Equals scikit-learn's `roc_curve` and `precision_recall_curve` where neither drops
    points. Raises MetricError.
    """
    scores, labels = _labelled(scores, labels)
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    last = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(falling) - 1)  # of each distinct score
    hits = np.cumsum(labels[order])[last]
    called = last + 1
    return Curves(
        np.append(np.inf, falling[last]),
        np.append(0.0, (called - hits) / (~labels).sum()),
        np.append(0.0, hits / labels.sum()),
        np.append(1.0, hits / called),
    )


def ties(scores: np.ndarray) -> dict[str, float]:
    """`zero_fraction` and `distinct` of scores (n,)."""
    return {"zero_fraction": float(np.mean(scores == 0)), "distinct": len(np.unique(scores))}


def tied_fraction(positive, negative) -> float:
    """Share of the comparisons of a positive (p,) with a negative score (q,) that tie; 0 where there are none."""
    values, times = np.unique(_scores(positive), return_counts=True)
    others, other_times = np.unique(_scores(negative), return_counts=True)
    _, one, other = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    comparisons = times.sum() * other_times.sum()
    return float((times[one] * other_times[other]).sum() / comparisons) if comparisons else 0.0


def auc_ap_statistic(
    positive, positive_unit: np.ndarray, negative, negative_unit: np.ndarray, units: int, group: str = ""
) -> bootstrap.Statistic:
    """Statistic: `auc` and `ap` (`auc_GROUP`, `ap_GROUP`) of positive (p,) against negative scores (q,).

    Each pair is counted as often as its unit in [0, units). Scores are sorted once; a resample then costs one
    pass over the pairs.
    """
    positive, negative = _scores(positive), _scores(negative)
    threshold, step = np.unique(-positive, return_inverse=True)  # distinct positive scores, highest first
    first = np.searchsorted(threshold, -negative, "left")  # the first threshold that each negative reaches …
    tied = first < np.searchsorted(threshold, -negative, "right")  # … and whether it equals that one
    reached = first < len(threshold)
    hits_at = _tally(step, positive_unit, len(threshold), units)
    misses_upto = _running(first[reached], negative_unit[reached], len(threshold), units)
    ties_at = _tally(first[tied], negative_unit[tied], len(threshold), units)
    negatives_of = np.bincount(negative_unit, minlength=units).astype(np.float64)

    suffix = f"_{group}" if group else ""

    def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
        columns = np.ascontiguousarray(counts.T)
        hits = hits_at @ columns  # (thresholds, resamples): positives with exactly this score
        upto = misses_upto(columns)  # negatives >= threshold
        negatives = negatives_of @ columns
        below = negatives - upto
        if ties_at.nnz:
            below += (ties_at @ columns) / 2
        found = np.cumsum(hits, axis=0)
        positives = found[-1]
        auc = (hits * below).sum(0) / (positives * negatives)  # the sum is exact: of halves of whole numbers
        upto += found
        np.maximum(upto, 1, out=upto)
        ap = (hits * found / upto).sum(0) / positives
        return {f"auc{suffix}": auc, f"ap{suffix}": ap}

    return statistic


def _running(row: np.ndarray, unit: np.ndarray, rows: int, units: int) -> Callable[[np.ndarray], np.ndarray]:
    """(units, resamples) counts -> (rows, resamples): how many pairs fall on each row and those before it.

    A small table is added up once, and then a dense product in float32, of whole numbers that it holds exactly.
    """
    most = np.bincount(unit, minlength=units).max(initial=0) * units  # pairs of a resample
    if rows * units > DENSE or most > 2**24:
        tally = _tally(row, unit, rows, units)
        return lambda counts: np.cumsum(tally @ counts, axis=0)
    table = np.bincount(row * units + unit, minlength=rows * units).reshape(rows, units).astype(np.float32)
    np.cumsum(table, axis=0, out=table)
    return lambda counts: (table @ counts.astype(np.float32)).astype(np.float64)


def _tally(row: np.ndarray, unit: np.ndarray, rows: int, units: int) -> sparse.csr_matrix:
    """(rows, units): how many pairs of each unit fall on each row."""
    from scipy import sparse

    return sparse.csr_matrix((np.ones(len(row)), (row, unit)), shape=(rows, units))


def _labelled(scores, labels) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n,) and labels (n,) bool, both kinds present. Raises MetricError."""
    scores = _scores(scores)
    labels = _checks.as_array(labels)
    if labels.dtype != bool:
        labels = _checks.integers(labels, "labels", 2, len(scores)) == 1
    if labels.shape != scores.shape:
        raise MetricError(f"labels: expected shape {scores.shape}, got {labels.shape}")
    if labels.all() or not labels.any():
        raise MetricError(
            f"labels: all {len(labels)} are {int(labels[0])}, AUC and AP need pairs of both kinds"
        )
    return scores, labels


def _scores(value) -> np.ndarray:
    return _checks.numbers(value, "scores")
