"""Unpacking archives that come from elsewhere: what would reach outside the folder is refused, naming the member.

Zip and tar, plain or compressed (gzip, bzip2, xz). Only ordinary files, folders and hard links to files of the same
archive are made; no symbolic links at all, so that no later member can be led astray by an earlier one.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from hierbench.errors import DataError, OutputError, one_line
from hierbench.files import regular_file
from hierbench.progress import Progress, choose

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz")
CHUNK = 1 << 20
RATIO, SLACK = 50, 64 << 20
"""What an archive may hold: 64 MiB and 50 times its own size. Images hardly compress, tables ten- to twentyfold; what
goes beyond is a decompression bomb. Headers and padding count as well."""
DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, ValueError, RuntimeError,
)  # fmt: skip
"""What the standard library raises for archives that break off, are corrupt or packed in an unknown way."""


class NoRoomError(DataError):
    """Too little free space for what an archive holds."""


def is_archive(path: Path) -> bool:
    """Whether a file is an archive that `unpack` knows, by its first bytes."""
    return path.is_file() and _kind(path) is not None


def has_archive_name(name: str) -> bool:
    """Whether a file name ends as those of archives do."""
    return name.lower().endswith(SUFFIXES)


def unpack(
    archive: Path, folder: Path, progress: Progress | bool | None = None, most_files: float = math.inf
) -> int:
    """Unpack into a folder, which is made; returns the number of files. Files that are there are replaced.

    Before anything is written, the size of the content (of a compressed tar: of the archive) is compared with the
    free space; of a compressed tar the rest is checked on the way. Raises NoRoomError, and DataError: no archive,
    damaged, encrypted, more than `most_files` members or more content than `RATIO` and `SLACK` allow (found before what
    is too much is written), or a member with an absolute path, `..`, a symbolic link, a hard link that leaves the
    archive, a device. Raises OutputError where files cannot be written.
    """
    kind = _kind(archive)
    if kind is None:
        raise DataError(
            f"{archive} is no archive that can be unpacked here (zip, tar, tar.gz, tar.bz2, tar.xz): "
            "unpack it yourself and give the folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        limit = SLACK + RATIO * archive.stat().st_size
        needed = _content_size(archive, kind)
        if needed > limit:
            raise DataError(_bomb(archive, needed))
        _check_room(archive, folder, needed)
        members = _zip_members(archive) if kind == "zip" else _tar_members(archive, limit)
        total = -(-archive.stat().st_size // CHUNK)
        with choose(progress).bar(f"unpacking {archive.name} (MiB)", total) as advance:
            count = shown = content = 0
            for number, (member, position) in enumerate(members, 1):
                content += member.size
                if content > limit:
                    raise DataError(_bomb(archive, content))
                if number > most_files:
                    raise DataError(
                        f"{archive} has more than {most_files:,.0f} members, far more than the dataset has images: is "
                        "it another dataset's? If not, unpack it yourself and give the folder"
                    )
                _check_room(archive, folder, member.size)
                count += _put(member, archive, folder)
                if position // CHUNK > shown:
                    advance(position // CHUNK - shown)
                    shown = position // CHUNK
        return count
    except DAMAGE as error:
        raise DataError(_damaged(archive, error)) from error
    except OSError as error:
        if error.errno is None:  # gzip and bzip2 report damage so
            raise DataError(_damaged(archive, error)) from error
        raise OutputError(
            f"{archive} cannot be unpacked into {folder}: {error.strerror or error}: free some space or choose "
            "another place with --out"
        ) from error


@dataclass(frozen=True)
class _Member:
    """One entry of an archive, as far as unpacking goes."""

    name: str
    size: int
    kind: str  # file, folder, hard link, or what it is refused as
    open: Callable[[], IO[bytes] | None] = lambda: None
    target: str = ""  # of a hard link


def _put(member: _Member, archive: Path, folder: Path) -> bool:
    """Make one member; returns whether it is a file."""
    if member.kind not in ("file", "folder", "hard link"):
        raise DataError(
            f"{archive}: its member {member.name!r} is {member.kind}, which is not unpacked: if you trust the "
            "archive, unpack it yourself and give the folder"
        )
    place = _inside(member.name, archive, folder)
    if place == folder:
        return False
    if member.kind == "folder":
        place.mkdir(parents=True, exist_ok=True)
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    if member.kind == "hard link":
        twin = _inside(member.target, archive, folder, f"the target of its hard link {member.name!r}, ")
        if not twin.is_file():
            raise DataError(
                f"{archive}: its hard link {member.name!r} leads to {member.target!r}, no file before it"
            )
        if twin != place:
            place.unlink(missing_ok=True)
            _link_or_copy(twin, place)
        return True
    place.unlink(missing_ok=True)  # a hard link's other names must not change
    source = member.open()
    if source is None:
        raise EOFError(f"{member.name} has no content")
    with source, place.open("wb") as file:
        shutil.copyfileobj(source, file, CHUNK)
    if place.stat().st_size != member.size:
        raise EOFError(f"{member.name} breaks off")
    return True


def _inside(name: str, archive: Path, folder: Path, what: str = "its member ") -> Path:
    """Where a member goes. Raises DataError for a name that is absolute, climbs or cannot be a file's."""
    slashed = name.replace("\\", "/")
    reason = None
    if slashed.startswith("/") or re.match(r"[A-Za-z]:/", slashed):
        reason = "has an absolute path"
    elif ".." in slashed.split("/"):
        reason = "has `..` in its path"
    elif "\0" in name:
        reason = "has a NUL in its name"
    if reason:
        raise DataError(
            f"{archive}: {what}{name!r} {reason} and would leave the folder: do not use this archive"
        )
    return folder.joinpath(*(part for part in name.split("/") if part not in ("", ".")))


def _zip_members(path: Path) -> Iterator[tuple[_Member, int]]:
    """The members of a zip file, each with the bytes of the archive read before it."""
    with zipfile.ZipFile(path) as archive:
        position = 0
        for info in archive.infolist():
            mode = info.external_attr >> 16
            kind = "folder" if info.is_dir() else _special(mode) or "file"
            if info.flag_bits & 1:
                raise DataError(f"{path} is encrypted: unpack it yourself and give the folder")
            name = info.filename.replace("\\", "/")  # of zips made on Windows
            yield _Member(name, info.file_size, kind, partial(archive.open, info)), position
            position += info.compress_size


def _special(mode: int) -> str | None:
    """What a Unix file mode says beyond file and folder; zips from elsewhere have 0."""
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if any(check(mode) for check in (stat.S_ISCHR, stat.S_ISBLK, stat.S_ISFIFO, stat.S_ISSOCK)):
        return "a device"
    return None


def _tar_members(path: Path, limit: int) -> Iterator[tuple[_Member, int]]:
    """The members of a tar file in one pass, each with the bytes of the archive read before it.

    At most `limit` bytes are decompressed, whatever they are: a header alone can claim gigabytes.
    """
    with (
        path.open("rb") as raw,
        _decompressed(raw) as whole,
        tarfile.open(fileobj=(content := _Bounded(whole, limit, path)), mode="r|", bufsize=CHUNK) as archive,
    ):
        for info in archive:
            kind = (
                "a symbolic link"
                if info.issym()
                else "hard link"
                if info.islnk()
                else "folder"
                if info.isdir()
                else "file"
                if info.isreg()
                else "a device"
            )
            yield (
                _Member(info.name, info.size, kind, partial(archive.extractfile, info), info.linkname),
                raw.tell(),
            )
            archive.members.clear()  # type: ignore[attr-defined]  # or a million entries would stay in memory
        while content.read(CHUNK):  # the checksum comes last
            pass


class _Bounded(io.RawIOBase):
    """A stream to read from that refuses to give more than `limit` bytes."""

    def __init__(self, source: IO[bytes], limit: int, archive: Path):
        super().__init__()
        self.source, self.left, self.archive = source, limit, archive

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes. Raises DataError beyond the limit."""
        content = self.source.read(size)
        self.left -= len(content)
        if self.left < 0:
            raise DataError(_bomb(self.archive, None))
        return content


def _decompressed(raw: IO[bytes]) -> IO[bytes]:
    """The content of a file that may be compressed, with its checksums looked at; tarfile's own would not."""
    head = raw.read(6)
    raw.seek(0)
    kinds: tuple[tuple[bytes, Any], ...] = (
        (b"\x1f\x8b", gzip.GzipFile), (b"BZh", bz2.BZ2File), (b"\xfd7zXZ\0", lzma.LZMAFile),
    )  # fmt: skip
    for begins, kind in kinds:
        if head.startswith(begins):
            return cast("IO[bytes]", kind(fileobj=raw) if kind is gzip.GzipFile else kind(raw))
    return raw


def _content_size(path: Path, kind: str) -> int:
    """Bytes that unpacking takes at least."""
    if kind == "zip":
        with zipfile.ZipFile(path) as archive:
            return sum(info.file_size for info in archive.infolist())
    return path.stat().st_size  # images hardly compress


def _check_room(archive: Path, folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoRoomError(
            f"{archive} needs {needed:,} bytes in {folder}, where {free:,} are free: free some, or choose another "
            "disk with --out"
        )


def _kind(path: Path) -> str | None:
    """zip or tar by the first bytes; for tars from before 1988 by the name."""
    try:
        with regular_file(path, "archive").open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return "zip"
    compressed = head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"))
    if head[257:262] == b"ustar" or compressed or has_archive_name(path.name):
        return "tar"
    return None


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links, or another one
        shutil.copyfile(source, target)


def _bomb(archive: Path, size: int | None) -> str:
    much = "more" if size is None else f"{size:,} bytes, more"
    return (
        f"{archive} may be a decompression bomb: it holds {much} than {SLACK >> 20} MiB and {RATIO} times its own "
        "size; if you trust it, unpack it yourself and give the folder"
    )


def _damaged(archive: Path, error: Exception) -> str:
    return f"{archive} is damaged ({one_line(error)}): fetch it again"
