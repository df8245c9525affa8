"""The order of TensorFlow Datasets: examples sorted by a hash of their keys, and slices of it such as `train[20%:]`.

Read in tensorflow-datasets 4.9.10 (core/hashing.py, core/shuffle.py, core/splits.py, core/utils/shard_utils.py): the
hash is MD5 over the split's name and then the key; sorted examples are written to shards in order, and a slice counts
through the shards in order, so it is a slice of the sorted keys. Percentages round to the nearest example.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import first_few, list_files, subfolders
from hierbench.data.readers._labels import classification
from hierbench.errors import DataError

_SPLIT = re.compile(r"\b(train|test|validation|val)\b(?:\[(\d+%?)?:(\d+%?)?\])?")


def split_of(text: str) -> tuple[str, str, str]:
    """`TFDS train[20%:]` -> ("train", "20%", ""); ("test", "", "") where no split is named."""
    found = _SPLIT.search(text)
    if not found:
        return "test", "", ""
    return "validation" if found[1] == "val" else found[1], found[2] or "", found[3] or ""


def slice_of(start: str, stop: str, total: int) -> slice:
    """The bounds of a split's slice as positions among `total` examples."""

    def position(bound: str, otherwise: int) -> int:
        if not bound:
            return otherwise
        return round(float(bound[:-1]) * total / 100) if bound.endswith("%") else min(int(bound), total)

    return slice(position(start, 0), position(stop, total))


def ordered(keys: Iterable[str], split: str) -> list[str]:
    """Keys in the order in which TFDS keeps the examples of a split."""
    salted = hashlib.md5(split.encode(), usedforsecurity=False)

    def digest(key: str) -> bytes:
        hasher = salted.copy()
        hasher.update(key.encode())
        return hasher.digest()  # big-endian: bytes sort as the 128-bit number

    return sorted(keys, key=digest)


@cache
def split_files(split: str, pattern: str, sizes: tuple[tuple[str, int], ...]) -> frozenset[str]:
    """Paths `CLASS/FILE` of a slice of a dataset of `sizes` images a class.

    `pattern` names the files of a class (`{name}_{number:03d}.jpg`, numbers from 1); TFDS' key is then
    `CLASS_FILE`, as in its EuroSAT and RESISC45.
    """
    path_of = {
        f"{name}_{file}": f"{name}/{file}"
        for name, size in sizes
        for file in (pattern.format(name=name, number=number) for number in range(1, size + 1))
    }
    part, start, stop = split_of(split)
    return frozenset(path_of[key] for key in ordered(path_of, part)[slice_of(start, stop, len(path_of))])


def read_slice(
    manifest: Manifest,
    root: Path,
    chosen: frozenset[str],
    everything: Mapping[str, int],
) -> Classification:
    """Those images of class folders under `root` that are in `chosen`, sorted; some may be missing.

    Raises DataError: a folder that is no class, no image of the split.
    """
    folders = [folder.name for folder in subfolders(root, most=float("inf"))]
    if unknown := [name for name in folders if name not in everything]:
        raise DataError(
            f"dataset {manifest.name}: {root} has folders that are none of its {len(everything)} classes: "
            f"{first_few(unknown)}: remove them or give the right folder"
        )
    ids = [
        path
        for name in folders
        for file in sorted(list_files(root / name))
        if (path := f"{name}/{file}") in chosen
    ]
    if not ids:
        raise DataError(
            f"dataset {manifest.name}: none of the images of {manifest.split} are in {root}: "
            f"they are named like {min(chosen)}"
        )
    return classification(manifest, ImageFiles(root, tuple(ids)), [_above(i) for i in ids])


def has_named_files(root: Path, classes: Sequence[str]) -> bool:
    """Whether the class folders hold files that begin with the class's name, as the official ones do."""
    for name in classes:
        folder = root / name
        if folder.is_dir():
            return any(file.startswith(f"{name}_") for file in list_files(folder))
    return False


def _above(image_id: str) -> str:
    return image_id.rpartition("/")[0]
