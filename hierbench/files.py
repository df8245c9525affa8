"""Writing files whole or not at all, names that are safe as file names, and files that can be read to an end."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hierbench.errors import DataError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; it takes the place of `path` when the block ends well.

    Makes the folder. Whatever ends the block early, an exception or a kill, leaves `path` as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def lives(process: int) -> bool:
    """Whether a process of this number runs on this machine, whoever's it is."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's
        return True
    return True


def regular_file(path: Path, what: str = "file") -> Path:
    """`path`, where it is a file that holds bytes (links are followed): a FIFO or a device would never end.

    Raises DataError for a folder, FIFO, socket or device, OSError where there is nothing.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
        raise DataError(f"{what} {path} is a {kinds.get(stat.S_IFMT(mode), 'device')}, not a file: remove it")
    return path


def text_lines(text: str) -> list[str]:
    """The lines of a text with an item a line: parted at line feeds alone, without carriage returns at their ends.

    `str.splitlines` also parts at U+2028, form feeds and others, which captions and names may hold.
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def safe_name(name: str) -> str:
    """`name` as a file name: unchanged where it is safe already, else cleaned, with a hash of the original.

    Two names never share a file name: whatever could be mistaken for a cleaned name gets a hash as well.
    """
    clean = re.sub(r"[^A-Za-z0-9._+=@-]", "_", name)[:80].lstrip(".")
    if clean == name and clean and not re.search(r"-[0-9a-f]{12}$", name):
        return name
    return f"{clean}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
