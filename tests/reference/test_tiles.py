"""Contrastive terms in tiles: torch's own cross-entropy on the whole matrix is what they are held to."""

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from hierbench.geometry import Lorentz, Product, Sphere
from hierbench.reference.objectives import Embedded, Sharing
from hierbench.reference.objectives.contrastive import Contrastive
from hierbench.reference.objectives.tiles import parts_of, row_losses, tile_shape

SPACES = ("cosine", "lorentz", "l1", "l2")


def space(kind, curvatures):
    """A geometry on 12 components whose curvatures are learned."""
    factors = tuple(map(Lorentz, curvatures))
    return {
        "cosine": lambda: Sphere(),
        "lorentz": lambda: factors[0],
        "l1": lambda: Product(factors),
        "l2": lambda: Product(factors, metric="l2"),
    }[kind]()


def inputs(kind, n=17, m=23, width=12, dtype=torch.float64):
    draw = torch.Generator().manual_seed(3)
    curvatures = torch.tensor([0.7, 1.3, 2.0], dtype=dtype)
    geometry = space(kind, curvatures)
    a, b = (geometry.lift(torch.randn(rows, width, generator=draw, dtype=dtype)) for rows in (n, m))
    leaves = {"queries": a, "targets": b, "curvatures": curvatures}
    leaves["scale"] = 3 + torch.rand(n, 1, generator=draw, dtype=dtype)
    own = torch.randint(m, (n,), generator=draw)
    shown = torch.rand(m, generator=draw) < 0.7
    shown[own] = True
    weights = torch.rand(n, generator=draw, dtype=dtype)
    return {name: leaf.detach().requires_grad_() for name, leaf in leaves.items()}, own, shown, weights


def dense(kind, leaves, own, shown):
    """By torch's cross-entropy, on the whole matrix."""
    geometry = space(kind, leaves["curvatures"].unbind())
    a, b = leaves["queries"], leaves["targets"]
    closeness = a @ b.T if kind == "cosine" else -geometry.distance(a, b)
    logits = leaves["scale"] * closeness
    if shown is not None:
        logits = logits[:, shown]
        own = (shown.cumsum(0) - 1)[own]
    return F.cross_entropy(logits, own, reduction="none")


def gradients(losses, weights, leaves):
    found = torch.autograd.grad((losses * weights).sum(), list(leaves.values()), allow_unused=True)
    return {name: value for name, value in zip(leaves, found, strict=True) if value is not None}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("one_scale", [False, True])
@pytest.mark.parametrize("kind", SPACES)
def test_losses_and_gradients_are_those_of_the_whole_matrix(kind, one_scale, masked):
    leaves, own, shown, weights = inputs(kind)
    shown = shown if masked else None
    if one_scale:
        leaves["scale"] = torch.tensor(4.0, dtype=torch.float64, requires_grad=True)
    expected = dense(kind, leaves, own, shown)
    wanted = gradients(expected, weights, leaves)
    geometry = space(kind, leaves["curvatures"].unbind())
    for tile_mib in (0.01, 0.03, 64):  # many tiles both ways, few, one
        rows, columns = tile_shape(parts_of(geometry, 12)[0], leaves["queries"], 23, tile_mib)
        assert (rows < 17 and columns < 23) or tile_mib > 0.01
        points = leaves["queries"], leaves["targets"]
        found = row_losses(geometry, *points, leaves["scale"], own, shown, tile_mib)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        given = gradients(found, weights, leaves)
        assert given.keys() == wanted.keys()
        for name, gradient in given.items():
            assert (gradient - wanted[name]).norm() <= 1e-11 * wanted[name].norm(), name


@pytest.mark.parametrize("kind", SPACES)
def test_in_float32(kind):
    leaves, own, shown, weights = inputs(kind, dtype=torch.float32)
    expected = dense(kind, leaves, own, shown)
    wanted = gradients(expected, weights, leaves)
    geometry = space(kind, leaves["curvatures"].unbind())
    found = row_losses(geometry, leaves["queries"], leaves["targets"], leaves["scale"], own, shown, 0.01)
    assert (found - expected).norm() <= 1e-5 * expected.norm()
    for name, gradient in gradients(found, weights, leaves).items():
        assert (gradient - wanted[name]).norm() <= 1e-5 * wanted[name].norm(), name


def test_a_process_scores_its_own_rows_alone():
    """Its losses are what the others get from it; here the second of two processes, of three rows each."""
    leaves, *_ = inputs("lorentz", 6, 6)
    with torch.no_grad():
        points = {"image": leaves["queries"], "text": leaves["targets"]}
        whole = dense("lorentz", leaves | {"scale": torch.tensor(2.0)}, torch.arange(6), None)
    handed = []

    def gather(rows):
        handed.append(rows)
        return torch.cat([torch.zeros(3, dtype=torch.float64), rows])

    geometry = Lorentz(leaves["curvatures"][0].detach())
    batch = Embedded(
        geometry, scales={"logit_scale": torch.tensor(2.0)}, sharing=Sharing(1, 2, gather), **points
    )
    loss, _ = Contrastive(pairs=(("image", "text"),))(batch)
    torch.testing.assert_close(handed[0], whole[3:])
    torch.testing.assert_close(loss, whole[3:].sum() / 6)


def peak_bytes(work):
    """The most that tensors on the CPU fill at any moment of `work`, by the allocator's own events."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        kept = work()
    del kept
    events = [each for each in seen.profiler.kineto_results.events() if each.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


@pytest.mark.parametrize("kind", SPACES)
def test_a_tile_fills_no_more_than_it_may(kind):
    width, side = 48, 280
    leaves, _, _, _ = inputs(kind, side, side, width)
    own = torch.arange(side)
    geometry = space(kind, leaves["curvatures"].unbind())
    tile_mib = 1
    assert max(tile_shape(parts_of(geometry, width)[0], leaves["queries"], side, tile_mib)) < side

    def work():
        losses = row_losses(
            geometry, leaves["queries"], leaves["targets"], leaves["scale"], own, None, tile_mib
        )
        return gradients(losses, 1, leaves)

    gradient = 2 * side * width * 8  # of the points
    peak = peak_bytes(work)
    assert tile_mib * 2**20 / 2 <= peak <= tile_mib * 2**20 + gradient + 40 * side * 8  # figures of each row
