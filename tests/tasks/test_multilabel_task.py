"""Multi-label tasks: by hand, against the metric, and what readers of a figure are told."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hierbench import metrics, registry
from hierbench.contracts import Embeddings, Fit
from hierbench.data.datasets import MultiLabel, subset
from hierbench.errors import MetricError
from hierbench.geometry import Lorentz, Sphere
from hierbench.miniature.vocabulary import KINDS

GEOMETRIES = [Sphere(), Lorentz(0.7)]


@pytest.fixture
def scenes(classification):
    """scenes(present, names, ignored) -> images with these labels; two templates."""

    def build(present, names, ignored=None):
        single = classification([0] * len(present), names)
        ignored = None if ignored is None else np.array(ignored, bool)
        return MultiLabel(
            "scenes", single.images, np.array(present, bool), single.class_ids, single.class_names,
            single.templates, ignored,
        )  # fmt: skip

    return build


def by_axis(requests, names, where):
    """Prompts of class k point along axis k, image i to where[i]."""
    axis = torch.eye(len(names))
    texts = torch.stack([axis[names.index(text.rstrip(".").split()[-1])] for text in requests.texts])
    return Embeddings(requests, torch.tensor(where, dtype=torch.float32), texts)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_scores_by_hand(scenes, geometry):
    names = ["x", "y", "z"]
    dataset = scenes([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 0]], names)
    task = registry.task("multilabel/voc2007")
    # unit vectors; along x the order is 0 2 1 3, so AP = (1 + 2/3) / 2; along y it is 3 1 2 0, perfect
    where = [[0.9, 0.1, 0.4], [0.5, 0.7, 0.5], [0.6, 0.6, 0.5], [0.1, 0.9, 0.4]]
    where = [[c / sum(v * v for v in row) ** 0.5 for c in row] for row in where]
    scores = task.score(geometry, by_axis(task.requests(dataset), names, where), dataset)
    assert scores.metrics["map"].value == pytest.approx(100 * (5 / 6 + 1) / 2)
    assert scores.n == 4
    assert scores.notes == ("the mean is over the 2 of 3 classes that have images",)
    assert scores.items["classes"]["average_precision"][:2] == pytest.approx([5 / 6, 1])
    assert np.isnan(scores.items["classes"]["average_precision"][2])
    assert scores.items["classes"]["images"].tolist() == [2, 3, 0]
    hidden = replace(dataset, ignored=np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]], bool))
    again = task.score(geometry, by_axis(task.requests(hidden), names, where), hidden)
    assert again.metrics["map"].value == pytest.approx(100)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_figure_is_the_metric_of_the_similarities(scenes, embed, geometry):
    rng = np.random.default_rng(0)
    dataset = scenes(rng.random((30, 4)) < 0.4, list("abcd"), rng.random((30, 4)) < 0.1)
    task = registry.task("multilabel/coco")
    requests = task.requests(dataset)
    assert requests.images == dataset.images.ids
    assert requests.texts == tuple(f"{t} {n}." for n in "abcd" for t in ("a", "a photo of"))
    embeddings = embed(requests)
    scores = task.score(geometry, embeddings, dataset)
    classes = torch.stack([geometry.mean(embeddings.texts([f"a {n}.", f"a photo of {n}."])) for n in "abcd"])
    similarity = geometry.similarity(geometry.lift(embeddings.image_features), classes)
    expected = metrics.multilabel(similarity, dataset.present, dataset.ignored)["map"]
    assert scores.metrics["map"].value == pytest.approx(expected, rel=1e-6)
    assert scores.metrics["map"].low < expected < scores.metrics["map"].high
    assert scores.notes == ()
    order = rng.permutation(30)
    shuffled = replace(
        dataset,
        images=subset(dataset.images, order),
        present=dataset.present[order],
        ignored=dataset.ignored[order],
    )
    again = task.score(geometry, embed(task.requests(shuffled)), shuffled)
    assert again.metrics["map"].value == pytest.approx(scores.metrics["map"].value)


def test_tasks_and_their_datasets():
    """COCO's boxes are a dataset of their own: its captions are `coco`."""
    found = {name: registry.task(f"multilabel/{name}").spec for name in ("voc2007", "coco", "comco", "simco")}
    assert [spec.dataset for spec in found.values()] == ["voc2007", "coco-objects", "comco", "simco"]
    assert {(spec.fit, spec.headline) for spec in found.values()} == {(Fit.SQUEEZE, "map")}


def test_names_that_classes_share_are_told(scenes, embed):
    dataset = scenes([[1, 0, 1], [0, 1, 0]], ["cat", "dog", "cat"])
    task = registry.task("multilabel/comco")
    scores = task.score(Sphere(), embed(task.requests(dataset)), dataset)
    assert scores.notes[-1].startswith("2 classes with 2 images share names (cat): their scores tie")
    points = np.array(scores.items["images"]["scores"])
    assert np.allclose(points[:, 0], points[:, 2])


def test_bad_input(scenes, embed):
    task = registry.task("multilabel/simco")
    empty = scenes([[0, 0], [0, 0]], ["cat", "dog"])
    with pytest.raises(MetricError, match="no class has a positive"):
        task.score(Sphere(), embed(task.requests(empty)), empty)


def test_images_at_one_point_are_degenerate(scenes, embed):
    dataset = scenes([[1, 0], [0, 1]], ["cat", "dog"])
    task = registry.task("multilabel/simco")
    embeddings = embed(task.requests(dataset))
    assert task.score(Sphere(), embeddings, dataset).degenerate == {}
    embeddings.image_features[:] = embeddings.image_features[0]
    found = task.score(Sphere(), embeddings, dataset).degenerate
    assert found == {"map": "every image has the same embedding: the order of ties decides"}


def test_the_miniatures_two_thing_scenes():
    from hierbench.miniature.datasets import dataset

    found = dataset("miniature-objects")
    assert found.present.shape == (len(found.images.ids), len(KINDS))
    assert (found.present.sum(1) == 2).all()
    assert found.class_ids == tuple(kind.synset for kind in KINDS)
    assert found.class_names == tuple(kind.name for kind in KINDS)
