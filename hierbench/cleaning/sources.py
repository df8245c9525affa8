"""What is to be cleaned: caption chains with their published image addresses, and planted faults where known."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hierbench.contracts import Fit
from hierbench.data.datasets import CaptionChains
from hierbench.data.locate import Locations
from hierbench.data.manifests import load_manifest
from hierbench.data.readers import open_dataset
from hierbench.data.readers._files import captions_file, read_text
from hierbench.errors import DataError, UsageError

LEVELS = 4
IMAGES = "test_imgs"  # the folder of images in a cleaned folder


@dataclass(frozen=True)
class Source:
    """Samples to clean.

    `urls`: the published image_url by sample id. `faults`: planted ones by sample (None = faultless), None where
    nobody knows. `about`: how the source was made, for the record. `folders`: where its own files lie.
    """

    dataset: CaptionChains
    fit: Fit
    urls: Mapping[str, str]
    about: Mapping[str, Any]
    faults: tuple[str | None, ...] | None = None
    folders: tuple[Path, ...] = ()

    @cached_property
    def captions(self) -> tuple[str, ...]:
        """The distinct captions in order of first mention, sample by sample, from general to specific."""
        return tuple(dict.fromkeys(caption for chain in self.dataset.captions for caption in chain))

    @cached_property
    def position(self) -> dict[str, int]:
        """Caption -> its place in `captions`."""
        return {caption: place for place, caption in enumerate(self.captions)}

    @cached_property
    def chains(self) -> np.ndarray:
        """(samples, LEVELS) places in `captions`."""
        return np.array(
            [[self.position[c] for c in chain] for chain in self.dataset.captions], np.int64
        ).reshape(-1, LEVELS)

    @cached_property
    def image_hashes(self) -> tuple[str, ...]:
        """SHA-256 of each image's bytes. Reads all images; raises DataError."""
        images = self.dataset.images
        return tuple(hashlib.sha256(images.read(image_id)).hexdigest() for image_id in images.ids)


def hierarcaps(locations: Locations, limit: int | None = None) -> Source:
    """The published HierarCaps rows; at most `limit`, evenly spread.

    Raises what the reader raises: DataError naming file and row (other than four levels, repeated ids, missing
    images), MissingDataError where the dataset is not there.
    """
    manifest = load_manifest("hierarcaps")
    dataset, folder = open_dataset("hierarcaps", locations), locations.find("hierarcaps")
    assert isinstance(dataset, CaptionChains)  # its manifest names the reader of chains
    assert folder is not None  # where it has just been read
    urls = dict(zip(dataset.sample_ids, (dataset.images.ids[o] for o in dataset.owner), strict=True))
    folders = [folder, getattr(dataset.images, "folder", folder)]
    try:  # a prepared copy knows the names of the images only, which is what a reader needs of an address
        path = captions_file(manifest, folder)
        folders.append(path.parent)
        text = read_text(path, "captions file")
        urls = {row["id"]: row["image_url"] for row in csv.DictReader(io.StringIO(text, newline=""))}
    except DataError:
        pass
    dataset = dataset if limit is None else dataset.limited(limit)
    about = {"dataset": "hierarcaps", "limit": limit}
    return Source(dataset, manifest.fit, urls, about, folders=tuple(Path(name) for name in folders))


def miniature(count: int, share: float, seed: str) -> Source:
    """Chains of the miniature with planted faults. Raises UsageError for numbers out of range."""
    from hierbench.miniature.noise import noisy_chains

    noisy = noisy_chains(count, share, seed)
    dataset = noisy.dataset
    urls = {sample: f"miniature/{image_name(sample)}" for sample in dataset.sample_ids}
    about = {"dataset": dataset.name, "count": count, "share": share, "seed": seed}
    return Source(dataset, Fit.SQUEEZE, urls, about, noisy.faults)


def reopen(about: Mapping[str, Any], locations: Callable[[], Locations]) -> Source:
    """The source that a record tells of."""
    if about["dataset"] == "miniature-noisy":
        return miniature(about["count"], about["share"], about["seed"])
    return hierarcaps(locations(), about["limit"])


def check_apart(source: Source, out: Path) -> None:
    """Raises UsageError where `out` is a folder of the source's own files: a cleaning takes images away from there."""
    own = {folder.resolve() for folder in source.folders}
    if own & {out.resolve(), (out / IMAGES).resolve()}:
        raise UsageError(f"-o {out}: the published rows themselves lie there: choose a folder of its own")


def image_name(image_id: str) -> str:
    """The file name under which an image lies in a cleaned folder."""
    name = image_id.rsplit("/", 1)[-1]
    return name if "." in name else f"{name}.png"
