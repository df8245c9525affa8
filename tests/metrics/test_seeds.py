"""Recipes of several seeds: against textbook formulas, scipy's Welch test, and simulated coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from hierbench.metrics import seeds


def test_mean_without_items_is_students_interval():
    found = seeds.mean([1.0, 2.0, 3.0])
    assert (found.mean, found.sd, found.seeds) == (2.0, 1.0, 3)
    assert found.high - 2.0 == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)  # t of 2 degrees of freedom
    assert found.low + found.high == pytest.approx(4.0)


def test_one_seed_has_the_items_interval_and_no_spread():
    drawn = np.random.default_rng(0).normal(5.0, 2.0, (1, 4000))
    found = seeds.mean([5.0], drawn)
    assert math.isnan(found.sd)
    assert found.high - found.mean == pytest.approx(1.959964 * drawn.std(ddof=1))


def test_both_sources_add_up():
    """Seeds ±1 and an item variance of 4: the squares of both margins, by hand."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=5000)
    noise = 2.0 * (noise - noise.mean()) / noise.std(ddof=1)
    values = np.array([9.0, 10.0, 11.0, 10.0])
    found = seeds.mean(values, values[:, None] + noise)
    margin = math.hypot(
        stats.t.ppf(0.975, 3) * math.sqrt(np.var(values, ddof=1) / 4), stats.norm.ppf(0.975) * 2.0
    )
    assert found.high - found.mean == pytest.approx(margin)


def test_what_differs_by_item_and_seed_counts_once():
    """Three seeds alike but for the items: S²/S and the items' variance both hold T / S, of which one is taken off."""
    rng = np.random.default_rng(6)
    drawn = rng.normal(50.0, 1.0, (3, 200_000))  # nothing shared: T = 1, and the mean varies by 1/3
    values = np.array([49.0, 50.0, 51.0])  # sd² = 1, all of it from T
    found = seeds.mean(values, drawn)
    expected = stats.t.ppf(0.975, 2) * math.sqrt(1 / 3)
    assert found.high - found.mean == pytest.approx(expected, rel=0.02)
    own = seeds.replicates(values, drawn[:, :5000], "recipe")
    assert own.var() == pytest.approx(1 / 3, rel=0.2)


def test_difference_without_items_is_welchs_test():
    a, b = [3.1, 2.4, 2.9, 3.3], [2.0, 2.6, 2.2]
    found, expected = seeds.difference(a, b), stats.ttest_ind(a, b, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_one_seed_against_several_is_crawford_and_howells_test():
    """t = (x − mean) / (sd √(1 + 1/n)) with n − 1 degrees of freedom."""
    many = np.array([10.0, 12.0, 11.0, 13.0])
    found = seeds.difference([15.0], many)
    t = (15.0 - many.mean()) / (many.std(ddof=1) * math.sqrt(1 + 1 / 4))
    assert found.p == pytest.approx(2 * stats.t.sf(t, 3))
    assert seeds.difference(many, [15.0]).difference == -found.difference


def test_one_seed_each_is_the_items_test_and_no_difference_has_p_1():
    drawn = np.random.default_rng(2).normal(size=(2, 3000))
    found = seeds.difference([1.0], [0.0], drawn[:1], drawn[1:])
    assert found.p == pytest.approx(2 * stats.norm.sf(1.0 / (drawn[0] - drawn[1]).std(ddof=1)))
    assert seeds.difference([1.0], [1.0], drawn[:1], drawn[:1]).p == 1.0
    assert seeds.p_value(0.5, 0.0) == 0.0


def test_what_is_undefined_on_a_resample_is_left_out():
    drawn = np.array([[1.0, 2.0, np.nan, 3.0], [1.0, 2.0, 5.0, 3.0]])
    found = seeds.mean([2.0, 2.0], drawn)
    assert found.high - 2.0 == pytest.approx(1.959964 * 1.0, rel=1e-6)


def test_replicates_have_both_variances_and_go_together_over_metrics():
    rng = np.random.default_rng(3)
    values = np.array([1.0, 2.0, 4.0])
    noise = rng.normal(0, 0.5, 40_000)
    found = seeds.replicates(values, values[:, None] + noise, "recipe")
    expected = values.var(ddof=1) / 3 + noise.var()
    assert found.var() == pytest.approx(expected, rel=0.05)  # the variance of 40,000 draws: ±0.7 %
    flat = np.zeros((3, 40_000))
    one, other = (seeds.replicates(scale * values, flat, "recipe") for scale in (1, 2))
    np.testing.assert_allclose(other, 2 * one, atol=1e-12)
    assert not np.array_equal(one, seeds.replicates(values, flat, "another"))


def test_intervals_cover_the_recipe():
    """3 seeds, 200 items, both sources alike in size: 95 % less three standard errors of 400 trials, or more."""
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(400):
        ease = rng.normal(0.0, 1.0, 200)
        items = rng.normal(0.0, 0.07, (3, 1)) + ease + rng.normal(0.0, 0.5, (3, 200))
        counts = rng.multinomial(200, np.full(200, 1 / 200), size=200)
        found = seeds.mean(items.mean(1), items @ counts.T / 200)
        covered += found.low <= 0.0 <= found.high
    assert 0.91 < covered / 400 <= 1.0
