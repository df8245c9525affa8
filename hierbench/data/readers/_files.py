"""What the readers share: finding and listing the image folder, decoding text, wording long lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from hierbench.data.datasets import ImageFiles
from hierbench.data.manifests import Manifest
from hierbench.errors import DataError


def first_there(folder: Path, places: Sequence[str]) -> Path | None:
    """The first of the places in a folder that exists."""
    return next((path for place in places if (path := folder / place).exists()), None)


def captions_file(manifest: Manifest, folder: Path) -> Path:
    """The dataset's file of captions. Raises DataError where there is none."""
    path = first_there(folder, manifest.layout.table)
    if path is None:
        raise DataError(f"dataset {manifest.name}: {folder} has no file {' or '.join(manifest.layout.table)}")
    return path


def list_files(folder: Path) -> set[str]:
    """Names in a folder, by one listing and without asking for each file's status."""
    try:
        return set(os.listdir(folder))
    except OSError as error:
        raise DataError(f"folder {folder} cannot be listed: {error.strerror}") from error


def read_text(path: Path, what: str) -> str:
    """A UTF-8 text file, with or without byte order mark. Raises DataError with the line that is broken."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{what} {path} cannot be read: {error.strerror}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{what} {path}, line {line}: not UTF-8 text (byte {error.start}): fetch it again"
        ) from error


def check_unicode(strings: Iterable[str], what: str) -> None:
    """Raise DataError for a string that is not Unicode text (a file name of other bytes, half a surrogate pair)."""
    for text in strings:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(f"{what} {text!r} is not Unicode text: rename or mend it") from None


def images_by_name(manifest: Manifest, folder: Path, names: Sequence[str]) -> ImageFiles:
    """The named files of an image folder. Raises DataError saying how many are missing and naming one."""
    there = list_files(folder)
    missing = [name for name in names if name not in there]
    if missing:
        raise DataError(
            f"dataset {manifest.name}: {len(missing)} of {len(names)} images are missing in {folder}, first "
            f"{missing[0]}: add them, or cut the captions file to the images that are there"
        )
    return ImageFiles(folder, tuple(names))


def first_few(items: Iterable[str], count: int = 3) -> str:
    """`a, b, c and 7 more`."""
    items = list(items)
    more = f" and {len(items) - count} more" if len(items) > count else ""
    return ", ".join(items[:count]) + more
