"""Reads EuroSAT RGB as published (`2750/AnnualCrop/AnnualCrop_1.jpg`) and picks the slice of TFDS' order.

Which slice is the manifest's `split`; the key of an image is `AnnualCrop_AnnualCrop_1.jpg` (image_classification/
eurosat.py of tensorflow-datasets 4.9.10). Folder names are class ids, not the names that prompts say.
"""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root
from hierbench.data.readers._tfds_order import has_named_files, read_slice, split_files
from hierbench.errors import DataError

NAME = "eurosat"
SIZES = {
    "AnnualCrop": 3000, "Forest": 3000, "HerbaceousVegetation": 3000, "Highway": 2500, "Industrial": 2500,
    "Pasture": 2000, "PermanentCrop": 2500, "Residential": 3000, "River": 2500, "SeaLake": 3000,
}  # fmt: skip
"""Images a class, numbered from 1 (Helber et al. 2019, JSTARS 12)."""


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether class folders with files named as the official ones lie in the folder or below."""
    root = find_root(folder, list(SIZES))
    return root is not None and has_named_files(root, list(SIZES))


def read(manifest: Manifest, folder: Path) -> Classification:
    """The images of the split that are there, sorted; ids are paths in the folder of class folders."""
    root = find_root(folder, list(SIZES))
    if root is None:
        raise DataError(f"dataset {manifest.name}: {folder} has no class folders such as AnnualCrop/")
    chosen = split_files(manifest.split, "{name}_{number}.jpg", tuple(SIZES.items()))
    return read_slice(manifest, root, chosen, SIZES)
