"""Thumbnails of the items that models' pages name: made on request alone, as most images may not be passed on."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hierbench.errors import HierbenchError, one_line

if TYPE_CHECKING:
    from hierbench.contracts import ImageSource
    from hierbench.data.locate import Locations

SIDE = 96  # pixels of the longer side
QUALITY = 80
MOST = 1500  # pictures of a site: about 5 MB


class Pictures:
    """The pictures of a site. `files`: name -> JPEG; `missing`: dataset -> why there is none of it, one line."""

    def __init__(self, locations: Locations):
        self.files: dict[str, bytes] = {}
        self.missing: dict[str, str] = {}
        self._locations = locations
        self._sources: dict[str, tuple[ImageSource, frozenset[str]] | None] = {}

    def shown(self, panels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """A model's panels, each item whose image is at hand with the name of its picture."""
        return [
            {**panel, "lists": [self._list(panel["dataset"], entry) for entry in panel["lists"]]}
            if panel.get("kind") == "items" else dict(panel)
            for panel in panels
        ]  # fmt: skip

    def _list(self, dataset: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        items = []
        for item in entry["items"]:
            name = self._picture(dataset, item["image"]) if item.get("image") else None
            items.append(item if name is None else {**item, "picture": name})
        return {**entry, "items": items}

    def _picture(self, dataset: str, image_id: str) -> str | None:
        """The name of an image's picture, made if it is new; None where there can be none."""
        name = hashlib.sha256(f"{dataset}\0{image_id}".encode()).hexdigest()[:16] + ".jpg"
        if name in self.files:
            return name
        source = self._source(dataset)
        if source is None or image_id not in source[1]:
            return None
        if len(self.files) >= MOST:
            self.missing.setdefault(dataset, f"a site has at most {MOST:,} pictures")
            return None
        try:
            self.files[name] = thumbnail(source[0].read(image_id), f"{image_id} of {dataset}")
        except HierbenchError as error:
            self.missing.setdefault(dataset, one_line(error))
            return None
        return name

    def _source(self, dataset: str) -> tuple[ImageSource, frozenset[str]] | None:
        from hierbench.data.readers import open_dataset

        if dataset not in self._sources:
            try:
                images = open_dataset(dataset, self._locations).images
                self._sources[dataset] = (images, frozenset(images.ids))
            except HierbenchError as error:
                self._sources[dataset] = None
                self.missing[dataset] = one_line(error)
        return self._sources[dataset]


def thumbnail(content: bytes, where: str) -> bytes:
    """Encoded bytes -> a JPEG of at most SIDE pixels a side, without any of its metadata. Raises DataError."""
    from hierbench.data.images import decode

    image = decode(content, where)
    image.thumbnail((SIDE, SIDE))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY, optimize=True)
    return out.getvalue()
