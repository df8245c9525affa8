"""Reads Country211 as published: `country211/test/AD/….jpg`, folders by ISO code beside `train/` and `valid/`."""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers import imagefolder
from hierbench.data.readers._files import find_root

NAME = "country211"


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether `test/` with folders by ISO code lies in the folder or below."""
    return find_root(folder, _marks(manifest)) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images sorted; ids are paths in `test/`. Raises DataError as an ImageFolder does."""
    root = find_root(folder, _marks(manifest)) or folder
    return imagefolder.read_root(manifest, root / "test")


def _marks(manifest: Manifest) -> list[str]:
    return [f"test/{class_id}" for class_id in manifest.class_ids]
