"""Reads SUN397 as published: `SUN397/a/abbey/sun_….jpg` and the lists of `Partitions.zip`.

The split is `Testing_01.txt` (official partition 1), or, for a dataset that has a list of its own under
`data_manifests/splits/`, that list: TFDS' default configuration tests on 21,750 images of its own choice. Of each of
them the list holds three bytes, so many as tell the images of one class apart.
TFDS makes smaller JPEGs of the images, and the published figures were measured on those: the originals are a variant.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, first_few, list_files, listed_images, needed, read_lines
from hierbench.data.readers._labels import class_ids_of, classification
from hierbench.errors import DataError
from hierbench.files import text_lines

NAME = "sun397"
LIST = ("Partitions/Testing_01.txt", "SUN397/Partitions/Testing_01.txt", "Testing_01.txt")
FOLDERS = ("SUN397", ".")
VARIANT = "original-pixels"
BYTES = 3
"""Of the SHA-256 of `a/abbey/sun_aalltzgxbismofdm.jpg`. Checked against the three lists in the wheel of
tensorflow-datasets 4.9.10: every image of the test list is found, and none of the other 87,005 of the dataset."""


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the folders by first letter, or the partitions, lie in the folder or below."""
    return find_root(folder, _marks(manifest)) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images, in the order of the list or sorted; ids are paths in `SUN397/` without a first slash.

    Raises DataError: no list, no images, listed images that are missing, classes that are unknown.
    """
    root = find_root(folder, _marks(manifest)) or folder
    own = split_list(manifest.name)
    if own is not None:
        pictures = _pictures(manifest, root)
        ids = [
            f"{class_id}/{file}"
            for class_id in manifest.class_ids
            if (pictures / class_id).is_dir()
            for file in sorted(list_files(pictures / class_id))
            if digest(f"{class_id}/{file}") in own[class_id]
        ]
        images = ImageFiles(pictures, tuple(ids))
        return classification(manifest, images, [_above(i) for i in ids], VARIANT)
    path = needed(manifest, root, *LIST)
    ids = [line.removeprefix("/") for _, line in read_lines(path, "test list")]
    meaning = class_ids_of(manifest, map(_above, ids), str(path))
    images = listed_images(manifest, _pictures(manifest, root), ids)
    return classification(manifest, images, [meaning[_above(i)] for i in ids], VARIANT)


def split_list(name: str) -> dict[str, frozenset[bytes]] | None:
    """Digests of the test images by class for a dataset with a packaged list; None without one."""
    path = Path(str(resources.files("hierbench.data_manifests"))) / "splits" / f"{name}.tsv"
    if not path.is_file():
        return None
    rows = (line.split("\t") for line in text_lines(path.read_text(encoding="utf-8")))
    return {class_id: _cut(base64.b64decode(packed)) for class_id, packed in rows}


def digest(image_id: str) -> bytes:
    """The bytes by which the list knows an image."""
    return hashlib.sha256(image_id.encode("utf-8", "surrogateescape")).digest()[:BYTES]


def _cut(packed: bytes) -> frozenset[bytes]:
    return frozenset(packed[start : start + BYTES] for start in range(0, len(packed), BYTES))


def _marks(manifest: Manifest) -> Sequence[str]:
    classes = [f"{place}/{class_id}" for place in FOLDERS for class_id in manifest.class_ids]
    return [*LIST, *classes]


def _pictures(manifest: Manifest, root: Path) -> Path:
    for place in FOLDERS:
        if any((root / place / class_id).is_dir() for class_id in manifest.class_ids):
            return root / place
    raise DataError(
        f"dataset {manifest.name}: {root} has no SUN397/ with folders like {first_few(manifest.class_ids)}"
    )


def _above(image_id: str) -> str:
    return image_id.rpartition("/")[0]
