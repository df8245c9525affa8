"""Reads Caltech-UCSD Birds 200-2011 as published: `CUB_200_2011/` with four lists and `images/`."""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, listed_images, needed, read_columns
from hierbench.data.readers._labels import class_ids_of, classification
from hierbench.errors import DataError

NAME = "cub2011"
LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether one of the lists that only this dataset has lies in the folder or below."""
    return find_root(folder, LISTS[1:3]) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """Images marked 0 in `train_test_split.txt`, in the order of `images.txt`; ids are paths in `images/`.

    Raises DataError: a list missing or damaged, an image without class, split or file, a label outside
    `classes.txt`, an image whose folder is another class than its label.
    """
    root = find_root(folder, LISTS[1:3]) or folder
    path_of, class_of, training, name_of = (_pairs(needed(manifest, root, name)) for name in LISTS)
    ids, names = [], []
    for number, image in path_of.items():
        if number not in class_of or number not in training:
            raise DataError(
                f"dataset {manifest.name}: image {number} ({image}) has no class or split in {root}"
            )
        if training[number] not in ("0", "1"):
            raise DataError(f"dataset {manifest.name}: image {number} is neither of split 0 nor 1 in {root}")
        if training[number] == "1":
            continue
        name = name_of.get(class_of[number])
        if name is None:
            raise DataError(
                f"dataset {manifest.name}: the label {class_of[number]} of {image} is outside the range of "
                f"{root / 'classes.txt'}"
            )
        if image.partition("/")[0] != name:
            raise DataError(f"dataset {manifest.name}: {image} is labelled {name!r} in {root}")
        ids.append(image)
        names.append(name)
    meaning = class_ids_of(manifest, names, str(root / "classes.txt"))
    images = listed_images(manifest, needed(manifest, root, "images"), ids)
    return classification(manifest, images, [meaning[name] for name in names])


def _pairs(path: Path) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, (key, value) in read_columns(path, "list", 2):
        if key in pairs:
            raise DataError(f"list {path}, line {number}: {key} stands there twice")
        pairs[key] = value
    return pairs
