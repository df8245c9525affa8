import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from hierbench import metrics
from hierbench.errors import MetricError
from hierbench.metrics import bootstrap
from hierbench.metrics.entailment import auc_ap_statistic, curves


def pairs(scores=st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])):
    """Scores with many ties, labels of both kinds."""
    both = st.lists(st.tuples(scores, st.booleans()), min_size=2, max_size=60)
    return both.filter(lambda rows: len({label for _, label in rows}) == 2)


@settings(max_examples=100, deadline=None)
@given(pairs())
def test_equals_scikit_learn_with_ties(rows):
    scores, labels = map(np.array, zip(*rows, strict=True))
    figures = metrics.entailment(scores, labels)
    assert figures["auc"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert figures["ap"] == pytest.approx(average_precision_score(labels, scores), abs=1e-12)
    assert figures["zero_fraction"] == np.mean(scores == 0)
    assert figures["distinct"] == len(set(scores.tolist()))


@settings(max_examples=100, deadline=None)
@given(pairs())
def test_curves_equal_scikit_learn_with_ties(rows):
    scores, labels = map(np.array, zip(*rows, strict=True))
    found = curves(scores, labels)
    false, true, thresholds = roc_curve(labels, scores, drop_intermediate=False)
    assert found.threshold.tolist() == thresholds.tolist()
    assert found.false_positive_rate == pytest.approx(false, abs=1e-12)
    assert found.recall == pytest.approx(true, abs=1e-12)
    precision, recall, _ = precision_recall_curve(labels, scores)
    assert found.precision == pytest.approx(precision[::-1], abs=1e-12)
    assert found.recall == pytest.approx(recall[::-1], abs=1e-12)


def test_curves_need_both_kinds():
    with pytest.raises(MetricError, match="both kinds"):
        curves([0.5, 0.25], [1, 1])


def test_equals_scikit_learn_on_many_pairs():
    generator = np.random.default_rng(0)
    labels = generator.random(20_000) < 0.1
    scores = np.maximum(generator.normal(0.5 * labels, 1).astype(np.float32), 0)  # half of them exactly 0
    figures = metrics.entailment(torch.from_numpy(scores), torch.from_numpy(labels))
    assert figures["auc"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert figures["ap"] == pytest.approx(average_precision_score(labels, scores), abs=1e-12)
    assert 0.4 < figures["zero_fraction"] < 0.5


def test_by_hand():
    # one positive above both negatives, one tied with the higher negative: AUC = (2 + 1.5) / 4,
    # AP = 1/2 · 1/1 + 1/2 · 2/3
    figures = metrics.entailment([0.9, 0.5, 0.5, 0.0], [1, 1, 0, 0])
    assert figures == pytest.approx({"auc": 0.875, "ap": 5 / 6, "zero_fraction": 0.25, "distinct": 3})


@settings(max_examples=50, deadline=None)
@given(pairs(st.floats(0, 1, width=16)), st.randoms())
def test_order_and_monotone_transforms_do_not_matter(rows, random):
    before = metrics.entailment(*zip(*rows, strict=True))
    random.shuffle(rows)
    scores, labels = zip(*rows, strict=True)
    after = metrics.entailment(np.exp(3 * np.array(scores)) - 7, labels)
    assert [after[name] for name in ("auc", "ap", "distinct")] == pytest.approx(
        [before[name] for name in ("auc", "ap", "distinct")]
    )


def test_counts_are_repetitions():
    """A weighted resample equals scikit-learn on the pairs of the drawn samples, each as often as it was drawn."""
    generator = np.random.default_rng(1)
    unit = np.repeat(np.arange(15), 6)
    scores, labels = generator.integers(0, 12, 90) / 12, generator.random(90) < 0.4
    statistic = auc_ap_statistic(scores[labels], unit[labels], scores[~labels], unit[~labels], 15, "some")
    [counts] = bootstrap.draws(15, resamples=50)
    drawn = statistic(counts)
    assert set(drawn) == {"auc_some", "ap_some"}
    for row, count in enumerate(counts.astype(int)):
        repeated, of = np.repeat(scores, count[unit]), np.repeat(labels, count[unit])
        assert drawn["auc_some"][row] == pytest.approx(roc_auc_score(of, repeated), abs=1e-12)
        assert drawn["ap_some"][row] == pytest.approx(average_precision_score(of, repeated), abs=1e-12)


def test_resamples_without_positives_are_left_out():
    """Only one of three samples has a positive: a resample may miss it, and its interval must still be finite."""
    statistic = auc_ap_statistic([0.5], np.array([0]), [0.1, 0.6, 0.2], np.array([0, 1, 2]), 3)
    estimate = bootstrap.estimates(statistic, 3)["auc"]
    assert estimate.value == pytest.approx(2 / 3)
    assert 0 <= estimate.low <= estimate.high <= 1


@pytest.mark.parametrize(
    ("scores", "labels", "complaint"),
    [
        ([0.1, 0.2], [1, 1], "labels: all 2 are 1, AUC and AP need pairs of both kinds"),
        ([0.1, 0.2], [False, False], "labels: all 2 are 0"),
        ([0.1, 0.2], [0, 2], "labels: value 2 at position 1 is outside 0 … 1"),
        ([0.1, 0.2], [0, 1, 1], "labels: expected 2 values, got 3"),
        ([0.1, 0.2], np.array([True]), r"labels: expected shape \(2,\), got \(1,\)"),
        ([0.1, np.nan], [0, 1], "scores: row 1 holds NaN or infinity"),
        ([[0.1, 0.2]], [0, 1], "scores: expected 1 ax"),
        ([], [], "scores: expected 1 ax"),
    ],
)
def test_bad_input(scores, labels, complaint):
    with pytest.raises(MetricError, match=complaint):
        metrics.entailment(scores, labels)
