"""Checkpoints onto this machine: from the hub, from a URL, or out of the package; offline from the cache.

The hub keeps its own cache; a download from a URL lies at CACHE/checkpoints/<model>/<file>. For both, a
sidecar <file>.json in that folder records source, size and SHA-256 at the first arrival; a file that
no longer fits its record, or the catalog, is not used. Every failure is one CheckpointError.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from hierbench import __version__
from hierbench.data.cache import cache_dir
from hierbench.errors import CheckpointError
from hierbench.files import replacing

if TYPE_CHECKING:
    from hierbench.registry import ModelEntry

TRIES = 5  # a download that was cut goes on where it stopped, so many times
TIMEOUT = 60  # seconds without a byte
CHUNK = 1 << 20
SNAPSHOT_FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "*.bin"]
"""What a transformers folder needs; other frameworks' weights and training states stay on the hub."""


def checkpoint(entry: ModelEntry, offline: bool = False) -> Path:
    """The file (or, for a whole hub repository, the folder) of a catalog entry, downloaded where necessary.

    Hub tokens, mirrors and HF_HUB_OFFLINE work as huggingface_hub has them; with `offline` nothing is asked
    for. Safe for several processes at once. Raises CheckpointError.
    """
    if entry.builtin:
        return _from_package(entry)
    if entry.url:
        return _from_url(entry, offline)
    if entry.repo and entry.file:
        return _from_hub(entry, offline)
    if entry.repo:
        return hub_snapshot(entry.repo, entry.revision, offline)
    raise CheckpointError(f"model {entry.name}: its catalog entry says neither url, repo nor builtin")


def hub_snapshot(repo: str, revision: str | None = None, offline: bool = False) -> Path:
    """The folder of a hub repository's configuration, tokenizer and weights. Raises CheckpointError."""
    from huggingface_hub import snapshot_download

    get = partial(snapshot_download, repo, revision=revision, local_files_only=offline)
    return Path(_ask_hub(repo, partial(get, allow_patterns=SNAPSHOT_FILES)))


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file; remembered while size and time of change stay the same."""
    status = path.stat()
    return _sha256(path, status.st_size, status.st_mtime_ns)


@contextlib.contextmanager
def hub_offline(offline: bool) -> Iterator[None]:
    """Within it, libraries that fetch for themselves (open_clip) find hub files in the cache alone."""
    if not offline:
        yield
        return
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True  # the environment variable is read at import only
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


# ------------------------------------------------------------------------------------------ the three sources


def _from_package(entry: ModelEntry) -> Path:
    path = Path(str(resources.files("hierbench"))) / entry.builtin
    if not path.is_file():
        raise CheckpointError(
            f"model {entry.name}: {path} is missing from the installation, reinstall hierbench"
        )
    return path


def _from_url(entry: ModelEntry, offline: bool) -> Path:
    target = _folder(entry) / Path(urlsplit(entry.url).path).name
    if _usable(target, entry, target):
        return target
    if offline:
        raise CheckpointError(_offline(entry, target))
    with _one_process(target):
        if not _usable(target, entry, target):  # another process may have brought it meanwhile
            part = _download(entry.url, target, entry.size)
            wrong = _mismatch(part, entry.size, entry.sha256)
            if wrong:
                _discard(part)
                raise CheckpointError(f"{entry.url} {wrong}: not what the catalog of hierbench expects")
            _record(target, entry.url, part)
            os.replace(part, target)
            _discard(part)
    return target


def _from_hub(entry: ModelEntry, offline: bool) -> Path:
    from huggingface_hub import constants, hf_hub_download

    what, record = f"{entry.repo}/{entry.file}", _folder(entry) / entry.file
    get = partial(hf_hub_download, entry.repo, entry.file, revision=entry.revision, local_files_only=offline)
    path = Path(_ask_hub(what, get))
    if _usable(path, entry, record):
        return path
    if offline or constants.HF_HUB_OFFLINE:
        raise CheckpointError(_offline(entry, path))
    path = Path(_ask_hub(what, partial(get, force_download=True)))
    wrong = _mismatch(path, entry.size, entry.sha256)
    if wrong:
        raise CheckpointError(f"{what} {wrong}: not what the catalog of hierbench expects")
    _record(record, str(path), path)
    return path


def _ask_hub(what: str, call: Callable[[], str]) -> str:
    from huggingface_hub import errors

    try:
        return call()
    except errors.GatedRepoError:
        raise CheckpointError(
            f"{what} is gated: accept its terms on huggingface.co, then log in (`hf auth login` or HF_TOKEN)"
        ) from None
    except errors.RepositoryNotFoundError:
        raise CheckpointError(
            f"{what}: no such hub repository, or a private one that needs HF_TOKEN"
        ) from None
    except errors.LocalEntryNotFoundError:
        raise CheckpointError(
            f"{what} is not in the hub cache and the hub cannot be reached: connect once to download it"
        ) from None
    except (errors.EntryNotFoundError, errors.RevisionNotFoundError) as error:
        raise CheckpointError(f"{what}: the hub has no such file or revision ({_line(error)})") from None
    except Exception as error:  # of its HTTP library, its storage back end, the disk, …
        raise CheckpointError(f"{what} cannot be downloaded: {_line(error)}") from error


# ---------------------------------------------------------------------------------------- download from a URL


def _download(url: str, target: Path, size: int | None) -> Path:
    """Bring the whole file to `<target>.part`, going on from what an earlier try left there."""
    part = target.with_name(target.name + ".part")
    for attempt in range(1, TRIES + 1):
        before = part.stat().st_size if part.exists() else 0
        try:
            _append(url, part, size)
            return part
        except HTTPError as error:
            if error.code == 416:  # what we have is no beginning of what there is now
                _discard(part)
            elif error.code < 500 or attempt == TRIES:
                raise CheckpointError(
                    f"{url} cannot be downloaded: HTTP {error.code} {error.reason}"
                ) from None
        except (OSError, http.client.HTTPException) as error:
            after = part.stat().st_size if part.exists() else 0
            if after == before or attempt == TRIES:  # no progress: the network is down, not shaky
                more = f"; {after:,} bytes are kept, the next run goes on from there" if after else ""
                raise CheckpointError(f"{url} cannot be downloaded: {_line(error)}{more}") from error
    raise CheckpointError(f"{url} cannot be downloaded: the server refuses to go on, try again later")


def _append(url: str, part: Path, size: int | None) -> None:
    """One request: the rest of `part`, or all of it where the server's file has changed since."""
    validator = part.with_name(part.name + ".etag")
    headers = {"User-Agent": f"hierbench/{__version__}"}
    have = part.stat().st_size if part.exists() else 0
    if have and validator.exists():
        headers |= {"Range": f"bytes={have}-", "If-Range": validator.read_text()}
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
        have = have if response.status == 206 else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        if size and total and total != size:
            raise CheckpointError(f"{url} has {total:,} bytes, the catalog of hierbench says {size:,}")
        with _writing(part):
            if total and shutil.disk_usage(part.parent).free < total - have:
                raise CheckpointError(
                    f"{part.parent} has no room for {total - have:,} bytes: free some or set HIERBENCH_CACHE"
                )
            mark = response.headers.get("ETag") or response.headers.get("Last-Modified")
            if mark:
                validator.write_text(mark)
            else:
                validator.unlink(missing_ok=True)
            file = part.open("ab" if have else "wb", buffering=0)  # so that a full disk shows at the write
        with file, _progress(part.name.removesuffix(".part"), have, total) as advance:
            while chunk := response.read(CHUNK):
                with _writing(part):
                    if file.write(chunk) != len(chunk):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                advance(len(chunk))
    got = part.stat().st_size
    if total is not None and got != total:
        raise ConnectionError(f"cut after {got:,} of {total:,} bytes")


@contextlib.contextmanager
def _progress(name: str, done: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr; nothing where stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, completed=done, total=total)
        yield lambda count: bar.advance(task, count)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be written ({error.strerror or error}): free some space or set HIERBENCH_CACHE"
        ) from error


@contextlib.contextmanager
def _one_process(target: Path) -> Iterator[None]:
    from filelock import FileLock

    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(target.with_name(target.name + ".lock"))
        lock.acquire()  # released by the system if this process dies
    try:
        yield
    finally:
        lock.release()


# ---------------------------------------------------------------------------------------------------- records


def _folder(entry: ModelEntry) -> Path:
    return cache_dir() / "checkpoints" / entry.name


def _usable(path: Path, entry: ModelEntry, record: Path) -> bool:
    """Is the file here, and what the catalog and the record of its first arrival say?"""
    if not path.is_file():
        return False
    recorded, source = _recorded(record), entry.url or str(path)
    if recorded.get("source") != source:  # none yet, or of another revision
        if _mismatch(path, entry.size, entry.sha256):
            return False
        with contextlib.suppress(OSError):  # a read-only cache is no reason to refuse a good file
            _record(record, source, path)
        return True
    return not _mismatch(path, entry.size or recorded.get("size"), entry.sha256 or recorded.get("sha256"))


def _mismatch(path: Path, size: int | None, digest: str | None) -> str | None:
    actual = path.stat().st_size
    if size is not None and actual != size:
        return f"has {actual:,} bytes instead of {size:,}"
    if digest is not None and sha256(path) != digest:
        return f"has SHA-256 {sha256(path)} instead of {digest}"
    return None


def _record(record: Path, source: str, path: Path) -> None:
    """Write the sidecar of `record`: where the bytes at `path` came from, and what they are."""
    facts: dict[str, Any] = {"source": source, "size": path.stat().st_size, "sha256": sha256(path)}
    with replacing(record.with_name(record.name + ".json")) as temporary:
        temporary.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _recorded(record: Path) -> dict[str, Any]:
    try:
        facts = json.loads(record.with_name(record.name + ".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _offline(entry: ModelEntry, path: Path) -> str:
    state = "is damaged" if path.is_file() else "is not in the cache"
    return (
        f"model {entry.name}: {path} {state} and this run is offline, run once with the network to fetch it"
    )


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    part.with_name(part.name + ".etag").unlink(missing_ok=True)


def _line(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return (str(reason) or type(error).__name__).strip().partition("\n")[0]


@cache
def _sha256(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
