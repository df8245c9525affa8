"""Reads NWPU-RESISC45 as published (`NWPU-RESISC45/airplane/airplane_001.jpg`) and picks the slice of TFDS' order.

Which slice is the manifest's `split`; the key of an image is `airplane_airplane_001.jpg` (datasets/resisc45 of
tensorflow-datasets 4.9.10).
"""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root
from hierbench.data.readers._tfds_order import has_named_files, read_slice, split_files
from hierbench.errors import DataError

NAME = "resisc45"
EACH = 700
"""Images in each of the 45 classes, numbered from 1 (Cheng et al. 2017, Proc. IEEE 105)."""


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether class folders with files named as the official ones lie in the folder or below."""
    root = find_root(folder, manifest.class_ids)
    return root is not None and has_named_files(root, manifest.class_ids)


def read(manifest: Manifest, folder: Path) -> Classification:
    """The images of the split that are there, sorted; ids are paths in the folder of class folders."""
    root = find_root(folder, manifest.class_ids)
    if root is None:
        raise DataError(
            f"dataset {manifest.name}: {folder} has no class folders such as {manifest.class_ids[0]}/"
        )
    sizes = dict.fromkeys(manifest.class_ids, EACH)
    chosen = split_files(manifest.split, "{name}_{number:03d}.jpg", tuple(sizes.items()))
    return read_slice(manifest, root, chosen, sizes)
