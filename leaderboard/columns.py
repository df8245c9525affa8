"""Which columns a table may have: layouts, and what a metric's spec says of a column (title, unit, direction).

A layout (`layouts/*.yaml`) lists groups of columns. A column is a task and a metric, or a metric averaged over tasks;
its title may be given, everything else comes from the metric's spec: from the records that the table is made of, else
from the task's own code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierbench.errors import OutputError, UnknownNameError, one_line
from hierbench.names import lookup

if TYPE_CHECKING:
    from hierbench.results import Record

UNITS = ("percent", "fraction", "raw")


@dataclass(frozen=True)
class Column:
    """One column: a metric of a task, or the mean of a metric over several tasks."""

    group: str
    title: str  # empty in a layout: the metric's own
    metric: str
    unit: str = (
        ""  # percent: 0–100; fraction: 0–1, printed as percent; raw: printed as it is; empty in a layout
    )
    task: str = ""  # empty for an average
    better: str = ""  # higher | lower | "" (unknown, or in a layout)
    average_over: tuple[str, ...] = ()
    variant: str = ""  # what sets this column apart from another of the same metric; "" = there is no other

    @property
    def key(self) -> str:
        """`task:metric`, `average`, or `group: title` of what no task measures; the column's name in files."""
        own = "average" if self.average_over else f"{self.group}: {self.title}"
        base = f"{self.task}:{self.metric}" if self.task else own
        return f"{base} ({self.variant})" if self.variant else base


@dataclass(frozen=True)
class Layout:
    """The columns that a kind of table may have, in order; `published` names the papers' own figures."""

    name: str
    title: str
    columns: tuple[Column, ...]
    published: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------------- layouts


def layouts() -> dict[str, Layout]:
    """Every layout by name. Raises OutputError where a file is not a layout."""
    return {name: read_layout(path) for name, path in documents("layouts").items()}


def layout(name: str) -> Layout:
    """A layout by name; UnknownNameError, with the nearest names, where there is none."""
    return read_layout(lookup("table layout", name, documents("layouts")))


@cache
def read_layout(path: Path) -> Layout:
    """A layout from its file. Raises OutputError: no such file, or which column is wrong."""
    from hierbench.yaml_files import read_yaml

    document = read_yaml(path, "table layout", OutputError)
    groups, title = document.get("groups"), document.get("title")
    if not isinstance(title, str) or not isinstance(groups, list) or not all(map(_is_group, groups)):
        raise OutputError(f"table layout {path} needs title and groups, each with title and columns")
    columns = [_column(path, group["title"], fields) for group in groups for fields in group["columns"]]
    keys = [column.key for column in columns]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise OutputError(f"table layout {path}: {twice} stands there twice")
    published = document.get("published", [])
    if not isinstance(published, list) or not all(isinstance(name, str) for name in published):
        raise OutputError(f"table layout {path}: published is not a list of names")
    return Layout(path.stem, title, tuple(columns), tuple(published))


def _is_group(group: Any) -> bool:
    return (
        isinstance(group, dict)
        and isinstance(group.get("title"), str)
        and isinstance(group.get("columns"), list)
    )


def _column(path: Path, group: str, fields: Any) -> Column:
    texts = (
        [fields.get(name, "") for name in ("task", "metric", "title")] if isinstance(fields, dict) else [None]
    )
    datasets = fields.get("average_over", []) if isinstance(fields, dict) else None
    if not isinstance(datasets, list) or not all(isinstance(text, str) for text in [*texts, *datasets]):
        raise OutputError(
            f"table layout {path}: {one_line(str(fields), 80)} is no column: task, metric, title are text"
        )
    over = tuple(datasets)
    if odd := fields.keys() - {"task", "metric", "title", "average_over"}:
        raise OutputError(
            f"table layout {path}: a column has no {min(odd)}, but task or average_over, metric, title"
        )
    if ("task" in fields) == bool(over) or "metric" not in fields:
        what = f"the column {dict(fields)} needs a metric and either task or average_over"
        raise OutputError(f"table layout {path}: {what}")
    return Column(
        group, fields.get("title", ""), fields["metric"], task=fields.get("task", ""), average_over=over
    )


def documents(folder: str) -> dict[str, Path]:
    """The YAML files of a folder beside this file by name, sorted."""
    from hierbench.plugins import package_files

    return {path.stem: path for path in package_files(f"hierbench.leaderboard.{folder}", ".yaml")}


# --------------------------------------------------------------------------------------------- what specs tell


class Specs:
    """The specs of metrics: those in records, else those of the registered task."""

    def __init__(self, records: Sequence[Record] = ()):
        self._known = {(record.task, name): spec for record in records for name, spec in record.specs.items()}

    def of(self, task: str, metric: str) -> Mapping[str, Any] | None:
        """{"title", "unit", "higher_is_better", …}; None for a task or metric that nobody knows."""
        if (task, metric) not in self._known:
            self._known |= {(task, name): spec for name, spec in _registered(task).items()}
        return self._known.get((task, metric))

    def applied(self, column: Column) -> Column:
        """The column with the metric's unit and direction, and its title where it has none."""
        spec = self.of(column.task or column.average_over[0], column.metric)
        if spec is None:
            return replace(column, title=column.title or column.metric, unit="raw", better="")
        better = {True: "higher", False: "lower", None: ""}[spec["higher_is_better"]]
        return replace(column, title=column.title or spec["title"], unit=spec["unit"], better=better)


@cache
def _registered(task: str) -> Mapping[str, Mapping[str, Any]]:
    from hierbench import registry  # imports the tasks' code, which takes seconds
    from hierbench.results.record import described

    try:
        return described(registry.task(task).spec.metrics)
    except UnknownNameError:
        return {}


# ------------------------------------------------------------------------------------- tasks that a layout lacks


def further(layout: Layout, records: Sequence[Record]) -> list[Column]:
    """Columns for measured or failed tasks that the layout does not have.

    Those of the first other layout that has the task; else the metrics that layouts show of tasks of the same kind
    (`zero-shot/…`); else all of the task's metrics.
    """
    known = {task for column in layout.columns for task in (column.task, *column.average_over)}
    tasks = dict.fromkeys(record.task for record in records if record.task not in known)
    return [column for task in tasks for column in _elsewhere(task) or _alike(task, records)]


def every_metric(layout: Layout, records: Sequence[Record]) -> Layout:
    """The layout with all metrics of the records' tasks, each behind the columns that the layout has of the task."""
    shown = [*layout.columns, *further(layout, records)]
    last = {column.task: place for place, column in enumerate(shown) if column.task}
    columns: list[Column] = []
    for place, column in enumerate(shown):
        columns.append(column)
        if last.get(column.task) == place:
            there = {other.metric for other in shown if other.task == column.task}
            names = [name for name in _metrics(column.task, records) if name not in there]
            columns += [Column(column.group, "", name, task=column.task) for name in names]
    return replace(layout, columns=tuple(columns))


def _elsewhere(task: str) -> list[Column]:
    for other in layouts().values():
        if columns := [column for column in other.columns if column.task == task]:
            return columns
    return []


def _alike(task: str, records: Sequence[Record]) -> list[Column]:
    own = _metrics(task, records)
    kind = task.partition("/")[0]
    usual = {
        column.metric: None
        for other in layouts().values()
        for column in other.columns
        if column.task.partition("/")[0] == kind
    }
    names = [name for name in usual if name in own] or own
    return [Column(task, "", name, task=task) for name in names]


def _metrics(task: str, records: Sequence[Record]) -> list[str]:
    """The metrics of a task in its own order, as far as any record or the task's code tells."""
    names = dict.fromkeys(
        name for record in records if record.task == task for name in (*record.specs, *(record.metrics or {}))
    )
    return list(names or _registered(task))
