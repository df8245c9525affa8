"""Reads STL-10's binary version: `stl10_binary/{test_X.bin,test_y.bin,class_names.txt}`.

Layout (cs.stanford.edu/~acoates/stl10): three planes of 96 x 96 bytes an image, each stored column by column;
labels are bytes from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hierbench import png
from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, needed, read_bytes, read_lines
from hierbench.data.readers._labels import by_names, classification
from hierbench.data.stamps import stamp_of
from hierbench.errors import DataError

NAME = "stl10"
SIDE = 96
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True)
class Planes:
    """Images of `test_X.bin`, given as PNG; an id is `test_X/` and the image's number."""

    path: Path
    ids: tuple[str, ...]

    def read(self, image_id: str) -> bytes:
        """One image as PNG. DataError where the file is cut off."""
        with open(self.path, "rb") as file:
            file.seek(int(image_id.rpartition("/")[2]) * PIXELS)
            content = file.read(PIXELS)
        if len(content) != PIXELS:
            raise DataError(f"image {image_id} of {self.path} is cut off: fetch it again")
        return png.encode(np.frombuffer(content, np.uint8).reshape(3, SIDE, SIDE).transpose(2, 1, 0))

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """See `hierbench.data.stamps`."""
        return stamp_of([self.path], NAME)


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the binary version lies in the folder or below."""
    return find_root(folder, ["test_X.bin", "test_y.bin"]) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test images. Raises DataError: files missing or cut off, labels outside the names."""
    root = find_root(folder, ["test_X.bin", "test_y.bin"]) or folder
    path = needed(manifest, root, "test_X.bin")
    labels = np.frombuffer(read_bytes(needed(manifest, root, "test_y.bin"), "labels"), np.uint8)
    meta = needed(manifest, root, "class_names.txt")
    size = path.stat().st_size
    if size != len(labels) * PIXELS:
        raise DataError(
            f"images {path}: {size} bytes where {len(labels)} labels need {len(labels) * PIXELS}: fetch it again"
        )
    names = [line for _, line in read_lines(meta, "class names")]
    class_ids = by_names(manifest, names, labels, f"the names in {meta}", first=1)
    ids = tuple(f"test_X/{row:05d}" for row in range(len(labels)))
    return classification(manifest, Planes(path, ids), class_ids)
