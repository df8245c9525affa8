"""Reads COCO's caption annotations (`annotations/captions_val2017.json`) with a folder of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hierbench.data.datasets import Retrieval
from hierbench.data.manifests import Manifest
from hierbench.data.readers import _json
from hierbench.data.readers._files import (
    captions_file,
    check_distinct,
    check_unicode,
    find_root,
    first_few,
    image_folder,
    images_by_name,
)
from hierbench.errors import DataError
from hierbench.json_files import read_json

NAME = "coco-captions"


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the captions file lies in the folder or below."""
    return find_root(folder, manifest.layout.table) is not None


def read(manifest: Manifest, folder: Path) -> Retrieval:
    """Retrieval set: images and captions in file order, captions as written; image ids are file names.

    Raises DataError: no or broken annotations, repeated ids, captions of unknown images, images without
    captions, empty captions, missing image files.
    """
    folder = find_root(folder, manifest.layout.table) or folder
    path = captions_file(manifest, folder)
    where = f"captions file {path}"
    content = read_json(path, "captions file")
    images = _json.entries(content, "images", {"id": (int, str), "file_name": str}, where)
    annotations = _json.entries(
        content, "annotations", {"id": (int, str), "image_id": (int, str), "caption": str}, where
    )
    if not annotations:
        raise DataError(f"{where} holds no captions")
    check_unicode((annotation["caption"] for annotation in annotations), f"{where}: the caption")
    check_distinct([image["id"] for image in images], "image id", where)
    check_distinct([image["file_name"] for image in images], "image file", where)
    check_distinct([annotation["id"] for annotation in annotations], "annotation id", where)

    position = {image["id"]: row for row, image in enumerate(images)}
    for annotation in annotations:
        if annotation["image_id"] not in position:
            raise DataError(
                f"{where}: annotation {annotation['id']} is of an unknown image {annotation['image_id']}"
            )
        if not annotation["caption"].strip():
            raise DataError(f"{where}: the caption of annotation {annotation['id']} is empty")
    described = {annotation["image_id"] for annotation in annotations}
    if bare := [image["file_name"] for image in images if image["id"] not in described]:
        raise DataError(
            f"{where}: {len(bare)} images have no caption: {first_few(bare)}: add captions or remove the images"
        )

    pictures = image_folder(manifest, folder)
    return Retrieval(
        name=manifest.name,
        images=images_by_name(manifest, pictures, [image["file_name"] for image in images]),
        captions=tuple(annotation["caption"] for annotation in annotations),
        owner=np.array([position[annotation["image_id"]] for annotation in annotations], np.int64),
    )
