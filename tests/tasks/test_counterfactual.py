"""Readings with other radii or flat: what they change, what differences they give, and in which words."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hierbench import registry
from hierbench.contracts import EmbeddingRequests, Embeddings, Estimate, MetricSpec
from hierbench.data.datasets import CaptionChains, Retrieval
from hierbench.errors import DataError, GeometryError, UsageError
from hierbench.geometry import Flat, Lorentz, Product, Sphere
from hierbench.tasks import _readings as readings
from hierbench.tasks.counterfactual import Counterfactual, told

SPACES = [Lorentz(0.7), Product((Lorentz(0.5), Lorentz(2.0))), Flat()]
by_space = pytest.mark.parametrize("geometry", SPACES, ids=lambda geometry: geometry.name)


class Images:
    def __init__(self, count):
        self.ids = tuple(f"i{number}" for number in range(count))


def embedded(texts, images=2, width=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    requests = EmbeddingRequests.of(Images(images).ids, texts)
    return Embeddings(
        requests,
        torch.randn(images, width, generator=generator),
        torch.randn(len(requests.texts), width, generator=generator),
    )


def radii_of(geometry, embeddings, items):
    """(radii, levels) of items in their order: of the mean of each item's points."""
    points = [geometry.mean(embeddings.texts(texts)[None].double())[0] for _, texts in items]
    return geometry.radius(torch.stack(points)).numpy(), np.array([level for level, _ in items])


def directions(vectors):
    return vectors / vectors.norm(dim=-1, keepdim=True)


@by_space
def test_equal_radii_and_the_same_directions(geometry):
    """Two classes of two prompts: each class's point comes to the median radius; images to the images' median."""
    items = [(1, ("a cat", "the cat")), (2, ("a car", "the car")), (2, ("a bus", "the bus"))]
    before = embedded([text for _, texts in items for text in texts] + [""], images=3)
    _, after = readings.EQUALISED.of(geometry, before, items)
    radii, levels = radii_of(geometry, before, items)
    changed, _ = radii_of(geometry, after, items)
    np.testing.assert_allclose(changed, np.median(radii), rtol=1e-5)
    assert levels.tolist() == [1, 2, 2]
    images = geometry.radius(geometry.lift(before.image_features))
    torch.testing.assert_close(
        geometry.radius(geometry.lift(after.image_features)), images.median().expand(3), rtol=1e-5, atol=0
    )
    for name in ("image_features", "text_features"):
        torch.testing.assert_close(directions(getattr(after, name)), directions(getattr(before, name)))
    assert torch.equal(after.texts([""]), before.texts([""]))  # no item: it stays
    assert torch.equal(before.text_features, embedded([*before.requests.texts], images=3).text_features)


def test_shuffling_keeps_the_radii_and_within_levels_their_levels():
    items = [(level, (f"{level} {number}",)) for level in range(4) for number in range(25)]
    before = embedded([texts[0] for _, texts in items], images=40)
    old, levels = radii_of(Lorentz(1.0), before, items)
    for reading, kept in ((readings.SHUFFLED, False), (readings.WITHIN, True)):
        _, after = reading.of(Lorentz(1.0), before, items)
        new, _ = radii_of(Lorentz(1.0), after, items)
        np.testing.assert_allclose(np.sort(new), np.sort(old), rtol=1e-5)
        assert not np.allclose(new, old, rtol=1e-3)
        same = [
            np.allclose(np.sort(new[levels == level]), np.sort(old[levels == level]), rtol=1e-5)
            for level in range(4)
        ]
        assert all(same) == kept
        _, again = reading.of(Lorentz(1.0), before, items)
        assert torch.equal(again.text_features, after.text_features)  # seeded


def test_flat_readings_leave_the_features():
    before = embedded(["a"])
    for reading, by in ((readings.FLAT_COSINE, "cosine"), (readings.FLAT_EUCLIDEAN, "euclidean")):
        geometry, after = reading.of(Lorentz(1.0), before, [(0, ("a",))])
        assert (geometry, after) == (Flat(by), before)


def test_an_item_at_the_origin_stays_there():
    before = embedded(["a", "b", "c"])
    before.text_features[0] = 0
    _, after = readings.EQUALISED.of(Lorentz(1.0), before, [(0, (text,)) for text in "abc"])
    assert not after.text_features[0].any()
    assert after.text_features.isfinite().all()


def test_radii_that_do_not_follow_tangents_are_refused():
    class Bent(Flat):
        def radius(self, points, *, root=None):
            return 1 + super().radius(points)

    with pytest.raises(GeometryError, match="'flat' radii do not grow in proportion"):
        readings.EQUALISED.of(Bent(), embedded(["a", "b"]), [(0, ("a",)), (0, ("b",))])


def test_levels_of_a_dataset():
    chains = CaptionChains(
        "c", Images(2), ("s", "t"), (("thing", "cat", "a cat", "a red cat"), ("thing", "car", "a car", "big car")),
        np.array([0, 1]), pool=("a car", "a moon"),
    )  # fmt: skip
    found = {texts[0]: level for level, texts in readings.items_of(chains)}
    assert found["thing"] == 0
    assert found["a car"] == 2
    assert found["a moon"] == readings.POOL_LEVEL
    assert len(found) == 8
    captions = Retrieval("r", Images(1), ("x", "y", "x"), np.array([0, 0, 0]))
    assert readings.items_of(captions) == [(0, ("x",)), (0, ("y",))]
    with pytest.raises(DataError, match="no levels"):
        readings.items_of(type("Other", (), {"name": "other"})())


@pytest.fixture(scope="module")
def scored():
    """counterfactual/miniature-things on a random model's embeddings: (task, dataset, embeddings, scores)."""
    from hierbench.data.locate import Locations
    from hierbench.data.readers import open_dataset

    task = registry.task("counterfactual/miniature-things")
    dataset = open_dataset("miniature-things", Locations()).limited(60)
    requests = task.requests(dataset)
    generator = torch.Generator().manual_seed(5)
    embeddings = Embeddings(
        requests,
        torch.randn(len(requests.images), 6, generator=generator),
        torch.randn(len(requests.texts), 6, generator=generator),
    )
    return task, dataset, embeddings, task.score(Lorentz(1.0), embeddings, dataset)


def test_differences_are_those_of_two_runs(scored):
    _, dataset, embeddings, scores = scored
    inner = registry.task("hierarchy/miniature-things")
    as_is = inner.score(Lorentz(1.0), embeddings, dataset)
    items = readings.items_of(dataset)
    for reading in readings.READINGS:
        other = inner.score(*reading.of(Lorentz(1.0), embeddings, items), dataset)
        for name in ("tie", "jaccard"):
            expected = other.metrics[name].value - as_is.metrics[name].value
            found = scores.metrics[f"{reading.name}_{name}"]
            assert found.value == pytest.approx(expected, abs=1e-12)
            assert found.low <= found.value <= found.high
    assert scores.metrics["tie"] == as_is.metrics["tie"]
    # paired: the interval is narrower than that of two independent runs would be
    flat = scores.metrics["flat_euclidean_tie"]
    spread = as_is.metrics["tie"].high - as_is.metrics["tie"].low
    assert flat.high - flat.low < 1.5 * spread
    assert len(scores.notes) == len(readings.READINGS)
    assert registry.task("counterfactual/miniature-things").spec.headline == "equalised_tie"


def test_figures_come_again_from_what_is_kept(scored):
    task, *_, scores = scored
    assert task.statistics(scores.items).estimates() == scores.metrics


def test_a_sphere_has_no_radii_to_change():
    task = registry.task("counterfactual/miniature")
    assert "has no origin" in task.inapplicable(Sphere())
    assert task.inapplicable(Lorentz(1.0)) is None
    assert "no entailment cones" in registry.task("counterfactual/miniature-chains").inapplicable(Flat())
    assert not any("shuffled_within" in metric.name for metric in task.spec.metrics)  # one level alone


def test_a_manifest_must_name_what_is_read_otherwise():
    from hierbench.data.manifests import load_manifest

    alone = load_manifest("miniature-things").model_copy(update={"tasks": ("zero-shot", "counterfactual")})
    with pytest.raises(UsageError, match="counterfactual goes with one of hierarchy, pep-v2"):
        Counterfactual.of(alone)


@pytest.mark.parametrize(
    ("better", "difference", "words"),
    [
        (True, Estimate(-0.05, -0.08, -0.02), "AUC 80.0 → 75.0 (-5.0, 95 % -8.0 … -2.0): the radii as they are help"),
        (True, Estimate(0.05, 0.02, 0.08), "the radii as they are hurt this figure."),
        (False, Estimate(0.05, 0.02, 0.08), "help"),
        (True, Estimate(0.01, -0.02, 0.04), "no effect is shown, and one of more than 4.0 is unlikely."),
        (True, Estimate(0.0, 0.0, 0.0), "AUC 80.0 → 80.0: nothing changes in this figure."),
        (True, Estimate(0.01), "too few items to say more."),
    ],
)  # fmt: skip
def test_words_claim_no_more_than_the_interval(better, difference, words):
    metric = MetricSpec("auc", "AUC", higher_is_better=better, unit="fraction")
    assert words in told(readings.EQUALISED, metric, Estimate(0.8), difference)
    flat = told(readings.FLAT_COSINE, replace(metric, unit="raw"), Estimate(0.8), Estimate(-0.1, -0.2, -0.05))
    assert ("better" if better else "worse") in flat
