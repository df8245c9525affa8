"""Reads Caltech-101 as published (`101_ObjectCategories/accordion/image_0001.jpg`) and draws TFDS' test split.

TFDS (datasets/caltech101 of tensorflow-datasets 4.9.10) draws 30 files a class for training with one numpy generator
of seed 1234 that runs on from class to class, and tests on the other JPEGs. It takes classes and files in the order
in which the file system lists them, which the dataset's publication does not fix; sorted names are the one order that
everybody can repeat, so the record carries the variant `sorted-split`. (Sorted names leave the stray file
`BACKGROUND_Google/tmp` on the test side, as TFDS' 6,084 test images say it was.) TFDS' own prepared folder, or
WebDataset shards made from it, give the released split itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import first_few, list_files, subfolders
from hierbench.data.readers._labels import classification
from hierbench.errors import DataError

NAME = "caltech101"
TRAINING = 30
SEED = 1234
STRAY = {"BACKGROUND_Google": ("tmp",)}  # a file of the archive that is no image, yet takes part in the draw
VARIANT = "sorted-split"
PLACES = ("101_ObjectCategories", "caltech-101/101_ObjectCategories", ".")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether class folders with files named as the official ones lie in the folder or below."""
    return _root(manifest, folder) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images that are there, sorted; ids are paths in the folder of class folders.

    Raises DataError: no class folders, folders that are no class, files beyond those published.
    """
    root = _root(manifest, folder)
    if root is None:
        raise DataError(
            f"dataset {manifest.name}: {folder} has no class folders with files like image_0001.jpg"
        )
    folders = [entry.name for entry in subfolders(root, most=float("inf"))]
    if unknown := [name for name in folders if name not in manifest.classes]:
        raise DataError(
            f"dataset {manifest.name}: {root} has folders that are none of its {len(manifest.classes)} classes: "
            f"{first_few(unknown)}: remove them or give the right folder"
        )
    sizes = published_sizes(manifest)
    training = drawn_for_training(sizes)
    ids = []
    for name in folders:
        published = {_file(number) for number in range(1, sizes[name] + 1)}
        files = sorted(file for file in list_files(root / name) if file.endswith(".jpg"))
        if odd := [file for file in files if file not in published]:
            raise DataError(
                f"dataset {manifest.name}: {root / name / odd[0]} is not one of the published files"
            )
        ids += [f"{name}/{file}" for file in files if f"{name}/{file}" not in training]
    class_ids = [image_id.partition("/")[0] for image_id in ids]
    return classification(manifest, ImageFiles(root, tuple(ids)), class_ids, VARIANT)


def published_sizes(manifest: Manifest) -> dict[str, int]:
    """JPEGs a class in the archive: those of the test split and the 30 for training."""
    each = manifest.counts.per_class
    if not isinstance(each, dict):
        raise DataError(
            f"manifest {manifest.name}: counts.per_class must say how many test images a class has"
        )
    return {class_id: count + TRAINING for class_id, count in each.items()}


def drawn_for_training(sizes: dict[str, int]) -> frozenset[str]:
    """Paths of the files that the seeded draw takes for training, classes and files sorted by their bytes."""
    generator = np.random.RandomState(SEED)
    drawn = set()
    for name in sorted(sizes):
        files = [*(_file(number) for number in range(1, sizes[name] + 1)), *STRAY.get(name, ())]
        drawn |= {f"{name}/{files[row]}" for row in generator.choice(len(files), TRAINING, replace=False)}
    return frozenset(drawn)


def _root(manifest: Manifest, folder: Path) -> Path | None:
    for candidate in (folder, *subfolders(folder)):
        for place in PLACES:
            root = candidate / place
            here = list_files(root) & manifest.classes.keys() if root.is_dir() else ()
            if any((root / name / _file(number)).exists() for name in here for number in (1, 2)):
                return root
    return None


def _file(number: int) -> str:
    return f"image_{number:04d}.jpg"
