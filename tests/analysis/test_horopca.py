"""HoroPCA against its own definitions: horospheres kept, hyperboloid kept, the best directions by brute force."""

import math

import pytest
import torch

from hierbench.analysis import horopca
from hierbench.geometry import Lorentz

UNIT = Lorentz(1.0)


@pytest.fixture
def cloud():
    generator = torch.Generator().manual_seed(1)
    tangents = torch.randn(40, 3, generator=generator, dtype=torch.double) * torch.tensor([1.5, 0.7, 0.3])
    return UNIT.lift(tangents)


def directions(dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.double)).Q[:2]


def within(plane, axes):
    """Points of the plane (N, 2) as points of the whole space (N, D)."""
    return plane @ axes


def test_projections_keep_both_horospheres_and_lie_in_the_plane(cloud):
    axes = directions(3)
    projected = within(horopca.horospherical(cloud, axes), axes)
    torch.testing.assert_close(
        horopca.busemann(projected, axes), horopca.busemann(cloud, axes), atol=1e-9, rtol=0
    )


def test_busemann_functions_are_the_limit_of_distances(cloud):
    """b_u(x) = lim d(x, γ(t)) − t along the ray to u, 0 at the origin."""
    u = directions(3)[:1]
    far = math.sinh(12.0) * u
    expected = UNIT.distance(cloud, far)[:, 0] - 12.0
    torch.testing.assert_close(horopca.busemann(cloud, u)[:, 0], expected, atol=1e-6, rtol=0)
    assert float(horopca.busemann(torch.zeros(1, 3, dtype=torch.double), u)) == 0


def test_what_lies_in_the_plane_on_the_origins_side_stays(cloud):
    axes = directions(5)
    plane = cloud[:, :2]
    near = plane[(plane.sum(1) < horopca.time(plane))]  # this side of the geodesic between the ideal points
    assert 5 < len(near) < len(plane)
    kept = horopca.horospherical(within(near, axes), axes)
    torch.testing.assert_close(kept, near, atol=1e-9, rtol=0)


def test_variance_is_the_mean_squared_distance(cloud):
    expected = UNIT.distance(cloud, cloud).square().mean()
    torch.testing.assert_close(horopca.variance(cloud), expected, atol=1e-9, rtol=1e-9)


def test_projections_never_lengthen_a_distance(cloud):
    """To a line (Busemann functions have Lipschitz constant 1) and to a plane; so at most all variance is kept."""
    distances, axes = UNIT.distance(cloud, cloud), directions(3)
    value = horopca.busemann(cloud, axes[:1])
    assert bool(((value - value.T).abs() <= distances + 1e-9).all())
    plane = horopca.horospherical(cloud, axes)
    assert bool((UNIT.distance(plane, plane) <= distances + 1e-9).all())
    found = horopca.fit(cloud).directions
    torch.testing.assert_close(found @ found.T, torch.eye(2, dtype=torch.double), atol=1e-9, rtol=0)


def test_the_directions_found_are_the_best_there_are(cloud):
    """Both steps against a fine scan of all directions."""
    plane = horopca.fit(cloud)
    total = horopca.variance(cloud)
    i = torch.arange(20_000, dtype=torch.double) + 0.5  # a spiral over the sphere, evenly dense
    z, angle = 1 - 2 * i / 20_000, math.pi * (1 + 5**0.5) * i
    sphere = torch.stack([(1 - z**2).sqrt() * angle.cos(), (1 - z**2).sqrt() * angle.sin(), z], 1)
    line = 2 * horopca.busemann(cloud, sphere).var(0, correction=0).max() / total
    assert float(line) <= plane.line + 1e-9
    assert plane.line == pytest.approx(float(line), abs=1e-3)
    first, (one, other) = plane.directions[0], torch.linalg.svd(plane.directions[:1]).Vh[1:]
    around = (one * math.cos(a) + other * math.sin(a) for a in torch.linspace(0, 2 * math.pi, 400).tolist())
    planes = (horopca.horospherical(cloud, torch.stack([first, second])) for second in around)
    scan = max(float(horopca.variance(plane)) for plane in planes)
    assert scan / float(total) <= plane.kept + 1e-9
    assert plane.kept == pytest.approx(scan / float(total), abs=1e-4)


def test_a_tree_in_a_plane_of_many_dimensions_is_found_again():
    """Two levels of branches at the origin, turned into 20 dimensions: what is kept is nearly everything."""
    angles = torch.linspace(0, 2 * math.pi, 25, dtype=torch.double)[:-1]
    flat = torch.cat([r * torch.stack([angles.cos(), angles.sin()], 1) for r in (0.2, 0.45)])
    axes = directions(20, seed=3)
    points = UNIT.lift(within(flat, axes))
    plane = horopca.fit(points)
    assert plane.kept > 0.9
    span = plane.directions @ axes.T
    torch.testing.assert_close((span @ span.T).diag(), torch.ones(2, dtype=torch.double), atol=1e-3, rtol=0)
    again = horopca.fit(points)
    assert torch.equal(plane.project(points), again.project(points))


def test_boosts_are_isometries_and_the_mean_goes_to_the_origin(cloud):
    mean = horopca.frechet_mean(cloud)
    moved = horopca.boost(cloud, mean)
    torch.testing.assert_close(UNIT.distance(moved, moved), UNIT.distance(cloud, cloud), atol=1e-7, rtol=0)
    torch.testing.assert_close(horopca.boost(mean[None], mean), torch.zeros(1, 3, dtype=torch.double))
    torch.testing.assert_close(horopca.boost(moved, -mean), cloud)
    # The mean has the least mean squared distance: no step away from it is better.
    least = UNIT.distance(cloud, mean[None]).square().mean()
    for step in 1e-3 * torch.cat([torch.eye(3), -torch.eye(3)]).double():
        assert UNIT.distance(cloud, (mean + step)[None]).square().mean() > least


def test_centred_on_the_mean_the_picture_lies_around_the_middle(cloud):
    away = horopca.boost(cloud, torch.tensor([-2.0, 1.0, 0.5], dtype=torch.double))
    plane = horopca.fit(away, centre="mean")
    places = plane.project(away)
    assert float(places.norm(dim=1).max()) < 1
    assert float(places.norm(dim=1).min()) < 0.2
    # An isometry changes nothing but the way there.
    assert plane.kept == pytest.approx(horopca.fit(cloud, centre="mean").kept, abs=1e-3)


def test_far_and_float32_points_stay_finite():
    points = UNIT.lift(torch.randn(30, 8, generator=torch.Generator().manual_seed(0)) * 20)
    places = horopca.fit(points).project(points)
    assert bool(torch.isfinite(places).all())
    assert float(places.norm(dim=1).max()) <= 1


@pytest.mark.parametrize("points", [torch.ones(3, 4), torch.ones(1, 4), torch.randn(5, 1)])
def test_without_two_distinct_points_there_is_no_plane(points):
    with pytest.raises(ValueError, match="at least two distinct points"):
        horopca.fit(points)
