"""Verdicts against hand-worked intervals."""

import numpy as np
import pytest

from hierbench.reproduce.verdicts import verdict

T2 = 4.302653  # Student's t, two degrees of freedom, two-sided 95 %
NONE = np.zeros((3, 50))  # resamples on which nothing varies


def test_three_seeds_without_variance_over_items():
    """Mean 2, sd 1: standard error 1/√3."""
    told = verdict([1.0, 2.0, 3.0], NONE)
    assert told["advantage"] == 2
    margin = T2 / 3**0.5
    assert (told["low"], told["high"]) == pytest.approx((2 - margin, 2 + margin), rel=1e-5)
    assert told["verdict"] == "cannot be told"


def test_a_direction_that_seeds_agree_on():
    assert verdict([1.9, 2.0, 2.1], NONE)["verdict"] == "holds"
    assert verdict([-1.9, -2.0, -2.1], NONE)["verdict"] == "does not hold"
    assert verdict([0.0, 0.0, 0.0], NONE)["verdict"] == "cannot be told"


def test_items_count_as_well():
    """Seeds that agree wholly, but a difference that hangs on the items: ±1.96 of its spread over resamples."""
    drawn = np.tile(np.random.default_rng(0).normal(1.0, 1.0, 4000), (3, 1))
    told = verdict([1.0, 1.0, 1.0], drawn)
    spread = drawn[0].std(ddof=1)
    assert (told["low"], told["high"]) == pytest.approx(
        (1 - 1.95996 * spread, 1 + 1.95996 * spread), rel=1e-4
    )
    assert told["verdict"] == "cannot be told"
    assert verdict([3.0, 3.0, 3.0], drawn)["verdict"] == "holds"


def test_one_seed_says_nothing_of_others():
    told = verdict([5.0], np.full((1, 50), 5.0))
    assert told["verdict"] == "cannot be told"
    assert told["by_seed"] == [5.0]


def test_chance_is_rarely_called():
    """Of rows that do not differ, about one in twenty is called, in either direction."""
    draw = np.random.default_rng(1)
    called = sum(verdict(draw.normal(size=3), NONE)["verdict"] != "cannot be told" for _ in range(2000))
    assert 0.035 < called / 2000 < 0.065
