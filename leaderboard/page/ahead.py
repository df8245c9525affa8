"""What pages show of per-item outcomes, made ahead in several processes and remembered: marks, resamples, panels.

A page of few records asks all their items; of many only those that were asked before, unless all are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hierbench import pool, results
from hierbench.engine.contents import cores
from hierbench.errors import HierbenchError
from hierbench.leaderboard import checks, draws, remembered
from hierbench.leaderboard.page import panels
from hierbench.leaderboard.page.place import Place
from hierbench.progress import Progress, choose

if TYPE_CHECKING:
    from hierbench.results import Record

FEW = 300  # records whose items are asked without being told so: of as many it takes about half a minute
ALONE = 20  # so few are not worth other processes


def unasked(found: Sequence[tuple[Record, Path]]) -> list[tuple[Record, Path]]:
    """The records with items beside them that were never asked."""
    return [
        (record, folder)
        for record, folder in found
        if record.metrics is not None
        and not _marker(record).exists()
        and results.items_path(folder, record.model, record.task).is_dir()
    ]


def ask(found: Sequence[tuple[Record, Path]], progress: Progress | bool | None = None) -> None:
    """Make what follows from each record's items, and remember it. Raises OutputError where a process is killed."""
    kept = "run it again: what was made is remembered"
    workers = cores() if len(found) > ALONE else 1
    with choose(progress).bar("items of records", len(found)) as advance:
        for _ in pool.each(_ask, found, workers, kept):
            advance(1)


def _ask(one: tuple[Record, Path]) -> None:
    plain, folder = one
    (record,) = checks.checked([one])
    if not any(isinstance(why, checks.Doubt) for why in record.degenerate.values()):
        with suppress(HierbenchError):  # whoever needs it meets the error again, and says so
            draws.of(folder, record)
    panels.of_record(Place(record, folder))
    with suppress(OSError):  # a cache that cannot be written: asked again next time
        marker = _marker(plain)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def _marker(record: Record) -> Path:
    return remembered.place("asked", record)
