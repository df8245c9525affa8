"""Reads Stanford Cars as published: `cars_test/`, `cars_test_annos_withlabels.mat`, `devkit/cars_meta.mat`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, listed_images, needed
from hierbench.data.readers._labels import by_names, classification
from hierbench.data.readers._mat import read_mat
from hierbench.errors import DataError

NAME = "cars"
ANNOTATIONS = ("cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat")
META = ("devkit/cars_meta.mat", "cars_meta.mat")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the annotations or the class names lie in the folder or below."""
    return find_root(folder, [*ANNOTATIONS, *META]) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images in the order of the annotations; ids are file names.

    Raises DataError: files missing or damaged (`cars_test_annos.mat` has no labels), labels outside the names.
    """
    root = find_root(folder, [*ANNOTATIONS, *META]) or folder
    path, meta = needed(manifest, root, *ANNOTATIONS), needed(manifest, root, *META)
    annotations = np.atleast_1d(read_mat(path, ["annotations"])["annotations"])
    if missing := {"class", "fname"} - set(annotations.dtype.names or ()):
        raise DataError(f"annotation file {path} has no field {min(missing)!r}: take the file with labels")
    names = [str(name) for name in np.atleast_1d(read_mat(meta, ["class_names"])["class_names"])]
    class_ids = by_names(
        manifest, names, annotations["class"].astype(np.int64), f"the names in {meta}", first=1
    )
    pictures = needed(manifest, root, "cars_test/cars_test", "cars_test")  # some mirrors nest the folder
    images = listed_images(manifest, pictures, [str(name) for name in annotations["fname"]])
    return classification(manifest, images, class_ids)
