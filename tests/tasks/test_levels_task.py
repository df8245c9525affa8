"""The tasks on class trees: which strings they ask for, planted models whose figures are known, parts of datasets."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hierbench import registry
from hierbench.contracts import Embeddings
from hierbench.data.manifests import load_manifest
from hierbench.errors import DataError
from hierbench.geometry import Lorentz, Sphere

TREE = {"root": {"living": {"animal": ["dog", "cat"], "plants": ["moss"]}, "thing": ["car"]}}
CLASSES = ("dog", "cat", "moss", "car")
TASK = "levels/mine"


@pytest.fixture
def task(tmp_path):
    levels = registry.task("levels/pets")
    return replace(levels, name=TASK, keys=("1", "2"))


def planted(task, dataset, knows):
    """Embeddings where image n lies at the sum of the axes of the names in `knows[n]`, and a string at its name's."""
    requests = task.requests(dataset)
    names = sorted(
        {text.removeprefix("a photo of ").removeprefix("a ").rstrip(".") for text in requests.texts}
    )
    axis = torch.eye(len(names))
    texts = torch.stack(
        [
            axis[names.index(t.removeprefix("a photo of ").removeprefix("a ").rstrip("."))]
            for t in requests.texts
        ]
    )
    images = torch.stack(
        [sum(axis[names.index(name)] * weight for name, weight in known.items()) for known in knows]
    )
    return Embeddings(requests, images, texts)


@pytest.mark.parametrize("geometry", [Sphere(), Lorentz(1.0)], ids=lambda g: g.name)
def test_planted_images(classification, task, geometry):
    dataset = classification([0, 1, 2, 3], CLASSES, CLASSES, TREE)
    knows = [
        {"dog": 3.0, "animal": 2.0, "living": 1.0},  # all right
        {"dog": 3.0, "animal": 2.0, "living": 1.0},  # a cat taken for a dog
        {"moss": 3.0, "animal": 2.0, "thing": 1.0},  # its leaf alone
        {"car": 3.0, "thing": 2.0, "plants": 1.0},  # at depth 2 its own name is the answer
    ]
    scores = task.score(geometry, planted(task, dataset, knows), dataset)
    figures = {name: estimate.value for name, estimate in scores.metrics.items()}
    assert figures["leaf"] == 75
    assert figures["hca"] == 50
    assert figures["accuracy_1"] == 75
    assert figures["accuracy_2"] == 75
    assert figures["gain_1"] == 75 - 100
    assert figures["gain_2"] == 75 - 100
    assert figures["por"] == pytest.approx(100 * np.mean([1, 2 / 3, 1 / 3, 1]))
    assert figures["strict_por"] == pytest.approx(100 * np.mean([1, 2 / 3, 0, 1]))
    assert figures["tor"] == pytest.approx(100 * np.mean([1, 1 / 2, 0, 1]))
    assert figures["consistency"] == 75
    table = scores.items["images"]
    assert table["predicted"].tolist() == [0, 0, 2, 3]
    assert (scores.n, scores.notes) == (4, ())


def test_strings_are_the_names_of_all_nodes_below_the_root_once_each(classification, task):
    dataset = classification(
        [0], CLASSES, CLASSES, {"root": {"living_thing": {"dog_": ["dog"]}, "car": {"x": ["cat"]}}}
    )
    dataset = replace(
        dataset, class_ids=("dog", "cat"), class_names=("dog", "car"), node_names={"x": "feline"}
    )
    texts = task.requests(dataset).texts
    names = ["dog", "car", "dog ", "living thing", "feline"]  # car is a class's name and an inner node's
    assert set(texts) == {f"a {name}." for name in names} | {f"a photo of {name}." for name in names}
    assert len(set(texts)) == len(texts)


def test_every_inner_node_may_be_a_class_itself(classification, task, embed):
    tree = {"root": {"dog": ["poodle", "beagle"], "cat": None}}
    classes = ("poodle", "beagle", "dog", "cat")
    dataset = classification([0, 1, 2, 3], classes, classes, tree)
    task = replace(task, keys=("1",))
    knows = [{"poodle": 2.0, "dog": 1.0}, {"dog": 2.0, "beagle": 1.0}, {"dog": 1.0}, {"cat": 1.0}]
    scores = task.score(Sphere(), planted(task, dataset, knows), dataset)
    figures = {name: estimate.value for name, estimate in scores.metrics.items()}
    assert figures["leaf"] == 75
    assert figures["accuracy_1"] == 100
    assert figures["hca"] == 75
    assert figures["por"] == pytest.approx(100 * np.mean([1, 1 / 2, 1, 1]))


def test_names_that_nodes_of_a_level_share_are_noted(classification, task, embed):
    tree = {"root": {"a": {"p": ["dog"]}, "b": {"q": ["cat"]}, "c": ["moss", "car"]}}
    dataset = replace(
        classification([0, 1, 2, 3], CLASSES, CLASSES, tree), node_names={"a": "pet", "b": "pet"}
    )
    scores = task.score(Sphere(), embed(task.requests(dataset)), dataset)
    assert scores.notes == (
        "nodes of one level share names (pet): their scores tie, and an answer goes to the first",
    )


@pytest.mark.parametrize("kind", ["hierarchy", "levels"])
def test_classes_outside_the_tree_are_left_out(classification, embed, kind):
    """The same figures as of a dataset that never had them, and a note."""
    task = registry.task("hierarchy/pets")
    if kind == "levels":
        task = replace(registry.task("levels/pets"), keys=("1", "2"))
    labels = [0, 4, 1, 2, 3, 4, 0, 1]
    whole = classification(labels, [*CLASSES, "fog"], [*CLASSES, "fog"], TREE)
    whole = replace(whole, outside=("fog",))
    rows = [row for row, label in enumerate(labels) if label != 4]
    part = replace(
        classification([labels[row] for row in rows], CLASSES, CLASSES, TREE),
        images=type(whole.images)(whole.images.folder, tuple(whole.images.ids[row] for row in rows)),
    )
    found, expected = (task.score(Sphere(), embed(task.requests(d)), d) for d in (whole, part))
    assert found.metrics == expected.metrics
    assert found.n == 6
    assert found.notes[0].startswith("the tree holds 4 of 5 classes: 6 of 8 images")
    assert not any("fog" in text for text in task.requests(whole).texts)
    with pytest.raises(DataError, match="no image is of a class that its tree holds"):
        task.requests(replace(whole, labels=np.full(8, 4)))


def test_the_figures_of_food101_stand_on_84_classes(classification, embed):
    manifest = load_manifest("food101")
    dataset = classification(np.arange(101), manifest.class_names(), manifest.class_ids, manifest.taxonomy)
    dataset = replace(dataset, outside=manifest.outside)
    for name in ("hierarchy/food101", "levels/food101"):
        task = registry.task(name)
        scores = task.score(Sphere(), embed(task.requests(dataset)), dataset)
        assert scores.notes[0].startswith("the tree holds 84 of 101 classes: 84 of 101 images")
        assert set(scores.metrics) == {metric.name for metric in task.spec.metrics}


def test_names_of_metrics_are_those_of_the_ranks():
    names = [metric.name for metric in registry.task("levels/aircraft").spec.metrics]
    assert names[:2] == ["accuracy_manufacturer", "accuracy_family"]
    assert names[-2:] == ["gain_manufacturer", "gain_family"]
    assert [m.title for m in registry.task("levels/imagenet").spec.metrics][:2] == [
        "Acc depth 1",
        "Acc depth 2",
    ]
