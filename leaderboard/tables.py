"""Result records to a table: which columns, which cell, what is best, and what a reader has to be told.

A column is one metric of one task under one *variant* (task version, protocol with what sets the images apart from it,
prompts, limit): figures that were measured differently never share a column. `hierbench.leaderboard.columns` says which
columns there are and in which order; `hierbench.leaderboard.render` turns the table into text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hierbench.contracts import Estimate
from hierbench.errors import one_line
from hierbench.leaderboard.columns import Column, Layout, Specs, further, layout

if TYPE_CHECKING:
    from hierbench.results import Record

DEFAULT_LAYOUT = "argent"


@dataclass(frozen=True)
class Cell:
    """A figure or a gap; `notes` are positions in the table's footnotes."""

    estimate: Estimate | None = None
    n: int | None = None
    best: bool = False
    second: bool = False  # the best but one, of three or more
    notes: tuple[int, ...] = ()
    comparable: bool = True  # False: measured on other data than the rest of the column
    degenerate: bool = False  # the figure says little; such a one is never the best
    sd: float | None = None  # over seeds, where the row stands for several
    gain: float | None = None  # over the baseline's figure, where there is a baseline


@dataclass(frozen=True)
class Row:
    """One model, or all seeds of one."""

    model: str
    family: str
    cells: tuple[Cell, ...]
    trained_on: str = ""  # of published rows
    recipe: str = ""  # what models that differ by seed alone have in common; "" = a model of its own


@dataclass(frozen=True)
class Table:
    """What the renderers print. `remarks` concern the whole table, `footnotes` single cells."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    measured: bool = True  # False: figures printed in a paper
    source: str = ""  # of published figures: the paper and its table
    published: tuple[str, ...] = ()  # names of the papers' own figures for this layout
    baseline: str | None = None  # the row whose figures the others' gains are over


@dataclass(frozen=True)
class _Variant:
    """How a figure was measured; figures of different variants do not compare."""

    version: str
    protocol: str  # with the dataset's variant, as in "released+whole-set"
    prompts: str
    limit: int | None
    definition: str = ""  # of entailment

    @classmethod
    def of(cls, record: Record) -> _Variant:
        protocol = f"{record.protocol}+{record.variant}" if record.variant else record.protocol
        return cls(str(record.task_version), protocol, record.prompts, record.limit, record.definition)


@dataclass(frozen=True)
class _Figure:
    """One measured value of a column, before it has a place in the table."""

    row: str
    estimate: Estimate
    n: int | None
    variant: _Variant
    fingerprint: str | None
    degenerate: str = ""  # why the figure says little; such a one is never the best


# ------------------------------------------------------------------------------------------------ measured figures


def read(folders: Sequence[str | Path], layout: str | None = None) -> Table:
    """The table of one or several output folders, from their files alone.

    Where two folders hold the same measurement (model, checkpoint, task, variant), the later one counts, and a figure
    more than a gap. The layout is by default the one of the first folder's run. Raises OutputError, UnknownNameError.
    """
    records = [record for record, _ in gathered(folders)]
    return build(records, layout or layout_of(folders))


def gathered(folders: Sequence[str | Path]) -> list[tuple[Record, Path]]:
    """The records that count of several output folders, as `read` has it, each with its folder. Raises OutputError."""
    from hierbench import results

    records: dict[tuple, tuple[Record, Path]] = {}
    for folder in folders:
        for record in results.read_results(folder):
            same = (record.model, record.family, checkpoint(record), record.task, _Variant.of(record))
            before = records.pop(same, (record, Path(folder)))
            gap = record.metrics is None and before[0].metrics is not None
            records[same] = before if gap else (record, Path(folder))
    return list(records.values())


def layout_of(folders: Sequence[str | Path]) -> str:
    """The name of the layout that the first folder's run asked for. Raises OutputError."""
    from hierbench import results

    return results.read_run(folders[0]).get("layout") or DEFAULT_LAYOUT


def build(results: Iterable[Record], layout: str | Layout = DEFAULT_LAYOUT) -> Table:
    """The table of some records: one row a model, in the order in which the records name them.

    A task that the layout does not know gets the columns that `columns.further` tells. A column appears if
    some model has a figure in it or failed at it; tasks that were skipped for every model are named in the remarks.
    Raises UnknownNameError for an unknown layout.
    """
    records = list(results)
    layout = _named(layout)
    specs = Specs(records)
    added = further(layout, records)
    names = row_names(records)
    rows = list(dict.fromkeys(names))
    by_place: dict[tuple[str, str], list[Record]] = {}
    for name, record in zip(names, records, strict=True):
        by_place.setdefault((name, record.task), []).append(record)

    footnotes: list[str] = []
    columns: list[Column] = []
    cells: dict[str, list[Cell]] = {row: [] for row in rows}
    for column in [*layout.columns, *added]:
        figures = _figures(column, rows, by_place)
        variants = sorted({figure.variant for figure in figures}, key=_plain_first)
        failed = not column.average_over and any(
            record.error for row in rows for record in by_place.get((row, column.task), ())
        )
        column = specs.applied(column) if variants or failed else column
        missing: list[_Variant | None] = [None] if failed else []
        for variant in variants or missing:
            columns.append(replace(column, variant=_difference(variant, variants)))
            here = {figure.row: figure for figure in figures if figure.variant == variant}
            for row, cell in _cells(column, rows, here, by_place, footnotes).items():
                cells[row].append(cell)

    family: dict[str, str] = {}
    for name, record in zip(names, records, strict=True):
        family[name] = record.family if record.family != "unknown" else family.get(name, "unknown")
    recipe = {name: recipe_of(record) for name, record in zip(names, records, strict=True)}
    return Table(
        title=_title(layout, columns, added),
        columns=tuple(columns),
        rows=standings(
            columns, [Row(row, family[row], tuple(cells[row]), recipe=recipe[row]) for row in rows]
        ),
        footnotes=tuple(footnotes),
        remarks=_remarks(columns, records),
        published=layout.published,
    )


def _title(layout: Layout, columns: Sequence[Column], added: Sequence[Column]) -> str:
    """The layout's title, as far as the table's columns are the layout's."""
    others = {column.task for column in added}
    own = [column for column in columns if column.task not in others]
    if len(own) == len(columns):
        return layout.title
    return f"{layout.title}, and further tasks" if own else "Measured tasks"


def _named(layout_or_name: str | Layout) -> Layout:
    return layout(layout_or_name) if isinstance(layout_or_name, str) else layout_or_name


def row_names(records: Sequence[Record]) -> list[str]:
    """The row of each record: the model's name, with family or start of the hash where two models share the name.

    A model that did not load has neither; its records belong to the model of that name.
    """
    families: dict[str, set[str]] = {}
    hashes: dict[tuple[str, str], set[str]] = {}
    for record in records:
        families.setdefault(record.model, set()).update({record.family} - {"unknown"})
        hashes.setdefault((record.model, record.family), set()).update({checkpoint(record) or ""} - {""})
    names = []
    for record in records:
        apart = [record.family] if len(families[record.model]) > 1 else []
        if len(hashes[record.model, record.family]) > 1:
            apart.append((checkpoint(record) or "unknown")[:8])
        names.append(f"{record.model} ({', '.join(apart)})" if apart else record.model)
    return names


def recipe_of(record: Record) -> str:
    """What a model has in common with those that differ from it by seed alone; "" where nothing says so.

    `NAME@SEED` (argent@1, argent@seed2) or, in the card's notes, `recipe` and `seed`.
    """
    notes = record.provenance.get("model_notes")
    if isinstance(notes, dict) and isinstance(notes.get("recipe"), str) and type(notes.get("seed")) is int:
        return notes["recipe"]
    named = re.fullmatch(r"(.+)@(?:seed)?\d+", record.model)
    return named[1] if named else ""


def checkpoint(record: Record) -> str | None:
    """SHA-256 of the weights, where the record knows it."""
    return record.provenance.get("checkpoint_sha256")


def _fingerprint(record: Record) -> str | None:
    return record.provenance.get("dataset_fingerprint")


def _figures(column: Column, rows: Sequence[str], by_place: Mapping) -> list[_Figure]:
    if column.average_over:
        return [figure for row in rows for figure in _averages(column, row, by_place)]
    return [
        _Figure(
            row,
            figure,
            record.n,
            _Variant.of(record),
            _fingerprint(record),
            record.degenerate.get(column.metric, ""),
        )
        for row in rows
        for record in by_place.get((row, column.task), ())
        if (figure := _figure(record, column)) is not None
    ]


def _figure(record: Record, column: Column) -> Estimate | None:
    return (record.metrics or {}).get(column.metric)


def _averages(column: Column, row: str, by_place: Mapping) -> list[_Figure]:
    """The mean over all the tasks of an average column, per way of measuring; nothing unless every task is there.

    The datasets are independent, so the squares of the distances to the bounds add up.
    """
    ways: dict[tuple, dict[str, tuple[Record, Estimate]]] = {}
    for task in column.average_over:
        for record in by_place.get((row, task), ()):
            if (figure := _figure(record, column)) is not None:
                variant = _Variant.of(record)
                ways.setdefault((variant.protocol, variant.prompts, variant.limit), {})[task] = record, figure
    figures = []
    for way, found in ways.items():
        if len(found) < len(column.average_over):
            continue
        measured = [found[task][0] for task in column.average_over]
        prints = [_fingerprint(record) for record in measured]
        figures.append(
            _Figure(
                row,
                _mean([found[task][1] for task in column.average_over]),
                sum(record.n or 0 for record in measured),
                _Variant(".".join(str(record.task_version) for record in measured), *way),
                None if None in prints else "/".join(map(str, prints)),
                "; ".join(filter(None, (record.degenerate.get(column.metric) for record in measured))),
            )
        )
    return figures


def _mean(parts: Sequence[Estimate]) -> Estimate:
    count = len(parts)
    value = sum(part.value for part in parts) / count
    bounds = [
        (part.value - part.low, part.high - part.value)
        for part in parts
        if part.low is not None and part.high is not None
    ]
    if len(bounds) < count:
        return Estimate(value)
    below, above = (math.hypot(*distances) / count for distances in zip(*bounds, strict=True))
    return Estimate(value, value - below, value + above)


def _cells(
    column: Column, rows: Sequence[str], here: Mapping[str, _Figure], by_place: Mapping, footnotes: list[str]
) -> dict[str, Cell]:
    """The cells of one column; adds what has to be explained to `footnotes`."""
    prints = [figure.fingerprint for figure in here.values() if figure.fingerprint]
    usual = max(prints, key=prints.count) if prints else None  # the first of the most frequent
    cells = {}
    for row in rows:
        figure = here.get(row)
        if figure is None:
            cells[row] = Cell(notes=(_number(_gap(column, row, by_place), footnotes),))
            continue
        where = column.task or "average"
        notes = [f"{where}: {figure.degenerate}"] if figure.degenerate else []
        if not math.isfinite(figure.estimate.value):
            notes.append(f"{where}: the recorded figure is not a number")
        foreign = figure.fingerprint is not None and figure.fingerprint != usual
        if foreign:
            notes.append(
                f"{where}: measured on other images or labels (dataset fingerprint "
                f"{str(figure.fingerprint)[:12]}) than the rest of the column ({str(usual)[:12]}); not comparable"
            )
        cells[row] = Cell(
            estimate=figure.estimate,
            n=figure.n,
            comparable=not foreign,
            degenerate=bool(figure.degenerate),
            notes=tuple(_number(note, footnotes) for note in notes),
        )
    return cells


def _number(note: str, footnotes: list[str]) -> int:
    if note not in footnotes:
        footnotes.append(note)
    return footnotes.index(note)


def standings(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with the best figure of each column marked, and of three or more models the second.

    Figures that print alike are equally good. There is no contest in a column whose direction nobody knows or whose
    figures come from different data, and degenerate figures take no part.
    """
    marked: list[list[Cell]] = [[] for _ in rows]
    for place, column in enumerate(columns):
        cells = [row.cells[place] for row in rows]
        sound = [
            cell.estimate.value
            for cell in cells
            if cell.estimate and not cell.degenerate and math.isfinite(cell.estimate.value)
        ]
        contest = column.better and len(sound) > 1 and all(cell.comparable for cell in cells)
        order = list(
            dict.fromkeys(
                printed(column, value) for value in sorted(sound, reverse=column.better == "higher")
            )
        )
        for own, cell in zip(marked, cells, strict=True):
            runs = contest and cell.estimate and not cell.degenerate
            text = printed(column, cell.estimate.value) if runs and cell.estimate else ""
            second = len(sound) > 2 and text in order[1:2]
            own.append(replace(cell, best=bool(text) and text == order[0], second=second))
    return tuple(replace(row, cells=tuple(own)) for row, own in zip(rows, marked, strict=True))


def printed(column: Column, value: float) -> str:
    """A figure as tables print it: percentages with one decimal, raw figures with two."""
    scaled = value * 100 if column.unit == "fraction" else value
    digits = 2 if column.unit == "raw" else 1
    return f"{round(scaled, digits) + 0.0:.{digits}f}"  # + 0.0: no minus before a zero


def source(records: Iterable[Record], column: Column, cell: Cell) -> Record | None:
    """Of a row's records the one that a cell's figure stands in; that of a gap says why there is none."""
    of_task = [record for record in records if record.task == column.task]
    if cell.estimate is None:
        return next((record for record in of_task if record.metrics is None), None)
    return next(
        (record for record in of_task if (record.metrics or {}).get(column.metric) is cell.estimate), None
    )


def _gap(column: Column, row: str, by_place: Mapping) -> str:
    """Why a model has no figure in a column."""
    if column.average_over:
        return (
            f"average: not all of the {len(column.average_over)} datasets were measured alike for this model"
        )
    records = by_place.get((row, column.task), ())
    for record in records:
        if record.error:
            return f"{column.task}: failed: {one_line(record.error)}"
    for record in records:
        if record.skipped:
            return f"{column.task}: skipped: {one_line(record.skipped)}"
    if any(_figure(record, column) is not None for record in records):
        return f"{column.task}: measured for this model in another column"
    return f"{column.task}: " + ("the result lacks this metric" if records else "not run for this model")


def _plain_first(variant: _Variant) -> tuple:
    return (
        variant.protocol != "released",
        variant.prompts != "default",
        variant.limit or math.inf,
        variant.definition,
        variant.version,
    )


def _difference(variant: _Variant | None, variants: Sequence[_Variant]) -> str:
    """What sets a variant apart from its siblings, in words."""
    if variant is None or len(variants) < 2:
        return ""

    def differs(field: str) -> bool:
        return len({getattr(other, field) for other in variants}) > 1

    parts = []
    if differs("version"):
        parts.append(f"v{variant.version}")
    if differs("protocol"):
        parts.append(variant.protocol)
    if differs("prompts"):
        parts.append(f"{variant.prompts} prompts")
    if differs("definition"):
        parts.append(variant.definition or "no definition of entailment")
    if differs("limit"):
        parts.append("all items" if variant.limit is None else f"limit {variant.limit:,}")
    return ", ".join(parts)


def _remarks(columns: Sequence[Column], records: Sequence[Record]) -> tuple[str, ...]:
    """What holds for the table as a whole: how it was measured, on how many items, and what is not in it."""
    measured = [record for record in records if record.metrics]
    variants = {_Variant.of(record) for record in measured}
    remarks = []
    if variants:
        protocols = sorted({variant.protocol for variant in variants}, reverse=True)
        prompts = sorted({variant.prompts for variant in variants})
        how = f"Protocol {' and '.join(protocols)}, prompts {' and '.join(prompts)}"
        limits = {variant.limit for variant in variants}
        if limits != {None}:
            some = sorted(limit for limit in limits if limit is not None)
            numbers = [f"at most {limit:,}" for limit in some] + ["all"] * (None in limits)
            how += f"; {' or '.join(numbers)} items a dataset: not a full measurement"
        remarks.append(how + ".")
    shown = {task for column in columns for task in (column.task, *column.average_over) if task}
    counts: dict[str, list[str]] = {}  # "1,000" -> the tasks of that size
    of_task: dict[str, set[int]] = {}
    for record in measured:
        of_task.setdefault(record.task, set()).update({record.n} if record.n is not None else ())
    for task, sizes in of_task.items():
        if task in shown and sizes:
            size = f"{min(sizes):,}" + (f"–{max(sizes):,}" if len(sizes) > 1 else "")
            counts.setdefault(size, []).append(task)
    if counts:
        remarks.append("; ".join(f"n = {size}: {', '.join(tasks)}" for size, tasks in counts.items()) + ".")
    remarks += [
        f"{tasks}: {note.removesuffix('.')}."
        for tasks, note in _by_text(_notes([r for r in measured if r.task in shown]))
    ]
    skipped = [record for record in records if record.skipped and record.task not in shown]
    unfit = [(record.task, record.skipped or "") for record in skipped if not record.lacks_data]
    remarks += [f"Skipped: {tasks}: {reason}" for tasks, reason in _by_text(unfit)]
    without = dict.fromkeys(record.task for record in skipped if record.lacks_data)
    return (*remarks, *([f"Skipped, as their data was not there: {', '.join(without)}"] if without else []))


def _notes(measured: Sequence[Record]) -> list[tuple[str, str]]:
    """What tasks say about their figures; with the model, unless all models have it in common."""
    said = []
    of_task: dict[str, list[Record]] = {}
    for record in measured:
        of_task.setdefault(record.task, []).append(record)
    for record in measured:
        for note in record.notes:
            common = all(note in other.notes for other in of_task[record.task])
            said.append((record.task if common else f"{record.task} ({record.model})", note))
    return said


def _by_text(said: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(task, text) pairs -> (tasks, text): each text once, with all the tasks that it is about."""
    tasks: dict[str, dict[str, None]] = {}
    for task, text in said:
        tasks.setdefault(one_line(text, None), {})[task] = None
    return [(", ".join(names), text) for text, names in tasks.items()]
