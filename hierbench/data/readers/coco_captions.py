"""Reads COCO's caption annotations (`annotations/captions_val2017.json`) with a folder of images."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from hierbench.data.datasets import Retrieval
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import (
    captions_file,
    check_unicode,
    first_few,
    first_there,
    images_by_name,
    read_text,
)
from hierbench.errors import DataError


def read(manifest: Manifest, folder: Path) -> Retrieval:
    """Retrieval set: images and captions in file order, captions as written; image ids are file names.

    Raises DataError: no or broken annotations, repeated ids, captions of unknown images, images without
    captions, empty captions, missing image files.
    """
    path = captions_file(manifest, folder)
    where = f"captions file {path}"
    try:
        content = json.loads(read_text(path, "captions file"))
    except json.JSONDecodeError as error:
        raise DataError(f"{where}, line {error.lineno}: not JSON ({error.msg}): fetch it again") from error
    except RecursionError:
        raise DataError(f"{where} is nested too deeply: is it a COCO captions file?") from None
    images = _entries(content, "images", {"id": (int, str), "file_name": str}, where)
    annotations = _entries(
        content, "annotations", {"id": (int, str), "image_id": (int, str), "caption": str}, where
    )
    if not annotations:
        raise DataError(f"{where} holds no captions")
    check_unicode((annotation["caption"] for annotation in annotations), f"{where}: the caption")
    _unique([image["id"] for image in images], "image id", where)
    _unique([image["file_name"] for image in images], "image file", where)
    _unique([annotation["id"] for annotation in annotations], "annotation id", where)

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

    pictures = first_there(folder, manifest.layout.images)
    if pictures is None:
        raise DataError(
            f"dataset {manifest.name}: {folder} has no image folder {' or '.join(manifest.layout.images)}/"
        )
    return Retrieval(
        name=manifest.name,
        images=images_by_name(manifest, pictures, [image["file_name"] for image in images]),
        captions=tuple(annotation["caption"] for annotation in annotations),
        owner=np.array([position[annotation["image_id"]] for annotation in annotations], np.int64),
    )


def _entries(content: Any, key: str, fields: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """The list `key` of the file, every entry with the given fields."""
    entries = content.get(key) if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise DataError(f"{where} has no list {key!r}: is it a COCO captions file?")
    for number, entry in enumerate(entries):
        for name, kind in fields.items():
            if not isinstance(entry, dict) or not isinstance(entry.get(name), kind):
                raise DataError(f"{where}: {key}[{number}] has no proper {name!r}")
    return entries


def _unique(values: list[Any], what: str, where: str) -> None:
    repeated = [str(value) for value, count in Counter(values).items() if count > 1]
    if repeated:
        raise DataError(f"{where}: repeated {what} {first_few(repeated)}: remove one of each")
