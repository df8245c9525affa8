"""Traversals on cases that can be worked by hand."""

import pytest
import torch

from hierbench.analysis.traversal import Stop, traverse
from hierbench.geometry import Lorentz, Sphere

EAST, NORTH = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])


def test_captions_on_the_way_are_met_in_order_then_the_root():
    captions = torch.stack([0.3 * EAST, 0.6 * EAST, 0.9 * EAST])
    stops = traverse(Lorentz(1.0), EAST, captions, steps=101, within_cones=False)
    assert [stop.caption for stop in stops] == [2, 1, 0, None]
    # The nearest by inner product, which counts the time component: a point x prefers the caption y with
    # tanh |y| nearest to tanh |x| in the sense of −cosh(|x| − |y|), so the borders lie halfway.
    assert [stop.step for stop in stops] == [
        0,
        pytest.approx(25, abs=1),
        pytest.approx(55, abs=1),
        pytest.approx(85, abs=1),
    ]


def test_captions_whose_cone_does_not_hold_the_point_are_passed_over():
    captions = torch.stack([0.6 * (EAST + 0.3 * NORTH), 0.5 * EAST])
    beside = traverse(Lorentz(1.0), EAST, captions[:1], steps=11)
    assert [stop.caption for stop in beside] == [None]
    everything = traverse(Lorentz(1.0), EAST, captions[:1], steps=11, within_cones=False)
    assert [stop.caption for stop in everything] == [0, None]
    assert [stop.caption for stop in traverse(Lorentz(1.0), EAST, captions, steps=11)] == [1, None]


def test_on_the_sphere_the_way_goes_to_the_root_given():
    halfway = EAST + NORTH
    stops = traverse(Sphere(), 3 * EAST, torch.stack([2 * EAST, halfway]), root=5 * NORTH, steps=5)
    assert stops == [Stop(0, 0), Stop(1, 2), Stop(None, 3)]  # the last two points are nearest to the root
    with pytest.raises(ValueError, match="no origin"):
        traverse(Sphere(), EAST, halfway[None])


def test_without_captions_only_the_root_is_met():
    assert traverse(Lorentz(0.5), EAST, torch.empty(0, 2)) == [Stop(None, 0)]
