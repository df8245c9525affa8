"""Files written whole or not at all, folders and locks of one's own, safe names, files that can be read to an end."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hierbench.errors import DataError, OutputError

ABANDONED_SECONDS = 24 * 3600  # a temporary file of another machine, untouched for so long, has no owner


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """A temporary name beside `path` to write to; it takes the place of `path` when the block ends well.

    Makes the folder. Whatever ends the block early, an exception or a kill, leaves `path` as it was. `durable`: so
    does a power cut, for the price of waiting for the disk; what is cheap to make again goes without.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(temporary_name(path.name))
    try:
        yield temporary
        if durable:
            sync(temporary)
        os.replace(temporary, path)
        if durable:
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk. Raises OSError, for files alone."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some file systems cannot sync folders
            raise
    finally:
        os.close(descriptor)


def check_writable(out: Path) -> None:
    """Try whether an output folder can be made and written to; leaves nothing. Raises OutputError where not."""
    there = None
    try:
        there = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
        probe = there / temporary_name("probe")
        probe.mkdir()
        (probe / "file").write_bytes(b"")
        (probe / "file").unlink()
        probe.rmdir()
    except OSError as error:
        reason = (
            "it is a file"
            if there == out and isinstance(error, NotADirectoryError)
            else error.strerror or error
        )
        raise OutputError(f"cannot write to {out} ({reason}): choose another --out") from error


def temporary_name(name: str) -> str:
    """A hidden name that nobody else uses and that says whose it is, for `sweep`."""
    return f".{name}.{_machine()}-{os.getpid()}.{secrets.token_hex(4)}.tmp"


def sweep(folder: Path, pattern: str = "**/.*.tmp", held: bool = False) -> int:
    """Delete the temporary files and folders of processes that are gone from a folder and below; returns their bytes.

    Those of another machine, or of unknown origin, go when they were not written to for a day. `held`: the caller
    holds the folder's lock, so that no living process owns any of them.
    """
    freed = 0
    for path in folder.glob(pattern):
        owner = re.search(r"\.([0-9a-f]{6})-(\d+)\.[0-9a-f]{8}\.tmp$", path.name)
        with contextlib.suppress(OSError):
            if held:
                dead = True
            elif owner and owner[1] == _machine():
                dead = not alive(int(owner[2]))
            else:
                dead = time.time() - path.lstat().st_mtime > ABANDONED_SECONDS
            if dead:
                freed += _remove(path)
    return freed


def _remove(path: Path) -> int:
    """Delete a file, or a folder with all in it; returns the bytes of its files."""
    if not path.is_dir() or path.is_symlink():
        size = path.lstat().st_size
        path.unlink()
        return size
    sizes = [file.lstat().st_size for file in path.rglob("*") if file.is_symlink() or file.is_file()]
    shutil.rmtree(path)
    return sum(sizes)


def alive(pid: int) -> bool:
    """Whether a process of this number runs on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _machine() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]


def new_folder(path: Path) -> Path:
    """Make a folder that nobody has: `path`, or where that exists `path-2`, `path-3`, …; returns the one made.

    Two processes that ask for the same name at once get two folders. Raises OSError where none can be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    number, wanted = 1, path
    while True:
        try:
            wanted.mkdir()
            return wanted
        except FileExistsError:
            number += 1
            wanted = path.with_name(f"{path.name}-{number}")


@contextmanager
def locked(path: Path, timeout: float = -1, busy: Exception | None = None) -> Iterator[None]:
    """Hold the lock file `path`, which is made and stays; the system frees the lock of a process that dies.

    Raises `busy`, by default a TimeoutError, when another process holds it for `timeout` seconds; -1 waits as long as
    it takes. Raises OSError where the file cannot be made.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=timeout):
            yield
    except Timeout:
        raise busy or TimeoutError(f"another process holds {path}") from None


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def regular_file(path: Path, what: str = "file") -> Path:
    """`path`, where it is a file that holds bytes (links are followed): a FIFO or a device would never end.

    Raises DataError for a folder, FIFO, socket or device and for what no file can be called, OSError where there is
    nothing.
    """
    try:
        mode = path.stat().st_mode
    except ValueError as error:  # a null byte
        raise DataError(
            f"{what} {str(path)!r} cannot be a file's name ({error}): mend what names it"
        ) from error
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
        raise DataError(
            f"{what} {path} is a {kinds.get(stat.S_IFMT(mode), 'device')}, not a file: give a file in its place"
        )
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
