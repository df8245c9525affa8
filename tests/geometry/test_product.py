"""The product of spaces: PHyCLIP's recorded figures, one factor, hand-worked pairs, metric and limits (hypothesis)."""

import math

import pytest
import torch
from closeness import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st

from hierbench.contracts import Factored
from hierbench.errors import GeometryError
from hierbench.geometry import Lorentz, Product, Sphere

seeds = st.integers(0, 2**32 - 1)
curvatures = st.lists(st.floats(0.1, 10), min_size=1, max_size=5)
metrics = st.sampled_from(["l1", "l2"])


def product(curvatures, **options):
    return Product(tuple(map(Lorentz, curvatures)), **options)


def drawn(geometry, count, seed, scale=1.0, width=3):
    generator = torch.Generator().manual_seed(seed)
    tangents = torch.randn(count, width * len(geometry.factors), generator=generator, dtype=torch.float64)
    return geometry.lift(scale * tangents)


@pytest.fixture
def recorded(golden):
    """(geometry, array by name) of PHyCLIP's tiny model."""
    arrays = golden("phyclip_tiny_7", arrays=True)
    geometry = product(golden("phyclip_tiny_7")["models"]["PHyCLIP"]["curvatures"])
    return geometry, lambda name: torch.from_numpy(arrays[f"PHyCLIP.{name}"])


def test_what_the_released_code_computes(recorded):
    geometry, array = recorded
    image, text = array("image"), array("text")
    parts = list(zip(geometry.factors, geometry.split(image), geometry.split(text), strict=True))
    assert_same(torch.stack([f.distance(i, t) for f, i, t in parts]), array("factor_dist"))
    assert_same(torch.stack([f.exterior_angle(t, i) for f, i, t in parts]), array("factor_oxy_angle"))
    assert_same(torch.stack([f.half_aperture(t) for f, _, t in parts]), array("factor_half_aperture"))
    assert_same(geometry.distance(image, text), array("mean_dist"))
    assert_same(geometry.similarity(image, text), -array("mean_dist"))
    ranked = product([f.curvature for f in geometry.factors], ranking="inner")
    assert_same(ranked.similarity(image, text), array("similarity_released"))


def test_readings_are_means_over_the_factors(recorded):
    geometry, array = recorded
    image, text = array("image"), array("text")
    angle = array("factor_oxy_angle").double()
    assert_same(geometry.exterior_angle(text, image), angle.mean(0).float())
    share = (1 - 2 * angle / math.pi).mean(0).clamp(min=0)  # clamped after the mean
    torch.testing.assert_close(geometry.entailment(text, image), share.float(), rtol=0, atol=1e-5)
    radii = [f.radius(part) for f, part in zip(geometry.factors, geometry.split(text), strict=True)]
    assert_same(geometry.radius(text), torch.stack(radii).mean(0))


def test_hand_worked_figures():
    """Factors of curvature −1 and −4: a point at the distances 1 and 2 from the origin, seen from 1 and 0."""
    geometry = product([1.0, 4.0])

    def at(first, second):
        return torch.tensor([[math.sinh(first), 0.0, math.sinh(2 * second) / 2, 0.0]], dtype=torch.float64)

    one, other = at(1, 0), at(1, 2)
    assert geometry.radius(other).item() == pytest.approx(1.5)
    assert geometry.distance(one, other).item() == pytest.approx(1)
    assert product([1.0, 4.0], metric="l2").distance(one, other).item() == pytest.approx(2**0.5)
    assert product([1.0, 4.0], metric="l2").radius(other).item() == pytest.approx(2.5**0.5)
    # straight outward in the first factor, from the origin (a right angle by convention) in the second
    assert geometry.exterior_angle(at(0.5, 0), other).item() == pytest.approx(math.pi / 4)
    assert geometry.entailment(at(0.5, 0), other).item() == pytest.approx(0.5)
    # inward in the one, outward in the other: −1 and 1 make 0; clamped factor by factor they would make ½
    assert geometry.entailment(at(1.5, 1), other).item() == pytest.approx(0)
    inner = -(math.cosh(1) ** 2) + math.sinh(1) ** 2 - math.cosh(4) / 4
    ranked = product([1.0, 4.0], ranking="inner")
    assert ranked.similarity(one, other).item() == pytest.approx(inner)


@given(seeds, st.floats(0.1, 10), metrics)
@settings(deadline=None, max_examples=40)
def test_one_factor_is_that_factor_to_the_bit(seed, curvature, metric):
    alone, single = Lorentz(curvature), product([curvature], metric=metric, ranking="inner")
    tangents = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
    a, b = alone.lift(tangents[:4]), alone.lift(tangents[2:])
    assert torch.equal(single.lift(tangents), alone.lift(tangents))
    assert torch.equal(single.mean(tangents[None]), alone.mean(tangents[None]))
    assert torch.equal(single.half_aperture(a), alone.half_aperture(a))
    for function in ("similarity", "exterior_angle", "entailment"):
        assert torch.equal(getattr(single, function)(a, b), getattr(alone, function)(a, b)), function
    exact = metric == "l1"  # a square and its root may round
    compare = torch.equal if exact else torch.allclose
    assert compare(single.radius(a), alone.radius(a))
    assert compare(single.distance(a, b), alone.distance(a, b))


@given(seeds, curvatures, metrics)
@settings(deadline=None, max_examples=60)
def test_the_distance_is_a_metric(seed, curvatures, metric):
    geometry = product(curvatures, metric=metric)
    points = drawn(geometry, 7, seed)
    points[1] = points[0]
    distance = geometry.distance(points, points)
    torch.testing.assert_close(distance, distance.T, rtol=1e-12, atol=1e-12)
    assert (distance.diagonal() == 0).all()
    assert distance[0, 1] == 0
    assert (distance[2:, 2:] + torch.eye(5) > 0).all()
    detour = distance[:, :, None] + distance[None, :, :]  # i to j to k
    assert (distance[:, None, :] <= detour + 1e-12).all()
    origin = torch.zeros(1, points.shape[1], dtype=torch.float64)
    torch.testing.assert_close(geometry.distance(origin, points)[0], geometry.radius(points))


@given(seeds, curvatures)
@settings(deadline=None, max_examples=30)
def test_the_order_of_factors_does_not_matter(seed, curvatures):
    geometry, backwards = product(curvatures), product(curvatures[::-1])
    a, b = drawn(geometry, 4, seed), drawn(geometry, 4, seed + 1)
    turned = [torch.cat(geometry.split(points)[::-1], -1) for points in (a, b)]
    for function in ("distance", "exterior_angle"):
        expected = getattr(geometry, function)(a, b)
        torch.testing.assert_close(getattr(backwards, function)(*turned), expected, rtol=1e-12, atol=1e-12)


@given(seeds, metrics)
@settings(deadline=None, max_examples=30)
def test_flat_limit(seed, metric):
    """As all curvatures go to 0 the ℓ2 product is Euclidean up to √factors, the ℓ1 product the mean of norms."""
    geometry = product([1e-10] * 3, metric=metric)
    a, b = drawn(geometry, 4, seed), drawn(geometry, 5, seed + 1)
    each = (a[:, None] - b).unflatten(-1, (3, -1)).norm(dim=-1)
    expected = each.mean(-1) if metric == "l1" else torch.cdist(a, b) / 3**0.5
    torch.testing.assert_close(geometry.distance(a, b), expected, rtol=1e-6, atol=1e-7)


@given(seeds, st.lists(st.floats(0.1, 10), min_size=2, max_size=4))
@settings(deadline=None, max_examples=20)
def test_ranking_by_inner_products_is_another_order(seed, curvatures):
    """Within one factor the inner product is a function of the distance; the sum is not one of the mean distance."""
    geometry, inner = product(curvatures), product(curvatures, ranking="inner")
    a, b = drawn(geometry, 2, seed), drawn(geometry, 5, seed + 1)
    torch.testing.assert_close(geometry.similarity(a, b), -geometry.distance(a, b))
    parts = zip(geometry.factors, geometry.split(a), geometry.split(b), strict=True)
    expected = sum(-torch.cosh(f.curvature**0.5 * f.distance(x, y)) / f.curvature for f, x, y in parts)
    torch.testing.assert_close(inner.similarity(a, b), expected, rtol=1e-9, atol=1e-9)


def test_coincident_and_central_points_tie_and_have_gradients():
    """Where factors coincide or lie at the origin their angle is π/2; gradients are finite there."""
    geometry = product([0.5, 2.0])
    point = drawn(geometry, 1, 3)
    origin = torch.zeros_like(point)
    assert geometry.exterior_angle(origin, point).item() == pytest.approx(math.pi / 2)
    assert geometry.entailment(point, point).item() == 0
    assert geometry.entailment(origin, drawn(geometry, 5, 4)).tolist() == [[0.0] * 5]
    for general in (origin, point):
        learning = general.clone().requires_grad_()
        loss = geometry.exterior_angle(learning, point, paired=True) + geometry.distance(learning, point)[0]
        assert torch.autograd.grad(loss.sum(), learning)[0].isfinite().all()


def test_blocks_do_not_show(monkeypatch):
    from hierbench.geometry import product as module

    geometry = product([0.5, 2.0, 1.0])
    a, b = drawn(geometry, 23, 1), drawn(geometry, 11, 2)
    whole = geometry.distance(a, b)
    monkeypatch.setattr(module, "BLOCK", 40)
    assert_same(geometry.distance(a, b), whole)
    assert geometry.distance(a[:0], b).shape == (0, 11)


def test_it_tells_its_parts():
    geometry = product([0.5, 2.0])
    assert isinstance(geometry, Factored)
    assert not isinstance(Lorentz(1.0), Factored)
    assert geometry.describe() == {
        "name": "product", "factors": 2, "factor": "lorentz", "metric": "l1", "ranking": "distance",
        "curvature": [0.5, 2.0],
    }  # fmt: skip
    assert geometry == product([0.5, 2.0]) != product([2.0, 0.5])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Product(()), "at least one factor"),
        (lambda: Product((Sphere(),)), "needs an origin and cones, which 'sphere' has not"),
        (lambda: product([1.0], metric="l3"), "metric 'l3'"),
        (lambda: product([1.0], ranking="cosine"), "ranking 'cosine'"),
        (lambda: product([1.0, 1.0]).lift(torch.zeros(2, 5)), "5 components cannot be cut into 2"),
        (lambda: product([1.0] * 3).distance(torch.zeros(2, 2), torch.zeros(2, 2)), "cannot be cut into 3"),
        (lambda: product([1.0]).distance(torch.zeros(2, 2), torch.zeros(2, 3)), "pairwise functions need"),
    ],
)
def test_bad_products_are_refused(make, told):
    with pytest.raises(GeometryError, match=told) as raised:
        make()
    assert "\n" not in str(raised.value)
