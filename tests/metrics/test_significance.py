"""Permutation p and Holm's correction: by hand and against scipy."""

import numpy as np
import pytest
from scipy import stats

from hierbench.metrics import significance


def test_holm_by_hand():
    """0.01·3, then max(0.03, 0.03·2), then max(0.06, 0.04·1); in the order of the input."""
    assert significance.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert significance.holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    assert significance.holm([]).size == 0


def test_permutation_p_counts_the_observed_one_and_equal_ones():
    assert significance.permutation_p(2.0, np.array([0.0, -2.0, 2.0 + 1e-12, 1.9])) == 3 / 5
    assert significance.permutation_p(5.0, np.zeros(9)) == 1 / 10
    assert significance.permutation_p(0.0, np.array([0.0, 1.0, np.nan])) == 1.0


def test_exchanges_are_fair_and_depend_on_n_alone():
    masks = np.concatenate(list(significance.exchanges(50, 4000)))
    assert masks.shape == (4000, 50)
    assert masks.mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(masks.size))
    np.testing.assert_array_equal(masks, np.concatenate(list(significance.exchanges(50, 4000, block=500))))


def test_p_of_a_mean_agrees_with_scipy():
    rng = np.random.default_rng(0)
    gain = rng.normal(0.3, 1.0, 60)
    masks = np.concatenate(list(significance.exchanges(60, 10_000)))
    found = significance.permutation_p(gain.mean(), np.where(masks, gain, -gain).mean(1))
    test = stats.permutation_test((gain,), np.mean, permutation_type="samples", n_resamples=10_000, rng=rng)
    assert found == pytest.approx(test.pvalue, abs=6 * np.sqrt(found / 10_000))
