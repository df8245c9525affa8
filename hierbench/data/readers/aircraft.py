"""Reads FGVC-Aircraft as published: `data/images_variant_test.txt`, `data/variants.txt`, `data/images/`.

The images keep the 20 rows of copyright banner at their lower edge: the released evaluators read them through
torchvision's FGVCAircraft, which does not cut it off.
"""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, listed_images, needed, read_columns, read_lines
from hierbench.data.readers._labels import class_ids_of, classification
from hierbench.errors import DataError

NAME = "aircraft"
MARKS = ("data/images_variant_test.txt", "data/variants.txt", "images_variant_test.txt", "variants.txt")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the list of test images or of variants lies in the folder or below."""
    return find_root(folder, MARKS) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images in the order of the list; ids are file names. Raises DataError."""
    root = find_root(folder, MARKS) or folder
    root = root / "data" if (root / "data").is_dir() else root
    path, table = needed(manifest, root, "images_variant_test.txt"), needed(manifest, root, "variants.txt")
    known = {line for _, line in read_lines(table, "list of variants")}
    ids, variants = [], []
    for number, (image, variant) in read_columns(path, "test list", 2):
        if variant not in known:
            raise DataError(
                f"test list {path}, line {number}: the variant {variant!r} is not in {table.name}"
            )
        ids.append(f"{image}.jpg")
        variants.append(variant)
    meaning = class_ids_of(manifest, variants, str(path))
    images = listed_images(manifest, needed(manifest, root, "images"), ids)
    return classification(manifest, images, [meaning[variant] for variant in variants])
