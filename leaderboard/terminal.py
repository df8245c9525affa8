"""A table for a terminal of any width: groups of columns side by side, as many as fit, the others below."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from hierbench.leaderboard.cells import ARROWS, figure, gain, interval, legend
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.tables import Cell, Table

SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class _Block:
    """A column ready to print: its heading and up to three lines a row, all `width` cells wide."""

    group: str
    head: tuple[str, ...]
    cells: tuple[tuple[tuple[str, str], ...], ...]  # figure, interval, gain, each with its style
    width: int


def terminal(table: Table, width: int = 120, style: bool = False) -> str:
    """The table for a terminal of `width` columns, groups side by side; what does not fit goes into further tables.

    With `style` the text carries ANSI codes, the best figures are bold and the second ones underlined; without, the
    best carry a star.
    """
    blocks = [_block(table, position, style) for position in range(len(table.columns))]
    names = _names(table, max(16, width // 4))
    name_width = max((cell_len(line) for name in names for line in name), default=5)
    lines = [*(Text(line, style="bold") for line in textwrap.wrap(table.title, width)), Text()]
    for part in _parts(blocks, width - name_width):
        lines += [*_head(part, name_width), *_body(part, names, name_width), Text()]
    if not table.columns:
        lines += [*(Text(name) for row in names for name in row), Text("(no figures)"), Text()]
    marks = legend(table, "bold", "underlined") if style else legend(table, "*")
    notes = [f"{_mark(number)} {note}" for number, note in enumerate(table.footnotes)]
    for note in filter(None, [marks, *table.remarks, *notes]):
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
    texts = [*head, *(text for cell in cells for text, _ in cell)]
    return _Block(column.group, tuple(head), cells, max(map(cell_len, texts)))


def _cell(column: Column, cell: Cell, style: bool) -> tuple[tuple[str, str], ...]:
    star = "*" if cell.best and not style else ""
    notes = "".join(_mark(note) for note in cell.notes)
    look = "bold" if cell.best else "underline" if cell.second else ""
    return (
        (star + figure(column, cell) + notes, look),
        (interval(column, cell), "dim"),
        (gain(column, cell), ""),
    )


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
        levels = [
            level for level in range(3) if level == 0 or any(block.cells[row][level][0] for block in part)
        ]
        labels = [*name, *[""] * (len(levels) - len(name))]
        if levels[-1] == 2 and not labels[len(levels) - 1]:
            labels[len(levels) - 1] = "Δ"
        for number, label in enumerate(labels):
            line = Text(label + " " * (name_width - cell_len(label)))
            for space, block in zip(_spaces(part), part, strict=True):
                text, look = block.cells[row][levels[number]] if number < len(levels) else ("", "")
                line.append(" " * space + _right("", block.width - cell_len(text)))
                line.append(text, style=look)
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
