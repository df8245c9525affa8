"""Which caption fits, by hand and against the released rules; HiMo@K against numpy and scipy."""

import numpy as np
import pytest
import torch
from scipy import stats

from hierbench.geometry import Lorentz, Sphere
from hierbench.metrics import bootstrap
from hierbench.metrics.choices import choice_items, choice_statistic, monotonicity, pair_similarity


def test_one_image_and_its_captions_by_hand():
    scores = [
        np.array([row]) for row in ([2.0, 1.0], [1.0, 2.0], [1.0, 1.0], [3.0, 2.0, 1.0], [2.0, 2.0, 1.0])
    ]
    table = choice_items(scores)
    assert table["text"].tolist() == [1, 0, 0, 1, 0]  # a tie is wrong
    assert table["tied"].tolist() == [0, 0, 1, 0, 1]
    assert np.isnan(table["image"]).all()
    assert np.isnan(table["group"]).all()


def winoground(score):
    """The released rules: c0_i0 > c1_i0 and c1_i1 > c0_i1; c0_i0 > c0_i1 and c1_i1 > c1_i0; both."""
    text = score[0, 0] > score[0, 1] and score[1, 1] > score[1, 0]
    image = score[0, 0] > score[1, 0] and score[1, 1] > score[0, 1]
    return text, image, text and image


def test_two_images_by_the_rules_of_winoground():
    scores = list(np.random.default_rng(0).integers(0, 4, (400, 2, 2)).astype(float))
    table = choice_items(scores)
    expected = np.array([winoground(score) for score in scores], float)
    assert (np.stack([table["text"], table["image"], table["group"]], 1) == expected).all()
    assert 0 < table["tied"].sum() < 400


def test_figures_by_hand():
    table = choice_items([np.array([row]) for row in ([2.0, 1.0], [1.0, 2.0], [2.0, 1.0], [1.0, 1.0])])
    kinds, unit = np.array(["a", "a", "a", "b"]), np.array([0, 0, 1, 1])
    figures = bootstrap.value(choice_statistic(table, kinds, ("a", "b", "c"), unit, 2), 2)
    assert figures["text"] == 50
    assert figures["text_a"] == pytest.approx(200 / 3)
    assert figures["text_b"] == 0
    assert np.isnan(figures["text_c"])
    assert figures["macro"] == pytest.approx(200 / 3)  # no kind has 25 questions: the largest stands
    assert figures["tied"] == 0.25
    twice = choice_statistic(table, kinds, ("a",), unit, 2)(np.array([[0.0, 2.0]]))
    assert twice["text"].tolist() == [50]  # the second image's questions alone
    assert twice["text_a"].tolist() == [100]


def test_the_mean_over_kinds_leaves_small_ones_out():
    right = [2.0, 1.0]
    scores = [np.array([right if q < 30 or q >= 60 else right[::-1]]) for q in range(62)]
    kinds = np.array(["a"] * 30 + ["b"] * 30 + ["c"] * 2)
    figures = bootstrap.value(choice_statistic(choice_items(scores), kinds, (), np.arange(62), 62), 62)
    assert figures["macro"] == 50


def test_monotonicity_against_numpy_and_scipy():
    near = np.random.default_rng(1).normal(size=(50, 4))
    near[0], near[1], near[2] = [1, 2, 3, 4], [0.3] * 4, [4, 3, 2, 1]
    found = monotonicity(near)
    place = np.arange(4)
    for row in [0, *range(2, 50)]:
        assert found["himo"][row] == pytest.approx(np.corrcoef(place, near[row])[0, 1])
        assert found["himo_rank"][row] == pytest.approx(stats.spearmanr(place, near[row]).statistic)
    assert [found[name][1] for name in ("himo", "himo_rank", "rising")] == [0, 0, 0]
    assert found["rising"].tolist() == [float(np.all(np.diff(row) > 0)) for row in near]
    assert found["rising"][0] == 1
    ranks = monotonicity(np.exp(5 * near))
    assert ranks["himo_rank"] == pytest.approx(found["himo_rank"])


@pytest.mark.parametrize("geometry", [Sphere(), Lorentz(0.5)], ids=lambda g: g.name)
def test_pairs_are_those_of_the_whole_matrix(geometry):
    generator = torch.Generator().manual_seed(0)
    images, texts = (geometry.lift(torch.randn(n, 6, generator=generator)) for n in (30, 40))
    rows = np.random.default_rng(0)
    image, text = rows.integers(0, 30, 9000), rows.integers(0, 40, 9000)
    whole = geometry.similarity(images, texts).numpy()
    assert pair_similarity(geometry, images, texts, image, text) == pytest.approx(
        whole[image, text], abs=1e-5
    )
