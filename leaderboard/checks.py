"""Whether a table's figures are those of the items that lie beside them: what `show` can tell without measuring.

This finds slips and edits; it proves nothing. `hierbench.leaderboard.verification` is for what others send.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hierbench.errors import HierbenchError, one_line
from hierbench.json_files import known_json, write_json
from hierbench.leaderboard import remembered, tables

if TYPE_CHECKING:
    from hierbench.leaderboard.tables import Table
    from hierbench.results import Record

MOST_BYTES = 16 << 20
"""Of a record's items: of larger ones the hash is compared, and figures are computed anew by `verify` alone."""


class Doubt(str):
    """A reason that speaks against a record rather than against what it measured."""


def read(folders: Sequence[str | Path], layout: str | None = None) -> Table:
    """As `tables.read`, with every figure that its items contradict marked, and none of these the best."""
    return tables.build(checked(tables.gathered(folders)), layout or tables.layout_of(folders))


def checked(records: Iterable[tuple[Record, Path]], fresh: bool = True) -> list[Record]:
    """The records, each figure that is not that of its items marked degenerate, with the reason.

    A record without items beside it, or whose task is not known here, stays as it is. What came out is remembered in
    the cache by the hash of all that was compared, so that a table asked for again computes nothing; without `fresh`
    hashes alone are compared, and what is remembered counts.
    """
    return [
        replace(record, degenerate={**record.degenerate, **{name: Doubt(why) for name, why in found.items()}})
        if (found := doubts(folder, record, fresh))
        else record
        for record, folder in records
    ]


def doubts(folder: Path, record: Record, fresh: bool = True) -> dict[str, str]:
    """Metric -> why the figure is not to be believed; empty where nothing speaks against it."""
    from hierbench import results

    if record.metrics is None:
        return {}
    whose = f"items of {record.model}"
    try:
        found = results.items_sha256(folder, record)
    except (OSError, HierbenchError) as error:
        return dict.fromkeys(record.metrics, f"the {whose} cannot be read ({one_line(error)})")
    if found is None:
        return {}
    sha256, size = found
    if record.items_sha256 is None:
        return dict.fromkeys(record.metrics, f"there are {whose} of which its record has no hash")
    if sha256 != record.items_sha256:
        return dict.fromkeys(
            record.metrics,
            f"the {whose} are not those that its record was computed from (their hash differs)",
        )
    if size > MOST_BYTES:
        return {}
    file = remembered.place("doubts", record, suffix=".json")
    known = known_json(file)
    if known is not None or not fresh:
        return known or {}
    try:
        differing = _recomputed(folder, record)
    except (
        Exception
    ) as error:  # items whose hash fits a record that somebody made up: whatever numpy thinks of them
        return dict.fromkeys(record.metrics, f"the {whose} cannot be scored ({one_line(error)})")
    if differing is not None:
        with suppress(OSError):  # a cache that cannot be written: computed again next time
            write_json(file, differing, durable=False)
    return differing or {}


def _recomputed(folder: Path, record: Record) -> dict[str, str] | None:
    """Metric -> how its figure differs from that of the items; None where these could not be scored here."""
    from hierbench.leaderboard import resampling

    measured = resampling.read(folder, record)
    if isinstance(measured, str):
        return None
    found = {name: measured.disagreement(name) for name in record.metrics or {}}
    return {name: why for name, why in found.items() if why}
