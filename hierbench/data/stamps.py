"""Stamps of files: what changes whenever one of them does, without reading any (see `hierbench.engine.contents`)."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

SETTLED_NS = 2_000_000_000
"""Files younger than this may change again without another time: clocks of disks are coarse."""


def stamp_of(files: Iterable[str | Path], about: str = "") -> bytes | None:
    """Where files lie, their numbers, sizes and times; `about` is what else the stamp depends on.

    None where a file is gone, or so new that another change might leave the same time.
    """
    digest = hashlib.sha256(about.encode("utf-8", "surrogateescape"))
    newest = 0
    for file in files:
        try:
            found = os.stat(file)
        except OSError:
            return None
        newest = max(newest, found.st_mtime_ns, found.st_ctime_ns)
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        digest.update(os.fsencode(os.path.abspath(file)) + f"\0{state};".encode())
    return digest.digest() if newest < time.time_ns() - SETTLED_NS else None
