"""The data of the page: every figure with its interval and the facts of its record, in few bytes.

Facts (provenance) are pairs of a name and a value. Each distinct pair is kept once; a model lists those that all its
records share, a record the others, both by position.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from hierbench.files import safe_name
from hierbench.leaderboard import checks, ranks, tables
from hierbench.leaderboard.columns import Column, every_metric, layout
from hierbench.leaderboard.page import ahead
from hierbench.leaderboard.page.place import Place
from hierbench.progress import Progress

if TYPE_CHECKING:
    from hierbench.results import Record

DIGITS = 7  # significant ones of a figure
UNKNOWN = "unknown"
LEFT_OUT = (
    "seconds",
    "encoded",
    "model_notes",
    "card",
)  # of the provenance: no facts about a figure, or the card's


@dataclass(frozen=True)
class Board:
    """All that the site shows: `table` has every metric; `shown` are the keys of the columns shown at first."""

    table: tables.Table
    shown: frozenset[str]
    places: Mapping[str, Sequence[Place]]  # row -> its records
    plain: tables.Table = field(repr=False)  # with the columns of the layout alone
    rankings: ranks.Rankings | None = None  # None: there are none, `unranked` says why
    unranked: str = ""
    fresh: bool = True  # False: of items that were never asked, nothing is shown
    left_out: str = ""  # one line where that is so

    @cached_property
    def models(self) -> list[str]:
        return [row.model for row in self.table.rows]

    @cached_property
    def pages(self) -> dict[str, str]:
        """Row -> the name of its page, without a suffix."""
        return _file_names(self.models)

    @cached_property
    def tasks(self) -> dict[str, str]:
        """Task with a record -> the name of its page, in the order of the columns."""
        tasks = dict.fromkeys(column.task for column in self.table.columns if column.task)
        tasks |= dict.fromkeys(place.record.task for places in self.places.values() for place in places)
        return _file_names(tasks)

    def records(self, task: str) -> list[Record]:
        """The records of a task, in the order of the rows."""
        return [p.record for row in self.models for p in self.places[row] if p.record.task == task]


def board(
    folders: Sequence[str | Path],
    layout_name: str | None = None,
    full: bool = False,
    progress: Progress | bool | None = None,
) -> Board:
    """What several output folders hold, figures held against their items.

    Of more than `ahead.FEW` records whose items were never asked, these are asked with `full` alone. Raises
    OutputError, UnknownNameError.
    """
    found = tables.gathered(folders)
    unasked = ahead.unasked(found)
    fresh = full or len(unasked) <= ahead.FEW
    if fresh:
        ahead.ask(unasked, progress)
    records = checks.checked(found, fresh)
    chosen = layout(layout_name or tables.layout_of(folders))
    plain = tables.build(records, chosen)
    places: dict[str, list[Place]] = {row.model: [] for row in plain.rows}
    for row, record, (_, folder) in zip(tables.row_names(records), records, found, strict=True):
        places[row].append(Place(record, Path(folder)))
    table = tables.build(records, every_metric(chosen, records))
    shown = frozenset(column.key for column in plain.columns)
    rankings, why = _rankings(table, places, shown, fresh)
    left_out = "" if fresh else _left_out(len(unasked), len(found))
    return Board(table, shown, places, plain, rankings, why, fresh, left_out)


def _left_out(unasked: int, records: int) -> str:
    return (
        f"Made quickly: the per-item outcomes of {unasked:,} of {records:,} records have not been read. So there are "
        "no ranks, models' pages lack what is made of them, and these figures were not held against them; "
        "`hierbench leaderboard page … --full` reads them once."
    )


def _rankings(
    table: tables.Table, places: Mapping[str, Sequence[Place]], shown: frozenset[str], fresh: bool
) -> tuple[ranks.Rankings | None, str]:
    """Every column's ranking, overall over those that the layout shows; or why there is none."""
    if len(table.rows) < 2:
        return None, "a ranking needs two models"
    found = {row: [(place.record, place.folder) for place in own] for row, own in places.items()}
    if fresh:
        return ranks.ranked(table, found, each_seed=True, voting=shown), ""
    known = ranks.known(table, found, each_seed=True, voting=shown)
    return known, "" if known else "the per-item outcomes have not been read, `--full` reads them"


# --------------------------------------------------------------------------------------------------- the data file


def data(board: Board) -> dict[str, Any]:
    """The content of data.js."""
    facts = _Facts()
    shared: dict[str, list[int]] = {}
    own: list[list[int]] = []
    numbers: dict[int, int] = {}  # identity of a record -> its position in `own`
    for row in board.models:
        said = [facts.of(place.record) for place in board.places[row]]
        common = set.intersection(*map(set, said)) if said else set()
        shared[row] = [fact for fact in (said[0] if said else []) if fact in common]
        for place, found in zip(board.places[row], said, strict=True):
            numbers[id(place.record)] = len(own)
            own.append([fact for fact in found if fact not in common])
    tasks = list(board.tasks)
    return {
        "title": board.plain.title,
        "remarks": list(board.plain.remarks),
        "left_out": board.left_out,
        "notes": list(board.table.footnotes),
        "models": [
            {"name": row, "page": board.pages[row], "shared": shared[row]} | about(board.places[row])
            for row in board.models
        ],
        "tasks": [{"name": task, "page": page} for task, page in board.tasks.items()],
        "columns": [
            _column(board, column, position, tasks, numbers)
            for position, column in enumerate(board.table.columns)
        ],
        "facts": facts.listed,
        "records": own,
        **_ranks(board),
    }


def _ranks(board: Board) -> dict[str, Any]:
    """Rankings of columns and overall, by row: [rank, lowest, highest, group], or the reason's position in `why`."""
    if board.rankings is None:
        return {"ranks": None, "unranked": board.unranked}
    position = {column.key: number for number, column in enumerate(board.table.columns)}
    why: dict[str, int] = {}

    def listed(ranking: ranks.Ranking) -> list[Any]:
        by_model: dict[str, Any] = {p.model: [p.rank, p.low, p.high, p.groups] for p in ranking.places}
        by_model |= {model: why.setdefault(text, len(why)) for model, text in ranking.unranked.items()}
        return [by_model.get(model) for model in board.models]

    overall = board.rankings.overall
    points = {place.model: _points(place) for place in overall.places}
    found = {
        "columns": {position[r.column.key]: listed(r) for r in board.rankings.columns if r.column},
        "overall": listed(overall),
        "points": [points.get(model) for model in board.models],
        "voting": [position[key] for key in board.rankings.voting],
        "silent": [[position[key], text] for key, text in board.rankings.silent.items()],
    }
    return {"ranks": {**found, "why": list(why)}}


def _points(place: ranks.Place) -> list[float]:
    return [round(value, 4) for value in (place.value, *(place.points or (place.value, place.value)))]


def about(places: Iterable[Place]) -> dict[str, Any]:
    """What tables of models are filtered by: family, training data, size, geometry, licence; for a model's page too."""
    from hierbench.models.catalog import catalog

    records = [place.record for place in places]
    known = next((record for record in records if record.provenance.get("geometry")), records[0])
    card = known.provenance.get("card")
    card = card if isinstance(card, Mapping) else {}
    entry = catalog().get(known.model)
    entry = entry if entry is not None and entry.family == known.family else None
    described = known.provenance.get("geometry")
    geometry = described if isinstance(described, Mapping) else {}
    parameters = card.get("parameters")
    return {
        "family": known.family,
        "trained_on": str(card.get("trained_on") or (entry and entry.trained_on) or UNKNOWN),
        "parameters": parameters if type(parameters) is int else None,
        "geometry": str(geometry.get("name") or UNKNOWN),
        "licence": str(card.get("licence") or (entry and entry.licence) or UNKNOWN),
        "paper": str(card.get("paper") or (entry and entry.paper) or ""),
    }


def _column(
    board: Board, column: Column, position: int, tasks: Sequence[str], numbers: Mapping[int, int]
) -> dict[str, Any]:
    cells = [row.cells[position] for row in board.table.rows]
    sources = [
        tables.source((place.record for place in board.places[row.model]), column, cell)
        for row, cell in zip(board.table.rows, cells, strict=True)
    ]
    sizes = [cell.n for cell in cells]
    found: dict[str, Any] = {
        "key": column.key,
        # one that the layout lacks stands under its task: the layout's group may be about other metrics of it
        "group": column.group if column.key in board.shown else column.task or column.group,
        "title": column.title,
        "task": tasks.index(column.task) if column.task else None,
        "over": list(column.average_over),
        "metric": column.metric,
        "unit": column.unit,
        "better": column.better,
        "variant": column.variant,
        "shown": column.key in board.shown,
        "value": [_printable(column, cell.estimate.value if cell.estimate else None) for cell in cells],
        "low": [_printable(column, cell.estimate.low if cell.estimate else None) for cell in cells],
        "high": [_printable(column, cell.estimate.high if cell.estimate else None) for cell in cells],
        "n": sizes[0] if len(set(sizes)) == 1 else sizes,
        "record": [None if source is None else numbers[id(source)] for source in sources],
    }
    if best := [row for row, cell in enumerate(cells) if cell.best]:
        found["best"] = best
    if notes := {row: list(cell.notes) for row, cell in enumerate(cells) if cell.notes}:
        found["notes"] = notes
    if doubtful := [row for row, cell in enumerate(cells) if cell.degenerate]:
        found["doubtful"] = doubtful
    if apart := [row for row, cell in enumerate(cells) if not cell.comparable]:
        found["apart"] = apart
    return found


class _Facts:
    """Distinct facts in the order of their first mention."""

    def __init__(self) -> None:
        self.listed: list[list[Any]] = []
        self._number: dict[str, int] = {}

    def of(self, record: Record) -> list[int]:
        """Positions of a record's facts."""
        numbers = []
        for name, value in facts(record).items():
            key = json.dumps([name, value], sort_keys=True, default=str)
            if key not in self._number:
                self._number[key] = len(self.listed)
                self.listed.append([name, value])
            numbers.append(self._number[key])
        return numbers


def facts(record: Record) -> dict[str, Any]:
    """What a reader is told of where a figure comes from: name -> text or number."""
    found: dict[str, Any] = {
        "status": record.status,
        "protocol": record.way,
        "task version": record.task_version,
        "dataset": record.dataset,
        "limit": record.limit,
        "error": record.error,
        "skipped": record.skipped,
        "notes": "; ".join(record.notes),
        "items sha256": record.items_sha256,
    }
    for name, value in record.provenance.items():
        if name not in LEFT_OUT:
            found |= _flat(name.replace("_", " "), public(value))
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def public(value: Any) -> Any:
    """A fact as strangers may read it: of a path on the machine that measured, the file's name alone."""
    if isinstance(value, str):
        for path in (PurePosixPath(value), PureWindowsPath(value)):
            if path.is_absolute():
                return f"{path.name} (a local file)"
    return value


def _flat(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {f"{name}: {key}": entry for key, entry in value.items() if not isinstance(entry, Mapping)}
    return {name: value}


def _short(value: float | None) -> float | None:
    """A figure with `DIGITS` significant digits; None for what is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{DIGITS}g}")


def _printable(column: Column, value: float | None) -> float | None:
    """A figure in few digits, in all its digits where it would be printed otherwise."""
    short = _short(value)
    if value is None or short is None or tables.printed(column, short) == tables.printed(column, value):
        return short
    return float(value)


def script(name: str, content: Any) -> str:
    """A data file: `window.NAME = …`, JSON that is also safe inside a page."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = re.sub(r"[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text)
    return f"window.{name}={text};\n"


def _file_names(names: Iterable[str]) -> dict[str, str]:
    """Distinct file names for names, also where case does not count."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = name.replace("/", "__")
        file = safe_name(plain if "__" not in name else name + "/")
        if file.casefold() in taken:
            file = safe_name(name + "/")  # with a hash of the name
        taken.add(file.casefold())
        found[name] = file
    return found
