"""A record with the folder that it lies in, where its items are looked for."""

from dataclasses import dataclass
from pathlib import Path

from hierbench.results import Record


@dataclass(frozen=True)
class Place:
    """A record and its run's output folder."""

    record: Record
    folder: Path
