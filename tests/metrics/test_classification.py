import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score

from hierbench import metrics
from hierbench.errors import MetricError
from hierbench.geometry import Lorentz, Sphere
from hierbench.metrics import bootstrap
from hierbench.metrics.classification import accuracy_statistic, nearest

GEOMETRIES = {"lorentz": Lorentz(0.37), "cosine": Sphere()}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_golden(recipe, golden, name):
    images, classes, labels = recipe.zero_shot_case(7)
    geometry = GEOMETRIES[name]
    predicted = nearest(geometry, *(geometry.lift(torch.from_numpy(x)) for x in (images, classes)))
    recorded = golden("eval_7")
    for protocol in ("released", "corrected"):  # all classes occur: the two agree
        figures = metrics.accuracy(predicted, labels, 20, protocol)
        for metric in ("mean_per_class", "top1"):
            assert figures[metric] == pytest.approx(recorded[f"zero_shot_{name}_{metric}"], abs=1e-4)


def test_by_hand():
    labels, predicted = [0, 0, 0, 1, 1, 3], [0, 0, 1, 1, 4, 3]
    # accuracies: class 0 2/3, class 1 1/2, class 3 1; class 4 is predicted but never occurs; class 2 neither
    assert metrics.accuracy(predicted, labels, 5, "corrected")["mean_per_class"] == pytest.approx(
        100 * 13 / 18
    )
    assert metrics.accuracy(predicted, labels, 5, "released")["mean_per_class"] == pytest.approx(
        100 * 13 / 24
    )
    assert metrics.accuracy(predicted, labels, 5)["top1"] == pytest.approx(100 * 4 / 6)
    assert metrics.accuracy(predicted, labels, 5) == metrics.accuracy(predicted, labels, 5, "released")


@pytest.mark.filterwarnings(
    "ignore::UserWarning:sklearn"
)  # it doubts classes that are predicted but never occur
@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30), st.randoms())
def test_corrected_is_balanced_accuracy_in_any_order(pairs, random):
    predicted, labels = np.array(pairs).T
    figures = metrics.accuracy(predicted, labels, 5, "corrected")
    assert figures["mean_per_class"] == pytest.approx(100 * balanced_accuracy_score(labels, predicted))
    assert figures["top1"] == pytest.approx(100 * np.mean(predicted == labels))
    random.shuffle(pairs)
    assert metrics.accuracy(*np.array(pairs).T, 5, "corrected") == pytest.approx(figures)


def test_counts_are_repetitions():
    """A resample that draws some images twice and others not at all is those images, literally."""
    generator = np.random.default_rng(0)
    labels, predicted = generator.integers(0, 6, (2, 40))
    for protocol in ("released", "corrected"):
        for counts in bootstrap.draws(40, resamples=20):
            drawn = accuracy_statistic(predicted, labels, 6, protocol)(counts)
            for row, count in enumerate(counts.astype(int)):
                repeated = metrics.accuracy(
                    np.repeat(predicted, count), np.repeat(labels, count), 6, protocol
                )
                assert {name: values[row] for name, values in drawn.items()} == pytest.approx(repeated)


def test_torch_and_numpy_agree():
    labels, predicted = np.array([0, 1, 2, 1]), np.array([0, 2, 2, 1])
    expected = metrics.accuracy(predicted, labels, 3)
    assert metrics.accuracy(torch.from_numpy(predicted), torch.from_numpy(labels).int(), 3) == expected
    assert metrics.accuracy(predicted.tolist(), labels.astype(np.uint8), 3) == expected


def test_nearest_takes_the_first_of_equal_classes():
    """Two ImageNet names occur twice; their embeddings tie exactly."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.randn(9, 16, generator=generator)
    classes[7], classes[5] = classes[2], classes[4]
    for geometry in GEOMETRIES.values():
        points = geometry.lift(classes)
        expected = [0, 1, 2, 3, 4, 4, 6, 2, 8]
        assert nearest(geometry, points, points).tolist() == expected
        assert nearest(geometry, points, points, chunk=2).tolist() == expected


@pytest.mark.parametrize(
    ("predicted", "labels", "complaint"),
    [
        ([0, 1], [0, 3], "labels: value 3 at position 1 is outside 0 … 2"),
        ([0, -1], [0, 1], "predicted: value -1 at position 1 is outside 0 … 2"),
        ([0], [0, 1], "predicted: expected 2 values, got 1"),
        ([], [], "labels: expected a non-empty list"),
        ([0.0, 1.0], [0, 1], "predicted: expected integers, got float64"),
        ([[0, 1]], [0, 1], "predicted: expected a non-empty list of integers, got shape"),
    ],
)
def test_bad_input(predicted, labels, complaint):
    with pytest.raises(MetricError, match=complaint):
        metrics.accuracy(predicted, labels, 3)


def test_unknown_protocol():
    with pytest.raises(MetricError, match="no accuracy protocol 'mended': released or corrected"):
        metrics.accuracy([0], [0], 1, "mended")
