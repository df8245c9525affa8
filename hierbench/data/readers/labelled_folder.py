"""Reads a folder of images with a label table: `labels.csv` with the columns image and labels (joined by `;`)."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from hierbench.data.datasets import MultiLabel
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import (
    check_unicode,
    find_root,
    first_there,
    listed_images,
    needed,
    read_text,
)
from hierbench.data.readers._labels import class_ids_of
from hierbench.data.readers._multilabel import multilabel
from hierbench.errors import DataError

NAME = "labelled-folder"
TABLE = "labels.csv"
COLUMNS = ("image", "labels")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the table lies in the folder or below."""
    return find_root(folder, _tables(manifest)) is not None


def read(manifest: Manifest, folder: Path) -> MultiLabel:
    """The images in the order of the table; ids are the paths that it gives. An image may have no label.

    Without classes in the manifest, the classes are the labels of the table, sorted.
    Raises DataError, naming the row: no table or columns, unknown labels, missing images.
    """
    folder = find_root(folder, _tables(manifest)) or folder
    path = needed(manifest, folder, *_tables(manifest))
    reader = csv.DictReader(io.StringIO(read_text(path, "label table"), newline=""), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise DataError(f"label table {path}, after line {reader.line_num}: not CSV ({error})") from error
    if missing := [column for column in COLUMNS if column not in (reader.fieldnames or ())]:
        raise DataError(f"label table {path} has no column {', '.join(missing)}")
    if not rows:
        raise DataError(f"label table {path} has no rows")
    labels: list[tuple[str, ...]] = []
    for number, row in enumerate(rows, 1):
        if not row["image"] or row["labels"] is None or None in row:
            raise DataError(
                f"label table {path}, row {number}: other than {len(reader.fieldnames or ())} columns"
            )
        labels.append(tuple(dict.fromkeys(name.strip() for name in row["labels"].split(";") if name.strip())))
    names = sorted({name for found in labels for name in found})
    check_unicode(names, f"label table {path}: the label")
    meaning = class_ids_of(manifest, names, str(path)) if manifest.classes else {name: name for name in names}
    root = first_there(folder, manifest.layout.images) or folder
    images = listed_images(
        manifest, root, [row["image"] for row in rows], "cut the table to the images that are there"
    )
    present = [[meaning[name] for name in found] for found in labels]
    return multilabel(manifest, images, present, class_ids=names)


def _tables(manifest: Manifest) -> tuple[str, ...]:
    return manifest.layout.table or (TABLE,)
