"""Reads Karpathy's splits: `dataset_flickr30k.json` with `flickr30k_images/`, `dataset_coco.json` with `val2014/`.

The entries with `split` = `test` are the released split; captions are the field `raw`, as written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hierbench.data.datasets import Retrieval
from hierbench.data.manifests import Manifest
from hierbench.data.readers import _json
from hierbench.data.readers._files import (
    captions_file,
    check_unicode,
    find_root,
    image_folder,
    images_by_name,
)
from hierbench.errors import DataError
from hierbench.json_files import read_json

NAME = "karpathy"
SPLIT = "test"


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the table lies in the folder or below."""
    return find_root(folder, manifest.layout.table) is not None


def read(manifest: Manifest, folder: Path) -> Retrieval:
    """The test images with their captions in file order; image ids are file names.

    Raises DataError: no or broken table, no entry of the split, an image without captions, empty captions, missing
    image files.
    """
    folder = find_root(folder, manifest.layout.table) or folder
    path = captions_file(manifest, folder)
    where = f"captions file {path}"
    listed = _json.entries(
        read_json(path, "captions file"), "images", {"filename": str, "split": str, "sentences": list}, where
    )
    chosen = [entry for entry in listed if entry["split"] == SPLIT]
    if not chosen:
        raise DataError(f"{where} holds no image of the split {SPLIT!r}")
    captions: list[str] = []
    owner: list[int] = []
    for row, entry in enumerate(chosen):
        raw: list[Any] = [s.get("raw") if isinstance(s, dict) else None for s in entry["sentences"]]
        if not raw or not all(isinstance(caption, str) and caption.strip() for caption in raw):
            raise DataError(f"{where}: {entry['filename']} has no captions, or an empty one: fetch it again")
        captions += raw
        owner += [row] * len(raw)
    check_unicode(captions, f"{where}: the caption")
    pictures = image_folder(manifest, folder)
    return Retrieval(
        name=manifest.name,
        images=images_by_name(manifest, pictures, [entry["filename"] for entry in chosen]),
        captions=tuple(captions),
        owner=np.array(owner, np.int64),
    )
