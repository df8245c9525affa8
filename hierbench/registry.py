"""Names to tasks, suites and datasets.

Found by folder (`tasks/*.py`, `tasks/suites/*.yaml`, `data_manifests/*.yaml`), by entry point (group
`hierbench.tasks`) and in what a user adds (`register_manifest`, `add_task_file`); code is imported only when it is
asked for. A task file has a mapping `PROTOCOLS` from a manifest's word for what can be measured to a function that
makes the tasks of a dataset, or a mapping `TASKS` from task name to a function that builds a task. Models are found
by `hierbench.models`.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from hierbench.contracts import Task
from hierbench.data.manifests import (
    Manifest,
    all_manifests,
    dataset_names,
    load_manifest,
    register_manifest,
    registered_names,
)
from hierbench.errors import UnknownNameError, UsageError, explained
from hierbench.names import lookup
from hierbench.plugins import import_entry, module_from_file, package_files
from hierbench.retired import why_retired
from hierbench.yaml_files import read_yaml

TASK_GROUP = "hierbench.tasks"

Factory = Callable[[], Task]
Protocol = Callable[[Manifest], Iterable[Task]]

_added: dict[Path, Mapping[str, Factory]] = {}  # tasks of files of the user's own


# --------------------------------------------------------------------------------------------------------- tasks


@cache
def protocols() -> dict[str, Protocol]:
    """What makes the tasks of a dataset, by the word for it in manifests. Imports the task files."""
    return {
        name: make for module in _task_modules() for name, make in getattr(module, "PROTOCOLS", {}).items()
    }


def task_factories() -> dict[str, Factory]:
    """Every task's factory by name: of every manifest's protocols, of task files, of entry points.

    Raises UsageError on a name used twice.
    """
    found: dict[str, Factory] = {}
    for name, factory in [
        *_of_manifests(all_manifests().values()),
        *coded_tasks(),
        *(item for table in _added.values() for item in table.items()),
    ]:
        if name in found:
            raise UsageError(f"two tasks are called {name!r}: rename one")
        found[name] = factory
    return found


def task(name: str) -> Task:
    """Build a task by name; UnknownNameError with the nearest names where there is none."""
    return _factory(name)()


def under(named: str | Task, protocol: str) -> Task:
    """A task, by name or as it is, as a protocol has it. Raises UsageError for one that knows another alone."""
    task = _factory(named)() if isinstance(named, str) else named
    if task.spec.protocol == protocol:
        return task
    if dataclasses.is_dataclass(task) and any(field.name == "protocol" for field in dataclasses.fields(task)):
        return cast(Task, dataclasses.replace(cast(Any, task), protocol=protocol))
    raise UsageError(f"task {task.spec.name} knows the protocol {task.spec.protocol} alone, not {protocol}")


def _factory(name: str) -> Factory:
    if why := why_retired(name):
        raise UnknownNameError(f"no task {name!r}: {why}")
    return _find(name) or lookup("task", name, task_factories())


def _find(name: str) -> Factory | None:
    """A task's factory, None where there is none. Raises UsageError as `task_factories`.

    Names of the package alone are unique (a test holds it): then the datasets whose names begin as the task says are
    looked at first, and others' manifests are not read. With anything of a user's all are.
    """
    dataset = name.partition("/")[2]
    if dataset and not (registered_names() or _added or coded_tasks()):
        near = [load_manifest(each) for each in dataset_names() if each.startswith(dataset)]
        if found := dict(_of_manifests(near)).get(name):
            return found
    return task_factories().get(name)


def list_tasks() -> list[Task]:
    """Every registered task, built."""
    return [factory() for factory in task_factories().values()]


def register(
    adapters: Iterable[str | Path] = (),
    manifests: Iterable[str | Path] = (),
    task_files: Iterable[str | Path] = (),
) -> None:
    """Make a user's own files known to this process: model families, datasets, tasks; a file may be given again.

    Raises UsageError and DataError, as `add_adapter_file`, `register_manifest` and `add_task_file`.
    """
    from hierbench.models.families import add_adapter_file

    for path in adapters:
        add_adapter_file(path)
    for path in manifests:
        register_manifest(path)
    for path in task_files:
        add_task_file(path)


def add_task_file(path: str | Path) -> list[str]:
    """Add the tasks of a Python file for this process: its mapping `TASKS`, task name -> function that builds the task.

    Returns their names. Raises UsageError: no such file, one that does not import, no such mapping, something that
    builds no task or one of another name, a name that is taken.
    """
    path = Path(path).expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"task file {path}: there is no such file")
    table = getattr(module_from_file(path, "task"), "TASKS", None)
    if not isinstance(table, Mapping) or not table:
        raise UsageError(
            f"task file {path} needs a mapping TASKS from a task's name to a function that builds it"
        )
    taken = task_factories().keys() - _added.get(path, {}).keys()
    for name, factory in table.items():
        if name in taken:
            raise UsageError(f"task file {path}: a task {name!r} exists already, give another name")
        try:
            built = factory()
            if not isinstance(built, Task):
                raise TypeError(
                    "what it builds has not all of spec, inapplicable, requests, statistics, score"
                )
            if built.spec.name != name:
                raise ValueError(f"its spec names it {built.spec.name!r}")
        except (Exception, SystemExit) as error:
            raise UsageError(f"task file {path}: {name!r} is no task: {explained(error)}") from error
    _added[path] = dict(table)
    return list(table)


def _task_modules() -> list[Any]:
    return [
        importlib.import_module(f"hierbench.tasks.{path.stem}")
        for path in package_files("hierbench.tasks", ".py")
    ]


def _of_manifests(manifests: Collection[Manifest]) -> list[tuple[str, Factory]]:
    return [
        entry
        for protocol, make in protocols().items()
        for manifest in manifests
        if protocol in manifest.tasks
        for entry in _made(make, manifest)
    ]


Named = tuple[tuple[str, Factory], ...]
_kept: dict[tuple[Protocol, int], tuple[Manifest, Named]] = {}  # by identity: hashing a manifest is slow


def _made(make: Protocol, manifest: Manifest) -> Named:
    """A dataset's tasks under one protocol, made once: reading its class tree takes long."""
    place = (make, id(manifest))
    if place not in _kept:
        named = tuple((built.spec.name, partial(_same, built)) for built in make(manifest))
        _kept[place] = (manifest, named)
    return _kept[place][1]


def _same(built: Task) -> Task:
    return built


@cache
def coded_tasks() -> tuple[tuple[str, Factory], ...]:
    """Names and factories of the tasks that stand in code: `TASKS` of the task files, and entry points."""
    tables = [getattr(module, "TASKS", {}) for module in _task_modules()]
    tables += [{point.name: import_entry(point, "task")} for point in entry_points(group=TASK_GROUP)]
    return tuple(item for table in tables for item in table.items())


# -------------------------------------------------------------------------------------------------------- suites


def suites() -> dict[str, dict[str, Any]]:
    """Suites by name: {"title", "layout", "tasks": [names]}, from `tasks/suites/*.yaml`.

    A suite lists its tasks, or says `tagged: TAG`: every task of the datasets whose manifest has the tag. Raises
    UsageError for a file of another form or a task that does not exist.
    """
    return {name: _suite(path) for name, path in _suite_files().items()}


def suite(name: str) -> dict[str, Any]:
    """A suite by name; raises UnknownNameError, and UsageError as `suites`."""
    return _suite(lookup("suite", name, _suite_files()))


def _suite_files() -> dict[str, Path]:
    return {path.stem: path for path in package_files("hierbench.tasks.suites", ".yaml")}


def _suite(path: Path) -> dict[str, Any]:
    content = _suite_file(path)
    if (tag := content.get("tagged")) is not None:
        datasets = {name for name, manifest in all_manifests().items() if tag in manifest.tags}
        names = [name for name, make in task_factories().items() if make().spec.dataset in datasets]
    else:
        names = list(content["tasks"])
        if unknown := [name for name in names if _find(name) is None]:
            raise UsageError(f"suite {path}: there is no task {unknown[0]!r}")
    if not names or len(set(names)) < len(names):
        raise UsageError(f"suite {path}: it has no task, or one twice")
    return {"title": content["title"], "layout": content["layout"], "tasks": names}


@cache
def _suite_file(path: Path) -> dict[str, Any]:
    content = read_yaml(path, "suite", UsageError)
    chosen = content.get("tasks", content.get("tagged"))
    form = isinstance(chosen, list) if "tasks" in content else isinstance(chosen, str)
    if content.keys() not in ({"title", "layout", "tasks"}, {"title", "layout", "tagged"}) or not form:
        raise UsageError(
            f"suite {path} needs title, layout, and either tasks (a list of names) or tagged (a tag)"
        )
    return content


# ------------------------------------------------------------------------------------------------------ datasets


def list_datasets() -> list[Manifest]:
    """Every dataset's manifest."""
    return list(all_manifests().values())
