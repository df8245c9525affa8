"""Reads Oxford-IIIT Pet as published: `annotations/test.txt` (`Abyssinian_201 1 1 1`) and `images/`."""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, listed_images, needed, read_columns
from hierbench.data.readers._labels import class_ids_of, classification
from hierbench.errors import DataError

NAME = "pets"
MARKS = ("annotations/test.txt", "annotations/trainval.txt", "annotations/list.txt")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether one of the lists lies in the folder or below."""
    return find_root(folder, MARKS) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images in the order of the list; ids are file names, the class is what stands before the number.

    Raises DataError: files missing, a row that is damaged, a class number that goes with two breeds or the reverse.
    """
    root = find_root(folder, MARKS) or folder
    path = needed(manifest, root, "annotations/test.txt")
    ids, breeds = [], []
    number_of: dict[str, str] = {}
    breed_of: dict[str, str] = {}
    for line, (image, number, _, _) in read_columns(path, "test list", 4):
        breed = image.rpartition("_")[0]
        if number_of.setdefault(breed, number) != number or breed_of.setdefault(number, breed) != breed:
            other = breed_of.get(number, breed)
            raise DataError(
                f"test list {path}, line {line}: the class number {number} of {breed!r} contradicts a line before "
                f"({other!r} has {number_of[other]}): fetch it again"
            )
        ids.append(f"{image}.jpg")
        breeds.append(breed)
    meaning = class_ids_of(manifest, breeds, str(path))
    images = listed_images(manifest, needed(manifest, root, "images"), ids)
    return classification(manifest, images, [meaning[breed] for breed in breeds])
