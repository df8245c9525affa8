"""A table as HTML: one `<table>` with its heads over groups, notes below; no script, and no style but its own."""

from __future__ import annotations

from html import escape

from hierbench.leaderboard.cells import figure, gain, grouped, heading, interval, legend
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.tables import Cell, Table

STYLE = (
    "<style>.hierbench{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".hierbench td,.hierbench th{padding:.2em .6em;text-align:right}.hierbench th[scope=row]{text-align:left}"
    ".hierbench thead th{border-bottom:1px solid}.hierbench small{opacity:.7}"
    ".hierbench caption{font-weight:bold;text-align:left}</style>"
)


def html(table: Table) -> str:
    """The table as a fragment of HTML: best figures in `<b>`, second ones in `<u>`, intervals small, notes numbered."""
    groups = "".join(
        f'<th colspan="{span}" scope="colgroup">{escape(title)}</th>'
        for title, span in grouped(table.columns)
    )
    heads = "".join(f'<th scope="col">{escape(heading(column))}</th>' for column in table.columns)
    lines = [
        STYLE,
        f'<table class="hierbench"><caption>{escape(table.title)}</caption>',
        f'<thead><tr><th rowspan="2" scope="col">Model</th>{groups}</tr>',
        f"<tr>{heads}</tr></thead>",
        "<tbody>",
    ]
    for row in table.rows:
        cells = list(zip(table.columns, row.cells, strict=True))
        texts = "".join(f"<td>{_cell(column, cell)}</td>" for column, cell in cells)
        lines.append(f'<tr><th scope="row">{escape(row.model)}</th>{texts}</tr>')
        if any(cell.gain is not None for cell in row.cells):
            texts = "".join(f"<td>{gain(column, cell)}</td>" for column, cell in cells)
            lines.append(f'<tr><th scope="row">Δ {escape(row.model)}</th>{texts}</tr>')
    lines.append("</tbody></table>")
    lines += [
        f"<p>{escape(remark)}</p>"
        for remark in (legend(table, "bold", "underlined"), *table.remarks)
        if remark
    ]
    if table.footnotes:
        lines += ["<ol>", *(f"<li>{escape(note)}</li>" for note in table.footnotes), "</ol>"]
    return "\n".join(lines) + "\n"


def _cell(column: Column, cell: Cell) -> str:
    text = figure(column, cell)
    text = f"<b>{text}</b>" if cell.best else f"<u>{text}</u>" if cell.second else text
    bounds = interval(column, cell)
    notes = ",".join(str(note + 1) for note in cell.notes)
    return text + (f" <small>{bounds}</small>" if bounds else "") + (f"<sup>{notes}</sup>" if notes else "")
