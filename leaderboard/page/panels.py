"""What a model's page shows beyond its figures, made from what its runs kept: per-item outcomes, stored embeddings.

A panel is a mapping: `title`, and either `missing` (one line: what is not there, and how to get it) or `kind` with what
`assets/panels.js` draws. Nothing is measured, encoded or made up here. What was made from a record and the very items
that its hash names is remembered in the cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierbench import results
from hierbench.errors import HierbenchError, one_line
from hierbench.json_files import known_json, write_json
from hierbench.leaderboard import remembered
from hierbench.leaderboard.page import captions, outcomes

if TYPE_CHECKING:
    import pandas as pd

    from hierbench.leaderboard.page.place import Place
    from hierbench.results import Record

Panel = dict[str, Any]
Items = Mapping[str, "pd.DataFrame"]

CONTENT = 2  # rises when the panels' content changes: what the cache holds is then made again

NO_ITEMS = (
    "no per-item outcomes lie beside its record: keep the run's folder items, or run it again with --force"
)
LEFT_OUT = "left out, as its items have not been read yet: `hierbench leaderboard page … --full` reads them"
OTHER_ITEMS = "the items beside its record are those of another measurement: run it again with --force"


@dataclass(frozen=True)
class Kind:
    """Panels of one kind: which tasks they are made of, by the beginning of the task's name, and how."""

    title: str
    of: tuple[str, ...]
    make: Callable[[Record, Items], Iterable[Panel]]
    get: str  # a task that would give one


KINDS = (
    Kind("Captions in the Poincaré disc", ("pep-v2", "pep-uncleaned"), captions.disc, "pep-v2/NAME"),
    Kind("Radii by level", ("hierarcaps",), captions.radii, "hierarcaps/NAME"),
    Kind("Entailment scores", ("pep-",), outcomes.scores, "pep-v2/NAME"),
    Kind("Accuracy over the class tree", ("hierarchy",), outcomes.tree, "hierarchy/NAME"),
    Kind(
        "Best and worst items",
        ("pep-", "hierarchy", "retrieval", "zero-shot", "hierarcaps", "multilabel"),
        outcomes.items,
        "retrieval/NAME",
    ),
)


def panels(places: Sequence[Place], fresh: bool = True) -> list[Panel]:
    """All panels of one model, those of a kind together; of a kind without any, one that says what is missing.

    Without `fresh` only those that are remembered.
    """
    wanted = [kind for kind in KINDS if not _impossible(kind, places)]
    made = [of_record(place, wanted, fresh) for place in places]  # so that the items of each are read once
    return [panel for kind in KINDS for panel in _of_kind(kind, places, made)]


def _impossible(kind: Kind, places: Sequence[Place]) -> str:
    """Why no record of this model can give panels of this kind; empty where one could."""
    return captions.no_disc([place.record for place in places]) if kind.make is captions.disc else ""


def of_record(place: Place, wanted: Sequence[Kind] = KINDS, fresh: bool = True) -> dict[str, list[Panel]]:
    """Title of a kind -> what one record gives for it, of those kinds that are made of its task."""
    record = place.record
    kinds = [kind for kind in wanted if record.metrics is not None and record.task.startswith(kind.of)]
    if not kinds:
        return {}
    lacking = _lacking(place)
    if lacking:
        return {kind.title: [{"missing": lacking}] for kind in kinds}
    read = lru_cache(None)(lambda: results.read_items(place.folder, record))  # not where the cache has all
    found = {}
    for kind in kinds:
        try:
            found[kind.title] = _made(record, kind, read if fresh else None)
        except (
            Exception
        ) as error:  # items whose columns are not what the task keeps: whatever pandas thinks of them
            found[kind.title] = [{"missing": f"its items cannot be used ({one_line(error)})"}]
    return found


def _lacking(place: Place) -> str:
    """What is wrong with the items beside a record; empty where they are its own."""
    try:
        found = results.items_sha256(place.folder, place.record)
    except (OSError, HierbenchError) as error:
        return one_line(error)
    if found is None:
        return NO_ITEMS
    return "" if found[0] == place.record.items_sha256 else OTHER_ITEMS


def _made(record: Record, kind: Kind, read: Callable[[], Items] | None) -> list[Panel]:
    """The panels of one record, from the cache if it has them. Raises whatever the items make pandas raise."""
    lacking = f" {captions.state(record)}" if kind.make is captions.disc else None
    for state in ("", lacking):
        if state is not None and (known := known_json(_remembered(record, kind, state))) is not None:
            return known["panels"]
    if read is None:
        return [{"missing": LEFT_OUT}]
    made = list(kind.make(record, read()))
    missing = any("missing" in panel for panel in made)  # it may come
    if not missing or lacking is not None:
        with suppress(OSError):  # a cache that cannot be written: made again next time
            state = str(lacking) if missing else ""
            write_json(_remembered(record, kind, state), {"panels": made}, durable=False)
    return json.loads(json.dumps(made))  # as it comes from the cache


def _of_kind(kind: Kind, places: Sequence[Place], made: Sequence[Mapping[str, list[Panel]]]) -> list[Panel]:
    """The panels of a kind, each with where it is from, and then a line for each reason why others are missing."""
    if why := _impossible(kind, places):
        return [{"title": kind.title, "missing": why}]
    shown: list[Panel] = []
    lacking: dict[str, list[str]] = {}
    for place, of_record in zip(places, made, strict=True):
        record = place.record
        for panel in of_record.get(kind.title, []):
            if "missing" in panel:
                lacking.setdefault(panel["missing"], []).append(record.task)
            else:
                about = {"task": record.task, "dataset": record.dataset, "way": _way(record)}
                shown.append({"title": kind.title, **about, **panel})
    told = [{"title": kind.title, "missing": f"{', '.join(tasks)}: {why}"} for why, tasks in lacking.items()]
    return [*shown, *told] or [{"title": kind.title, "missing": _not_measured(kind, places)}]


def _not_measured(kind: Kind, places: Sequence[Place]) -> str:
    """Why the tasks that would give panels of this kind have no figures, or how to measure one."""
    fitting = [place.record for place in places if place.record.task.startswith(kind.of)]
    why = next((why for record in fitting if (why := record.skipped or record.error)), None)
    if why:
        return one_line(f"{fitting[0].task}: {why}")
    return f"not measured: `hierbench run MODEL --task {kind.get}` with the same --out gives it"


def _way(record: Record) -> str:
    part = "" if record.limit is None else f", limit {record.limit:,}"
    return f"{record.way}{part}"


def _remembered(record: Record, kind: Kind, state: str = "") -> Path:
    return remembered.place("panels", record, about=f"{CONTENT} {kind.title}{state}", suffix=".json")
