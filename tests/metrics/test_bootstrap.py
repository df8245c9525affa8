import numpy as np
import pytest

from hierbench.contracts import Estimate
from hierbench.metrics import bootstrap


def test_mean_against_a_plain_bootstrap():
    """Same draws, one resample at a time: means and percentiles agree."""
    values = np.random.default_rng(0).normal(3, 2, 80)
    estimate = bootstrap.estimates(bootstrap.means({"m": values}), 80)["m"]
    resampled = [np.repeat(values, c.astype(int)).mean() for block in bootstrap.draws(80) for c in block]
    assert len(resampled) == 1000
    assert estimate.value == pytest.approx(values.mean())
    assert [estimate.low, estimate.high] == pytest.approx(np.percentile(resampled, [2.5, 97.5]))


def test_interval_is_that_of_the_normal_approximation():
    values = np.random.default_rng(1).normal(0, 1, 2000)
    estimate = bootstrap.estimates(bootstrap.means({"m": values}), 2000)["m"]
    half = 1.96 * values.std() / 2000**0.5
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_every_draw_has_n_units_and_blocks_do_not_matter():
    blocks = [
        np.concatenate(list(bootstrap.draws(37, resamples=250, block=block))) for block in (1, 500, 10**9)
    ]
    assert all((block == blocks[0]).all() for block in blocks)
    assert blocks[0].shape == (250, 37)
    assert (blocks[0].sum(1) == 37).all()
    assert blocks[0].mean(0) == pytest.approx(np.ones(37), abs=0.35)
    assert len(np.unique(blocks[0], axis=0)) == 250


def test_seed_is_named():
    same, other = (
        np.concatenate(list(bootstrap.draws(10, 20, seed))) for seed in (bootstrap.SEED, "another")
    )
    assert (same == np.concatenate(list(bootstrap.draws(10, 20)))).all()
    assert (same != other).any()


def test_items_are_drawn_with_their_unit():
    """Two items of unit 0, one of unit 1: counts (2, 0) average the first two, (1, 1) all three."""
    statistic = bootstrap.means({"m": np.array([1.0, 2.0, 6.0])}, np.array([0, 0, 1]))
    assert statistic(np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]]))["m"].tolist() == [1.5, 3.0, 6.0]


def test_one_unit_has_no_interval():
    assert bootstrap.estimates(bootstrap.means({"m": np.array([0.5])}), 1) == {"m": Estimate(0.5)}


def test_statistics_together():
    both = bootstrap.together(
        bootstrap.means({"a": np.array([1, 3])}), bootstrap.means({"b": np.array([0, 1])})
    )
    assert bootstrap.value(both, 2) == {"a": 2.0, "b": 0.5}
