"""Reads HierarCaps: a CSV with id, captions and image_url, and a folder of images; perhaps a negative pool.

`captions` holds four levels from general to specific, joined by ` => `; the image is the file that the URL
ends with. Several rows may share an image.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hierbench.data.datasets import CaptionChains
from hierbench.data.locate import Locations
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import (
    captions_file,
    find_root,
    images_by_name,
    read_text,
)
from hierbench.data.readers._lent import pictures
from hierbench.errors import DataError

NAME = "hierarcaps"
LEVELS = 4
ARROW = " => "
ANSWERS, FINISHED = "answers", "manifest.json"  # of a folder that `hierbench clean` writes


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the captions file lies in the folder or below."""
    return find_root(folder, manifest.layout.table) is not None


def read(manifest: Manifest, folder: Path, locations: Locations | None = None) -> CaptionChains:
    """Caption chains in file order; sample ids are the column `id`, image ids are file names.

    Where the folder has no images of its own, those of the dataset that the manifest names serve. A folder of
    `hierbench clean` counts from its manifest.json on, which is written last.
    Raises DataError, naming file and row: missing columns, other than four levels, repeated ids, missing
    images, empty or repeated captions in the pool; MissingDataError where the images' dataset is not there.
    """
    folder = find_root(folder, manifest.layout.table) or folder
    if (folder / ANSWERS).is_dir() and not (folder / FINISHED).is_file():
        raise DataError(
            f"dataset {manifest.name}: the cleaning in {folder} is not finished (it has {ANSWERS}/ and no {FINISHED}): "
            f"`hierbench clean hierarcaps -o {folder}` with the options as before goes on"
        )
    path = captions_file(manifest, folder)
    rows = _table(path, ("id", "captions", "image_url"))
    first_row: dict[str, int] = {}
    chains, files = [], []
    for number, row in rows:
        where = f"captions file {path}, row {number}"
        if row["id"] in first_row:
            raise DataError(
                f"{where}: the id {row['id']!r} stands in row {first_row[row['id']]} already: remove one"
            )
        first_row[row["id"]] = number
        levels = tuple(row["captions"].split(ARROW))
        if len(levels) != LEVELS or not all(level.strip() for level in levels):
            filled = sum(bool(level.strip()) for level in levels)
            raise DataError(
                f"{where}: {filled} caption levels where {LEVELS} joined by {ARROW!r} are expected"
            )
        chains.append(levels)
        files.append(row["image_url"].rsplit("/", 1)[-1])
        if not files[-1]:
            raise DataError(f"{where}: the image_url {row['image_url']!r} names no file")
    if not chains:
        raise DataError(f"captions file {path} has no rows")

    distinct = list(dict.fromkeys(files))
    position = {name: place for place, name in enumerate(distinct)}
    return CaptionChains(
        name=manifest.name,
        images=images_by_name(manifest, pictures(manifest, folder, locations or Locations()), distinct),
        sample_ids=tuple(first_row),
        captions=tuple(chains),
        owner=np.array([position[name] for name in files], np.int64),
        pool=_pool(folder / manifest.layout.pool) if manifest.layout.pool else None,
    )


def _pool(path: Path) -> tuple[str, ...]:
    first_row: dict[str, int] = {}
    for number, row in _table(path, ("caption",)):
        caption = row["caption"]
        if not caption.strip():
            raise DataError(f"pool file {path}, row {number}: the caption is empty")
        if caption in first_row:
            raise DataError(
                f"pool file {path}, row {number}: the caption of row {first_row[caption]} again: remove one"
            )
        first_row[caption] = number
    if not first_row:
        raise DataError(f"pool file {path} has no rows")
    return tuple(first_row)


def _table(path: Path, columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Rows of a CSV file with their numbers, the first under the heading being 1."""
    reader = csv.DictReader(io.StringIO(read_text(path, "captions file"), newline=""), strict=True)
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise DataError(f"captions file {path} has no column {', '.join(missing)}")
        rows = list(enumerate(reader, 1))
    except csv.Error as error:
        raise DataError(f"captions file {path}, after line {reader.line_num}: not CSV ({error})") from error
    for number, row in rows:
        if None in row or None in row.values():
            raise DataError(
                f"captions file {path}, row {number}: other than {len(reader.fieldnames or ())} columns"
            )
    return rows
