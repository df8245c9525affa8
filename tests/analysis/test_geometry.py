"""The report on a model's geometry: verdicts on planted points, known δ, correlations by scipy."""

import functools
import itertools

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from hierbench.analysis import hyperbolicity
from hierbench.analysis.depth import follow
from hierbench.analysis.geometry import look
from hierbench.analysis.geometry_words import of_depth, summary, table
from hierbench.analysis.hyperbolicity import relative_delta
from hierbench.contracts import EmbeddingRequests, Embeddings
from hierbench.data.datasets import CaptionChains
from hierbench.geometry import Flat, Lorentz, Product, Sphere

SAMPLES, WIDTH = 80, 8


class Images:
    def __init__(self, count):
        self.ids = tuple(f"i{number}" for number in range(count))


class Plain:
    """A task that is read otherwise in no way: where points lie is looked at alone."""

    def items(self, dataset):
        return [(level, (chain[level],)) for chain in dataset.captions for level in range(4)]

    def inapplicable(self, geometry):
        return "nothing is changed here"


def planted(radius, direction, seed):
    """Chains of distinct captions whose level is in the radius (−1: backwards), in the direction, or not."""
    draw = np.random.default_rng(seed)
    chains = tuple(tuple(f"{s} {level}" for level in range(4)) for s in range(SAMPLES))
    dataset = CaptionChains("c", Images(SAMPLES), tuple(map(str, range(SAMPLES))), chains, np.arange(SAMPLES))
    levels = np.tile(np.arange(4), SAMPLES)
    way = draw.standard_normal((len(levels), 2, WIDTH // 2))  # alike in both factors of a product
    if direction:
        way[:, :, 0] += 4.0 * levels[:, None]
    way = (way / np.linalg.norm(way, axis=2, keepdims=True)).reshape(len(levels), WIDTH) / 2**0.5
    length = draw.uniform(0.5, 1.0, len(levels)) + 0.3 * radius * (levels - (3 if radius < 0 else 0))
    texts = [caption for chain in chains for caption in chain]
    features = torch.from_numpy(way * length[:, None]).float()
    images = torch.from_numpy(draw.standard_normal((SAMPLES, WIDTH))).float()
    return Embeddings(EmbeddingRequests.of(dataset.images.ids, texts), images, features), dataset


@pytest.fixture(scope="module", autouse=True)
def few_sets():
    """δ, which takes half the time of a look, over a few sets of points: what is said of depth goes not by it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hyperbolicity, "SETS", 4)
        yield


@functools.cache
def looked(geometry, radius, direction):
    return look(geometry, *planted(radius, direction, 3), Plain())


WORDS = {
    (1, 1): "Depth is in the radius and in the direction.",
    (1, 0): "Depth is in the radius; in the direction it is not shown.",
    (0, 1): "Depth is in the direction; in the radius it is not shown.",
    (0, 0): "Depth is shown neither in the radius nor in the direction.",
    (
        -1,
        0,
    ): "In the direction depth is not shown; in the radius it is the wrong way round: general captions lie "
    "farther out.",
}


@pytest.mark.parametrize(
    "geometry", [Lorentz(0.7), Product((Lorentz(0.5), Lorentz(2.0))), Flat()], ids=lambda g: g.name
)
@pytest.mark.parametrize(("radius", "direction"), WORDS)
def test_the_verdict_on_planted_points(geometry, radius, direction):
    found = looked(geometry, radius, direction)
    assert of_depth(found) == WORDS[radius, direction]


@pytest.mark.parametrize("direction", [0, 1])
def test_a_sphere_has_no_radii(direction):
    found = looked(Sphere(), 1, direction)
    assert found.radius is None
    assert of_depth(found).endswith("there are no radii.")
    assert ("not shown" in of_depth(found)) == (not direction)
    assert {"radius", "cones"} <= set(found.missing)


def test_correlation_is_scipys():
    draw = np.random.default_rng(0)
    values, levels = draw.integers(0, 9, 60).astype(float), draw.integers(0, 4, 60)
    found = follow(values, levels, np.arange(60)[None])
    assert found.correlation.value == pytest.approx(spearmanr(values, levels).statistic, abs=1e-12)
    assert follow(np.ones(60), levels, np.arange(60)[None]).correlation.value == 0


def test_chance_is_that_of_all_orders():
    """Of six items without ties: the middle 95 % of scipy's correlation over all 720 orders."""
    levels = np.arange(6)
    every = [spearmanr(levels, order).statistic for order in itertools.permutations(range(6))]
    expected = np.quantile(every, [0.025, 0.975])
    for near in (None, np.arange(6)[:, None]):  # each item its own neighbour: always told, and so is chance
        found = follow(np.array([3.0, 1, 4, 0, 5, 2]), levels, np.arange(6)[None], near)
        assert found.null == pytest.approx(expected, abs=0.06) if near is None else found.null[1] == 1


def test_a_level_of_few_captions_shows_nothing():
    """Chains that share one general caption and three below it, radii drawn at random: whether these few lie farther in
    is chance, though each of the samples says the same."""
    levels = np.array([0] + [1] * 3 + [2] * 12)
    samples = np.array([[0, 1 + s // 4, 4 + s] for s in range(12)])
    radii = [np.random.default_rng(seed).random(16) for seed in range(20)]
    assert sum(follow(one, levels, samples).shown != 0 for one in radii) <= 2
    assert all(follow(one + 3.0 * levels, levels, samples).shown == 1 for one in radii[:5])


def test_delta_of_a_tree_and_of_a_cycle():
    star = 2 * (1 - np.eye(6))  # leaves of a star
    assert relative_delta(star) == 0
    cycle = np.array([[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]], float)
    assert relative_delta(cycle) == 1  # sums 2, 4, 2: the two larger differ by 2, the diameter


def test_a_cone_is_a_half_space_near_the_origin():
    """√κ‖x̃‖ ≤ 0.2: sinh(0.19) = 0.191 is within, sinh(0.21) = 0.2115 beyond."""
    for length, share in ((0.19, 1.0), (0.21, 0.0)):
        embeddings, dataset = planted(0, 0, 1)
        features = length * torch.nn.functional.normalize(embeddings.text_features, dim=-1)
        embeddings = Embeddings(embeddings.requests, embeddings.image_features, features)
        found = look(Lorentz(1.0), embeddings, dataset, Plain())
        assert {place.half_spaces for place in found.places[:-1]} == {share}
        assert found.places[0].radius["p50"] == pytest.approx(length, rel=1e-5)
        assert found.places[0].excess == pytest.approx(np.sinh(length) / length - 1, rel=1e-4)


@pytest.fixture(scope="module")
def looks():
    return {
        f"a-{name}": looked(geometry, *depth)
        for name, geometry, depth in (
            ("both", Lorentz(0.7), (1, 1)),
            ("none", Lorentz(0.7), (0, 0)),
            ("back", Lorentz(0.7), (-1, 0)),
            ("ball", Sphere(), (1, 1)),
        )
    }


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_tables_fit_their_screen_and_say_what_they_leave_out(looks, width):
    rows, left_out = table(looks, width)
    wide = [
        max(len(line) for cell in (h, *(row[h] for row in rows)) for line in cell.split("\n"))
        for h in rows[0]
    ]
    assert sum(wide) + len(wide) <= width or len(left_out) >= 4
    assert bool(left_out) == (width == 60)
    assert [row["on c"] for row in rows] == ["a-both", "a-none", "a-back", "a-ball"]
    assert summary(looks) == (
        "Depth: in radius and direction (both); not shown (none); the wrong way round in the radius (back); "
        "in the direction, without radii (ball). Nothing to change: there are no radii."
    )
