"""Images that a dataset of captions borrows: its own folder of them, or that of the dataset that its manifest names."""

from __future__ import annotations

from pathlib import Path

from hierbench.data.locate import Locations, missing
from hierbench.data.manifests import Manifest, load_manifest
from hierbench.data.readers._files import first_there, image_folder
from hierbench.errors import DataError, MissingDataError


def pictures(manifest: Manifest, folder: Path, locations: Locations) -> Path:
    """The folder of images. Raises DataError where there is none, MissingDataError where the lender is not there."""
    own = first_there(folder, manifest.layout.images)
    if own is not None:
        return own
    folders = f"{' or '.join(manifest.layout.images)}/"
    if not manifest.layout.images_of:
        raise DataError(f"dataset {manifest.name}: {folder} has no image folder {folders}")
    lender = load_manifest(manifest.layout.images_of)
    lent = locations.find(lender.name)
    if lent is None:
        raise MissingDataError(
            f"dataset {manifest.name}: {folder} has no {folders}; the images of another dataset serve instead: "
            f"{missing(lender)}"
        )
    return image_folder(lender, lent)
