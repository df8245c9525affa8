"""Reads Oxford 102 Flowers as published: `imagelabels.mat`, `setid.mat`, `jpg/image_00001.jpg`.

The source has numbers and no names: class ids are those numbers, 1 to 102, and `tstid` is the test split. Counts per
class check that the numbers mean what they should.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, listed_images, needed
from hierbench.data.readers._labels import classification, in_range
from hierbench.data.readers._mat import read_mat
from hierbench.errors import DataError

NAME = "flowers102"
MARKS = ("imagelabels.mat", "setid.mat")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether one of the two MATLAB files lies in the folder or below."""
    return find_root(folder, MARKS) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images in the order of `tstid`; ids are file names.

    Raises DataError: files missing or damaged, labels outside 1 to 102, an image number without a label.
    """
    root = find_root(folder, MARKS) or folder
    path, sets = (needed(manifest, root, name) for name in MARKS)
    labels = np.atleast_1d(read_mat(path, ["labels"])["labels"])
    in_range(manifest, labels, 1, len(manifest.classes), str(path))
    numbers = np.atleast_1d(read_mat(sets, ["tstid"])["tstid"]).astype(np.int64)
    if outside := [int(number) for number in numbers if not 1 <= number <= len(labels)]:
        raise DataError(
            f"annotation file {sets}: image number {outside[0]} has none of the {len(labels)} labels of {path.name}"
        )
    ids = [f"image_{number:05d}.jpg" for number in numbers.tolist()]
    images = listed_images(manifest, needed(manifest, root, "jpg"), ids)
    class_ids = [str(label) for label in labels[numbers - 1].tolist()]
    return classification(manifest, images, class_ids)
