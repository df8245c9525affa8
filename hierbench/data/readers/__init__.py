"""Readers of published layouts: from a folder and a manifest to a dataset of `hierbench.data.datasets`.

A reader is a module with `NAME`, `fits(manifest, folder)` (a quick look at names) and
`read(manifest, folder)`, which gives ids and class ids; names and prompts are attached here, where a dataset is opened.
Each dataset's official layout has one; the generic layouts serve every dataset.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

from hierbench.data import prepared
from hierbench.data.datasets import AnyDataset, CaptionChains, CaptionChoices
from hierbench.data.locate import Locations, missing
from hierbench.data.manifests import Manifest, load_manifest
from hierbench.data.naming import Words
from hierbench.data.readers import (
    aircraft,
    aro,
    caltech101,
    cars,
    cifar,
    coco_captions,
    coco_objects,
    country211,
    cub2011,
    dtd,
    eurosat,
    flowers102,
    food101,
    hf_parquet,
    hierarcaps,
    imagefolder,
    imagenet,
    karpathy,
    labelled_folder,
    pets,
    resisc45,
    stl10,
    sugarcrepe,
    sun397,
    tfds,
    voc2007,
    wds,
    winoground,
)
from hierbench.data.readers._files import VARIANT, read_text
from hierbench.data.readers._labels import OTHER_SPLIT
from hierbench.errors import DataError, MissingDataError

GENERIC = (hf_parquet, wds, tfds, imagefolder)
"""Layouts that serve datasets of many kinds, in the order in which they are tried."""

READERS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        aircraft, aro, caltech101, cars, cifar, coco_captions, coco_objects, country211, cub2011, dtd, eurosat,
        flowers102, food101, hierarcaps, imagenet, karpathy, labelled_folder, pets, resisc45, stl10,
        sugarcrepe, sun397, voc2007, winoground, *GENERIC,
    )
}  # fmt: skip
"""Readers of the official and of the generic layouts by name."""


def open_dataset(
    name: str, locations: Locations, *, protocol: str = "released", prompts: str = "default"
) -> AnyDataset:
    """Open a dataset where `locations` finds it: captions and labels are read, images only listed.

    `protocol` decides the class names, `prompts` the templates (both in `hierbench.data.manifests`).
    Raises UnknownNameError; MissingDataError where nothing was found; DataError where what was found (or
    given explicitly) does not exist or is damaged; UsageError for an unknown protocol or prompt regime.
    """
    manifest = load_manifest(name)
    words = Words.of(manifest, protocol, prompts)
    if manifest.reader == "miniature":
        from hierbench.miniature import datasets

        return words.given_to(datasets.read(manifest))
    folder = locations.find(name)
    if folder is None:
        raise MissingDataError(missing(manifest))
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise DataError(f"dataset {name}: {folder} {what}: give --data {name}=PATH of its folder")
    return words.given_to(_read(manifest, folder, locations))


def open_folder(
    manifest: Manifest,
    folder: Path,
    protocol: str = "released",
    prompts: str = "default",
    locations: Locations | None = None,
) -> AnyDataset:
    """Open a dataset in the given folder by the first reader that fits: the prepared form, the dataset's official
    layout, then the generic ones. `locations` finds the dataset whose images another one borrows.

    Raises DataError: no reader fits (with what the official one misses), or what fits is damaged.
    """
    return Words.of(manifest, protocol, prompts).given_to(_read(manifest, folder, locations))


def _read(manifest: Manifest, folder: Path, locations: Locations | None) -> AnyDataset:
    own = READERS[manifest.reader]
    extra = {"locations": locations} if own in (hierarcaps, sugarcrepe) else {}  # they may borrow images
    if prepared.fits(manifest, folder):
        return prepared.read(manifest, folder)
    if (folder / VARIANT).is_file():  # an export, which file names might take for the official layout
        for module in (wds, imagefolder):
            if module.fits(manifest, folder):
                return _as_exported(folder, module.read(manifest, folder))
    if own.fits(manifest, folder):
        return own.read(manifest, folder, **extra)
    for module in GENERIC:
        if module.fits(manifest, folder):
            return _not_a_slice(manifest, module, module.read(manifest, folder))
    try:
        return own.read(manifest, folder, **extra)
    except MissingDataError:
        raise
    except DataError as error:
        others = ", ".join(module.NAME for module in GENERIC if module is not own)
        raise DataError(f"{error} (nor is it in one of the layouts prepared, {others})") from error


def _as_exported(folder: Path, dataset: AnyDataset) -> AnyDataset:
    variant = read_text(folder / VARIANT, "variant").strip()
    return (
        dataset
        if isinstance(dataset, CaptionChains | CaptionChoices)
        else replace(dataset, variant=variant or dataset.variant)
    )


def _not_a_slice(manifest: Manifest, module: ModuleType, dataset: AnyDataset) -> AnyDataset:
    """Mark a part of a split that is a slice of TFDS' order: outside of TFDS nothing tells which part it is."""
    sliced = "[" in manifest.split and module is not tfds
    if isinstance(dataset, CaptionChains | CaptionChoices):
        return dataset
    whole = len(dataset.images.ids) == manifest.counts.images
    return replace(dataset, variant=dataset.variant or OTHER_SPLIT) if sliced and not whole else dataset
