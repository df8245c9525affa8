"""A table as text: Markdown, CSV, JSON; and which renderer makes which form.

All functions return strings; printing and writing files is the command line's business.
"""

from __future__ import annotations

import csv as csv_module
import io
import json as json_module
import math
import re
from collections.abc import Callable, Sequence

from hierbench.contracts import Estimate
from hierbench.leaderboard.cells import figure, gain, heading, interval, legend
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.html import html
from hierbench.leaderboard.latex import latex
from hierbench.leaderboard.tables import Cell, Table
from hierbench.leaderboard.terminal import terminal

FORMS = ("terminal", "markdown", "latex", "html", "csv", "json")


def text(form: str, tables: Sequence[Table], width: int = 120, style: bool = False) -> str:
    """A table, and published ones after it, in one of `FORMS`; `width` and `style` are the terminal's."""
    if form == "terminal":
        return "\n".join(terminal(table, width, style) for table in tables)
    if form == "markdown":
        return "\n".join(map(markdown, tables))
    if form == "html":
        return "\n".join(map(html, tables))
    together: dict[str, Callable[..., str]] = {"latex": latex, "csv": csv, "json": json}
    return together[form](*tables)


# ------------------------------------------------------------------------------------------------------ Markdown


def markdown(table: Table) -> str:
    """A GitHub-flavoured Markdown table with its remarks and footnotes below."""
    head = ["Model", *(f"{column.group}: {heading(column)}" for column in table.columns)]
    lines = [f"**{escape(table.title)}**", "", _line([escape(text) for text in head])]
    lines.append(_line([":--", *("--:" for _ in table.columns)]))
    for row in table.rows:
        cells = list(zip(table.columns, row.cells, strict=True))
        lines.append(_line([escape(row.model), *(_markdown_cell(column, cell) for column, cell in cells)]))
        if any(cell.gain is not None for cell in row.cells):
            lines.append(_line([f"Δ {escape(row.model)}", *(gain(column, cell) for column, cell in cells)]))
    for remark in filter(None, [legend(table, "bold", "underlined"), *table.remarks]):
        lines += ["", escape(remark)]
    if table.footnotes:
        lines += ["", *(f"[^{number}]: {escape(note)}" for number, note in enumerate(table.footnotes, 1))]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(column: Column, cell: Cell) -> str:
    text = figure(column, cell)
    text = f"**{text}**" if cell.best else f"<u>{text}</u>" if cell.second else text
    bounds = interval(column, cell)
    return text + (f" {bounds}" if bounds else "") + "".join(f"[^{note + 1}]" for note in cell.notes)


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = re.sub(r"([\\|*<>\[\]`~])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # underscores inside words are harmless


# ------------------------------------------------------------------------------------------------- CSV and JSON


def csv(*tables: Table) -> str:
    """One line a row of any of the tables; per column the value and what belongs to it, as recorded and unrounded.

    `source` tells rows that were measured from those that a paper prints. Columns that several tables have stand once.
    """
    rows = [(table, row) for table in tables for row in table.rows]
    keys = list(dict.fromkeys(column.key for table in tables for column in table.columns))
    parts = ["low", "high", "n", "standing", "note"]
    parts[2:2] = ["sd"] if any(cell.sd is not None for _, row in rows for cell in row.cells) else []
    parts[-1:-1] = ["gain"] if any(table.baseline is not None for table in tables) else []
    printed = [] if all(table.measured for table in tables) else ["trained on"]
    out = io.StringIO()
    writer = csv_module.writer(out, lineterminator="\n")
    names = [name for key in keys for name in (key, *(f"{key} {part}" for part in parts))]
    writer.writerow(["model", "family", "source", *printed, *names])
    for table, row in rows:
        cells = {column.key: cell for column, cell in zip(table.columns, row.cells, strict=True)}
        line: list[str | float | None] = [row.model, row.family, table.source or "measured"]
        line += [row.trained_on] if printed else []
        for key in keys:
            told = _told(table, cells[key]) if key in cells else {}
            line += [told.get(part) for part in ("value", *parts)]
        writer.writerow(line)
    return out.getvalue()


def _told(table: Table, cell: Cell) -> dict[str, str | float | None]:
    estimate = cell.estimate
    bounds = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
    return {
        **dict(zip(("value", "low", "high"), bounds, strict=True)),
        "sd": cell.sd,
        "n": cell.n,
        "standing": "best" if cell.best else "second" if cell.second else "",
        "gain": cell.gain,
        "note": "; ".join(table.footnotes[note] for note in cell.notes),
    }


def json(table: Table, *published: Table) -> str:
    """The table as one JSON document, values and bounds as recorded; published tables under `published`."""
    document = as_dict(table) | ({"published": [as_dict(one) for one in published]} if published else {})
    return json_module.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def as_dict(table: Table) -> dict:
    """The table as plain lists and mappings."""
    columns = [
        {
            "key": column.key,
            "group": column.group,
            "title": column.title,
            "task": column.task or None,
            "average_over": list(column.average_over),
            "metric": column.metric,
            "unit": column.unit,
            "better": column.better or None,
            "variant": column.variant or None,
        }
        for column in table.columns
    ]
    return {
        "title": table.title,
        "source": "measured" if table.measured else "published",
        "paper": table.source or None,
        "baseline": table.baseline,
        "columns": columns,
        "rows": [
            {
                "model": row.model,
                "family": row.family or None,
                "trained_on": row.trained_on or None,
                "cells": {
                    column.key: _cell_dict(cell)
                    for column, cell in zip(table.columns, row.cells, strict=True)
                },
            }
            for row in table.rows
        ],
        "footnotes": list(table.footnotes),
        "remarks": list(table.remarks),
    }


def _cell_dict(cell: Cell) -> dict:
    estimate = cell.estimate or Estimate(math.nan)
    bounds = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    finite = {
        name: bound if bound is not None and math.isfinite(bound) else None for name, bound in bounds.items()
    }
    own = {"sd": cell.sd, "gain": cell.gain, "n": cell.n, "best": cell.best, "second": cell.second}
    return finite | own | {"notes": list(cell.notes)}
