"""What holds for every registered task and suite."""

import re

import pytest

from hierbench import registry
from hierbench.contracts import Task

NAMES = {
    "zero-shot/imagenet", "hierarchy/imagenet", "retrieval/coco", "hierarcaps",
    "pep-v1", "pep-v1-radial", "pep-uncleaned", "pep-uncleaned-radial",
    "zero-shot/miniature-things", "zero-shot/miniature-colours", "zero-shot/miniature-backgrounds",
    "hierarchy/miniature-things", "retrieval/miniature", "pep-v1/miniature", "pep-v1-radial/miniature",
    "hierarcaps/miniature",
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


@pytest.mark.parametrize("name", ["argent", "miniature"])
def test_suite(name):
    suite = registry.suite(name)
    assert suite.keys() == {"title", "layout", "tasks"}
    assert suite["layout"] == name
    assert len(set(suite["tasks"])) == len(suite["tasks"])
    for task in suite["tasks"]:
        assert ("miniature" in registry.task(task).spec.dataset) == (name == "miniature")
