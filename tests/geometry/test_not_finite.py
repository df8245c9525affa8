"""A point that is not a number has no figure: NaN in, NaN out, in every geometry, in the rows concerned alone."""

import math
import runpy
from pathlib import Path

import pytest
import torch
from closeness import assert_same

from hierbench import geometry as offered
from hierbench.contracts import Geometry
from hierbench.errors import GeometryError
from hierbench.geometry import Flat, Lorentz, Product, Sphere

ORDER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "examples" / "order.py"))["Order"]()
LEARNED = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
GEOMETRIES = {
    "lorentz": Lorentz(0.5),
    "lorentz that learns": Lorentz(LEARNED),
    "sphere": Sphere(),
    "flat": Flat(),
    "flat by cosine": Flat("cosine"),
    "l1": Product((Lorentz(0.5), Lorentz(2.0))),
    "l2": Product((Lorentz(0.5), Lorentz(2.0)), metric="l2"),
    "inner": Product((Lorentz(0.5), Lorentz(2.0)), ranking="inner"),
    "order": ORDER,
}
every = pytest.mark.parametrize("name", GEOMETRIES)
OF_PAIRS = ("similarity", "distance", "exterior_angle", "entailment")
ROOT = torch.full((6,), 0.1, dtype=torch.float64)


def options(function):
    return {"root": ROOT} if function in ("exterior_angle", "entailment", "radius") else {}


def points(geometry, count, seed):
    draw = torch.Generator().manual_seed(seed)
    return geometry.lift(torch.randn(count, 6, generator=draw, dtype=torch.float64)).detach()


def asked(geometry, functions):
    """The functions that the geometry has an answer to."""
    for function in functions:
        some = points(geometry, 2, 0)
        try:
            ends = (some, some) if function in OF_PAIRS else (some,)
            getattr(geometry, function)(*ends, **options(function))
        except GeometryError:
            continue
        yield function


def test_all_that_are_offered_are_tried():
    classes = {one for one in map(vars(offered).get, offered.__all__) if isinstance(one, type)}
    assert classes <= {type(geometry) for geometry in GEOMETRIES.values()}
    assert all(isinstance(geometry, Geometry) for geometry in GEOMETRIES.values())


@every
@pytest.mark.parametrize("side", ["general", "specific", "both"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_pairs(name, side, bad):
    """One component of one point. The fifth general point is the origin, from which directions are undefined."""
    geometry = GEOMETRIES[name]
    a, b = points(geometry, 5, 1), points(geometry, 4, 2)
    a[4] = geometry.lift(torch.zeros(6, dtype=torch.float64))
    whole = a.clone(), b.clone()
    poisoned = torch.zeros(5, 4, dtype=torch.bool)
    if side != "specific":
        a[1, 3] = bad
        poisoned[1] = True
    if side != "general":
        b[2, 0] = bad
        poisoned[:, 2] = True
    for function in asked(geometry, OF_PAIRS):
        ask = getattr(geometry, function)
        found, expected = ask(a, b, **options(function)), ask(*whole, **options(function))
        if bad == math.inf:  # an infinite distance is as good an answer
            assert not found[poisoned].isfinite().any() or name == "order", function
        else:
            assert found[poisoned].isnan().all(), function
        assert_same(found[~poisoned], expected[~poisoned])
        if bad != math.inf:
            paired = ask(a[:4], b, paired=True, **options(function))
            assert torch.equal(paired.isnan(), poisoned.diagonal()), function


@every
def test_points(name):
    geometry = GEOMETRIES[name]
    tangents = torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    poisoned = tangents.clone()
    poisoned[1, 4] = math.nan
    lifted = geometry.lift(poisoned)
    assert lifted[1].isnan().any()
    assert torch.equal(lifted[::2], geometry.lift(tangents)[::2])
    assert geometry.mean(poisoned).isnan().any()
    for function in asked(geometry, ("radius", "half_aperture")):
        for rows in (lifted, geometry.lift(tangents).where(~poisoned.isnan(), math.nan)):
            found = getattr(geometry, function)(rows, **options(function))
            assert found.isnan().tolist() == [False, True, False], function


@every
def test_gradients(name):
    """A NaN leaves a NaN in the gradient too, by which a step of training that must not be taken is known."""
    geometry = GEOMETRIES[name]
    for function in asked(geometry, (*OF_PAIRS, "radius", "half_aperture")):
        for paired in (False, True):
            a = points(geometry, 3, 1)
            a[1, 3] = math.nan
            a, b = a.requires_grad_(), points(geometry, 3, 2).requires_grad_()
            if function in OF_PAIRS:
                found = getattr(geometry, function)(a, b, paired=paired, **options(function))
            else:
                found = getattr(geometry, function)(a, **options(function))
            of_a, of_b = torch.autograd.grad(found.sum(), (a, b), allow_unused=True)
            # that of a product a · b stands with the other factor
            assert of_a[1].isnan().any() or of_b.isnan().any(), function
            assert of_a[::2].isfinite().all(), function
