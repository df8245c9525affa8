"""Two models, or recipes of several seeds, on the same items: differences, how sure they are, what may be claimed.

Both models' figures are computed anew on the same resamples of the same items, from the per-item outcomes that runs
keep (OUT/items/<model>/<task>/<table>.parquet), so what makes an item hard for both cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hierbench import results
from hierbench.errors import OutputError
from hierbench.leaderboard import columns, papers, resampling, tables, views
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.resampling import Found, Items
from hierbench.leaderboard.tables import Cell
from hierbench.metrics import bootstrap, seeds, significance
from hierbench.names import lookup

if TYPE_CHECKING:
    from hierbench.results import Record

PERMUTATIONS = 40
"""For each metric tested, and at least `FEWEST`: Holm's correction multiplies the smallest p by their number."""

FEWEST = 2000


@dataclass(frozen=True)
class Difference:
    """First minus second in one column; figures as recorded, of several seeds their mean."""

    column: Column
    first: float
    second: float
    difference: float
    low: float | None = None  # 95 % bounds of the difference; None without per-item outcomes
    high: float | None = None
    p: float | None = None  # of no difference, two-sided
    adjusted: float | None = None  # p by Holm's correction over all columns of the comparison that have one
    n: int | None = None  # items of the first model
    note: str = ""  # why there are no bounds
    spread: tuple[float | None, float | None] = (None, None)  # standard deviations over seeds

    @property
    def better(self) -> str:
        """ "first" or "second" where the difference may be claimed at 5 %, else ""."""
        if self.adjusted is None or self.adjusted > significance.ALPHA or not self.column.better:
            return ""
        return "first" if (self.difference > 0) == (self.column.better == "higher") else "second"


@dataclass(frozen=True)
class Comparison:
    """Two models or recipes, the columns of which both have a figure, and those that are left out with the reason."""

    first: str
    second: str
    seeds: tuple[int, int]
    differences: tuple[Difference, ...]
    left_out: tuple[str, ...] = ()

    @property
    def claim(self) -> str:
        """The sentence that these items and seeds allow."""
        tested = [entry for entry in self.differences if entry.adjusted is not None]
        if not tested:
            return f"Nothing may be claimed of {self.first} and {self.second}: no metric could be tested."
        names = {"first": (self.first, self.second), "second": (self.second, self.first)}
        parts = []
        for side, (one, other) in names.items():
            won = [_called(entry.column) for entry in tested if entry.better == side]
            if won:
                parts.append(f"{one} is better than {other} in {len(won)} ({', '.join(won)})")
        if undecided := sum(not entry.better for entry in tested):
            parts.append(f"{undecided} do{'es' if undecided == 1 else ''} not tell them apart")
        method = "paired permutation of items" if self.seeds == (1, 1) else "seeds and items"
        count = f"{len(tested)} metric{'s' if len(tested) > 1 else ''}"
        return f"Of {count} at the 5 % level ({method}, Holm's correction): {', '.join(parts)}. {self._reach}"

    @property
    def _reach(self) -> str:
        if self.seeds == (1, 1):
            return "This holds for these two checkpoints; one seed each says nothing about how they were trained."
        if 1 in self.seeds:
            return "One of them has a single seed; it is taken to vary as the other does."
        return f"This holds for the recipes, by {self.seeds[0]} and {self.seeds[1]} seeds."


def compare(
    first: str,
    second: str,
    folders: Sequence[str | Path],
    layout: str | None = None,
    patterns: Sequence[str] = (),
    every_metric: bool = False,
) -> Comparison:
    """Two models, or recipes of several seeds, in the layout's columns, or in every metric of the tasks.

    `patterns` choose among the columns (`views.chosen`). Holm's correction is over the columns compared. Raises
    UnknownNameError for a model that none of the output folders has, OutputError for a name that means two different
    models there and for damaged files.
    """
    found = found_in(folders)
    groups = recipes(found)
    a, b = (lookup("model in these results", name, groups) for name in (first, second))
    records = [record for name in dict.fromkeys([*a, *b]) for _, record in found[name].values()]
    asked = results.read_run(folders[0]).get("layout")
    named = columns.layout(layout or asked or tables.DEFAULT_LAYOUT)
    table = tables.build(records, columns.every_metric(named, records) if every_metric else named)
    table = views.chosen(table, patterns) if patterns else table
    counts = (len(a), len(b))
    if set(a) & set(b):
        return Comparison(first, second, counts, ())
    rows = {row.model: row for row in table.rows}
    both = [_Side([rows[name] for name in names], names, found) for names in (a, b)]
    readings = _Readings(found)
    entries, left_out = [], []
    for place, column in enumerate(table.columns):
        cells = [[row.cells[place] for row in side.rows] for side in both]
        if why := _missing(column, cells, table.footnotes):
            left_out += [why] if why not in left_out else []
        else:
            entries.append((column, cells))
    tested = sum(bool(column.better and column.task) for column, _ in entries)
    readings.permutations = max(FEWEST, PERMUTATIONS * tested)
    differences = [_difference(column, cells, both, readings) for column, cells in entries]
    return Comparison(first, second, counts, tuple(_corrected(differences)), tuple(left_out))


@dataclass(frozen=True)
class _Side:
    rows: Sequence[tables.Row]
    names: Sequence[str]
    found: Found


class _Readings(resampling.Readings):
    """What two models' items say together, too."""

    def __init__(self, found: Found):
        super().__init__(found)
        self.permutations = FEWEST
        self.exchanged = cache(self._exchanged)

    def _exchanged(self, first: str, second: str, task: str) -> dict[str, np.ndarray]:
        a, b = self.of(first, task), self.of(second, task)
        if isinstance(a, str) or isinstance(b, str):
            return {}
        return resampling.exchanged(a, b, self.permutations)

    def unpaired(self, models: Sequence[str], task: str) -> str:
        """Why the models' items of a task cannot be paired; empty if they can."""
        all_ = [self.of(model, task) for model in models]
        for one in all_:
            if isinstance(one, str):
                return one
            if why := resampling.differing(all_[0], one):  # type: ignore[arg-type]
                return why
        return ""


def _missing(column: Column, cells: Sequence[Sequence[Cell]], footnotes: Sequence[str]) -> str:
    """Why a column cannot be compared at all; empty where every model has a figure."""
    for cell in (cell for side in cells for cell in side):
        if cell.estimate is None:
            return "; ".join(footnotes[note] for note in cell.notes) or f"{column.key}: no figure"
        if not math.isfinite(cell.estimate.value):
            return f"{column.key}: the recorded figure is not a number"
    return ""


def _difference(
    column: Column, cells: Sequence[Sequence[Cell]], both: Sequence[_Side], readings: _Readings
) -> Difference:
    values = [np.array([cell.estimate.value for cell in side if cell.estimate]) for side in cells]
    spreads = [float(side.std(ddof=1)) if len(side) > 1 else None for side in values]
    a, b = (float(side.mean()) for side in values)
    found = Difference(column, a, b, a - b, n=cells[0][0].n, spread=(spreads[0], spreads[1]))
    models = [*both[0].names, *both[1].names]
    if why := _unfit(column, [*cells[0], *cells[1]], models, readings):
        return replace(found, note=why)
    drawn = [
        np.stack([readings.drawn(name, column.task)[column.metric] for name in side.names]) for side in both
    ]
    if len(models) > 2:
        tested = seeds.difference(values[0], values[1], drawn[0], drawn[1])
        return replace(found, low=tested.low, high=tested.high, p=tested.p if column.better else None)
    low, high = bootstrap.interval(drawn[0][0] - drawn[1][0])
    exchanged = readings.exchanged(*models, column.task).get(column.metric) if column.better else None
    p = None if exchanged is None else significance.permutation_p(a - b, exchanged)
    return replace(found, low=low, high=high, p=p)


def _unfit(column: Column, cells: Sequence[Cell], models: Sequence[str], readings: _Readings) -> str:
    """Why the difference has neither interval nor test; empty where it can have them."""
    if not column.task:
        return "an average over tasks: compare these"
    if not all(cell.comparable for cell in cells):
        return "measured on different data"
    if any(cell.degenerate for cell in cells):
        return "degenerate: the figure says little"
    if why := readings.unpaired(models, column.task):
        return why
    for model in models:
        if column.metric not in readings.drawn(model, column.task):
            return "resampling says nothing about this metric"
        measured = readings.of(model, column.task)
        if not isinstance(measured, str) and (why := measured.disagreement(column.metric)):
            return why
    return ""


def _corrected(differences: Sequence[Difference]) -> list[Difference]:
    tested = [place for place, entry in enumerate(differences) if entry.p is not None]
    adjusted = significance.holm([differences[place].p or 0.0 for place in tested])
    by_place = dict(zip(tested, map(float, adjusted), strict=True))
    return [replace(entry, adjusted=by_place.get(place)) for place, entry in enumerate(differences)]


def _called(column: Column) -> str:
    return f"{column.group} {column.title}" + (f" ({column.variant})" if column.variant else "")


def differences(
    first: Items, second: Items, first_record: Record, second_record: Record
) -> dict[str, np.ndarray] | str:
    """Differences (resamples,) of each metric, first minus second, both on the same resamples of the same items.

    Takes the per-item outcomes of two records of one task, one DataFrame a table; the task says what its metrics are
    on a resample. Metrics of which resampling makes no sense are left out. A text where they cannot be paired: why.
    """
    one, other = resampling.measured(first_record, first), resampling.measured(second_record, second)
    if isinstance(one, str) or isinstance(other, str):
        return one if isinstance(one, str) else str(other)
    if why := resampling.differing(one, other):
        return why
    a, b = one.statistics.drawn(), other.statistics.drawn()
    return {name: a[name] - b[name] for name in a}


def against_published(
    model: str, row: str, folders: Sequence[str | Path], layout: str | None = None
) -> list[Difference]:
    """A measured model minus a row of the layout's published figures; no bounds, as a paper's items are not known.

    Raises UnknownNameError for a model or a row that does not exist.
    """
    found = found_in(folders)
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
        Difference(
            column,
            ours.estimate.value,
            other.estimate.value,
            ours.estimate.value - other.estimate.value,
            n=ours.n,
            note=_reservation(found[model][column.task][1]),
        )
        for column, ours, other in pairs
        if column.task and ours.estimate and other.estimate
    ]


def _reservation(record: Record) -> str:
    """Why a figure does not compare with published ones: papers measure whole datasets with the released code."""
    parts = [] if record.way == "released" else [f"measured under protocol {record.way}"]
    if record.limit is not None:
        parts.append(f"measured on at most {record.limit:,} items")
    return ", ".join(parts)


def found_in(folders: Sequence[str | Path]) -> dict[str, dict[str, tuple[Path, Record]]]:
    """Model -> task -> the folder and the record; a later folder counts more."""
    found: dict[str, dict[str, tuple[Path, Record]]] = {}
    for folder in folders:
        for record in results.read_results(folder):
            known = found.setdefault(record.model, {})
            for _, other in known.values():
                if _apart(other, record):
                    raise OutputError(
                        f"{record.model} means two different checkpoints here: leave one folder out"
                    )
            known[record.task] = (Path(folder), record)
    return found


def _apart(first: Record, second: Record) -> bool:
    """Whether two records are surely of different models; one that did not load tells neither family nor weights."""
    families = {first.family, second.family} - {"unknown"}
    weights = {tables.checkpoint(first), tables.checkpoint(second)} - {None}
    return len(families) > 1 or len(weights) > 1


def recipes(found: Found) -> dict[str, list[str]]:
    """What may be compared: each model by itself, and the seeds of each recipe that has several."""
    groups: dict[str, list[str]] = {}
    for model, records in found.items():
        if recipe := tables.recipe_of(next(iter(records.values()))[1]):
            groups.setdefault(recipe, []).append(model)
    several = {recipe: models for recipe, models in groups.items() if len(models) > 1 and recipe not in found}
    return {**{model: [model] for model in found}, **several}
