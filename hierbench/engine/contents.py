"""Content ids of a dataset's images, kept between runs where a stamp tells that no image has changed.

A source of images may have a method `stamp(ids) -> bytes | None`: what changes whenever one of these images does
(sizes and times of files, the code that draws them), without reading any; None where nothing cheap can tell.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

from hierbench.cache import cache_dir
from hierbench.contracts import ImageSource
from hierbench.files import replacing

log = logging.getLogger(__name__)

BYTES = 32  # of a content id


def remembered(images: ImageSource) -> dict[str, bytes]:
    """Image id -> content id of all images, as an earlier run found them; empty where nothing is known for sure."""
    path = _path(images)
    try:
        content = path.read_bytes() if path is not None else b""
    except OSError:
        return {}
    rows, check = content[:-BYTES], content[-BYTES:]
    if len(rows) != BYTES * len(images.ids) or hashlib.sha256(rows).digest() != check:
        return {}
    return {image_id: rows[BYTES * row :][:BYTES] for row, image_id in enumerate(images.ids)}


def remember(images: ImageSource, contents: Mapping[str, bytes]) -> None:
    """Keep the content ids of all images, where a stamp can tell later that they still hold."""
    path = _path(images)
    if path is None:
        return
    rows = b"".join(contents[image_id] for image_id in images.ids)
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(rows + hashlib.sha256(rows).digest())
    except OSError as error:  # a full disk or a read-only cache: slower next time, but no reason to stop
        log.warning(f"content ids are not kept: cannot write {path}: {error.strerror or error}")


def _path(images: ImageSource) -> Path | None:
    """Where the content ids of these images, in this state, are kept."""
    stamp = getattr(images, "stamp", None)
    state: bytes | None = stamp(images.ids) if stamp is not None else None
    if state is None:
        return None
    key = hashlib.sha256(b"\0".join([state, *(image_id.encode() for image_id in images.ids)])).hexdigest()
    return cache_dir() / "contents" / key[:32]
