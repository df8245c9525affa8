"""What rankings need of a record's items: its figures on resamples, and which items these are. Remembered in the cache.

Every model sees the same resamples of a dataset, so that differences are paired; of other data the draws are others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hierbench import results
from hierbench.files import replacing
from hierbench.leaderboard import remembered, resampling
from hierbench.leaderboard.resampling import IDENTITY, Measured
from hierbench.metrics import bootstrap

if TYPE_CHECKING:
    import pandas as pd

    from hierbench.results import Record


@dataclass(frozen=True)
class Drawn:
    """A record's figures as its items give them, and on resamples; `identity` says which items, by table and column."""

    figures: Mapping[str, float]
    values: Mapping[str, np.ndarray]  # metric -> (resamples,)
    units: str
    identity: Mapping[str, Mapping[str, str]]

    def differing(self, other: Drawn) -> str:
        """Why the two cannot be paired; empty if they can. As `resampling.differing`, by hashes."""
        if self.identity.keys() != other.identity.keys():
            return "the runs kept different per-item outcomes"
        for table, own in self.identity.items():
            theirs = other.identity[table]
            if any(own[name] != theirs[name] for name in own.keys() & theirs.keys()):
                return "measured on different items"
        return "" if self.units == other.units else "measured on different items"


def of(folder: Path, record: Record) -> Drawn | str:
    """A record's figures on resamples, or why there are none. Raises OutputError for damaged items."""
    if not results.items_path(folder, record.model, record.task).is_dir():
        return resampling.NO_ITEMS
    known = _known(place(record))
    if known is not None:
        return known
    measured = resampling.read(folder, record)
    return measured if isinstance(measured, str) else made(measured)


def made(measured: Measured) -> Drawn:
    """As `of`, of a record whose items have been read; a cache that cannot be written changes nothing."""
    found = Drawn(
        measured.figures,
        measured.statistics.drawn(f"{bootstrap.SEED}:{measured.record.dataset}"),
        hashlib.sha256("\0".join(map(str, measured.statistics.units)).encode()).hexdigest()[:32],
        {table: _identity(items) for table, items in measured.items.items()},
    )
    with suppress(OSError):
        _write(place(measured.record), found)
    return found


def place(record: Record) -> Path:
    """The file that holds what a record's items gave."""
    return remembered.place("drawn", record, suffix=".npz")


def _identity(table: pd.DataFrame) -> dict[str, str]:
    """Column that says which item a row is about -> a hash of it; "" -> the number of rows."""
    import pandas as pd

    def digest(column: pd.Series) -> str:
        return hashlib.sha256(
            pd.util.hash_pandas_object(column, index=False).to_numpy().tobytes()
        ).hexdigest()[:32]

    found = {str(name): digest(table[name]) for name in table.columns if name in IDENTITY}
    return found | {"": str(len(table))}


def _write(path: Path, found: Drawn) -> None:
    names = list(found.values)
    told = {"units": found.units, "identity": found.identity, "figures": found.figures, "names": names}
    with replacing(path, durable=False) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            told=np.frombuffer(json.dumps(told).encode(), np.uint8),
            values=np.stack([found.values[name] for name in names]) if names else np.empty((0, 0)),
        )


def _known(path: Path) -> Drawn | None:
    """What the cache holds; None where it holds nothing that can be read, and it is made again."""
    try:
        with np.load(path, allow_pickle=False) as file:
            told = json.loads(file["told"].tobytes())
            values = dict(zip(told["names"], file["values"], strict=True))
        return Drawn(told["figures"], values, told["units"], told["identity"])
    except Exception:  # absent, cut short, of another layout: whatever zipfile and numpy make of it
        return None
