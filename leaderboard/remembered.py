"""Where the cache keeps what follows from records and their items: named by a hash of all that it follows from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from hierbench import __version__
from hierbench.cache import cache_dir

if TYPE_CHECKING:
    from hierbench.results import Record


def place(kind: str, *records: Record, about: str = "", suffix: str = "") -> Path:
    """The file for what some records give and their items, whose hashes are in the records.

    `about` is all else that it rests on. Another version of hierbench has other files.
    """
    found = hashlib.sha256(f"{__version__}\0{about}".encode())
    for record in records:
        found.update(record.sha256.encode())
    return cache_dir() / kind / f"{found.hexdigest()[:32]}{suffix}"
