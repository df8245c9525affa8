"""Reads the Describable Textures Dataset as published: `labels/test1.txt` and `images/`; fold 1."""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, listed_images, needed, read_lines
from hierbench.data.readers._labels import class_ids_of, classification

NAME = "dtd"
MARKS = ("labels/test1.txt", "labels/train1.txt", "labels/labels_joint_anno.txt")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether one of the lists of fold 1 lies in the folder or below."""
    return find_root(folder, MARKS) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images of fold 1 in the order of the list; ids are paths in `images/`. Raises DataError."""
    root = find_root(folder, MARKS) or folder
    path = needed(manifest, root, "labels/test1.txt")
    ids = [line for _, line in read_lines(path, "test list")]
    classes = [image_id.partition("/")[0] for image_id in ids]
    meaning = class_ids_of(manifest, classes, str(path))
    images = listed_images(manifest, needed(manifest, root, "images"), ids)
    return classification(manifest, images, [meaning[name] for name in classes])
