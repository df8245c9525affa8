"""Reads a folder of class folders, named by class id or by class name: `n01440764/ILSVRC2012_val_00000293.JPEG`.

Any subset of the classes and images will do. Image ids are paths relative to the folder of class folders. Where a table
`classes.tsv` lies there (folder, tab, class id; every class), as in our own exports, it says what the folders are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import check_unicode, first_few, first_there, is_folder, read_lines
from hierbench.data.readers._labels import class_ids_of, classification
from hierbench.errors import DataError

NAME = "imagefolder"
SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
INDEX = "classes.tsv"
SPLITS = ("test", "val", "validation", ".")
"""Where class folders may lie besides the places that the manifest names."""


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether class folders lie in the folder, in one of its usual splits, or in its only subfolder."""
    return _root(manifest, folder) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """Classification over the manifest's classes; images in the order of their ids.

    Hidden files and files without an image's suffix are passed over; links are followed.
    Raises DataError: no class folders, folders that are no class, two folders of one class, no images.
    """
    root = _root(manifest, folder) or first_there(folder, manifest.layout.images) or folder
    return read_root(manifest, root)


def read_root(manifest: Manifest, root: Path) -> Classification:
    """As `read`, for the folder that holds the class folders itself."""
    folders = sorted(entry.name for entry in _scan(root) if is_folder(entry))
    if not folders:
        raise DataError(
            f"dataset {manifest.name}: {root} has no class folders such as {manifest.class_ids[0]}/: "
            "give the folder that holds them"
        )
    told = _told(manifest, root / INDEX) if (root / INDEX).exists() else {}
    if unknown := [name for name in folders if (name not in told if told else not manifest.class_for(name))]:
        raise DataError(
            f"dataset {manifest.name}: {root} has folders that are none of its {len(manifest.classes)} classes: "
            f"{first_few(unknown)}: remove them or give the right folder"
        )
    meaning = told or class_ids_of(manifest, folders, str(root))
    found = sorted(
        (f"{name}/{inside}", meaning[name]) for name in folders for inside in _images(f"{root}/{name}")
    )
    if not found:
        raise DataError(
            f"dataset {manifest.name}: no images in the class folders of {root}: give the folder of the images"
        )
    ids = tuple(image_id for image_id, _ in found)
    check_unicode(ids, f"dataset {manifest.name}: the file name")
    return classification(manifest, ImageFiles(root, ids), [class_id for _, class_id in found])


def _told(manifest: Manifest, path: Path) -> dict[str, str]:
    """Class id by folder. Raises DataError for a table that does not name every class of the manifest once."""
    told: dict[str, str] = {}
    for number, line in read_lines(path, "class table"):
        name, tab, class_id = line.partition("\t")
        if not tab or name in told or class_id not in manifest.classes:
            raise DataError(
                f"class table {path}, line {number}: no folder and class id of {manifest.name}, or one again"
            )
        told[name] = class_id
    if set(told.values()) != manifest.classes.keys():
        raise DataError(
            f"class table {path} names {len(set(told.values()))} classes, {manifest.name} has {len(manifest.classes)}: "
            "export it again"
        )
    return told


def _root(manifest: Manifest, folder: Path, depth: int = 2) -> Path | None:
    """The first place with a class folder; a folder with a single subfolder is looked into, `depth` levels deep."""
    if not manifest.classes or "multilabel" in manifest.tasks:  # a folder says one class of an image
        return None
    for place in dict.fromkeys((*manifest.layout.images, *SPLITS)):
        root = folder / place
        if root.is_dir() and any(
            manifest.class_for(entry.name) and is_folder(entry) for entry in _scan(root)
        ):
            return root
    below = [entry for entry in _scan(folder) if is_folder(entry)]
    return _root(manifest, folder / below[0].name, depth - 1) if len(below) == 1 and depth else None


def _images(folder: str, prefix: str = "", above: tuple[str, ...] = ()) -> Iterator[str]:
    """Relative paths of the images in a class folder and below; no file's status is asked for."""
    above = (*above, os.path.realpath(folder))
    for entry in _scan(folder):
        if entry.name.lower().endswith(SUFFIXES):
            yield prefix + entry.name
        elif is_folder(entry) and os.path.realpath(entry.path) not in above:  # a link upwards would never end
            yield from _images(entry.path, f"{prefix}{entry.name}/", above)


def _scan(folder: Path | str) -> list[os.DirEntry]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"folder {folder} cannot be listed: {error.strerror}") from error
