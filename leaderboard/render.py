"""A table as text: for a terminal (any width), Markdown, CSV, JSON.

All functions return strings; printing and writing files is the command line's business.
"""

from __future__ import annotations

import csv as csv_module
import io
import json as json_module
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from hierbench.contracts import Estimate
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.tables import Cell, Table, printed

ARROWS = {"higher": "↑", "lower": "↓", "": ""}
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
GAP = "–"


def interval(column: Column, cell: Cell) -> str:
    """Half the width of the 95 % interval, as "±1.2"; empty without one. The bounds themselves are in CSV and JSON."""
    estimate = cell.estimate
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"±{printed(column, (estimate.high - estimate.low) / 2)}"


def heading(column: Column) -> str:
    """Title, arrow and variant in one line: "COCO R@5 ↑ (corrected)"."""
    words = [column.title, ARROWS[column.better], f"({column.variant})" if column.variant else ""]
    return " ".join(word for word in words if word)


def _legend(table: Table, best: str) -> str:
    cells = [cell for row in table.rows for cell in row.cells]
    parts = []
    if any(
        interval(column, cell)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
    ):
        parts.append("± half the 95 % bootstrap interval")
    directions = {column.better for column in table.columns}
    parts += [f"{ARROWS[way]} {way} is better" for way in ("higher", "lower") if way in directions]
    if any(cell.best for cell in cells):
        parts.append(best)
    return "; ".join(parts) + "." if parts else ""


# ------------------------------------------------------------------------------------------------------ terminal


@dataclass(frozen=True)
class _Block:
    """A column ready to print: its heading and two lines a row, all `width` cells wide."""

    group: str
    head: tuple[str, ...]
    cells: tuple[tuple[str, str, bool], ...]  # figure, interval, best
    width: int


def terminal(table: Table, width: int = 120, style: bool = False) -> str:
    """The table for a terminal of `width` columns, groups side by side; what does not fit goes into further tables.

    With `style` the text carries ANSI codes and the best figures are bold; without, they carry a star.
    """
    blocks = [_block(table, position, style) for position in range(len(table.columns))]
    names = _names(table, max(16, width // 4))
    name_width = max((cell_len(line) for name in names for line in name), default=5)
    lines = [*(Text(line, style="bold") for line in textwrap.wrap(table.title, width)), Text()]
    for part in _parts(blocks, width - name_width):
        lines += [*_head(part, name_width), *_body(part, names, name_width), Text()]
    if not table.columns:
        lines += [*(Text(name) for row in names for name in row), Text("(no figures)"), Text()]
    legend = _legend(table, "bold: best of its column" if style else "*: best of its column")
    notes = [f"{_mark(number)} {note}" for number, note in enumerate(table.footnotes)]
    for note in filter(None, [legend, *table.remarks, *notes]):
        wrapped = textwrap.wrap(
            note, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        lines += [Text(line, style="dim") for line in wrapped]
    return _text(lines, width, style)


def _block(table: Table, position: int, style: bool) -> _Block:
    column = table.columns[position]
    head = column.title.split()
    head[-1] = f"{head[-1]} {ARROWS[column.better]}".rstrip()
    head += f"({column.variant})".replace(", ", ",\n").split("\n") if column.variant else []
    cells = tuple(_cell(column, row.cells[position], style) for row in table.rows)
    texts = [*head, *(text for cell in cells for text in cell[:2])]
    return _Block(column.group, tuple(head), cells, max(map(cell_len, texts)))


def _cell(column: Column, cell: Cell, style: bool) -> tuple[str, str, bool]:
    figure = GAP if cell.estimate is None else printed(column, cell.estimate.value)
    star = "*" if cell.best and not style else ""
    return star + figure + "".join(_mark(note) for note in cell.notes), interval(column, cell), cell.best


def _mark(note: int) -> str:
    return str(note + 1).translate(SUPERSCRIPTS)


def _names(table: Table, most: int) -> list[list[str]]:
    """The name of each row, broken into lines of at most `most` characters."""
    return [textwrap.wrap(row.model, most, break_long_words=True) or [""] for row in table.rows]


def _parts(blocks: Sequence[_Block], width: int) -> list[list[_Block]]:
    """Blocks in portions that fit the width; a group stays together where it can."""
    groups: list[list[_Block]] = []
    for block in blocks:
        if groups and groups[-1][-1].group == block.group:
            groups[-1].append(block)
        else:
            groups.append([block])
    parts: list[list[_Block]] = []
    for group in map(_widened, groups):
        if parts and _span([*parts[-1], *group]) <= width:
            parts[-1] += group
            continue
        parts.append([])
        for block in group:
            if parts[-1] and _span([*parts[-1], block]) > width:
                parts.append([])
            parts[-1].append(block)
    return parts


def _widened(group: list[_Block]) -> list[_Block]:
    """The group with its first column wide enough for the longest word of the group's title."""
    missing = max(map(cell_len, group[0].group.split())) - _span(group) + _spaces(group)[0]
    return [replace(group[0], width=group[0].width + max(0, missing)), *group[1:]]


def _spaces(part: Sequence[_Block]) -> list[int]:
    """Spaces before each block: two, and three where a group begins."""
    return [3 if i == 0 or part[i - 1].group != block.group else 2 for i, block in enumerate(part)]


def _span(part: Sequence[_Block]) -> int:
    return sum(block.width for block in part) + sum(_spaces(part))


def _head(part: Sequence[_Block], name_width: int) -> list[Text]:
    """Group titles over their columns with a rule below, then the column headings, bottom-aligned."""
    spans: list[tuple[str, int, int]] = []  # title, spaces before, width
    for space, block in zip(_spaces(part), part, strict=True):
        if spans and spans[-1][0] == block.group:
            title, before, width = spans[-1]
            spans[-1] = (title, before, width + space + block.width)
        else:
            spans.append((block.group, space, block.width))
    wrapped = [textwrap.wrap(title, max(width, max(map(len, title.split())))) for title, _, width in spans]
    lines = []
    for level in range(max(map(len, wrapped))):
        line = " " * name_width
        for (_, before, width), parts in zip(spans, wrapped, strict=True):
            depth = level - (max(map(len, wrapped)) - len(parts))
            line += " " * before + (parts[depth] if depth >= 0 else "").center(width)
        lines.append(Text(line.rstrip(), style="bold"))
    lines.append(
        Text(
            " " * name_width + "".join(" " * before + "─" * width for _, before, width in spans), style="dim"
        )
    )
    depth = max(len(block.head) for block in part)
    for level in range(depth):
        line = "Model".ljust(name_width) if level == depth - 1 else " " * name_width
        for space, block in zip(_spaces(part), part, strict=True):
            own = level - (depth - len(block.head))
            line += " " * space + _right(block.head[own] if own >= 0 else "", block.width)
        lines.append(Text(line))
    lines.append(Text("─" * (name_width + _span(part)), style="dim"))
    return lines


def _body(part: Sequence[_Block], names: Sequence[Sequence[str]], name_width: int) -> list[Text]:
    lines = []
    for row, name in enumerate(names):
        has_interval = any(block.cells[row][1] for block in part)
        for level in range(max(len(name), 2 if has_interval else 1)):
            own = name[level] if level < len(name) else ""
            line = Text(own + " " * (name_width - cell_len(own)))
            for space, block in zip(_spaces(part), part, strict=True):
                figure, bounds, best = block.cells[row]
                text = (figure, bounds)[level] if level < 2 else ""
                line.append(" " * space + _right("", block.width - cell_len(text)))
                line.append(text, style=("bold" if best else "") if level == 0 else "dim")
            lines.append(line)
    return lines


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def _text(lines: Sequence[Text], width: int, style: bool) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width, 1000),
        force_terminal=style,
        color_system="standard" if style else None,
        highlight=False,
    )  # wide: the lines are broken already
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)
    return out.getvalue()


# ------------------------------------------------------------------------------------------------------ Markdown


def markdown(table: Table) -> str:
    """A GitHub-flavoured Markdown table with its remarks and footnotes below."""
    head = ["Model", *(f"{column.group}: {heading(column)}" for column in table.columns)]
    lines = [f"**{escape(table.title)}**", "", _line([escape(text) for text in head])]
    lines.append(_line([":--", *("--:" for _ in table.columns)]))
    for row in table.rows:
        cells = [_markdown_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)]
        lines.append(_line([escape(row.model), *cells]))
    for remark in filter(None, [_legend(table, "bold: best of its column"), *table.remarks]):
        lines += ["", escape(remark)]
    if table.footnotes:
        lines += ["", *(f"[^{number}]: {escape(note)}" for number, note in enumerate(table.footnotes, 1))]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(column: Column, cell: Cell) -> str:
    figure = GAP if cell.estimate is None else printed(column, cell.estimate.value)
    if cell.best:
        figure = f"**{figure}**"
    bounds = interval(column, cell)
    return figure + (f" {bounds}" if bounds else "") + "".join(f"[^{note + 1}]" for note in cell.notes)


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = re.sub(r"([\\|*<>\[\]`~])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # underscores inside words are harmless


# ------------------------------------------------------------------------------------------------- CSV and JSON


def csv(table: Table) -> str:
    """One line a model; per column the value, its bounds and the number of items, as recorded and unrounded."""
    out = io.StringIO()
    writer = csv_module.writer(out, lineterminator="\n")
    head = ["model", "family", "source"]
    for column in table.columns:
        head += [
            column.key,
            f"{column.key} low",
            f"{column.key} high",
            f"{column.key} n",
            f"{column.key} note",
        ]
    writer.writerow(head)
    for row in table.rows:
        line: list[str | float | None] = [
            row.model,
            row.family,
            "measured" if table.measured else "published",
        ]
        for cell in row.cells:
            estimate = cell.estimate
            line += [None] * 3 if estimate is None else [estimate.value, estimate.low, estimate.high]
            line += [cell.n, "; ".join(table.footnotes[note] for note in cell.notes)]
        writer.writerow(line)
    return out.getvalue()


def json(table: Table) -> str:
    """The table as one JSON document, values and bounds as recorded."""
    return json_module.dumps(as_dict(table), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


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
        "columns": columns,
        "rows": [
            {
                "model": row.model,
                "family": row.family or None,
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
    return finite | {"n": cell.n, "best": cell.best, "notes": list(cell.notes)}
