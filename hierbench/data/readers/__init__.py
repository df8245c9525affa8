"""Readers of published layouts: from a folder and a manifest to a record of `hierbench.data.datasets`."""

from __future__ import annotations

from hierbench.data.datasets import CaptionChains, Classification, Retrieval
from hierbench.data.locate import Locations, how_to_get
from hierbench.data.manifests import load_manifest
from hierbench.data.readers import coco_captions, hierarcaps, imagefolder
from hierbench.errors import DataError, MissingDataError


def open_dataset(
    name: str, locations: Locations, *, protocol: str = "released", prompts: str = "default"
) -> Classification | Retrieval | CaptionChains:
    """Open a dataset where `locations` finds it: captions and labels are read, images only listed.

    `protocol` decides the class names, `prompts` the templates (both in `hierbench.data.manifests`).
    Raises UnknownNameError; MissingDataError where nothing was found; DataError where what was found (or
    given explicitly) does not exist or is damaged; UsageError for an unknown protocol or prompt regime.
    """
    manifest = load_manifest(name)
    manifest.class_names(protocol), manifest.prompts(prompts)  # refuse unknown ones for every kind of dataset
    if manifest.reader == "miniature":
        from hierbench.miniature import datasets

        return datasets.open_dataset(manifest, protocol, prompts)
    folder = locations.find(name)
    if folder is None:
        raise MissingDataError(f"dataset {name} is not on this machine. {how_to_get(manifest)}")
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise DataError(f"dataset {name}: {folder} {what}: give --data {name}=PATH of its folder")
    if manifest.reader == "imagefolder":
        return imagefolder.read(manifest, folder, protocol, prompts)
    if manifest.reader == "coco-captions":
        return coco_captions.read(manifest, folder)
    return hierarcaps.read(manifest, folder, locations)
