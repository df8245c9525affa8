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

from hierbench import results
from hierbench.errors import OutputError
from hierbench.leaderboard import tables
from hierbench.leaderboard.tables import Cell, Column
from hierbench.metrics import bootstrap
from hierbench.metrics.classification import accuracy_statistic
from hierbench.metrics.entailment import auc_ap_statistic
from hierbench.metrics.multilabel import map_statistic
from hierbench.metrics.ranking import recall_statistic
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
    """The differences between two models in every column of the layout where both have a figure.

    Raises UnknownNameError for a model that none of the output folders has, OutputError for a name that means
    two different models there and for damaged files.
    """
    found = _found(folders)
    a, b = (lookup("model in these results", name, found) for name in (first, second))
    records = [record for _, record in [*a.values(), *b.values()]]
    asked = results.read_run(folders[0]).get("layout")
    table = tables.build(records, layout or asked or tables.DEFAULT_LAYOUT)

    @cache
    def resampled(task: str) -> dict[str, np.ndarray] | str:
        """Differences on every resample by metric, or why there are none."""
        both = [results.read_items(folder, record) for folder, record in (a[task], b[task])]
        return differences(*both, a[task][1], b[task][1])

    return [
        _difference(column, *cells, resampled(column.task))
        for column, *cells in zip(table.columns, *(row.cells for row in table.rows), strict=True)
        if column.task and len(cells) == 2 and all(cell.estimate for cell in cells)
    ]


def differences(
    first: Items, second: Items, first_record: Record, second_record: Record
) -> dict[str, np.ndarray] | str:
    """Differences (resamples,) of each metric, first minus second, both on the same resamples of the same items.

    Takes the per-item outcomes of two records of one task, one DataFrame a table. A text where they cannot be
    paired: why.
    """
    if why := _differing(first, second):
        return why
    (one, units), (other, _) = _statistic(first, first_record), _statistic(second, second_record)
    if not units:
        return "per-item outcomes of an unknown form"
    drawn: dict[str, list[np.ndarray]] = {}
    with np.errstate(invalid="ignore", divide="ignore"):
        for counts in bootstrap.draws(units):
            a, b = one(counts), other(counts)
            for name in a:
                drawn.setdefault(name, []).append(a[name] - b[name])
    return {name: np.concatenate(parts) for name, parts in drawn.items()}


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
    if table.published is None:
        raise OutputError(f"no paper prints figures for the layout of {table.title!r}")
    paper = tables.published(table.published)
    rows = {printed.model: printed for printed in paper.rows}
    cells = lookup("published row", row, rows).cells
    theirs = {column.key: cell for column, cell in zip(paper.columns, cells, strict=True)}
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
    a, b = first.estimate.value, second.estimate.value
    if first.notes or second.notes:
        drawn = "measured on different data"
    elif not isinstance(drawn, str) and column.metric not in drawn:
        drawn = "no per-item outcomes for this metric"
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


def _statistic(items: Items, record: Record) -> tuple[bootstrap.Statistic, int]:
    """The task's statistic and its number of units, told from the tables that it keeps; 0 units = no form we know."""
    images, pairs, samples = items.get("images"), items.get("pairs"), items.get("samples")
    if pairs is not None and {"score", "label", "specific"} <= set(pairs):
        return _pair_statistic(pairs)
    if images is None:
        return bootstrap.together(), 0
    position = {image: place for place, image in enumerate(images["image_id"])}
    parts = []
    if {"label", "predicted"} <= set(images):
        label, predicted = _array(images["label"]), _array(images["predicted"])
        classes = int(max(label.max(), predicted.max())) + 1  # any others would count nowhere
        parts.append(accuracy_statistic(predicted, label, classes, record.protocol))
    if {"scores", "present", "ignored"} <= set(images):
        parts.append(map_statistic(*(np.stack(images[name]) for name in ("scores", "present", "ignored"))))
    if "rank" in images and "captions" in items:
        captions = items["captions"]
        owner = _array(captions["image_id"].map(position))
        parts.append(recall_statistic(_array(captions["rank"]), _array(images["rank"]), owner))
    own = {name: _array(images[name]) for name in images if name in (record.metrics or {})}
    if own:
        parts.append(bootstrap.means(own))
    if samples is not None and "tau" in samples:
        parts.append(
            bootstrap.means({"d_corr": _array(samples["tau"])}, _array(samples["image_id"].map(position)))
        )
    return bootstrap.together(*parts), len(images) if parts else 0


def _pair_statistic(pairs: pd.DataFrame) -> tuple[bootstrap.Statistic, int]:
    """AUC and AP over scored pairs, resampled by image: that of the sample, or of a negative pair's specific item."""
    to_image = pairs[pairs["relation"].str.endswith("_image")]
    image_of = dict(zip(to_image["sample_id"], to_image["specific"], strict=True))
    positive, negative = pairs[pairs["label"] == 1], pairs[pairs["label"] == 0]
    unit = {image: place for place, image in enumerate(dict.fromkeys(to_image["specific"]))}
    statistic = auc_ap_statistic(
        positive=_array(positive["score"]),
        positive_unit=_array(positive["sample_id"].map(image_of).map(unit)),
        negative=_array(negative["score"]),
        negative_unit=_array(negative["specific"].map(unit)),
        units=len(unit),
    )
    return statistic, len(unit)


def _array(column: pd.Series) -> np.ndarray:
    """A copy that torch may look at: pandas hands out read-only views."""
    return column.to_numpy(copy=True)
