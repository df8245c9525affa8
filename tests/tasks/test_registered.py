"""What holds for every registered task and suite."""

import re
from collections import defaultdict

import pytest

from hierbench import registry
from hierbench.contracts import Task

SIXTEEN = [
    "imagenet", "cifar10", "cifar100", "sun397", "caltech101", "stl10", "food101", "cub2011", "cars", "aircraft",
    "pets", "flowers102", "dtd", "eurosat", "resisc45", "country211",
]  # fmt: skip
TREES = [
    "imagenet", "cifar10", "cifar100", "caltech101", "stl10", "pets", "aircraft", "sun397", "sun397-tfds", "cub2011",
    "food101",
]  # fmt: skip
NAMES = {f"zero-shot/{name}" for name in SIXTEEN} | {
    "zero-shot/sun397-tfds", "hierarchy/imagenet", "hierarcaps",
    "retrieval/coco", "retrieval/coco-karpathy", "retrieval/flickr30k",
    "multilabel/voc2007", "multilabel/coco", "multilabel/comco", "multilabel/simco", "multilabel/miniature",
    "pep-v2", "pep-v2-radial", "pep-uncleaned", "pep-uncleaned-radial",
    "zero-shot/miniature-things", "zero-shot/miniature-colours", "zero-shot/miniature-backgrounds",
    "hierarchy/miniature-things", "retrieval/miniature", "pep-v2/miniature", "pep-v2-radial/miniature",
    "hierarcaps/miniature", "levels/miniature-things",
    "himo", "himo/miniature", "which-caption/miniature", "which-caption/sugarcrepe", "which-caption/winoground",
    "which-caption/aro-relation", "which-caption/aro-attribution",
    *(f"{kind}/{name}" for kind in ("hierarchy", "levels") for name in TREES),
}  # fmt: skip


def test_the_promised_tasks_exist():
    assert set(registry.task_factories()) >= NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_spec(name):
    task = registry.task(name)
    spec = task.spec
    assert isinstance(task, Task)
    assert spec.name == name
    assert spec.version >= 1
    names = [metric.name for metric in spec.metrics]
    assert len(set(names)) == len(names)
    assert spec.headline in names
    assert all(re.fullmatch(r"[a-z0-9_]+", metric) for metric in names)
    assert {metric.unit for metric in spec.metrics} <= {"percent", "fraction", "raw"}
    assert spec.protocol == "released"
    assert spec.title
    assert spec.source


@pytest.mark.parametrize("name", ["zero-shot/stl10", "multilabel/miniature"])
def test_a_task_is_found_without_the_manifests_of_other_datasets(name, monkeypatch):
    read, load = [], registry.load_manifest
    monkeypatch.setattr(registry, "load_manifest", lambda each: read.append(each) or load(each))
    monkeypatch.setattr(registry, "all_manifests", lambda: pytest.fail("all manifests are read"))
    assert registry.task(name).spec.name == name
    assert all(each.startswith(name.partition("/")[2]) for each in read)


SUITES = ["argent", "hycoclip", "uncha", "all", "miniature"]


@pytest.mark.parametrize("name", SUITES)
def test_suite(name):
    suite = registry.suite(name)
    assert suite.keys() == {"title", "layout", "tasks"}
    assert suite["layout"] == name
    assert len(set(suite["tasks"])) == len(suite["tasks"])
    for task in suite["tasks"]:
        assert ("miniature" in registry.task(task).spec.dataset) == (name == "miniature")


@pytest.mark.parametrize(
    ("name", "sun397"), [("argent", "sun397"), ("hycoclip", "sun397"), ("uncha", "sun397-tfds")]
)
def test_the_papers_suites_hold_sixteen_datasets(name, sun397):
    """MERU, HyCoCLIP and ARGENT test on SUN397's official split, UNCHA on that of TFDS."""
    found = [
        task.removeprefix("zero-shot/") for task in registry.suite(name)["tasks"] if "zero-shot/" in task
    ]
    assert found == [sun397 if dataset == "sun397" else dataset for dataset in SIXTEEN]


def test_the_suite_all_has_every_task_on_real_data():
    real = {name for name in registry.task_factories() if "miniature" not in registry.task(name).spec.dataset}
    assert set(registry.suite("all")["tasks"]) == real


def test_tasks_on_one_dataset_share_the_fit():
    """Else their images would be encoded twice."""
    fits = defaultdict(set)
    for spec in (registry.task(name).spec for name in NAMES):
        fits[spec.dataset].add(spec.fit)
    assert {dataset: found for dataset, found in fits.items() if len(found) > 1} == {}
