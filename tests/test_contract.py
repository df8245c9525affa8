"""Everything registered keeps the contracts: families, catalog, tasks, suites, manifests, layouts.

Nothing is listed here by name: whatever is added later is walked too.
"""

import inspect
import math
import re

import pytest

from hierbench import registry
from hierbench.contracts import Fit, Task
from hierbench.data.datasets import CaptionChains, CaptionChoices, Classification, MultiLabel, Retrieval
from hierbench.data.locate import Locations
from hierbench.data.manifests import all_manifests
from hierbench.data.readers import open_dataset
from hierbench.engine.session import Session
from hierbench.geometry import Lorentz, Sphere
from hierbench.leaderboard.columns import layouts
from hierbench.models.catalog import catalog
from hierbench.models.conformance import check_adapter
from hierbench.models.families import families, family_loader
from hierbench.models.reference import load_model

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?")
FAMILIES, CATALOG, TASKS = families(), catalog(), registry.task_factories()
SUITES, MANIFESTS, LAYOUTS = registry.suites(), all_manifests(), layouts()


def test_something_is_registered_everywhere():
    assert all([FAMILIES, CATALOG, TASKS, SUITES, MANIFESTS, LAYOUTS])


# ---------------------------------------------------------------------------------------------- families and catalog


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name):
    assert re.fullmatch(r"[a-z0-9_]+", name)
    summary = FAMILIES[name].summary
    assert len(summary) <= 110
    assert summary.endswith(".")
    parameters = inspect.signature(family_loader(name)).parameters
    assert list(parameters)[:4] == ["checkpoint", "name", "device", "dtype"]
    assert [parameters[key].default for key in ("name", "device", "dtype")] == [None, "cpu", "float32"]
    for key in list(parameters)[1:]:  # a family may have options of its own, if they can be left out
        assert parameters[key].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[key].default is not inspect.Parameter.empty


@pytest.mark.parametrize("name", CATALOG)
def test_catalog_entry(name):
    entry = CATALOG[name]
    assert NAME.fullmatch(name)
    assert name not in FAMILIES
    assert entry.family in FAMILIES
    assert bool(entry.file) <= bool(entry.repo)
    assert entry.url is None or entry.url.startswith("https://")
    assert entry.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
    assert entry.paper is None or entry.paper.startswith("https://")


# Families whose checkpoints have the lineage's layout are tried with the golden tiny model of that kind;
# families that need no checkpoint as they are. The others have tests of their own.
TINY = {
    "clip": "clip",
    "meru": "meru",
    "hycoclip": "hycoclip",
    "argent": "hycoclip",
    "uncha": "uncha",
    "phyclip": "phyclip",
}


@pytest.mark.parametrize("family", sorted(TINY.keys() & FAMILIES.keys()))
def test_lineage_adapters_conform(family, tiny_checkpoint):
    assert check_adapter(load_model(family, tiny_checkpoint(TINY[family]))) == []


# ------------------------------------------------------------------------------------------------------------- tasks


@pytest.mark.parametrize("name", TASKS)
def test_task_spec(name):
    task = TASKS[name]()
    spec = task.spec
    assert isinstance(task, Task)
    assert NAME.fullmatch(name)
    assert spec.name == name
    assert spec.title
    assert spec.version >= 1
    assert spec.source
    assert spec.dataset in MANIFESTS
    assert spec.fit == MANIFESTS[spec.dataset].fit
    assert isinstance(spec.fit, Fit)
    assert spec.protocol in ("released", "corrected")
    names = [metric.name for metric in spec.metrics]
    assert len(set(names)) == len(names)
    assert spec.headline in names
    for metric in spec.metrics:
        assert re.fullmatch(r"[a-z0-9_]+", metric.name)
        assert metric.title
        assert metric.unit in ("percent", "fraction", "raw")
    for geometry in (Lorentz(1.0), Sphere()):
        reason = task.inapplicable(geometry)
        assert reason is None or reason.strip()


@pytest.mark.parametrize("name", TASKS)
def test_task_applies_to_some_geometry(name):
    assert any(TASKS[name]().inapplicable(geometry) is None for geometry in (Lorentz(1.0), Sphere()))


BUILT_IN = [name for name in TASKS if MANIFESTS[TASKS[name]().spec.dataset].reader == "miniature"]


@pytest.mark.parametrize("model", ["random:lorentz", "random:sphere"])
@pytest.mark.parametrize("name", BUILT_IN)
def test_task_scores_what_it_promises(name, model):
    task, adapter = TASKS[name](), load_model(model)
    if task.inapplicable(adapter.geometry):
        pytest.skip("says nothing about this geometry")
    dataset = open_dataset(task.spec.dataset, Locations()).limited(24)
    requests = task.requests(dataset)
    assert len(set(requests.images)) == len(requests.images) <= 24
    assert len(set(requests.texts)) == len(requests.texts)
    assert set(requests.images) <= set(dataset.images.ids)
    embeddings = Session(adapter, workers=0).embed(dataset, requests, task.spec.fit)
    scores = task.score(adapter.geometry, embeddings, dataset)
    assert set(scores.metrics) == {metric.name for metric in task.spec.metrics}
    assert scores.n == task.statistics(scores.items).n > 0
    for metric in task.spec.metrics:
        estimate = scores.metrics[metric.name]
        assert math.isfinite(estimate.value)
        assert (estimate.low is None) == (estimate.high is None)
        assert estimate.low is None or estimate.low <= estimate.high
        most = {"percent": 100, "fraction": 1, "raw": math.inf}[metric.unit]
        assert abs(estimate.value) <= most
    assert scores.items
    for columns in scores.items.values():
        assert len({len(column) for column in columns.values()}) == 1
    again = task.score(adapter.geometry, embeddings, dataset)
    assert again.metrics == scores.metrics  # every random draw has its seed


# ------------------------------------------------------------------------------------- suites, manifests and layouts


@pytest.mark.parametrize("name", SUITES)
def test_suite(name):
    suite = SUITES[name]
    assert NAME.fullmatch(name)
    assert set(suite) == {"title", "layout", "tasks"}
    assert suite["layout"] in LAYOUTS
    assert suite["tasks"]
    assert len(set(suite["tasks"])) == len(suite["tasks"])
    assert [task for task in suite["tasks"] if task not in TASKS] == []
    columns = {column.task for column in LAYOUTS[suite["layout"]].columns}
    assert [
        task for task in suite["tasks"] if task not in columns
    ] == []  # else its figures appear in no table


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest(name):
    manifest = MANIFESTS[name]
    assert manifest.name == name
    assert NAME.fullmatch(name)
    assert any(TASKS[task]().spec.dataset == name for task in TASKS)  # else nothing uses it
    if manifest.reader == "miniature":
        dataset = open_dataset(name, Locations())
        assert isinstance(dataset, Classification | MultiLabel | Retrieval | CaptionChains | CaptionChoices)
        assert dataset.name == name
        assert len(set(dataset.images.ids)) == len(dataset.images.ids)
    else:
        assert manifest.obtain


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_agrees_with_the_tasks(name):
    for column in LAYOUTS[name].columns:
        if column.task not in TASKS:
            continue  # a column may wait for its task
        metrics = {metric.name: metric for metric in TASKS[column.task]().spec.metrics}
        assert column.metric in metrics, column
