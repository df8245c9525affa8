"""What must hold for all points: metric axioms, symmetries, and finite values and gradients at the edges."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hierbench.geometry import Lorentz, Sphere

quick = settings(max_examples=60, deadline=None, derandomize=True)
curvatures = st.floats(0.1, 10)
seeds = st.integers(0, 2**31 - 1)
LEAST = float(torch.finfo(torch.float32).smallest_normal) / 2**23  # the least number that float32 can hold
lengths = st.one_of(st.just(0.0), st.just(LEAST), st.floats(-44, 4).map(lambda exponent: 10**exponent))


def tangents(seed, *shape, scale=1.0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draw, dtype=torch.float64) * scale


def rotation(seed, dim):
    return torch.linalg.qr(tangents(seed, dim, dim))[0]


@quick
@given(seeds, curvatures, st.floats(1e-3, 3))
def test_lorentz_distance_is_a_metric(seed, κ, scale):
    geometry = Lorentz(κ)
    x = geometry.lift(tangents(seed, 6, 5, scale=scale))
    d = geometry.distance(x, x)
    torch.testing.assert_close(d, d.T, rtol=1e-12, atol=0)
    assert (d.diagonal() == 0).all()
    assert (d[:, :, None] <= d[:, None, :] + d.T[None, :, :] + 1e-9 * scale).all()


@quick
@given(seeds, curvatures)
def test_rotations_are_isometries(seed, κ):
    geometry, turn = Lorentz(κ), rotation(seed + 1, 5)
    x, y = geometry.lift(tangents(seed, 2, 4, 5))
    for function in (geometry.distance, geometry.exterior_angle, geometry.similarity):
        torch.testing.assert_close(function(x @ turn, y @ turn), function(x, y), rtol=1e-9, atol=1e-9)


@quick
@given(seeds, curvatures)
def test_boosts_are_isometries(seed, κ):
    """Moving the origin changes no distance: a Lorentz boost along the first axis."""
    geometry = Lorentz(κ)
    x, y = geometry.lift(tangents(seed, 2, 4, 5))

    def boosted(p, rapidity=0.7):
        time = (1 / κ + p.square().sum(-1)).sqrt()
        moved = p.clone()
        moved[:, 0] = math.cosh(rapidity) * p[:, 0] + math.sinh(rapidity) * time
        return moved

    torch.testing.assert_close(
        geometry.distance(boosted(x), boosted(y)), geometry.distance(x, y), rtol=1e-8, atol=0
    )


@quick
@given(seeds, curvatures)
def test_scaling_space_scales_distance(seed, κ):
    """Curvature −κ is curvature −1 with every length divided by √κ."""
    x, y = Lorentz(1.0).lift(tangents(seed, 2, 4, 5))
    scaled = Lorentz(κ)
    torch.testing.assert_close(scaled.distance(x / κ**0.5, y / κ**0.5), Lorentz(1.0).distance(x, y) / κ**0.5)
    torch.testing.assert_close(
        scaled.exterior_angle(x / κ**0.5, y / κ**0.5), Lorentz(1.0).exterior_angle(x, y)
    )


@quick
@given(seeds, curvatures)
def test_distance_agrees_with_the_poincare_ball(seed, κ):
    geometry = Lorentz(κ)
    x, y = geometry.lift(tangents(seed, 2, 8, 5))
    p, q = (a / (1 + (1 + κ * a.square().sum(1, keepdim=True)).sqrt()) for a in (x, y))
    assert (p.norm(dim=1) * κ**0.5 < 1).all()
    room = (1 - κ * p.square().sum(1)) * (1 - κ * q.square().sum(1))
    expected = torch.acosh(1 + 2 * κ * (p - q).square().sum(1) / room) / κ**0.5
    torch.testing.assert_close(geometry.distance(x, y, paired=True), expected, rtol=1e-7, atol=0)


@quick
@given(seeds, curvatures)
def test_triangle_at_the_origin_obeys_both_laws_of_cosines(seed, κ):
    """With r, s the radii and d the opposite side, the inner angles fit them and sum to less than π."""
    geometry = Lorentz(κ)
    x, y = geometry.lift(tangents(seed, 2, 8, 5))
    r, s = geometry.radius(x) * κ**0.5, geometry.radius(y) * κ**0.5
    d = geometry.distance(x, y, paired=True) * κ**0.5
    at_x = math.pi - geometry.exterior_angle(x, y, paired=True)
    at_y = math.pi - geometry.exterior_angle(y, x, paired=True)
    at_origin = torch.acos(torch.nn.functional.cosine_similarity(x, y, dim=1))
    assert (at_x + at_y + at_origin < math.pi).all()
    expected = (r.cosh() * d.cosh() - s.cosh()) / (r.sinh() * d.sinh())
    torch.testing.assert_close(at_x.cos(), expected, rtol=0, atol=1e-8)
    angles_only = (at_x.cos() * at_y.cos() + at_origin.cos()) / (at_x.sin() * at_y.sin())
    torch.testing.assert_close(angles_only, d.cosh(), rtol=1e-5, atol=0)


@quick
@given(seeds, curvatures, st.floats(-6, 0.4))
def test_the_radius_of_a_lift_is_the_length_of_the_tangent(seed, κ, exponent):
    v = tangents(seed, 5, 6, scale=10**exponent)
    length = v.norm(dim=1).clamp(max=math.asinh(2**15) / κ**0.5)  # where `lift` clamps
    torch.testing.assert_close(Lorentz(κ).radius(Lorentz(κ).lift(v)), length, rtol=1e-12, atol=0)


@quick
@given(seeds, curvatures)
def test_similarity_ranks_as_distance_does(seed, κ):
    v, w = tangents(seed, 1, 8), tangents(seed + 1, 30, 8)
    for geometry in (Lorentz(κ), Sphere()):
        x, y = geometry.lift(v), geometry.lift(w)
        by_similarity = geometry.similarity(x, y).argsort(1, descending=True)
        assert torch.equal(by_similarity, geometry.distance(x, y).argsort(1))


@quick
@given(seeds)
def test_sphere_distance_is_a_metric_and_invariant(seed):
    x = Sphere().lift(tangents(seed, 6, 5))
    d = Sphere().distance(x, x)
    assert (d.diagonal() == 0).all()
    assert (d[:, :, None] <= d[:, None, :] + d.T[None, :, :] + 1e-9).all()
    turn, root = rotation(seed + 1, 5), x[0]
    torch.testing.assert_close(Sphere().distance(x @ turn, x @ turn), d, rtol=0, atol=1e-7)
    torch.testing.assert_close(
        Sphere().exterior_angle(x[1:3] @ turn, x[3:] @ turn, root=root @ turn),
        Sphere().exterior_angle(x[1:3], x[3:], root=root),
    )


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    seeds,
    curvatures,
    lengths,
    lengths,
    st.sampled_from(["same", "alike", "opposite", "other"]),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
)
def test_values_and_gradients_are_finite_everywhere(seed, κ, first, second, relation, dtype, paired):
    """At the origin, for coincident, collinear and opposite points, from denormals up to norms of 1e4."""
    u, w = torch.nn.functional.normalize(tangents(seed, 2, 4))
    direction = {"same": u, "alike": u, "opposite": -u, "other": w}[relation]
    x = (u * first)[None].to(dtype)
    y = (x.clone() if relation == "same" else (direction * second)[None].to(dtype)).requires_grad_()
    x.requires_grad_()
    curvature = torch.tensor(κ, dtype=dtype, requires_grad=True)
    geometry, root = Lorentz(curvature), torch.zeros(4, dtype=dtype)
    sphere = Sphere()
    values = [
        geometry.distance(x, y, paired=paired),
        geometry.exterior_angle(x, y, paired=paired),
        geometry.entailment(x, y, paired=paired),
        geometry.radius(x),
        geometry.half_aperture(x),
        geometry.lift(x),
        sphere.lift(x),
        sphere.distance(x, y, paired=paired),
        sphere.exterior_angle(x, y, paired=paired, root=root),
        sphere.radius(x, root=root),
    ]
    for value in values:
        assert value.isfinite().all()
        inputs = torch.autograd.grad(value.sum(), [x, y, curvature], retain_graph=True, allow_unused=True)
        assert all(gradient is None or gradient.isfinite().all() for gradient in inputs)


@quick
@given(
    seeds,
    curvatures,
    st.floats(-3, 4),
    st.booleans(),
    st.sampled_from([0.0, 1e-16, 1e-7, 1e-6]),
    st.booleans(),
)
def test_coincident_points_have_a_right_angle_without_gradient(seed, κ, exponent, paired, noise, wide):
    """Points that differ by the rounding of float32 alone are one point, in whatever type they come."""
    dtype = torch.float64 if wide else torch.float32
    x = torch.nn.functional.normalize(tangents(seed, 3, 4)) * 10**exponent
    y = x + noise * x.norm(dim=1, keepdim=True) * torch.nn.functional.normalize(tangents(seed + 1, 3, 4))
    x, y = (points.to(dtype).requires_grad_() for points in (x, y))
    root = torch.full((4,), 1e-4, dtype=dtype)
    for function, options in (
        (Lorentz(κ).exterior_angle, {}),
        (Sphere().exterior_angle, {"root": root}),
    ):
        angle = function(x, y, paired=paired, **options)
        same = angle if paired else angle.diagonal()
        assert torch.equal(same, torch.full((3,), math.pi / 2, dtype=dtype))
        gradients = torch.autograd.grad(same.sum(), [x, y])
        assert all((gradient == 0).all() for gradient in gradients)
    assert (Lorentz(κ).entailment(x, y, paired=True) == 0).all()
    assert (Lorentz(κ).distance(x, x, paired=True) == 0).all()


@quick
@given(seeds, curvatures, st.floats(-3, 4), st.booleans())
def test_points_apart_by_more_than_rounding_keep_their_angle(seed, κ, exponent, paired):
    """Straight outward and straight inward by 4e-6 of the norm: 0 and π."""
    x = torch.nn.functional.normalize(tangents(seed, 3, 4)) * 10**exponent
    for step, expected in ((4e-6, 0.0), (-4e-6, math.pi)):
        angle = Lorentz(κ).exterior_angle(x, x * (1 + step), paired=paired)
        same = angle if paired else angle.diagonal()
        torch.testing.assert_close(same, torch.full_like(same, expected), rtol=0, atol=1e-3)


@pytest.mark.parametrize("paired", [True, False])
def test_gradients_match_finite_differences(paired):
    draw = torch.Generator().manual_seed(2)
    x, y = (torch.randn(3, 4, generator=draw, dtype=torch.float64, requires_grad=True) for _ in range(2))
    κ = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    for name in ("distance", "similarity", "exterior_angle", "entailment"):
        assert torch.autograd.gradcheck(
            lambda x, y, κ, name=name: getattr(Lorentz(κ), name)(x, y, paired=paired), (x, y, κ)
        )
    for name in ("lift", "radius", "half_aperture", "mean"):
        assert torch.autograd.gradcheck(lambda x, κ, name=name: getattr(Lorentz(κ), name)(x), (x, κ))
    root = torch.randn(4, generator=draw, dtype=torch.float64)
    for name in ("exterior_angle", "entailment"):
        assert torch.autograd.gradcheck(
            lambda x, y, name=name: getattr(Sphere(), name)(x, y, paired=paired, root=root), (x, y)
        )
    assert torch.autograd.gradcheck(lambda x, y: Sphere().distance(x, y, paired=paired), (x, y))
    assert torch.autograd.gradcheck(lambda x: Sphere().mean(x), (x,))
