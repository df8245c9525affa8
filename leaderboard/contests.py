"""Who takes part in the ranking of a column, with which figures, and who does not with the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hierbench.leaderboard import checks, draws, resampling, tables
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.draws import Drawn
from hierbench.leaderboard.tables import Row, Table
from hierbench.metrics import seeds

if TYPE_CHECKING:
    from hierbench.results import Record


@dataclass(frozen=True)
class Entrant:
    """A model or a recipe of several seeds: its rows in the table."""

    name: str
    rows: tuple[Row, ...]


def entrants(table: Table, each_seed: bool) -> list[Entrant]:
    """Who may be ranked: each row, and the seeds of a recipe as one, unless a row has the recipe's name."""
    rows = {row.model: row for row in table.rows}
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in table.rows:
        if row.recipe and row.recipe not in rows and not each_seed:
            groups.setdefault((row.recipe, row.family), []).append(row)
    several = [(recipe, members) for (recipe, _), members in groups.items() if len(members) > 1]
    taken = {row.model for _, members in several for row in members}
    single = [Entrant(name, (row,)) for name, row in rows.items() if name not in taken]
    names = [recipe for recipe, _ in several]
    return [
        *single,
        *(
            Entrant(f"{recipe} ({members[0].family})" if names.count(recipe) > 1 else recipe, tuple(members))
            for recipe, members in several
        ),
    ]


@dataclass(frozen=True)
class Contest:
    """The sound figures of a column: values (M,), their resamples (M, R), variances over seeds (M,), seeds (M,)."""

    column: Column
    names: tuple[str, ...]
    values: np.ndarray
    drawn: np.ndarray
    seed_variance: np.ndarray  # of the mean over seeds
    seeds: np.ndarray
    sd: tuple[float | None, ...]
    unranked: Mapping[str, str]
    outcasts: Mapping[str, str]  # of `unranked`: the task does not apply, or the figure is degenerate


Places = Mapping[str, Sequence[tuple["Record", Path]]]
"""Row -> its records, each with its folder."""


class Board:
    """A table with the records that its figures stand in."""

    def __init__(self, table: Table, entering: Sequence[Entrant], places: Places):
        self.table, self.entrants, self.places = table, entering, places
        self._by_id = {id(record): (record, folder) for found in places.values() for record, folder in found}
        self._drawn = lru_cache(2 * len(table.rows))(self._read)  # a task's columns follow one another

    def contests(self) -> Iterator[Contest]:
        """One for each metric that has a direction and is measured by a task, in the order of the columns."""
        for places in _variants(self.table).values():
            main = _main(self.table, places)
            column = self.table.columns[main]
            if column.better and column.task:  # an average's tasks have columns of their own
                yield self._contest(main, [place for place in places if place != main])

    def _record(self, row: Row, place: int) -> Record | None:
        records = (record for record, _ in self.places[row.model])
        return tables.source(records, self.table.columns[place], row.cells[place])

    def _figures(self, record: Record) -> Drawn | str:
        return self._drawn(id(record))

    def _read(self, key: int) -> Drawn | str:
        record, folder = self._by_id[key]
        return draws.of(folder, record)

    def _contest(self, place: int, others: Sequence[int]) -> Contest:
        column = self.table.columns[place]
        most = max((row.cells[place].n or 0 for row in self.table.rows), default=0)
        reference: list[tuple[Record, Drawn]] = []
        values, drawn, variance, counts, sds, names = [], [], [], [], [], []
        unranked, outcasts = {}, {}
        for entrant in sorted(self.entrants, key=lambda one: one.rows[0].cells[place].estimate is None):
            cells = [row.cells[place] for row in entrant.rows]
            why = self._unfit(entrant, place, others, most, reference)
            if why:
                unranked[entrant.name] = why
                if self._outcast(entrant, place, reference):
                    outcasts[entrant.name] = why
                continue
            figures = np.array([cell.estimate.value for cell in cells if cell.estimate])
            own = np.stack([self._resampled(row, place) for row in entrant.rows])
            names.append(entrant.name)
            values.append(figures.mean())
            drawn.append(own.mean(0) if len(figures) == 1 else seeds.replicates(figures, own, entrant.name))
            sds.append(float(figures.std(ddof=1)) if len(figures) > 1 else None)
            variance.append(float(figures.var(ddof=1)) / len(figures) if len(figures) > 1 else 0.0)
            counts.append(len(figures))
        stacked = np.stack(drawn) if drawn else np.empty((0, 0))
        return Contest(
            column, tuple(names), np.array(values), stacked, np.array(variance), np.array(counts),
            tuple(sds), unranked, outcasts,
        )  # fmt: skip

    def _resampled(self, row: Row, place: int) -> np.ndarray:
        record = self._record(row, place)
        found = None if record is None else self._figures(record)
        assert isinstance(found, Drawn)  # else `_unfit` has said why
        return found.values[self.table.columns[place].metric]

    def _outcast(
        self,
        entrant: Entrant,
        place: int,
        reference: Sequence[tuple[Record, Drawn]],
    ) -> bool:
        """Whether the column says nothing of the entrant: not its task, degenerate, entailment defined otherwise."""
        column = self.table.columns[place]
        records = [
            record
            for row in entrant.rows
            for record, _ in self.places[row.model]
            if record.task == column.task
        ]
        defined = {record.definition for record in records if record.metrics is not None}
        other = bool(reference) and bool(defined - {reference[0][0].definition})
        inapplicable = any(record.provenance.get("inapplicable") for record in records)
        own = [record for row in entrant.rows if (record := self._record(row, place)) is not None]
        reasons = [record.degenerate.get(column.metric) for record in own]
        degenerate = any(why and not isinstance(why, checks.Doubt) for why in reasons)
        return inapplicable or other or degenerate

    def _unfit(
        self,
        entrant: Entrant,
        place: int,
        others: Sequence[int],
        most: int,
        reference: list[tuple[Record, Drawn]],
    ) -> str:
        """Why an entrant has no rank in a column; empty where it has. `reference`: the first that had."""
        for row in entrant.rows:
            whose = "" if len(entrant.rows) == 1 else f" ({row.model})"
            why = self._recorded(row, place, others, most) or self._sampled(row, place, reference)
            if why:
                return why + whose
        return ""

    def _recorded(self, row: Row, place: int, others: Sequence[int], most: int) -> str:
        """What speaks against a row's figure, as far as records tell."""
        cell = row.cells[place]
        notes = "; ".join(self.table.footnotes[note] for note in cell.notes)
        if cell.estimate is None:
            elsewhere = [self.table.columns[other].variant for other in others if row.cells[other].estimate]
            return f"measured otherwise: {elsewhere[0]}" if elsewhere else notes or "not measured"
        if not math.isfinite(cell.estimate.value):
            return "the recorded figure is not a number"
        if not cell.comparable:
            return "measured on other images or labels"
        if cell.degenerate:
            return notes
        return f"measured on {cell.n or 0:,} of {most:,} items" if (cell.n or 0) < most else ""

    def _sampled(self, row: Row, place: int, reference: list[tuple[Record, Drawn]]) -> str:
        """What speaks against it when its items are asked; the first of a column becomes the reference."""
        record = self._record(row, place)
        metric = self.table.columns[place].metric
        if record is None:
            return "not measured"
        drawn = self._figures(record)
        if isinstance(drawn, str):
            return drawn
        if metric not in drawn.values:
            return "resampling says nothing about this metric"
        if why := resampling.disagreement(record, metric, drawn.figures):
            return why
        if not reference:
            reference.append((record, drawn))
        return reference[0][1].differing(drawn)


def _variants(table: Table) -> dict[str, list[int]]:
    """Columns that differ in how they were measured alone, by task and metric."""
    found: dict[str, list[int]] = {}
    for place, column in enumerate(table.columns):
        found.setdefault(f"{column.task}:{column.metric}", []).append(place)
    return found


def _main(table: Table, places: Sequence[int]) -> int:
    """The variant that is ranked: whole datasets before parts of them, then that of most models, then the plainest."""

    def order(place: int) -> tuple:
        part = "limit" in table.columns[place].variant.replace("all items", "")
        return (part, -sum(row.cells[place].estimate is not None for row in table.rows))

    return min(places, key=order)
