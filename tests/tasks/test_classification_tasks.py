from dataclasses import replace

import numpy as np
import pytest
import torch

from hierbench import metrics, registry
from hierbench.contracts import Embeddings, Fit
from hierbench.data.datasets import subset
from hierbench.errors import DataError
from hierbench.geometry import Lorentz, Sphere
from hierbench.tasks.zero_shot import classify
from hierbench.taxonomy import imagenet1k

GEOMETRIES = [Sphere(), Lorentz(0.7)]


def test_hierarchy_asks_for_what_zero_shot_asks_for(classification):
    dataset = classification([0, 1, 1], ["dog", "cat"])
    zero_shot, hierarchy = registry.task("zero-shot/imagenet"), registry.task("hierarchy/imagenet")
    requests = zero_shot.requests(dataset)
    assert hierarchy.requests(dataset) == requests
    assert requests.images == dataset.images.ids
    assert requests.texts == ("a dog.", "a photo of dog.", "a cat.", "a photo of cat.")
    assert zero_shot.spec.fit is hierarchy.spec.fit is Fit.CROP
    assert zero_shot.spec.dataset == hierarchy.spec.dataset == "imagenet"


def test_names_that_occur_twice_are_asked_for_once(classification, embed):
    """The earlier of two classes of one name gets the images, as in the released evaluators."""
    dataset = classification([2, 2, 2, 2, 2], ["dog", "missile", "missile"])
    task = registry.task("zero-shot/imagenet")
    requests = task.requests(dataset)
    assert len(requests.texts) == 4
    assert set(classify(Sphere(), embed(requests), dataset)) <= {0, 1}


@pytest.mark.parametrize("name", ["zero-shot/imagenet", "hierarchy/imagenet"])
def test_ties_of_names_that_stand_twice_are_reported(classification, embed, name):
    tree = imagenet1k()
    names = [f"name {c}" for c in tree.leaves]
    names[7] = names[3]
    dataset = classification([3, 7, 7, 8], names, tree.leaves, "imagenet1k")
    task = registry.task(name)
    notes = task.score(Sphere(), embed(task.requests(dataset)), dataset).notes
    said = f"2 classes with 3 images share names ({names[3]}): their scores tie, and a prediction goes to the first"
    assert notes[-1] == said
    told_apart = replace(dataset, class_names=tuple(f"name {c}" for c in tree.leaves))
    assert len(task.score(Sphere(), embed(task.requests(told_apart)), told_apart).notes) == len(notes) - 1


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_scores_by_hand(classification, geometry):
    """Prompts of class k point along axis k; images lie near an axis of our choice."""
    names, labels, seen = ["x", "y", "z"], [0, 0, 0, 1, 1], [0, 0, 2, 1, 0]
    dataset = classification(labels, names)
    task = registry.task("zero-shot/imagenet")
    requests = task.requests(dataset)
    axis = torch.eye(3)
    texts = torch.stack([axis[names.index(text.rstrip(".").split()[-1])] for text in requests.texts])
    scores = task.score(geometry, Embeddings(requests, axis[seen] + 0.1, texts), dataset)
    # class x: 2 of 3, y: 1 of 2, z is predicted but has no image
    assert scores.metrics["mean_per_class"].value == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)
    assert scores.metrics["top1"].value == pytest.approx(60)
    corrected = replace(task, protocol="corrected").score(
        geometry, Embeddings(requests, axis[seen] + 0.1, texts), dataset
    )
    assert corrected.metrics["mean_per_class"].value == pytest.approx(100 * (2 / 3 + 1 / 2) / 2)
    assert scores.n == 5
    assert scores.notes == ("images of 2 of 3 classes; the names of all 3 compete",)
    table = scores.items["images"]
    assert table["image_id"] == list(dataset.images.ids)
    assert table["predicted"].tolist() == seen
    assert table["correct"].tolist() == [True, True, False, True, False]
    for estimate in scores.metrics.values():
        assert estimate.low <= estimate.value <= estimate.high


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
@pytest.mark.parametrize("name", ["zero-shot/imagenet", "hierarchy/imagenet"])
def test_order_of_images_does_not_matter(classification, embed, name, geometry):
    tree = imagenet1k()
    labels = np.random.default_rng(0).integers(0, 1000, 60)
    dataset = classification(labels, [f"name {c}" for c in tree.leaves], tree.leaves, "imagenet1k")
    order = np.random.default_rng(1).permutation(60)
    shuffled = replace(dataset, images=subset(dataset.images, order), labels=labels[order])
    task = registry.task(name)
    figures, again = (
        {k: e.value for k, e in task.score(geometry, embed(task.requests(d)), d).metrics.items()}
        for d in (dataset, shuffled)
    )
    assert again == pytest.approx(figures)


def test_hierarchy_scores_the_zero_shot_predictions(classification, embed):
    tree = imagenet1k()
    labels = np.arange(0, 1000, 20)
    dataset = classification(labels, [f"name {c}" for c in tree.leaves], tree.leaves, "imagenet1k")
    zero_shot, task = registry.task("zero-shot/imagenet"), registry.task("hierarchy/imagenet")
    embeddings = embed(zero_shot.requests(dataset))
    predicted = zero_shot.score(Sphere(), embeddings, dataset).items["images"]["predicted"]
    scores = task.score(Sphere(), embeddings, dataset)
    expected = metrics.hierarchy(predicted, labels, tree)
    figures = {name: estimate.value for name, estimate in scores.metrics.items()}
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    normalised = {f"{error}_by_{norm}" for error in ("tie", "lca") for norm in ("depth", "chance")}
    assert figures.keys() - expected.keys() == {"lca_symmetric", "jaccard_distance", *normalised}
    assert scores.items["images"]["tie"].mean() == pytest.approx(expected["tie"])
    assert all(estimate.low < estimate.value < estimate.high for estimate in scores.metrics.values())


def test_hierarchy_needs_a_taxonomy(classification, embed):
    dataset = classification([0, 1], ["dog", "cat"])
    task = registry.task("hierarchy/imagenet")
    with pytest.raises(DataError, match="shapes names no taxonomy"):
        task.score(Sphere(), embed(task.requests(dataset)), dataset)
