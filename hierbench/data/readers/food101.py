"""Reads Food-101 as published: `food-101/meta/test.txt` (`apple_pie/1011328`) and `food-101/images/`."""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, listed_images, needed, read_lines
from hierbench.data.readers._labels import class_ids_of, classification

NAME = "food101"


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether `meta/test.txt` (or another list of `meta/`) lies in the folder or below."""
    return find_root(folder, ["meta/test.txt", "meta/classes.txt"]) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images in the order of the list; ids are paths in `images/`. Raises DataError."""
    root = find_root(folder, ["meta/test.txt", "meta/classes.txt"]) or folder
    path = needed(manifest, root, "meta/test.txt")
    ids = [f"{line}.jpg" for _, line in read_lines(path, "test list")]
    classes = [image_id.partition("/")[0] for image_id in ids]
    meaning = class_ids_of(manifest, classes, str(path))
    images = listed_images(manifest, needed(manifest, root, "images"), ids)
    return classification(manifest, images, [meaning[name] for name in classes])
