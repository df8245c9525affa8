"""Files onto this machine from URLs and from the hub, checked and resumed. Every failure is one DownloadError.

A sidecar <file>.json records source, size and SHA-256 at the first arrival; a file that no longer fits its record,
or what the caller expects of it, is not used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from hierbench import __version__
from hierbench.cache import cache_dir
from hierbench.data.stamps import stamp_of
from hierbench.errors import DataError, one_line
from hierbench.files import locked, replacing
from hierbench.json_files import known_json, write_json

TRIES = 5  # a download that was cut goes on where it stopped, so many times
TIMEOUT = 60  # seconds without a byte
CHUNK = 1 << 20
KEPT_FROM = 64 << 20  # bytes of a file whose digest is kept: a smaller one is hashed in no time


class DownloadError(DataError):
    """A file that cannot be brought here, or that is not the one expected."""


@dataclass(frozen=True)
class Expected:
    """What is known of a file beforehand, and who says so."""

    size: int | None = None  # bytes
    sha256: str | None = None  # hex
    md5: str | None = None  # hex; of publishers that give nothing better
    by: str = "the manifest"


def download(url: str, target: Path, expected: Expected = Expected()) -> Path:
    """The file of a URL at `target`: there already and unharmed, or downloaded now.

    A download that was cut goes on where it stopped, in this run or a later one. Safe for several processes at
    once. Raises DownloadError; nothing that is not as expected takes the name `target`.
    """
    if usable(target, url, expected, target):
        return target
    with contextlib.ExitStack() as held:
        with _writing(target):
            held.enter_context(locked(target.with_name(target.name + ".lock")))
        if not usable(target, url, expected, target):  # another process may have brought it meanwhile
            part = _bring(url, target, expected)
            wrong = mismatch(part, expected)
            if wrong:
                _discard(part)
                raise DownloadError(f"{url} {wrong}: not what {expected.by} expects")
            record(target, url, part)
            os.replace(part, target)
            _discard(part)
    return target


def recorded_from(path: Path, url: str, expected: Expected = Expected()) -> bool:
    """Whether a file is an unharmed download of exactly this URL, and what is expected."""
    return _recorded(path).get("source") == url and usable(path, url, expected, path)


def hub_dataset(repo: str, revision: str | None = None, patterns: Sequence[str] = ()) -> Path:
    """The folder of a dataset repository on the hub, or of the files in it that match one of the patterns.

    The hub keeps it in its own cache; tokens, mirrors and HF_HUB_OFFLINE work as huggingface_hub has them.
    """
    from huggingface_hub import snapshot_download

    get = partial(snapshot_download, repo, repo_type="dataset", revision=revision)
    return Path(ask_hub(f"dataset {repo}", partial(get, allow_patterns=list(patterns) or None)))


def ask_hub(what: str, call: Callable[[], str]) -> str:
    """What a function of huggingface_hub returns. Raises DownloadError in place of the hub's many."""
    from huggingface_hub import errors

    try:
        return call()
    except errors.GatedRepoError:
        raise DownloadError(
            f"{what} is gated: accept its terms on huggingface.co, then log in (`hf auth login` or HF_TOKEN)"
        ) from None
    except errors.RepositoryNotFoundError:
        raise DownloadError(f"{what}: no such hub repository, or a private one that needs HF_TOKEN") from None
    except errors.LocalEntryNotFoundError:
        raise DownloadError(
            f"{what} is not in the hub cache and the hub cannot be reached: connect once to download it"
        ) from None
    except (errors.EntryNotFoundError, errors.RevisionNotFoundError) as error:
        raise DownloadError(f"{what}: the hub has no such file or revision ({_line(error)})") from None
    except Exception as error:  # of its HTTP library, its storage back end, the disk, …
        raise DownloadError(f"{what} cannot be downloaded: {_line(error)}") from error


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file; remembered while place, size and times of change stay the same."""
    return _digest(path, "sha256")


def files_sha256(files: Iterable[Path]) -> str:
    """Hex SHA-256 of several files: of a line a file, `HASH  NAME`, in their order."""
    listing = "\n".join(f"{sha256(file)}  {file.name}" for file in files)
    return hashlib.sha256(listing.encode()).hexdigest()


# ---------------------------------------------------------------------------------------------------- records


def usable(path: Path, source: str, expected: Expected, recorded_at: Path) -> bool:
    """Is the file here, and what is expected and what the record of its first arrival says?"""
    if not path.is_file():
        return False
    recorded = _recorded(recorded_at)
    if recorded.get("source") != source:  # none yet, or of another revision
        if mismatch(path, expected):
            return False
        with contextlib.suppress(OSError):  # a read-only cache is no reason to refuse a good file
            record(recorded_at, source, path)
        return True
    size, digest = expected.size or recorded.get("size"), expected.sha256 or recorded.get("sha256")
    return not mismatch(path, Expected(size, digest, expected.md5))


def mismatch(path: Path, expected: Expected) -> str | None:
    """What is wrong with a file, in words; None where nothing is."""
    actual = path.stat().st_size
    if expected.size is not None and actual != expected.size:
        return f"has {actual:,} bytes instead of {expected.size:,}"
    for title, kind, digest in (("SHA-256", "sha256", expected.sha256), ("MD5", "md5", expected.md5)):
        if digest is not None and (found := _digest(path, kind)) != digest:
            return f"has {title} {found} instead of {digest}"
    return None


def record(recorded_at: Path, source: str, path: Path) -> None:
    """Write the sidecar of `recorded_at`: where the bytes at `path` came from, and what they are."""
    facts: dict[str, Any] = {"source": source, "size": path.stat().st_size, "sha256": sha256(path)}
    write_json(recorded_at.with_name(recorded_at.name + ".json"), facts)


def _recorded(path: Path) -> dict[str, Any]:
    return known_json(path.with_name(path.name + ".json")) or {}


# ---------------------------------------------------------------------------------------- download from a URL


def _bring(url: str, target: Path, expected: Expected) -> Path:
    """Bring the whole file to `<target>.part`, going on from what an earlier try left there."""
    part = target.with_name(target.name + ".part")
    for attempt in range(1, TRIES + 1):
        before = part.stat().st_size if part.exists() else 0
        try:
            _append(url, part, expected)
            return part
        except HTTPError as error:
            if error.code == 416:  # what we have is no beginning of what there is now
                _discard(part)
            elif error.code < 500 or attempt == TRIES:
                raise DownloadError(f"{url} cannot be downloaded: HTTP {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            after = part.stat().st_size if part.exists() else 0
            if after == before or attempt == TRIES:  # no progress: the network is down, not shaky
                more = f"; {after:,} bytes are kept, the next run goes on from there" if after else ""
                raise DownloadError(f"{url} cannot be downloaded: {_line(error)}{more}") from error
    raise DownloadError(f"{url} cannot be downloaded: the server refuses to go on, try again later")


def _append(url: str, part: Path, expected: Expected) -> None:
    """One request: the rest of `part`, or all of it where the server's file has changed since."""
    validator = part.with_name(part.name + ".etag")
    headers = {"User-Agent": f"hierbench/{__version__}"}
    have = part.stat().st_size if part.exists() else 0
    if have and validator.exists():
        headers |= {"Range": f"bytes={have}-", "If-Range": validator.read_text()}
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
        mark = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if getattr(response, "status", None) != 206:
            have = 0
        elif mark not in (None, headers.get("If-Range")) or not _begins_at(
            response.headers.get("Content-Range"), have
        ):
            # The rest of another file, or another part of it: some servers do not look at If-Range.
            _discard(part)
            raise ConnectionResetError("the file changed meanwhile")
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        if expected.size and total and total != expected.size:
            raise DownloadError(f"{url} has {total:,} bytes, {expected.by} says {expected.size:,}")
        with _writing(part):
            if total and shutil.disk_usage(part.parent).free < total - have:
                raise DownloadError(
                    f"{part.parent} has no room for {total - have:,} bytes: free some or set HIERBENCH_CACHE"
                )
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


def _begins_at(content_range: str | None, place: int) -> bool:
    """Whether `bytes 100-199/200` begins at the place; a server that does not say is believed."""
    return content_range is None or content_range.removeprefix("bytes").strip().startswith(f"{place}-")


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
        raise DownloadError(
            f"{path} cannot be written ({error.strerror or error}): free some space or set HIERBENCH_CACHE"
        ) from error


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    part.with_name(part.name + ".etag").unlink(missing_ok=True)


def _line(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return one_line(reason)


def _digest(path: Path, kind: str) -> str:
    """Of a large file it is kept between runs, under the file's stamp."""
    status = path.stat()
    stamp = stamp_of([path.resolve()], kind) if status.st_size >= KEPT_FROM else None
    kept = cache_dir() / "digests" / stamp.hex()[:32] if stamp is not None else None
    with contextlib.suppress(OSError, ValueError):
        found = kept.read_text() if kept is not None else ""
        if len(bytes.fromhex(found)) == hashlib.new(kind, usedforsecurity=False).digest_size:
            return found
    digest = _computed_digest(path, kind, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if kept is not None and stamp == stamp_of([path.resolve()], kind):  # it did not change meanwhile
        with contextlib.suppress(OSError), replacing(kept, durable=False) as temporary:
            temporary.write_text(digest)
    return digest


@cache
def _computed_digest(path: Path, kind: str, size: int, changed: int, moved: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
