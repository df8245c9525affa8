"""What a reader asks of a table: seeds of one recipe in one row, some of the columns, gains over a baseline."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from hierbench.contracts import Estimate
from hierbench.errors import UnknownNameError
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.tables import Cell, Row, Table, standings
from hierbench.names import lookup, unknown


def together(table: Table) -> Table:
    """The table with models that differ by seed alone in one row: the mean of their figures and its standard deviation.

    Its figures have no interval: that of a recipe has two sources of variance (`hierbench.metrics.seeds`), and one of
    them is in the items. A cell stays empty where not every seed has a comparable figure.
    """
    footnotes = list(table.footnotes)
    rows: list[Row] = []
    seeds = {key: [row for row in table.rows if _recipe(row) == key] for key in map(_recipe, table.rows)}
    done = set()
    for row in table.rows:
        members = seeds[_recipe(row)]
        if not row.recipe or len(members) < 2:
            rows.append(row)
        elif _recipe(row) not in done:
            done.add(_recipe(row))
            cells = tuple(
                _mean(column, [member.cells[place] for member in members], footnotes)
                for place, column in enumerate(table.columns)
            )
            rows.append(Row(f"{row.recipe} ({len(members)} seeds)", row.family, cells, recipe=row.recipe))
    return replace(table, rows=standings(table.columns, rows), footnotes=tuple(footnotes))


def _recipe(row: Row) -> tuple[str, str]:
    return (row.recipe, row.family) if row.recipe else (row.model, "")


def _mean(column: Column, cells: Sequence[Cell], footnotes: list[str]) -> Cell:
    values = [cell.estimate.value for cell in cells if cell.estimate and cell.comparable]
    notes = tuple(dict.fromkeys(note for cell in cells for note in cell.notes))
    if len(values) < len(cells):
        if values:
            note = f"{column.task or 'average'}: measured alike for {len(values)} of {len(cells)} seeds"
            footnotes += [note] if note not in footnotes else []
            notes = (footnotes.index(note),)
        return Cell(notes=notes)
    return Cell(
        Estimate(statistics.fmean(values)),
        n=cells[0].n,
        notes=notes,
        degenerate=any(cell.degenerate for cell in cells),
        sd=statistics.stdev(values),
    )


def chosen(table: Table, patterns: Sequence[str]) -> Table:
    """The table with the columns that a pattern fits: a column's key, its task or its group, `*` for anything.

    Footnotes of columns that are left out go with them. Raises UnknownNameError for a pattern that fits none.
    """

    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for column in table.columns for name in _names(column)):
            everything = sorted({name for column in table.columns for name in _names(column)})
            raise UnknownNameError(unknown("column in this table", pattern, everything))
    return cut(table, patterns)


def cut(table: Table, patterns: Sequence[str]) -> Table:
    """As `chosen`, for patterns that may fit nothing."""
    kept = [
        place
        for place, column in enumerate(table.columns)
        if any(fnmatchcase(name, pattern) for name in _names(column) for pattern in patterns)
    ]
    rows = [replace(row, cells=tuple(row.cells[place] for place in kept)) for row in table.rows]
    used = sorted({note for row in rows for cell in row.cells for note in cell.notes})
    renumbered = {note: number for number, note in enumerate(used)}
    rows = [
        replace(
            row,
            cells=tuple(
                replace(cell, notes=tuple(renumbered[note] for note in cell.notes)) for cell in row.cells
            ),
        )
        for row in rows
    ]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(rows),
        footnotes=tuple(table.footnotes[note] for note in used),
    )


def _names(column: Column) -> set[str]:
    return {column.key, column.key.partition(" (")[0], column.task, column.group} - {""}


def over_baseline(tables: Sequence[Table], baseline: str) -> list[Table]:
    """The tables with gains over a row of theirs, where they have it. Raises UnknownNameError where none has it."""
    lookup("row in this table", baseline, {row.model: row for table in tables for row in table.rows})
    return [
        against(table, baseline) if any(row.model == baseline for row in table.rows) else table
        for table in tables
    ]


def against(table: Table, baseline: str) -> Table:
    """The table with every other row's gain over the baseline's figures, where both are sound and comparable.

    Raises UnknownNameError for a row that the table does not have.
    """
    base = lookup("row in this table", baseline, {row.model: row for row in table.rows})

    def gained(row: Row) -> Row:
        cells = []
        for own, other in zip(row.cells, base.cells, strict=True):
            fair = own.comparable and other.comparable and not own.degenerate and not other.degenerate
            gain = (
                own.estimate.value - other.estimate.value
                if fair and own.estimate and other.estimate
                else None
            )
            cells.append(replace(own, gain=gain))
        return replace(row, cells=tuple(cells))

    rows = tuple(row if row is base else gained(row) for row in table.rows)
    return replace(table, rows=rows, baseline=base.model)
