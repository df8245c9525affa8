"""Names to tasks, suites and datasets.

Found by folder (`tasks/*.py`, `tasks/suites/*.yaml`, `data_manifests/*.yaml`) and by entry point (group
`hierbench.tasks`); code is imported only when it is asked for. A task file has a mapping `TASKS` from task name to a
function that builds the task. Models are found by `hierbench.models`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from importlib.metadata import entry_points
from typing import Any

import yaml

from hierbench.contracts import Task
from hierbench.data.manifests import all_manifests
from hierbench.errors import UsageError
from hierbench.names import lookup
from hierbench.plugins import import_entry, package_files

TASK_GROUP = "hierbench.tasks"


@cache
def task_factories() -> dict[str, Callable[[], Task]]:
    """Every task's factory by name. Imports the task files. Raises UsageError on a name used twice."""
    found: dict[str, Callable[[], Task]] = {}
    tables: list[Mapping[str, Any]] = []
    for path in package_files("hierbench.tasks", ".py"):
        module = importlib.import_module(f"hierbench.tasks.{path.stem}")
        tables.append(module.TASKS)
    tables += [{point.name: import_entry(point, "task")} for point in entry_points(group=TASK_GROUP)]
    for table in tables:
        for name, factory in table.items():
            if name in found:
                raise UsageError(f"two tasks are called {name!r}: rename one")
            found[name] = factory
    return found


def task(name: str) -> Task:
    """Build a task by name; UnknownNameError with the nearest names where there is none."""
    return lookup("task", name, task_factories())()


def list_tasks() -> list[Task]:
    """Every registered task, built."""
    return [factory() for factory in task_factories().values()]


@cache
def suites() -> dict[str, dict[str, Any]]:
    """Suites by name: {"title", "layout", "tasks": [names]}, from `tasks/suites/*.yaml`."""
    folder = resources.files("hierbench.tasks") / "suites"
    return {
        path.name.removesuffix(".yaml"): yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted(folder.iterdir(), key=lambda p: p.name)
        if path.name.endswith(".yaml")
    }


def suite(name: str) -> dict[str, Any]:
    """A suite by name."""
    return lookup("suite", name, suites())


# ----------------------------------------------------------------------------------------------------- datasets


def list_datasets() -> list:
    """Every dataset's manifest."""
    return list(all_manifests().values())
