"""Reads ImageNet's validation images as published, all in one folder, with the labels that lie beside them.

`ILSVRC2012_img_val.tar` holds `ILSVRC2012_val_00000001.JPEG` …; what they show says either the development kit
(`data/ILSVRC2012_validation_ground_truth.txt`, a number a line, which `data/meta.mat` translates to WordNet ids) or
Kaggle's `LOC_val_solution.csv`. Folders by class are read as every dataset's are (`imagefolder`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.manifests import Manifest
from hierbench.data.readers import imagefolder
from hierbench.data.readers._files import find_root, list_files, needed, read_lines, subfolders
from hierbench.data.readers._labels import class_ids_of, classification
from hierbench.data.readers._mat import read_mat
from hierbench.errors import DataError

NAME = "imagenet"
IMAGE = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG")
PLACES = (".", "val", "ILSVRC2012_img_val", "Data/CLS-LOC/val", "ILSVRC/Data/CLS-LOC/val")
KIT = "data/ILSVRC2012_validation_ground_truth.txt"
KAGGLE = "LOC_val_solution.csv"


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether images lie in one of the usual places without class folders."""
    return not imagefolder.fits(manifest, folder) and _pictures(folder) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The images that are there, sorted; ids are file names.

    Raises DataError: nothing says the images' classes, damaged files, images without a label, unknown classes, and
    what `imagefolder` misses where there are no such images.
    """
    pictures = _pictures(folder)
    if pictures is None:
        return imagefolder.read(manifest, folder)
    ids = tuple(sorted(name for name in list_files(pictures) if IMAGE.fullmatch(name)))
    root = find_root(folder, [KIT, KAGGLE])
    if root is None:
        raise DataError(
            f"dataset {manifest.name}: nothing in {folder} says which classes its images show: put "
            f"ILSVRC2012_devkit_t12.tar.gz (or Kaggle's {KAGGLE}) beside them, or sort them into folders by WordNet id"
        )
    path = root / KIT if (root / KIT).exists() else root / KAGGLE
    truth = _kit(manifest, root) if path.name != KAGGLE else _kaggle(path)
    if missing := [name for name in ids if Path(name).stem not in truth]:
        raise DataError(f"dataset {manifest.name}: {path} has no label for {missing[0]} of {pictures}")
    words = [truth[Path(name).stem] for name in ids]
    meaning = class_ids_of(manifest, words, str(path))
    return classification(manifest, ImageFiles(pictures, ids), [meaning[word] for word in words])


def _pictures(folder: Path) -> Path | None:
    for place in (folder, *subfolders(folder)):
        for root in (place / name for name in PLACES):
            if root.is_dir():
                with os.scandir(root) as entries:
                    if any(IMAGE.fullmatch(entry.name) for entry in entries):
                        return root
    return None


def _kit(manifest: Manifest, root: Path) -> dict[str, str]:
    """WordNet id by image; line k of the ground truth is of image k."""
    path, meta = root / KIT, needed(manifest, root, "data/meta.mat")
    synsets = np.atleast_1d(read_mat(meta, ["synsets"])["synsets"])
    if missing := {"ILSVRC2012_ID", "WNID"} - set(synsets.dtype.names or ()):
        raise DataError(f"annotation file {meta} has no field {min(missing)!r}: fetch it again")
    wnid = {int(k): str(w) for k, w in zip(synsets["ILSVRC2012_ID"], synsets["WNID"], strict=True)}
    truth = {}
    for number, line in read_lines(path, "ground truth"):
        if not line.isdecimal() or int(line) not in wnid:
            raise DataError(f"ground truth {path}, line {number}: {line[:20]!r} is no class of {meta}")
        truth[f"ILSVRC2012_val_{number:08d}"] = wnid[int(line)]
    return truth


def _kaggle(path: Path) -> dict[str, str]:
    """WordNet id by image; after it stands where in the image the thing is."""
    truth = {}
    for number, line in read_lines(path, "label table"):
        image, comma, boxes = line.partition(",")
        if number > 1:
            if not (comma and boxes.split()):
                raise DataError(f"label table {path}, line {number}: no image and WordNet id: fetch it again")
            truth[image] = boxes.split()[0]
    return truth
