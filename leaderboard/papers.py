"""Figures that papers print, as tables of their own: read from `published/*.yaml`, never merged with what was measured.

A file holds one table of one source. Its `source` names the paper and the table, each row says how the source calls it
and what the model was trained on, so that the same model stands once for every source that prints figures of it. A
column is `TASK:METRIC`, `average`, or for a quantity that no task here measures a mapping of title, group, unit,
better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hierbench.contracts import Estimate
from hierbench.errors import OutputError, UnknownNameError
from hierbench.leaderboard.columns import UNITS, Column, Specs, documents, layout
from hierbench.leaderboard.tables import Cell, Row, Table, standings
from hierbench.names import lookup
from hierbench.yaml_files import read_yaml

OWN = {"title", "group", "unit", "better"}
"""What tells a column that no task measures."""


def published(name: str) -> Table:
    """The figures of `published/NAME.yaml`, marked as not measured.

    Raises UnknownNameError where no such figures are stored, OutputError for a file that is not as the module says.
    """
    return read(lookup("published figures", name, documents("published")))


def find(row: str, names: Sequence[str]) -> tuple[Table, Row]:
    """A row of the named published tables: by its name, or as SOURCE:NAME where several sources have one of that name.

    Raises UnknownNameError, OutputError.
    """
    rows: dict[str, list[tuple[str, Table, Row]]] = {}
    for name in names:
        table = published(name)
        for entry in table.rows:
            rows.setdefault(entry.model, []).append((name, table, entry))
            rows[f"{name}:{entry.model}"] = [(name, table, entry)]
    found = lookup("published row", row, rows)
    if len(found) > 1:
        ways = " or ".join(f"{name}:{row}" for name, _, _ in found)
        raise OutputError(f"{row} stands in {len(found)} sources with figures of their own: write {ways}")
    return found[0][1:]


def read(path: Path) -> Table:
    """A file of published figures. Raises OutputError, in one line: what is wrong with it, and where."""
    document = read_yaml(path, "published figures", OutputError)
    where = f"published figures {path}"
    missing = {"title", "source", "columns", "rows"} - document.keys()
    if missing or not _texts(document["source"], ("paper", "table")):
        raise OutputError(f"{where}: it needs title, source (paper and table), columns and rows")
    columns = tuple(_columns(where, document))
    rows = tuple(_row(where, columns, fields) for fields in _list(where, document, "rows"))
    names = [row.model for row in rows]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OutputError(f"{where}: the row {twice} stands there twice")
    source = f"{document['source']['paper']}, {document['source']['table']}"
    trained = dict.fromkeys(row.trained_on for row in rows)
    on = [
        f"Trained on {data}: {', '.join(row.model for row in rows if row.trained_on == data)}."
        for data in trained
        if len(trained) > 1
    ] or [f"All were trained on {data}." for data in trained]
    return Table(
        title=f"PUBLISHED, not measured by hierbench: {document['title']}",
        columns=columns,
        rows=standings(columns, rows),
        remarks=(f"Source: {source}.", *on, *document.get("notes", ()), "–: not printed in the source."),
        measured=False,
        source=source,
    )


def _list(where: str, document: Mapping[str, Any], name: str) -> list:
    if not isinstance(document[name], list) or not document[name]:
        raise OutputError(f"{where}: {name} is not a list")
    return document[name]


def _texts(fields: Any, names: Sequence[str]) -> bool:
    return isinstance(fields, dict) and all(isinstance(fields.get(name), str) for name in names)


def _columns(where: str, document: Mapping[str, Any]) -> list[Column]:
    specs = Specs()
    try:
        known = {column.key: column for column in layout(document.get("layout", "all")).columns}
    except UnknownNameError as error:
        raise OutputError(f"{where}: {error}") from error
    columns = []
    for entry in _list(where, document, "columns"):
        if isinstance(entry, dict):
            proper = entry.keys() == OWN and entry["unit"] in UNITS and entry["better"] in ("higher", "lower")
            if not proper:
                raise OutputError(
                    f"{where}: a column of its own has title, group, unit and better, not {entry}"
                )
            columns.append(
                Column(entry["group"], entry["title"], entry["title"], entry["unit"], "", entry["better"])
            )
            continue
        task, _, metric = str(entry).rpartition(":")
        column = known.get(entry) or Column(task, "", metric, task=task)
        if (not task and entry not in known) or (
            column.task and specs.of(column.task, column.metric) is None
        ):
            raise OutputError(f"{where}: no task has a metric {entry!r}: see `hierbench tasks`")
        columns.append(specs.applied(column))
    keys = [column.key for column in columns]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise OutputError(f"{where}: the column {twice} stands there twice")
    return columns


def _row(where: str, columns: Sequence[Column], fields: Any) -> Row:
    if not _texts(fields, ("model", "row", "trained_on")) or not isinstance(fields.get("figures"), list):
        raise OutputError(f"{where}: a row needs model, row (its name in the source), trained_on and figures")
    figures = fields["figures"]
    if len(figures) != len(columns):
        count = f"{len(figures)} figures for {len(columns)} columns"
        raise OutputError(f"{where}: the row {fields['model']} has {count}")
    cells = tuple(
        _cell(f"{where}: the row {fields['model']}", column, figure)
        for column, figure in zip(columns, figures, strict=True)
    )
    return Row(fields["model"], "", cells, fields["trained_on"])


def _cell(where: str, column: Column, figure: Any) -> Cell:
    """Papers print fractions as percent; a cell holds what a record would."""
    if figure is None:
        return Cell()
    if type(figure) not in (int, float) or not math.isfinite(figure):
        raise OutputError(f"{where}: {column.key} is {figure!r}, not a number")
    if column.unit != "raw" and not 0 <= figure <= 100:
        raise OutputError(f"{where}: {column.key} is {figure}, outside 0 to 100 percent")
    return Cell(Estimate(figure / 100 if column.unit == "fraction" else figure))
