"""Reads CIFAR-10 and CIFAR-100 in their Python version (pickles) and their binary version.

Layouts (cs.toronto.edu/~kriz/cifar.html): `cifar-10-batches-py/{test_batch,batches.meta}`,
`cifar-100-python/{test,meta}`, `cifar-10-batches-bin/{test_batch.bin,batches.meta.txt}`,
`cifar-100-binary/{test.bin,fine_label_names.txt}`. An image is three planes of 32 x 32 bytes, row by row.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hierbench import png
from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, needed, read_bytes, read_lines
from hierbench.data.readers._labels import by_names, classification
from hierbench.data.stamps import stamp_of
from hierbench.errors import DataError, one_line

NAME = "cifar"
SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True)
class Version:
    """How one of the four versions names its parts."""

    batch: str  # file of the test images
    names: str  # file of the class names
    labels: str  # key of the labels, or of the names, in a pickle
    label_names: str
    label_bytes: int = 0  # bytes before the pixels of an image, the last of them the label; 0 = a pickle


VERSIONS = {
    10: (
        Version("test_batch", "batches.meta", "labels", "label_names"),
        Version("test_batch.bin", "batches.meta.txt", "", "", 1),
    ),
    100: (
        Version("test", "meta", "fine_labels", "fine_label_names"),
        Version("test.bin", "fine_label_names.txt", "", "", 2),
    ),
}


@dataclass(frozen=True)
class BatchImages:
    """Images of a batch file, given as PNG; an id is the batch's name and the image's number in it."""

    path: Path
    label_bytes: int
    ids: tuple[str, ...]

    def read(self, image_id: str) -> bytes:
        """One image as PNG."""
        planes = _batch(self.path, self.label_bytes)[0][int(image_id.rpartition("/")[2])]
        return png.encode(planes.reshape(3, SIDE, SIDE).transpose(1, 2, 0))

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """See `hierbench.data.stamps`."""
        return stamp_of([self.path], f"{NAME} {self.label_bytes}")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether one of the versions lies in the folder or below."""
    return _found(manifest, folder) is not None


def read(manifest: Manifest, folder: Path) -> Classification:
    """The test batch. Raises DataError: files missing, cut off or of another kind, labels outside the names."""
    found = _found(manifest, folder)
    if found is None:
        batches = " or ".join(version.batch for version in _versions(manifest))
        raise DataError(f"dataset {manifest.name}: {folder} has no {batches}: unpack the archive there")
    root, version = found
    path = needed(manifest, root, version.batch)
    pixels, content = _batch(path, version.label_bytes)
    meta = needed(manifest, root, version.names)
    labels: Any
    if version.label_bytes:
        labels, names = content, [line for _, line in read_lines(meta, "class names")]
    else:
        labels = _entry(content, version.labels, path)
        names = [_text(name) for name in _entry(_unpickled(meta), version.label_names, meta)]
    if len(labels) != len(pixels):
        raise DataError(f"batch {path}: {len(labels)} labels for {len(pixels)} images: fetch it again")
    stem = version.batch.removesuffix(".bin")
    ids = tuple(f"{stem}/{row:05d}" for row in range(len(pixels)))
    class_ids = by_names(manifest, names, labels, f"the names in {meta}")
    return classification(manifest, BatchImages(path, version.label_bytes, ids), class_ids)


def _versions(manifest: Manifest) -> tuple[Version, ...]:
    return VERSIONS[100 if len(manifest.classes) > 10 else 10]


def _found(manifest: Manifest, folder: Path) -> tuple[Path, Version] | None:
    for version in _versions(manifest):
        root = find_root(folder, [version.batch, version.names])
        # CIFAR-100 calls its batch `test`, as many a folder is called
        if root and ((root / version.names).is_file() or (root / version.batch).is_file()):
            return root, version
    return None


@lru_cache(maxsize=2)  # every worker reads the file once; 31 MB
def _batch(path: Path, label_bytes: int) -> tuple[np.ndarray, Any]:
    """(n, 3072) uint8 and the labels (binary) or the whole mapping (pickle)."""
    if not label_bytes:
        mapping = _unpickled(path)
        pixels = _entry(mapping, "data", path)
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
            raise DataError(f"batch {path}: 'data' is not an array of (n, {PIXELS}) bytes: fetch it again")
        return pixels, mapping
    content = np.frombuffer(read_bytes(path, "batch"), np.uint8)
    size = label_bytes + PIXELS
    if not content.size or content.size % size:
        raise DataError(f"batch {path}: {content.size} bytes are not a multiple of {size}: fetch it again")
    rows = content.reshape(-1, size)
    return rows[:, label_bytes:], rows[:, label_bytes - 1]


class _Unpickler(pickle.Unpickler):
    """Knows numpy's arrays and nothing else: a pickle can otherwise run any code."""

    ALLOWED = frozenset(
        (f"numpy.{core}multiarray", "_reconstruct") for core in ("core.", "_core.")
    ) | {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core.", "numpy._core."), name)


def _unpickled(path: Path) -> dict:
    content = read_bytes(path, "batch")
    try:
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # unpickling raises nearly anything on corrupt input
        raise DataError(f"batch {path} cannot be unpickled ({one_line(error)}): fetch it again") from error
    if not isinstance(found, dict):
        raise DataError(f"batch {path} holds no mapping but {type(found).__name__}: fetch it again")
    return found


def _entry(content: dict, key: str, path: Path) -> Any:
    for name in (key.encode(), key):
        if name in content:
            return content[name]
    raise DataError(f"batch {path} has no {key!r}: is it the test batch of another version?")


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
