"""Content ids of images and strings; a dataset's are kept between runs where a stamp tells that no image has changed.

A source of images may have a method `stamp(ids) -> bytes | None`: what changes whenever one of these images does
(`hierbench.data.stamps`, or the code that draws them), without reading any; None where nothing cheap can tell.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hierbench.cache import cache_dir
from hierbench.contracts import Dataset, ImageSource
from hierbench.errors import DataError
from hierbench.files import regular_file, replacing
from hierbench.progress import Progress, Quiet

log = logging.getLogger(__name__)

BYTES = 32  # of a content id
READ_AT_ONCE = 32  # images that a thread reads and hashes before it reports


def content_id(content: bytes | str) -> bytes:
    """SHA-256 of an image's encoded bytes or of a string."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).digest()


def content_ids(
    dataset: Dataset, image_ids: Sequence[str], known: dict[str, bytes], progress: Progress | None = None
) -> list[bytes]:
    """Content ids of a dataset's images; each is read once and remembered in `known`. Raises DataError."""
    new = [image_id for image_id in dict.fromkeys(image_ids) if image_id not in known]
    parts = [new[start : start + READ_AT_ONCE] for start in range(0, len(new), READ_AT_ONCE)]

    def read(part: Sequence[str]) -> list[bytes]:  # reading and hashing let other threads run
        return [content_id(dataset.images.read(image_id)) for image_id in part]

    if new:
        title = f"{dataset.name}: reading images"
        with (progress or Quiet()).bar(title, len(new)) as advance, ThreadPoolExecutor(2 * cores()) as pool:
            try:
                for part, contents in zip(parts, pool.map(read, parts), strict=True):
                    known.update(zip(part, contents, strict=True))
                    advance(len(part))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return [known[image_id] for image_id in image_ids]


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def remembered(images: ImageSource) -> dict[str, bytes]:
    """Image id -> content id of all images, as an earlier run found them; empty where nothing is known for sure."""
    path = _path(images)
    try:
        content = regular_file(path).read_bytes() if path is not None else b""
    except (OSError, DataError):
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
