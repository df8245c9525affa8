"""Mean average precision against scikit-learn, by hand, with ties, ignored entries and resampled images."""

import time

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from hierbench import metrics
from hierbench.errors import MetricError
from hierbench.metrics import bootstrap
from hierbench.metrics.multilabel import average_precisions, map_statistic


def drawn(images=60, classes=7, seed=0, levels=None):
    """Scores, present, ignored; the last class has no positive. `levels`: only so many distinct scores."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(images, classes)).astype(np.float32)
    if levels:
        scores = np.float32(rng.integers(0, levels, scores.shape)) / 4
    present = rng.random(scores.shape) < 0.3
    present[:, -1] = False
    return scores, present, rng.random(scores.shape) < 0.15


def sklearn_map(scores, present, ignored=None, weights=None):
    """(C,) average precision of each class, NaN without a positive."""
    found = []
    for k in range(scores.shape[1]):
        use = np.ones(len(scores), bool) if ignored is None else ~ignored[:, k]
        weight = None if weights is None else weights[use]
        hits = present[use, k] if weight is None else present[use, k] & (weight > 0)
        found.append(
            average_precision_score(present[use, k], scores[use, k], sample_weight=weight)
            if hits.any()
            else np.nan
        )
    return np.array(found)


@pytest.mark.parametrize("levels", [None, 3], ids=["distinct", "ties"])
@pytest.mark.parametrize("with_ignored", [False, True])
def test_equals_scikit_learn(levels, with_ignored):
    scores, present, ignored = drawn(levels=levels)
    ignored = ignored if with_ignored else None
    expected = sklearn_map(scores, present, ignored)
    np.testing.assert_allclose(average_precisions(scores, present, ignored), expected, rtol=1e-12)
    figure = metrics.multilabel(torch.from_numpy(scores), present.astype(int), ignored)
    assert figure == {"map": pytest.approx(100 * np.nanmean(expected))}


def test_by_hand():
    """First class: positives at ranks 1 and 3. Second: a positive tied with two negatives at the top, alone."""
    scores = [[0.9, 0.5], [0.8, 0.5], [0.7, 0.5], [0.1, 0.2]]
    present = [[1, 1], [0, 0], [1, 0], [0, 0]]
    assert average_precisions(scores, present).tolist() == pytest.approx([(1 + 2 / 3) / 2, 1 / 3])
    assert metrics.multilabel(scores, present)["map"] == pytest.approx(100 * (5 / 6 + 1 / 3) / 2)
    # ignoring the negative at rank 2 lifts the first class to 1; an ignored positive is none
    assert average_precisions(scores, present, [[0, 0], [1, 0], [0, 0], [0, 0]])[0] == 1
    only = average_precisions(scores, present, [[0, 1], [0, 0], [0, 0], [0, 0]])
    assert np.isnan(only[1])
    assert metrics.multilabel(scores, present, [[0, 1], [0, 0], [0, 0], [0, 0]])["map"] == pytest.approx(
        100 * 5 / 6
    )


def test_everything_positive_is_perfect():
    assert metrics.multilabel([[0.3], [0.1]], [[1], [1]]) == {"map": 100.0}


@pytest.mark.parametrize("levels", [None, 3], ids=["distinct", "ties"])
def test_resampled_images_are_counted_as_weights(levels):
    scores, present, ignored = drawn(images=25, levels=levels)
    counts = next(bootstrap.draws(25, resamples=8))
    drawn_values = map_statistic(scores, present, ignored)(counts)["map"]
    expected = [100 * np.nanmean(sklearn_map(scores, present, ignored, weights)) for weights in counts]
    np.testing.assert_allclose(drawn_values, expected, rtol=1e-10)


def test_a_resample_repeats_images():
    """Counting an image twice is having it twice."""
    scores, present, _ = drawn(images=12)
    counts = np.random.default_rng(1).integers(0, 3, 12)
    rows = np.repeat(np.arange(12), counts)
    again = metrics.multilabel(scores[rows], present[rows])["map"]
    assert map_statistic(scores, present)(counts[None].astype(float))["map"][0] == pytest.approx(again)


def test_order_of_images_and_classes_does_not_matter():
    scores, present, ignored = drawn(levels=4)
    rng = np.random.default_rng(3)
    rows, columns = rng.permutation(60)[:, None], rng.permutation(7)
    figure = metrics.multilabel(scores[rows, columns], present[rows, columns], ignored[rows, columns])
    assert figure["map"] == pytest.approx(metrics.multilabel(scores, present, ignored)["map"], rel=1e-12)


def test_intervals_of_a_set_as_large_as_coco_take_seconds():
    """A tenth of the resamples of 5,000 images x 80 classes."""
    rng = np.random.default_rng(0)
    scores, present = rng.normal(size=(5000, 80)), rng.random((5000, 80)) < 0.04
    begun = time.process_time()
    estimate = bootstrap.estimates(map_statistic(scores, present), 5000, resamples=100)["map"]
    assert time.process_time() - begun < 10
    assert estimate.low < estimate.high


@pytest.mark.parametrize(
    ("scores", "present", "ignored", "said"),
    [
        ([[1.0], [2.0]], [[1]], None, r"present: expected shape \(2, 1\) as the scores, got \(1, 1\)"),
        ([[1.0], [2.0]], [[1], [2]], None, "present: expected values 0 and 1 alone"),
        ([[1.0], [2.0]], [[1], [0, 1]], None, "present: expected an array of 0 and 1, got list"),
        ([[1.0], [2.0]], [[0], [0]], None, "no class has a positive"),
        ([[1.0], [2.0]], [[1], [0]], [[1], [0]], "no class has a positive"),
        ([[1.0], [2.0]], [[1], [0]], [[1, 1]], r"ignored: expected shape \(2, 1\)"),
        ([[1.0], [float("nan")]], [[1], [0]], None, "scores: row 1 holds NaN"),
        ([1.0, 2.0], [1, 0], None, "scores: expected 2 axes"),
        ([[], []], [[], []], None, "scores: expected 2 axes, none empty"),
        ("text", [[1]], None, "scores: expected an array of numbers"),
    ],
)
def test_bad_input(scores, present, ignored, said):
    with pytest.raises(MetricError, match=said):
        metrics.multilabel(scores, present, ignored)
