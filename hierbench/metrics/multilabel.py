"""Multi-label classification: average precision of each class, their mean, and its bootstrap statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hierbench.errors import MetricError
from hierbench.metrics import _checks, bootstrap

if TYPE_CHECKING:
    from scipy import sparse


def multilabel(scores, present, ignored=None) -> dict[str, float]:
    """Mean average precision, percent: {"map": …}.

    `scores` (n, C) finite, higher = more likely there; `present` (n, C) of 0 and 1; `ignored` (n, C) of 0 and 1
    marks entries that count neither as positive nor as negative (objects marked difficult in VOC). A class's
    average precision is scikit-learn's: the mean over its positives of the precision among all images that score
    at least as high, so ties are entered together. The mean runs over the classes with at least one positive that
    is not ignored; the others have no average precision. Raises MetricError on other shapes, on values that are not
    finite, and where no class has a positive.
    """
    return bootstrap.value(map_statistic(scores, present, ignored), len(scores))


def average_precisions(scores, present, ignored=None) -> np.ndarray:
    """Average precision (C,) of each class as a fraction; NaN for a class without a positive. Arguments, errors as
    `multilabel`."""
    scores, present, counted = _checked(scores, present, ignored)
    one = np.ones((scores.shape[0], 1))
    found = [_average_precision(tally, one)[0] for tally in _tallies(scores, present, counted)]
    precisions = np.full(scores.shape[1], np.nan)
    precisions[(present & counted).any(0)] = found
    return precisions


def map_statistic(scores, present, ignored=None) -> bootstrap.Statistic:
    """The statistic behind `multilabel`; its units are images.

    Scores are sorted once a class; a resample then costs one pass over them. The mean of a resample runs over the
    classes that have a positive in it.
    """
    tallies = list(_tallies(*_checked(scores, present, ignored)))

    def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
        columns = np.ascontiguousarray(counts.T)
        total, classes = np.zeros(len(counts)), np.zeros(len(counts))
        for tally in tallies:
            precision = _average_precision(tally, columns)
            defined = np.isfinite(precision)
            total += np.where(defined, precision, 0)
            classes += defined
        return {"map": 100 * total / classes}

    return statistic


Tally = tuple["sparse.csr_matrix", "sparse.csr_matrix"]
"""(thresholds, n) each: which images are positives with exactly the k-th highest score of a positive, and which are
negatives that first come in at it."""


def _tallies(scores: np.ndarray, present: np.ndarray, counted: np.ndarray):
    """A tally for each class with a positive, in order."""
    images = len(scores)
    for score, positive, use in zip(scores.T, (present & counted).T, counted.T, strict=True):
        hits = np.flatnonzero(positive)
        if not hits.size:
            continue
        misses = np.flatnonzero(use & ~positive)
        thresholds, step = np.unique(-score[hits], return_inverse=True)  # the highest first
        slot = np.searchsorted(thresholds, -score[misses], "left")  # ties come in at their own threshold
        below = slot == len(thresholds)  # lower than every positive: they change nothing
        yield (
            _matrix(step, hits, len(thresholds), images),
            _matrix(slot[~below], misses[~below], len(thresholds), images),
        )


def _matrix(row: np.ndarray, image: np.ndarray, rows: int, images: int) -> sparse.csr_matrix:
    from scipy import sparse

    return sparse.csr_matrix((np.ones(len(row)), (row, image)), shape=(rows, images))


def _average_precision(tally: Tally, counts: np.ndarray) -> np.ndarray:
    """(n, resamples) counts -> (resamples,) average precision, NaN where no positive is drawn."""
    hits, misses = (matrix @ counts for matrix in tally)
    found = np.cumsum(hits, axis=0)
    retrieved = found + np.cumsum(misses, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (hits * found / np.maximum(retrieved, 1)).sum(0) / found[-1]


def _checked(scores, present, ignored) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, present and counted (not ignored), (n, C) each."""
    scores = _checks.features(scores, "scores").numpy()
    present = _booleans(present, "present", scores.shape)
    counted = ~_booleans(
        np.zeros(scores.shape, bool) if ignored is None else ignored, "ignored", scores.shape
    )
    if not (present & counted).any():
        raise MetricError("present: no class has a positive, so there is no average precision")
    return scores, present, counted


def _booleans(value, what: str, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = _checks.as_array(value)
    except ValueError as error:  # rows of unequal lengths
        raise MetricError(f"{what}: expected an array of 0 and 1, got {type(value).__name__}") from error
    if array.shape != shape:
        raise MetricError(f"{what}: expected shape {shape} as the scores, got {array.shape}")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise MetricError(f"{what}: expected values 0 and 1 alone")
    return array.astype(bool)
