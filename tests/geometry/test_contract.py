"""The Geometry protocol: what all spaces share, and what they refuse; the documentation's own space among them."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from closeness import assert_same

from hierbench.contracts import Geometry
from hierbench.errors import GeometryError
from hierbench.geometry import Flat, Lorentz, Product, Sphere, _pairs

ORDER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "examples" / "order.py"))["Order"]()
GEOMETRIES = [Lorentz(0.5), Sphere(), Product((Lorentz(0.5), Lorentz(2.0))), Flat(), ORDER]
by_name = pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.name)


def points(geometry, count, seed=0, dim=6, dtype=torch.float32):
    return geometry.lift(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)).to(dtype))


@by_name
def test_every_geometry_is_one_by_protocol(geometry):
    assert isinstance(geometry, Geometry)
    assert geometry.describe()["name"] == geometry.name


@by_name
def test_paired_is_the_diagonal_of_pairwise(geometry):
    a, b, root = points(geometry, 40, 1), points(geometry, 40, 2), points(geometry, 1, 3)[0]
    for function, options in (
        (geometry.similarity, {}),
        (geometry.distance, {}),
        (geometry.exterior_angle, {"root": root}),
        (geometry.entailment, {"root": root}),
    ):
        if function == ORDER.exterior_angle:
            continue  # refused: see below
        crossed, paired = function(a, b[:5], **options), function(a, b, paired=True, **options)
        assert crossed.shape == (40, 5)
        assert paired.shape == (40,)
        torch.testing.assert_close(crossed.diagonal(), paired[:5])


@by_name
def test_similarity_and_distance_are_the_same_both_ways_round(geometry):
    a, b = points(geometry, 7, 1), points(geometry, 5, 2)
    torch.testing.assert_close(geometry.similarity(a, b), geometry.similarity(b, a).T)
    torch.testing.assert_close(geometry.distance(a, b), geometry.distance(b, a).T)


@by_name
def test_points_keep_shape_and_type(geometry):
    tangents = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0))
    lifted, root = geometry.lift(tangents), torch.zeros(6)
    assert (lifted.shape, lifted.dtype) == (tangents.shape, torch.float32)
    assert geometry.mean(tangents).shape == (2, 6)
    assert geometry.radius(lifted, root=root).shape == (2, 3)
    assert geometry.distance(lifted[0], lifted[1]).dtype == torch.float32
    assert geometry.distance(lifted[0], lifted[1].double()).dtype == torch.float64


@by_name
def test_no_points_at_all(geometry):
    none, some, root = torch.empty(0, 6), points(geometry, 4), torch.zeros(6)
    assert geometry.similarity(none, some).shape == (0, 4)
    assert geometry.distance(some, none).shape == (4, 0)
    assert geometry.entailment(none, none, paired=True, root=root).shape == (0,)


def test_hand_worked_figures():
    """sinh⁻¹ and the like of a point at distance 1 and 2 from the origin of a space of curvature −1."""
    one, two = (torch.tensor([[math.sinh(r), 0.0]], dtype=torch.float64) for r in (1, 2))
    aside = torch.tensor([[0.0, math.sinh(1)]], dtype=torch.float64)
    geometry = Lorentz(1.0)
    assert geometry.radius(two).item() == pytest.approx(2)
    assert geometry.distance(one, two).item() == pytest.approx(1)
    assert geometry.distance(one, aside).item() == pytest.approx(math.acosh(math.cosh(1) ** 2))
    assert geometry.exterior_angle(one, two).item() == pytest.approx(0)
    assert geometry.exterior_angle(two, one).item() == pytest.approx(math.pi)
    # a right triangle at the origin: tan of the inner angle = tanh(far leg) / sinh(near leg)
    assert geometry.exterior_angle(one, aside).item() == pytest.approx(math.pi - math.atan(1 / math.cosh(1)))
    assert geometry.entailment(one, two).item() == pytest.approx(1)
    assert geometry.entailment(one, aside).item() == 0
    assert geometry.half_aperture(one).item() == pytest.approx(math.asin(0.2 / math.sinh(1)))
    assert geometry.half_aperture(one, min_radius=1.0).item() == pytest.approx(math.pi / 2)
    assert geometry.lift(torch.tensor([2.0, 0.0])).tolist() == pytest.approx([math.sinh(2), 0])


def test_lift_is_clamped_as_released():
    for κ in (0.1, 1.0, 10.0):
        far = Lorentz(κ).lift(torch.tensor([[3e3, 4e3]]))
        torch.testing.assert_close(far, torch.tensor([[0.6, 0.8]]) * 2**15 / κ**0.5)


def test_prompt_ensembles():
    tangents = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    torch.testing.assert_close(Lorentz(0.3).mean(tangents), Lorentz(0.3).lift(torch.tensor([1.5, 0.5])))
    torch.testing.assert_close(Sphere().mean(tangents), torch.tensor([0.5, 0.5]) * 2**0.5)


def test_sphere_as_seen_from_a_root():
    x, y, root = torch.tensor([[0.0, 1.0]]), torch.tensor([[-1.0, 0.0]]), torch.tensor([1.0, 0.0])
    assert Sphere().distance(x, y).item() == pytest.approx(math.pi / 2)
    assert Sphere().radius(y, root=root).item() == pytest.approx(2)
    # general − root = (−1, 1), specific − general = (−1, −1): a right angle
    assert Sphere().exterior_angle(x, y, root=root).item() == pytest.approx(math.pi / 2)
    assert Sphere().exterior_angle(x, y, root=torch.tensor([0.0, 0.0])).item() == pytest.approx(
        3 * math.pi / 4
    )
    assert Sphere().entailment(x, y, root=torch.tensor([1.0, 2.0])).item() == pytest.approx(1)


def test_flat_space_is_what_curved_ones_tend_to():
    """Angles, distances and radii of curvature −10⁻⁸ are those of the flat reading; a hand-worked right angle."""
    a, b = (
        torch.randn(5, 3, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in (1, 2)
    )
    curved, flat = Lorentz(1e-8), Flat()
    for function in ("exterior_angle", "distance", "entailment"):
        expected = getattr(curved, function)(curved.lift(a), curved.lift(b))
        torch.testing.assert_close(getattr(flat, function)(a, b), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(flat.radius(a), curved.radius(curved.lift(a)), rtol=1e-6, atol=0)
    one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 2.0]])
    assert flat.exterior_angle(one, other).item() == pytest.approx(math.pi / 2)
    assert flat.similarity(one, other).item() == -2
    assert Flat("cosine").similarity(one, other).item() == pytest.approx(5**-0.5)
    with pytest.raises(GeometryError, match="no entailment cones"):
        flat.half_aperture(one)


def test_order_of_coordinates_by_hand():
    """E(x, y) = ‖max(0, y − x)‖² (Vendrov et al. 2016, eq. 2), y the general one; 0 where x ≥ y in every coordinate."""
    general = torch.tensor([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [3.0, 0.0, 2.0]])
    specific = torch.tensor([[3.0, 1.0, 5.0], [1.0, 2.0, 0.0]])
    violations = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 8.0]])
    torch.testing.assert_close(ORDER.entailment(general, specific), 1 / (1 + violations))
    assert ORDER.entailment(general[:2], specific, paired=True).tolist() == [0.5, 1.0]
    assert ORDER.distance(general, specific)[0].tolist() == pytest.approx([30**0.5, 0])
    assert ORDER.radius(general).tolist() == pytest.approx([5**0.5, 0, 13**0.5])
    assert ORDER.lift(torch.tensor([-1.0, 2.0])).tolist() == [1, 2]
    assert ORDER.mean(torch.tensor([[-1.0, 2.0], [3.0, 0.0]])).tolist() == [2, 1]
    for refused in (ORDER.exterior_angle, ORDER.distance):
        with pytest.raises(GeometryError):
            refused(general, general[:, :2])
    with pytest.raises(GeometryError, match="no half-angle"):
        ORDER.half_aperture(general)


def test_order_is_one():
    """Reflexive, antisymmetric, transitive on a lattice of points; violations move no further than the points do."""
    lattice = torch.cartesian_prod(*[torch.arange(3.0)] * 3)
    holds = ORDER.entailment(lattice, lattice) == 1
    assert torch.equal(holds, (lattice[:, None] <= lattice[None]).all(-1))
    assert holds.diagonal().all()
    assert torch.equal(holds & holds.T, torch.eye(len(lattice), dtype=torch.bool))
    steps = holds.double() @ holds.double() > 0
    assert torch.equal(steps, holds)
    below = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)).abs()
    above = torch.randn(30, 4, generator=torch.Generator().manual_seed(1)).abs()
    violation = (1 / ORDER.entailment(below, above) - 1).sqrt()
    assert (violation <= ORDER.distance(below, above) + 1e-6).all()


def test_curvature_learns():
    log_curvature = torch.tensor(-0.4, requires_grad=True)
    geometry = Lorentz(log_curvature.exp())
    v = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    geometry.distance(geometry.lift(v), geometry.lift(v.flip(0))).mean().backward()
    assert log_curvature.grad.isfinite()
    assert log_curvature.grad != 0
    assert geometry.describe() == {"name": "lorentz", "curvature": pytest.approx(math.exp(-0.4))}


def test_geometries_of_equal_curvature_are_equal():
    assert Lorentz(1) == Lorentz(np.float64(1.0)) == Lorentz(1.0) != Lorentz(2.0)
    assert len({Lorentz(1), Lorentz(1.0), Sphere(), Sphere()}) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_do_not_show(monkeypatch, dtype):
    """Pairwise functions by blocks of rows, with exact treatment of near pairs in pieces, give the same numbers."""
    a, b = points(Lorentz(0.5), 23, 1, dtype=dtype), points(Lorentz(0.5), 11, 2, dtype=dtype)
    b[::2] = a[:11:2] * (1 + 1e-5)
    b[3] = a[3]
    whole = Lorentz(0.5).distance(a, b), Lorentz(0.5).exterior_angle(a, b)
    monkeypatch.setattr(_pairs, "BLOCK", 40)
    assert_same(Lorentz(0.5).distance(a, b), whole[0])
    assert_same(Lorentz(0.5).exterior_angle(a, b), whole[1])
    learning = a.clone().requires_grad_()
    gradient = torch.autograd.grad(Lorentz(0.5).distance(learning, b).sum(), learning)[0]
    monkeypatch.undo()
    torch.testing.assert_close(
        torch.autograd.grad(Lorentz(0.5).distance(learning, b).sum(), learning)[0], gradient
    )


def test_half_precision_is_widened_for_pairs():
    x = points(Lorentz(0.5), 5, dtype=torch.bfloat16)
    assert Lorentz(0.5).distance(x, x).dtype == torch.float32
    torch.testing.assert_close(Lorentz(0.5).distance(x, x), Lorentz(0.5).distance(x.float(), x.float()))


@pytest.mark.parametrize(
    "bad", [0, -1.0, math.nan, math.inf, "warm", None, torch.tensor(0.0), torch.tensor([1.0])]
)
def test_bad_curvature_is_refused(bad):
    with pytest.raises(GeometryError, match="curvature must be") as raised:
        Lorentz(bad)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("geometry", [Lorentz(1.0), Sphere()], ids=lambda geometry: geometry.name)
def test_wrong_points_are_refused(geometry):
    x = torch.randn(3, 4)
    for call in (
        lambda: geometry.distance(x, torch.randn(3, 5)),
        lambda: geometry.similarity(x, x[0]),
        lambda: geometry.distance(x, x[:2], paired=True),
        lambda: geometry.exterior_angle(x, torch.randn(2, 5), root=torch.zeros(4)),
        lambda: geometry.distance(x.long(), x.long()),
        lambda: geometry.lift(np.zeros((3, 4))),
        lambda: geometry.lift(torch.tensor(1.0)),
        lambda: geometry.mean(x[0]),
    ):
        with pytest.raises(GeometryError) as raised:
            call()
        assert "\n" not in str(raised.value)


def test_sphere_says_what_it_lacks():
    x = torch.randn(3, 4)
    for call, what in (
        (lambda: Sphere().half_aperture(x), "no entailment cones"),
        (lambda: Sphere().radius(x), "give root="),
        (lambda: Sphere().entailment(x, x), "give root="),
        (lambda: Sphere().exterior_angle(x, x, root=torch.zeros(5)), r"shape \(4,\)"),
    ):
        with pytest.raises(GeometryError, match=what):
            call()
