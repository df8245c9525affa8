"""What all renderers say alike: figures, intervals, gains, headings, the legend."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.tables import Cell, Table, printed

ARROWS = {"higher": "↑", "lower": "↓", "": ""}
GAP = "–"


def figure(column: Column, cell: Cell) -> str:
    """The figure as tables print it; a dash for a gap and for what is not a number."""
    estimate = cell.estimate
    return GAP if estimate is None or not math.isfinite(estimate.value) else printed(column, estimate.value)


def interval(column: Column, cell: Cell) -> str:
    """Half the width of the 95 % interval, or the standard deviation over seeds, as "±1.2"; empty without one.

    The bounds themselves are in CSV and JSON.
    """
    if cell.sd is not None:
        return f"±{printed(column, cell.sd)}"
    estimate = cell.estimate
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"±{printed(column, (estimate.high - estimate.low) / 2)}"


def gain(column: Column, cell: Cell) -> str:
    """The gain over the baseline with its sign; empty without one."""
    if cell.gain is None:
        return ""
    text = printed(column, cell.gain)
    return f"+{text}" if float(text) > 0 else text.replace("-", "−")


def heading(column: Column) -> str:
    """Title, arrow and variant in one line: "COCO R@5 ↑ (corrected)"."""
    words = [column.title, ARROWS[column.better], f"({column.variant})" if column.variant else ""]
    return " ".join(word for word in words if word)


def grouped(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Titles of the groups in order, each with the number of neighbouring columns that it spans."""
    groups: list[tuple[str, int]] = []
    for column in columns:
        if groups and groups[-1][0] == column.group:
            groups[-1] = (column.group, groups[-1][1] + 1)
        else:
            groups.append((column.group, 1))
    return groups


def legend(table: Table, best: str, second: str = "") -> str:
    """What the marks mean: `best` and `second` say how such figures look, where there are any."""
    cells = [
        (column, cell) for row in table.rows for column, cell in zip(table.columns, row.cells, strict=True)
    ]
    parts = []
    if any(interval(column, cell) and cell.sd is None for column, cell in cells):
        parts.append("± half the 95 % bootstrap interval")
    if any(cell.sd is not None for _, cell in cells):
        parts.append("± of several seeds: their standard deviation")
    directions = {column.better for column in table.columns}
    parts += [f"{ARROWS[way]} {way} is better" for way in ("higher", "lower") if way in directions]
    if any(cell.best for _, cell in cells):
        parts.append(f"{best}: best of its column")
    if second and any(cell.second for _, cell in cells):
        parts.append(f"{second}: second")
    if table.baseline is not None:
        parts.append(f"Δ: gain over {table.baseline}")
    return "; ".join(parts) + "." if parts else ""
