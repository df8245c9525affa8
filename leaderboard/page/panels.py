"""What a model's page shows beyond its figures, made from what its runs kept: per-item outcomes, stored embeddings.

A panel is a mapping: `title`, and either `missing` (one line: what is not there, and how to get it) or `kind` with what
`assets/panels.js` draws. Nothing is measured, encoded or made up here. What was made from a record and the very items
that its hash names is remembered in the cache.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierbench import __version__, results
from hierbench.cache import cache_dir
from hierbench.errors import HierbenchError, one_line
from hierbench.json_files import known_json, write_json
from hierbench.leaderboard.page import captions, outcomes

if TYPE_CHECKING:
    import pandas as pd

    from hierbench.leaderboard.page.content import Place
    from hierbench.results import Record

Panel = dict[str, Any]
Items = Mapping[str, "pd.DataFrame"]

CONTENT = 1  # rises when the panels' content changes: what the cache holds is then made again

NO_ITEMS = (
    "no per-item outcomes lie beside its record: keep the run's folder items, or run it again with --force"
)
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


def panels(places: Sequence[Place]) -> list[Panel]:
    """All panels of one model, those of a kind together; of a kind without any, one that says what is missing."""
    outcomes_of = _Outcomes()
    return [panel for kind in KINDS for panel in _of_kind(kind, places, outcomes_of)]


def _of_kind(kind: Kind, places: Sequence[Place], outcomes_of: _Outcomes) -> list[Panel]:
    if kind.make is captions.disc and (why := captions.no_disc([place.record for place in places])):
        return [{"title": kind.title, "missing": why}]
    fitting = [place for place in places if place.record.task.startswith(kind.of)]
    measured = [place for place in fitting if place.record.metrics is not None]
    made: list[Panel] = []
    lacking: dict[str, list[str]] = {}
    for place in measured:
        try:
            found = outcomes_of.made(place, kind)
        except (
            Exception
        ) as error:  # items whose columns are not what the task keeps: whatever pandas thinks of them
            found = [{"missing": f"its items cannot be used ({one_line(error)})"}]
        for panel in found:
            if "missing" in panel:
                lacking.setdefault(panel["missing"], []).append(place.record.task)
            else:
                about = {
                    "task": place.record.task,
                    "dataset": place.record.dataset,
                    "way": _way(place.record),
                }
                made.append({"title": kind.title, **about, **panel})
    told = [{"title": kind.title, "missing": f"{', '.join(tasks)}: {why}"} for why, tasks in lacking.items()]
    if not measured:
        whys = [place.record.skipped or place.record.error for place in fitting]
        reason = next((f"{fitting[0].record.task}: {why}" for why in whys if why), None)
        run = f"not measured: `hierbench run MODEL --task {kind.get}` with the same --out gives it"
        told = [{"title": kind.title, "missing": one_line(reason) if reason else run}]
    return made + told


def _way(record: Record) -> str:
    part = "" if record.limit is None else f", limit {record.limit:,}"
    return f"{record.way}{part}"


class _Outcomes:
    """Items read once for all kinds, and not at all where the cache has what is made of them."""

    def __init__(self) -> None:
        self._read: dict[int, Items] = {}

    def made(self, place: Place, kind: Kind) -> list[Panel]:
        """The panels of one record. Raises whatever the items make pandas raise."""
        try:
            found = results.items_sha256(place.folder, place.record)
        except (OSError, HierbenchError) as error:
            return [{"missing": one_line(error)}]
        if found is None:
            return [{"missing": NO_ITEMS}]
        if found[0] != place.record.items_sha256:
            return [{"missing": OTHER_ITEMS}]
        file = _remembered(place.record, kind)
        if (known := known_json(file)) is not None and isinstance(known.get("panels"), list):
            return known["panels"]
        made = list(kind.make(place.record, self._items(place)))
        if not any("missing" in panel for panel in made):  # what is missing may come
            with suppress(OSError):  # a cache that cannot be written: made again next time
                write_json(file, {"panels": made})
        return json.loads(json.dumps(made))  # as it comes from the cache

    def _items(self, place: Place) -> Items:
        key = id(place.record)
        if key not in self._read:
            self._read = {key: results.read_items(place.folder, place.record)}  # one record's at a time
        return self._read[key]


def _remembered(record: Record, kind: Kind) -> Path:
    about = f"{__version__}\0{CONTENT}\0{kind.title}\0{record.to_json()}"
    return cache_dir() / "panels" / f"{hashlib.sha256(about.encode()).hexdigest()[:32]}.json"
