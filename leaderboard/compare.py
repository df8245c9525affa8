"""Two models on the same items: the difference of their figures with a paired bootstrap interval.

Both models' figures are computed anew on the same resamples of the same items, from the per-item outcomes that runs
keep (OUT/items/<model>/<task>/<table>.parquet), so what makes an item hard for both cancels out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hierbench import registry, results
from hierbench.errors import HierbenchError, OutputError, UnknownNameError
from hierbench.leaderboard import columns, papers, tables
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.tables import Cell
from hierbench.metrics import bootstrap
from hierbench.names import lookup

if TYPE_CHECKING:
    import pandas as pd

    from hierbench.results import Record

IDENTITY = {"image_id", "sample_id", "caption", "captions", "general", "specific", "relation", "label"}
"""Columns that say which item a row is about; the others are what a model made of it."""

Items = Mapping[str, "pd.DataFrame"]


@dataclass(frozen=True)
class Difference:
    """First minus second model in one column; figures as recorded."""

    column: Column
    first: float
    second: float
    difference: float
    low: float | None = None  # 95 % bounds of the difference; None without per-item outcomes
    high: float | None = None
    p: float | None = None  # twice the share of resamples on the rarer side of zero, at most 1
    n: int | None = None  # items of the first model
    note: str = ""  # why there are no bounds


def compare(
    first: str, second: str, folders: Sequence[str | Path], layout: str | None = None
) -> list[Difference]:
    """The differences between two models in every metric of which both have a figure, the layout's columns first.

    Raises UnknownNameError for a model that none of the output folders has, OutputError for a name that means
    two different models there and for damaged files.
    """
    found = _found(folders)
    a, b = (lookup("model in these results", name, found) for name in (first, second))
    records = [record for _, record in [*a.values(), *b.values()]]
    asked = results.read_run(folders[0]).get("layout")
    named = columns.layout(layout or asked or tables.DEFAULT_LAYOUT)
    table = tables.build(records, columns.every_metric(named, records))

    @cache
    def resampled(task: str) -> dict[str, np.ndarray] | str:
        """Differences on every resample by metric, or why there are none."""
        ours, theirs = (results.read_items(folder, record) for folder, record in (a[task], b[task]))
        return differences(ours, theirs, a[task][1], b[task][1])

    if len(table.rows) < 2:  # a model and itself
        return []
    one, other = (row.cells for row in table.rows)
    return [
        _difference(column, ours, theirs, resampled(column.task))
        for column, ours, theirs in zip(table.columns, one, other, strict=True)
        if column.task and ours.estimate and theirs.estimate
    ]


def differences(
    first: Items, second: Items, first_record: Record, second_record: Record
) -> dict[str, np.ndarray] | str:
    """Differences (resamples,) of each metric, first minus second, both on the same resamples of the same items.

    Takes the per-item outcomes of two records of one task, one DataFrame a table; the task says what its metrics are
    on a resample. Metrics of which resampling makes no sense are left out. A text where they cannot be paired: why.
    """
    if why := _differing(first, second):
        return why
    try:
        one, other = _statistics(first, first_record), _statistics(second, second_record)
    except UnknownNameError:
        return "the task is not known here: add its file with --task-file"
    except (HierbenchError, KeyError) as error:
        return " ".join(str(error).split())
    if one.units != other.units:
        return "measured on different items"
    drawn: dict[str, list[np.ndarray]] = {}
    with np.errstate(invalid="ignore", divide="ignore"):
        for counts in bootstrap.draws(len(one.units)):
            a, b = one.statistic(counts), other.statistic(counts)
            for name in a:
                drawn.setdefault(name, []).append(a[name] - b[name])
    return {name: np.concatenate(parts) for name, parts in drawn.items()}


def _statistics(items: Items, record: Record) -> bootstrap.Statistics:
    task = registry.under(record.task, record.protocol)
    if record.task_version != task.spec.version:
        raise OutputError(f"measured with version {record.task_version} of the task: run it again")
    return task.statistics(items)


def interval(drawn: np.ndarray) -> tuple[float, float]:
    """95 % bounds of differences on resamples; those that are undefined on some are left out."""
    low, high = np.quantile(drawn[np.isfinite(drawn)], [0.025, 0.975])
    return float(low), float(high)


def against_published(
    model: str, row: str, folders: Sequence[str | Path], layout: str | None = None
) -> list[Difference]:
    """A measured model minus a row of the layout's published figures; no bounds, as a paper's items are not known.

    Raises UnknownNameError for a model or a row that does not exist.
    """
    found = _found(folders)
    records = [record for _, record in lookup("model in these results", model, found).values()]
    table = tables.build(records, layout or tables.DEFAULT_LAYOUT)
    if not table.published:
        raise OutputError(f"no paper prints figures for the layout of {table.title!r}")
    paper, printed = papers.find(row, table.published)
    theirs = {column.key: cell for column, cell in zip(paper.columns, printed.cells, strict=True)}
    pairs = [
        (column, ours, theirs[column.key])
        for column, ours in zip(table.columns, table.rows[0].cells, strict=True)
        if ours.estimate and column.key in theirs and theirs[column.key].estimate
    ]
    return [
        _difference(column, ours, other, _reservation(found[model][column.task][1]))
        for column, ours, other in pairs
        if column.task
    ]


def _reservation(record: Record) -> str:
    """Why a figure does not compare with published ones: papers measure whole datasets with the released code."""
    parts = [] if record.way == "released" else [f"measured under protocol {record.way}"]
    if record.limit is not None:
        parts.append(f"measured on at most {record.limit:,} items")
    return ", ".join(parts)


def _found(folders: Sequence[str | Path]) -> dict[str, dict[str, tuple[Path, Record]]]:
    """Model -> task -> the folder and the record; a later folder counts more."""
    found: dict[str, dict[str, tuple[Path, Record]]] = {}
    for folder in folders:
        for record in results.read_results(folder):
            known = found.setdefault(record.model, {})
            for _, other in known.values():
                if (other.family, tables.checkpoint(other)) != (record.family, tables.checkpoint(record)):
                    raise OutputError(
                        f"{record.model} means two different checkpoints here: leave one folder out"
                    )
            known[record.task] = (Path(folder), record)
    return found


def _difference(
    column: Column, first: Cell, second: Cell, drawn: Mapping[str, np.ndarray] | str
) -> Difference:
    assert first.estimate is not None
    assert second.estimate is not None
    a, b = first.estimate.value, second.estimate.value
    if not (first.comparable and second.comparable):
        drawn = "measured on different data"
    elif not isinstance(drawn, str) and column.metric not in drawn:
        drawn = "resampling says nothing about this metric"
    if isinstance(drawn, str):
        return Difference(column, a, b, a - b, n=first.n, note=drawn)
    values = drawn[column.metric]
    values = values[np.isfinite(values)]
    p = 2 * min(np.mean(values <= 0), np.mean(values >= 0))
    return Difference(column, a, b, a - b, *interval(values), float(min(1.0, p)), first.n)


def _differing(first: Items, second: Items) -> str:
    """Why two sets of per-item outcomes cannot be paired; empty if they can."""
    if not first or not second:
        return "a run kept no per-item outcomes"
    if first.keys() != second.keys():
        return "the runs kept different per-item outcomes"
    for table in first:
        a, b = first[table], second[table]
        shared = [name for name in a.columns if name in IDENTITY]
        if len(a) != len(b) or not all(
            np.array_equal(a[name].to_numpy(), b[name].to_numpy()) for name in shared
        ):
            return "measured on different items"
    return ""
