"""Reads a folder of class folders (ImageNet by WordNet id): `n01440764/ILSVRC2012_val_00000293.JPEG`.

Any subset of the classes and images will do. Image ids are paths relative to the folder of class folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import check_unicode, first_few, first_there
from hierbench.errors import DataError

SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


def read(manifest: Manifest, folder: Path, protocol: str, prompts: str) -> Classification:
    """Classification over the manifest's classes; images in the order of their ids.

    Hidden files and files without an image's suffix are passed over; links are followed.
    Raises DataError: no class folders, folders that are no class, no images.
    """
    root = first_there(folder, manifest.layout.images) or folder
    label_of = {class_id: label for label, class_id in enumerate(manifest.class_ids)}
    folders = sorted(entry.name for entry in _scan(root) if entry.is_dir())
    if not folders:
        raise DataError(
            f"dataset {manifest.name}: {root} has no class folders such as {manifest.class_ids[0]}/: "
            "give the folder that holds them"
        )
    if unknown := [name for name in folders if name not in label_of]:
        raise DataError(
            f"dataset {manifest.name}: {root} has folders that are none of its {len(label_of)} classes: "
            f"{first_few(unknown)}: remove them or give the right folder"
        )
    found = sorted(
        (f"{name}/{inside}", label_of[name]) for name in folders for inside in _images(f"{root}/{name}")
    )
    if not found:
        raise DataError(
            f"dataset {manifest.name}: no images in the class folders of {root}: give the folder of the images"
        )
    ids = tuple(image_id for image_id, _ in found)
    check_unicode(ids, f"dataset {manifest.name}: the file name")
    return Classification(
        name=manifest.name,
        images=ImageFiles(root, ids),
        labels=np.array([label for _, label in found], np.int64),
        class_ids=manifest.class_ids,
        class_names=manifest.class_names(protocol),
        templates=manifest.prompts(prompts),
        taxonomy=manifest.taxonomy,
    )


def _images(folder: str, prefix: str = "", above: tuple[str, ...] = ()) -> Iterator[str]:
    """Relative paths of the images in a class folder and below; no file's status is asked for."""
    above = (*above, os.path.realpath(folder))
    for entry in _scan(folder):
        if entry.name.lower().endswith(SUFFIXES):
            yield prefix + entry.name
        elif entry.is_dir() and os.path.realpath(entry.path) not in above:  # a link upwards would never end
            yield from _images(entry.path, f"{prefix}{entry.name}/", above)


def _scan(folder: Path | str) -> list[os.DirEntry]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"folder {folder} cannot be listed: {error.strerror}") from error
