"""What the readers share: finding and listing files, decoding text and tables, wording long lists."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hierbench.data.datasets import ImageFiles
from hierbench.data.manifests import Manifest
from hierbench.errors import DataError
from hierbench.files import regular_file, text_lines

BLANKS = " \t\r"
"""What parts columns and may end lines; other white space belongs to a name."""

VARIANT = "variant.txt"
"""In our own exports: what sets the images apart from the released split; with nothing in it, nothing does."""

MANY = 50
"""A folder with more subfolders than this holds classes or shards, not the root of a dataset somewhere below."""


def first_there(folder: Path, places: Sequence[str]) -> Path | None:
    """The first of the places in a folder that exists."""
    return next((path for place in places if (path := folder / place).exists()), None)


def image_folder(manifest: Manifest, folder: Path) -> Path:
    """The folder of the dataset's images. Raises DataError where there is none."""
    path = first_there(folder, manifest.layout.images)
    if path is None:
        raise DataError(
            f"dataset {manifest.name}: {folder} has no image folder {' or '.join(manifest.layout.images)}/"
        )
    return path


def find_root(folder: Path, marks: Sequence[str], depth: int = 2) -> Path | None:
    """The folder, or the nearest folder at most `depth` below it, in which one of the marks exists."""
    level = [folder]
    for _ in range(depth + 1):
        for candidate in level:
            if first_there(candidate, marks):
                return candidate
        level = [below for candidate in level for below in subfolders(candidate)]
    return None


def subfolders(folder: Path, most: float = MANY) -> list[Path]:
    """The folders in a folder, sorted, hidden ones left out; none where there are more than `most`."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(e.name for e in entries if not e.name.startswith(".") and is_folder(e))
    except OSError:
        return []
    return [folder / name for name in found] if len(found) <= most else []


def is_folder(entry: os.DirEntry) -> bool:
    """Whether an entry is a folder or a link to one; a link that leads round in a circle is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def captions_file(manifest: Manifest, folder: Path) -> Path:
    """The dataset's file of captions. Raises DataError where there is none."""
    path = first_there(folder, manifest.layout.table)
    if path is None:
        raise DataError(f"dataset {manifest.name}: {folder} has no file {' or '.join(manifest.layout.table)}")
    return path


def needed(manifest: Manifest, folder: Path, *places: str) -> Path:
    """The first of the places that exists in the dataset's folder. Raises DataError where none does."""
    path = first_there(folder, places)
    if path is None:
        raise DataError(
            f"dataset {manifest.name}: {folder} has no {' or '.join(places)}: fetch it again or give another folder"
        )
    return path


def all_of(
    manifest: Manifest, folder: Path, shards: Mapping[int, Path], totals: Collection[int]
) -> list[Path]:
    """Shards named `…k-of-N` in order. Raises DataError where N is not one number, or shards are not all of N."""
    if len(totals) > 1:
        told = " and ".join(f"of {total}" for total in sorted(totals))
        raise DataError(
            f"dataset {manifest.name}: {folder} has shards {told}: some are left over from another version; fetch it "
            "again into an empty folder"
        )
    total = next(iter(totals))
    if missing := sorted(set(range(total)) - shards.keys()):
        raise DataError(
            f"dataset {manifest.name}: shard {missing[0]} of {total} is missing in {folder} ({len(missing)} in all): "
            "fetch it again"
        )
    if stray := sorted(shards.keys() - set(range(total))):
        raise DataError(
            f"dataset {manifest.name}: {shards[stray[0]]} is beyond the {total} shards: remove it"
        )
    return [shards[number] for number in range(total)]


def list_files(folder: Path) -> set[str]:
    """Names in a folder, by one listing and without asking for each file's status."""
    try:
        return set(os.listdir(folder))
    except OSError as error:
        raise DataError(f"folder {folder} cannot be listed: {error.strerror}") from error


def read_bytes(path: Path, what: str) -> bytes:
    """A file's content. Raises DataError."""
    try:
        return regular_file(path, what).read_bytes()
    except OSError as error:
        raise DataError(f"{what} {path} cannot be read: {error.strerror}") from error


def read_text(path: Path, what: str) -> str:
    """A UTF-8 text file, with or without byte order mark. Raises DataError with the line that is broken."""
    content = read_bytes(path, what)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{what} {path}, line {line}: not UTF-8 text (byte {error.start}): fetch it again"
        ) from error


def read_lines(path: Path, what: str) -> list[tuple[int, str]]:
    """Lines of a text file that are not blank, stripped, with their numbers from 1. DataError where none is."""
    rows = [(number, line.strip(BLANKS)) for number, line in enumerate(text_lines(read_text(path, what)), 1)]
    rows = [(number, line) for number, line in rows if line]
    if not rows:
        raise DataError(f"{what} {path} has no lines: fetch it again")
    return rows


def read_columns(path: Path, what: str, columns: int) -> Iterator[tuple[int, list[str]]]:
    """Rows of a text file of columns parted by spaces; the last column keeps its spaces. DataError for others."""
    for number, line in read_lines(path, what):
        cells = re.split(f"[{BLANKS}]+", line, maxsplit=columns - 1)
        if len(cells) != columns:
            raise DataError(
                f"{what} {path}, line {number}: {len(cells)} columns where {columns} are expected"
            )
        yield number, cells


def check_unicode(strings: Iterable[str], what: str) -> None:
    """Raise DataError for a string that is not Unicode text (a file name of other bytes, half a surrogate pair)."""
    for text in strings:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(f"{what} {text!r} is not Unicode text: rename or mend it") from None


def check_distinct(values: Iterable[str], what: str, where: str) -> None:
    """Raise DataError for values that stand there twice."""
    repeated = [str(value) for value, count in Counter(values).items() if count > 1]
    if repeated:
        raise DataError(f"{where}: repeated {what} {first_few(repeated)}: remove one of each")


def images_by_name(manifest: Manifest, folder: Path, names: Sequence[str]) -> ImageFiles:
    """The named files of an image folder. Raises DataError saying how many are missing and naming one."""
    return listed_images(manifest, folder, names, "cut the captions file to the images that are there")


def listed_images(
    manifest: Manifest, root: Path, ids: Sequence[str], otherwise: str = "fetch the dataset again"
) -> ImageFiles:
    """The files with the given paths relative to `root`; every folder is listed once, no file is touched.

    A file whose name is the same letters in another Unicode form (macOS and some archives part `é` in two) is taken.
    Raises DataError: a path that leaves the root, repeated ids, files that are missing (how many, and one of them), two
    files whose names differ in that form alone.
    """
    check_distinct(ids, "image", f"dataset {manifest.name}, {root}")
    check_unicode(ids, f"dataset {manifest.name}: the file name")
    folders: dict[str, _Names] = {}
    files: dict[str, str] = {}
    missing = []
    for image_id in ids:
        folder, _, name = image_id.rpartition("/")
        if folder not in folders:
            inside = ".." not in folder.split("/") and not folder.startswith("/")
            folders[folder] = _Names(
                set(os.listdir(root / folder)) if inside and (root / folder).is_dir() else set()
            )
        found = folders[folder].find(name, root / folder)
        if found is None:
            missing.append(image_id)
        elif found != name:
            files[image_id] = f"{folder}/{found}" if folder else found
    if missing:
        shown = missing[0] if missing[0].isascii() else f"{missing[0]} ({missing[0]!a})"
        raise DataError(
            f"dataset {manifest.name}: {len(missing)} of {len(ids)} images are missing in {root}, first "
            f"{shown}: add them, or {otherwise}"
        )
    return ImageFiles(root, tuple(ids), files)


class _Names:
    """The names in a folder, found in whatever Unicode form they are written there."""

    def __init__(self, names: set[str]):
        self.names = names
        self._forms: dict[str, list[str]] | None = None

    def find(self, name: str, folder: Path) -> str | None:
        if name in self.names:
            return name
        if name.isascii() and self._forms is None:
            return None
        if self._forms is None:
            self._forms = {}
            for there in sorted(self.names):
                self._forms.setdefault(unicodedata.normalize("NFC", there), []).append(there)
        found = self._forms.get(unicodedata.normalize("NFC", name), [])
        if len(found) > 1:
            forms = " and ".join(map(ascii, found))
            raise DataError(f"{folder} holds {forms}, one name in two Unicode forms: remove one")
        return found[0] if found else None


def first_few(items: Iterable[str], count: int = 3) -> str:
    """`a, b, c and 7 more`."""
    items = list(items)
    more = f" and {len(items) - count} more" if len(items) > count else ""
    return ", ".join(items[:count]) + more
