"""Builds the record of images with captions from one list of captions an image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hierbench.contracts import ImageSource
from hierbench.data.datasets import Retrieval
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import check_unicode
from hierbench.data.readers._labels import OTHER_SPLIT
from hierbench.errors import DataError


def retrieval(
    manifest: Manifest, images: ImageSource, captions: Sequence[Sequence[str]], where: str
) -> Retrieval:
    """Raises DataError for no images, an image without captions, an empty caption, no Unicode text.

    More images than the released split make a variant.
    """
    if not captions:
        raise DataError(f"dataset {manifest.name}: {where} holds no images")
    for image_id, texts in zip(images.ids, captions, strict=True):
        if not texts or not all(text.strip() for text in texts):
            raise DataError(f"dataset {manifest.name}: {where}: {image_id} has no caption, or an empty one")
    flat = [text for texts in captions for text in texts]
    check_unicode(flat, f"{where}: the caption")
    whole = manifest.counts.images
    return Retrieval(
        name=manifest.name,
        images=images,
        captions=tuple(flat),
        owner=np.repeat(np.arange(len(captions), dtype=np.int64), [len(texts) for texts in captions]),
        variant=OTHER_SPLIT if whole is not None and len(captions) > whole else "",
    )
