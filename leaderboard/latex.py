"""A table as LaTeX: booktabs, heads over groups of columns as in ARGENT's Table 2, best bold, second underlined.

What comes out compiles as it is, and goes into a paper by `\\input`: it makes a document around itself only where there
is none. Only the package booktabs is needed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from hierbench.leaderboard.cells import figure, gain, grouped, interval, legend
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.tables import Cell, Table

WIDEST = 16
"""Figures side by side; a table with more columns is broken, whole groups where it can be."""

OPENING = r"""% Compiles as it is; in a paper: \usepackage{booktabs} and \input this file.
\makeatletter
\ifx\@classoptionslist\relax
  \documentclass[a4paper]{article}
  \usepackage[utf8]{inputenc}\usepackage{booktabs}
  \paperwidth=420mm \textwidth=390mm \oddsidemargin=-10mm \pdfpagewidth=\paperwidth \pagestyle{empty}
  \let\hierbenchend\enddocument
  \expandafter\document
\fi
\makeatother
"""
CLOSING = "\\ifx\\hierbenchend\\undefined\\else\\expandafter\\hierbenchend\\fi\n"

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"''", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "→": r"$\to$", "±": r"$\pm$",
    "−": "$-$", "–": "--", "—": "---", "×": r"$\times$", "Δ": r"$\Delta$", "κ": r"$\kappa$", "≤": r"$\le$",
    "≥": r"$\ge$", "°": r"$^\circ$", "…": r"\ldots{}", "“": "``", "”": "''", "’": "'", "√": r"$\surd$",
    "\N{NO-BREAK SPACE}": "~",
}  # fmt: skip

LATIN = "ÆØŁßæøł§©£¡¿"
"""Letters without an accent to split off that LaTeX's oldest fonts have."""


def latex(*tables: Table) -> str:
    """The tables, measured and published ones, as one LaTeX file."""
    return OPENING + "\n".join(_table(table) for table in tables) + CLOSING


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; letters that pdfLaTeX's fonts lack become their code point."""
    return "".join(SPECIAL.get(letter) or _letter(letter) for letter in " ".join(text.split()))


def _letter(letter: str) -> str:
    """One that every font has, accents included; "[U+4E2D]" for another."""
    if letter.isascii() or letter in LATIN:
        return letter if letter.isprintable() else ""
    plain = unicodedata.normalize("NFKD", letter)
    if plain.isascii():
        return plain
    return (
        letter
        if plain[0].isalpha() and ord(letter) < 0x180 and plain[0].isascii()
        else f"[U+{ord(letter):04X}]"
    )


def _table(table: Table) -> str:
    parts = _parts(table.columns) or [range(0)]
    lines = [r"\begin{table*}[t]", r"\centering\footnotesize\setlength{\tabcolsep}{3pt}"]
    lines.append(f"\\caption{{{escape(_caption(table))}}}")
    for number, part in enumerate(parts):
        lines += [r"\par\medskip"] if number else []
        lines += _tabular(table, part)
    for note, text in enumerate(table.footnotes, 1):
        lines.append(f"\\par\\raggedright\\scriptsize $^{{{note}}}$ {escape(text)}")
    return "\n".join([*lines, r"\end{table*}", ""])


def _caption(table: Table) -> str:
    texts = [f"{table.title}.", legend(table, "bold", "underlined"), *table.remarks]
    return " ".join(text for text in texts if text)


def _parts(columns: Sequence[Column]) -> list[range]:
    """Places of columns, at most `WIDEST` together; a group stays whole unless it is wider than that."""
    parts: list[range] = []
    place = 0
    for _, span in grouped(columns):
        for start in range(place, place + span, WIDEST):
            stop = min(start + WIDEST, place + span)
            if parts and start == place and stop - parts[-1].start <= WIDEST:
                parts[-1] = range(parts[-1].start, stop)
            else:
                parts.append(range(start, stop))
        place += span
    return parts


def _tabular(table: Table, part: range) -> list[str]:
    columns = [table.columns[place] for place in part]
    lines = [f"\\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule", *_head(columns), r"\midrule"]
    for row in table.rows:
        cells = [(column, row.cells[place]) for column, place in zip(columns, part, strict=True)]
        lines.append(_line([escape(row.model), *(_cell(column, cell) for column, cell in cells)]))
        if any(interval(column, cell) for column, cell in cells):
            bounds = (
                f"{{\\scriptsize {escape(text)}}}" if (text := interval(*cell)) else "" for cell in cells
            )
            lines.append(_line(["", *bounds]))
        if any(cell.gain is not None for _, cell in cells):
            lines.append(_line([r"$\Delta$", *(escape(gain(column, cell)) for column, cell in cells)]))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


@dataclass(frozen=True)
class _Span:
    """Neighbouring columns with one title over them; `first` counts from 0, the column of names not among them."""

    title: str
    first: int
    width: int


def _head(columns: Sequence[Column]) -> list[str]:
    """Up to three lines: groups; what neighbouring titles of a group begin with, as COCO of "COCO R@5"; the rest."""
    lines = []
    groups, start = [], 0
    for title, width in grouped(columns):
        groups.append(_Span(title, start, width))
        start += width
    lines += _spans(groups)
    shared = [span for group in groups for span in _shared(columns, group)]
    if any(span.title for span in shared):
        lines += _spans(shared)
    titles = []
    for span in shared:
        for column in columns[span.first : span.first + span.width]:
            title = column.title[len(span.title) :].strip()
            variant = f" ({escape(column.variant)})" if column.variant else ""
            arrow = {"higher": r" $\uparrow$", "lower": r" $\downarrow$"}.get(column.better, "")
            titles.append(escape(title) + arrow + variant)
    return [*lines, _line(["Model", *titles])]


def _shared(columns: Sequence[Column], group: _Span) -> list[_Span]:
    """The group cut into runs of columns whose titles begin with the same word; runs of one have no title."""
    spans: list[_Span] = []
    for place in range(group.first, group.first + group.width):
        first, _, rest = columns[place].title.partition(" ")
        if spans and rest and spans[-1].title == first:
            spans[-1] = _Span(first, spans[-1].first, spans[-1].width + 1)
        else:
            spans.append(_Span(first if rest else "", place, 1))
    return [span if span.width > 1 else _Span("", span.first, 1) for span in spans]


def _spans(spans: Sequence[_Span]) -> list[str]:
    cells = [f"\\multicolumn{{{span.width}}}{{c}}{{{escape(span.title)}}}" for span in spans]
    rules = [
        f"\\cmidrule(lr){{{span.first + 2}-{span.first + span.width + 1}}}" for span in spans if span.title
    ]
    return [_line(["", *cells]), "".join(rules)]


def _cell(column: Column, cell: Cell) -> str:
    text = escape(figure(column, cell))
    text = f"\\textbf{{{text}}}" if cell.best else f"\\underline{{{text}}}" if cell.second else text
    notes = ",".join(str(note + 1) for note in cell.notes)
    return text + (f"$^{{{notes}}}$" if notes else "")


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
