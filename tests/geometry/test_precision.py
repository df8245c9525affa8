"""Both geometries against their textbook formulas in 70 digits: norms from 1e-6 to 1e3, curvatures from 0.1 to 10."""

import itertools
import math

import mpmath as mp
import pytest
import torch

from hierbench.geometry import Lorentz, Sphere

RTOL = 1e-6
EDGE = 1e-3  # angles nearer than this to 0 and π are not held to RTOL
COINCIDENT = 2**-19  # of the norm: what counts as one point


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(70):
        yield


def cases(dtype, dim=7):
    """Rows x and y (P, dim): all sizes against all sizes, directions equal, close, unrelated and opposite."""
    draw = torch.Generator().manual_seed(5)

    def unit():
        v = torch.randn(dim, generator=draw, dtype=torch.float64)
        return v / v.norm()

    rows = []
    for low, high in itertools.product([1e-6, 1e-3, 0.3, 20.0, 1e3], repeat=2):
        for apart in (0.0, 3e-7, 1e-4, 1e-2, 1.0):
            u = unit()
            rows.append((low * u, high * (u + apart * unit())))
        rows.append((low * u, -high * u))
    for size in (1e-6, 0.3, 1e3):
        for apart in (1e-7, 1e-6, 8e-6, 3e-5, 1e-4, 1e-3, 1e-2):  # nearly coincident
            u = unit()
            rows.append((size * u, size * (u + apart * unit())))
    x, y = (torch.stack(side).to(dtype) for side in zip(*rows, strict=True))
    return x, y


def exact(row):
    return [mp.mpf(value) for value in row.tolist()]


def dot(x, y):
    return mp.fsum(a * b for a, b in zip(x, y, strict=True))


def lorentz_reference(x, y, κ):
    """(d, φ) by MERU's formulas; φ None where it is not defined."""
    x, y, κ = exact(x), exact(y), mp.mpf(κ)
    x0, y0 = mp.sqrt(1 / κ + dot(x, x)), mp.sqrt(1 / κ + dot(y, y))
    inner = dot(x, y) - x0 * y0
    if x == y:
        return 0, None
    below = mp.sqrt(dot(x, x)) * mp.sqrt((κ * inner) ** 2 - 1)
    cosine = (y0 + x0 * κ * inner) / below
    return mp.acosh(-κ * inner) / mp.sqrt(κ), mp.acos(max(min(cosine, 1), -1))


def relative(got, want):
    return abs(float((mp.mpf(got) - want) / want))


def one_point(x, y):
    """Whether two rows are apart by rounding alone; None near the limit."""
    part = float((x.double() - y.double()).norm() / x.double().norm())
    return None if COINCIDENT / 1.01 < part < 1.5 * COINCIDENT else part < COINCIDENT


def well_conditioned(angle):
    return angle is not None and EDGE < angle < mp.pi - EDGE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("κ", [0.1, 1.0, 10.0])
def test_lorentz_pairs(κ, dtype):
    x, y = cases(dtype)
    geometry = Lorentz(κ)
    functions = (geometry.distance, geometry.exterior_angle, geometry.entailment)
    paired = [function(x, y, paired=True).tolist() for function in functions]
    crossed = [function(x, y).diagonal().tolist() for function in functions]
    angles = 0
    for row in range(len(x)):
        distance, angle = lorentz_reference(x[row], y[row], κ)
        for results in (paired, crossed):
            if distance:
                assert relative(results[0][row], distance) < RTOL
            else:
                assert results[0][row] == 0
            if one_point(x[row], y[row]):
                assert results[1][row] == pytest.approx(math.pi / 2, rel=RTOL)
                assert results[2][row] == 0
            elif well_conditioned(angle):
                angles += 1
                assert relative(results[1][row], angle) < RTOL
                assert abs(results[2][row] - max(1 - 2 * angle / mp.pi, 0)) < RTOL
    assert angles > 100  # the edge cases did not swallow the test


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("κ", [0.1, 1.0, 10.0])
def test_lorentz_points(κ, dtype):
    x, _ = cases(dtype)
    geometry = Lorentz(κ)
    radius, aperture = geometry.radius(x).tolist(), geometry.half_aperture(x).tolist()
    length = x.double().norm(dim=1, keepdim=True)
    tangent = (x * ((κ**0.5 * length).asinh() / (κ**0.5 * length).clamp(min=1e-300))).to(dtype)
    lifted = geometry.lift(tangent)
    for row in range(len(x)):
        point, κ_ = exact(x[row]), mp.mpf(κ)
        norm = mp.sqrt(dot(point, point))
        assert relative(radius[row], mp.asinh(mp.sqrt(κ_) * norm) / mp.sqrt(κ_)) < RTOL
        assert relative(aperture[row], mp.asin(min(1, mp.mpf("0.2") / (mp.sqrt(κ_) * norm)))) < RTOL
        v = exact(tangent[row])
        length = mp.sqrt(κ_ * dot(v, v))
        assert relative(lifted[row, 0].item(), mp.sinh(length) / length * v[0]) < RTOL


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sphere_pairs(dtype):
    x, y = (Sphere().lift(side) for side in cases(dtype))
    root = Sphere().lift(torch.ones(x.shape[1], dtype=dtype))
    distance = Sphere().distance(x, y, paired=True), Sphere().distance(x, y).diagonal()
    angle = (
        Sphere().exterior_angle(x, y, paired=True, root=root),
        Sphere().exterior_angle(x, y, root=root).diagonal(),
    )
    radius = Sphere().radius(x, root=root)
    for row in range(len(x)):
        g, s, o = exact(x[row]), exact(y[row]), exact(root)
        cosine = dot(g, s) / mp.sqrt(dot(g, g) * dot(s, s))
        between = mp.acos(max(min(cosine, 1), -1))
        out, step = ([p - q for p, q in zip(*ends, strict=True)] for ends in ((g, o), (s, g)))
        assert relative(radius[row].item(), mp.sqrt(dot(out, out))) < RTOL
        lengths = mp.sqrt(dot(out, out) * dot(step, step))
        exterior = mp.acos(dot(out, step) / lengths) if lengths else None
        for results in zip(distance, angle, strict=True):
            if between:
                assert relative(results[0][row].item(), between) < RTOL
            else:
                assert results[0][row] == 0
            if lengths and one_point(x[row] - root, y[row] - root):
                assert results[1][row] == pytest.approx(math.pi / 2, rel=RTOL)
            elif between > 1e-5 and well_conditioned(exterior):  # subtracting the root rounds
                assert relative(results[1][row].item(), exterior) < RTOL
