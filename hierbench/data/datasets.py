"""The kinds of dataset that tasks score on, as frozen records.

A reader fills one from a layout on disk or from the built-in world; a task reads nothing else. Images stay
encoded until a worker decodes them; `owner` always holds positions in `images.ids`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np

from hierbench.contracts import ImageSource
from hierbench.data.stamps import stamp_of
from hierbench.errors import DataError
from hierbench.files import regular_file
from hierbench.taxonomy import Tree


@dataclass(frozen=True)
class ImageFiles:
    """Images that lie as files in a folder; an id is the file's path in it, with forward slashes."""

    folder: Path
    ids: tuple[str, ...]
    files: Mapping[str, str] = field(
        default_factory=dict
    )  # paths of those whose names differ in Unicode form

    def read(self, image_id: str) -> bytes:
        """Encoded bytes of one image; DataError where the file is gone or empty."""
        path = self.folder / self.files.get(image_id, image_id)
        try:
            content = regular_file(path, "image").read_bytes()
        except OSError as error:
            raise DataError(f"image {path} cannot be read: {error.strerror}") from error
        if not content:
            raise DataError(f"image {path} is empty (0 bytes): fetch it again or remove it")
        return content

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """See `hierbench.data.stamps`."""
        folder = os.path.abspath(self.folder)
        return stamp_of(f"{folder}/{self.files.get(image_id, image_id)}" for image_id in ids)


@dataclass(frozen=True)
class Subset:
    """Some of another source's images, in the given order."""

    whole: ImageSource
    ids: tuple[str, ...]

    def read(self, image_id: str) -> bytes:
        return self.whole.read(image_id)

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """The whole source's, of these images."""
        whole = getattr(self.whole, "stamp", None)
        return None if whole is None else whole(ids)


@dataclass(frozen=True)
class Classification:
    """Images with one label each. `class_names[k]` is what prompts say for label k."""

    name: str
    images: ImageSource
    labels: np.ndarray  # (len(images.ids),) int64 in [0, num_classes)
    class_ids: tuple[str, ...]  # the dataset's own ids in label order (WordNet ids for ImageNet)
    class_names: tuple[
        str, ...
    ] = ()  # in label order; what opens a dataset attaches it (`hierbench.data.naming`)
    templates: tuple[str, ...] = ()  # each holds one {}; attached as well
    taxonomy: Tree | None = (
        None  # the tree over the classes as the manifest gives it; attached, as what follows
    )
    outside: tuple[str, ...] = ()  # class ids that the tree leaves out
    node_names: Mapping[str, str] = field(default_factory=dict)  # what prompts call inner nodes of the tree
    variant: str = (
        ""  # what sets these images apart from the protocol's split; becomes part of the protocol's name
    )

    @property
    def num_classes(self) -> int:
        return len(self.class_ids)

    def facts(self) -> bytes:
        return _canonical(self.name, list(self.images.ids), self.labels.tolist(), list(self.class_ids))

    def limited(self, count: int) -> Self:
        """At most `count` images, evenly spread over the dataset's order."""
        rows = spread(len(self.images.ids), count)
        return replace(self, images=subset(self.images, rows), labels=self.labels[rows])


@dataclass(frozen=True)
class MultiLabel:
    """Images with any number of labels. `class_names[k]` is what prompts say for column k."""

    name: str
    images: ImageSource
    present: np.ndarray  # (len(images.ids), classes) bool
    class_ids: tuple[str, ...]  # the dataset's own ids in the order of the columns
    class_names: tuple[
        str, ...
    ] = ()  # in label order; what opens a dataset attaches it (`hierbench.data.naming`)
    templates: tuple[str, ...] = ()  # each holds one {}; attached as well
    ignored: np.ndarray | None = None  # as `present`: neither positive nor negative (VOC's difficult objects)
    variant: str = ""  # as in Classification

    @property
    def num_classes(self) -> int:
        return len(self.class_ids)

    def facts(self) -> bytes:
        ignored = None if self.ignored is None else self.ignored.astype(int).tolist()
        rows = self.present.astype(int).tolist()
        return _canonical(self.name, list(self.images.ids), rows, ignored, list(self.class_ids))

    def limited(self, count: int) -> Self:
        """At most `count` images, evenly spread over the dataset's order."""
        rows = spread(len(self.images.ids), count)
        ignored = None if self.ignored is None else self.ignored[rows]
        return replace(self, images=subset(self.images, rows), present=self.present[rows], ignored=ignored)


@dataclass(frozen=True)
class Retrieval:
    """Images with captions; caption j describes image `owner[j]`."""

    name: str
    images: ImageSource
    captions: tuple[str, ...]
    owner: np.ndarray  # (len(captions),) int64 position in images.ids
    variant: str = ""  # as in Classification

    def facts(self) -> bytes:
        return _canonical(self.name, list(self.images.ids), list(self.captions), self.owner.tolist())

    def limited(self, count: int) -> Self:
        """At most `count` images with all their captions."""
        rows = spread(len(self.images.ids), count)
        images, captions, owner = _keep_owners(self.images, self.captions, self.owner, rows)
        return replace(self, images=images, captions=captions, owner=owner)


@dataclass(frozen=True)
class CaptionChains:
    """HierarCaps: samples of four captions from general to specific, each with an image; pool optional."""

    name: str
    images: ImageSource
    sample_ids: tuple[str, ...]
    captions: tuple[tuple[str, ...], ...]  # (samples, 4), level 0 the most general
    owner: np.ndarray  # (samples,) int64 position in images.ids
    pool: tuple[str, ...] | None = None  # captions that serve as negatives (cleaned split)

    def facts(self) -> bytes:
        pool = None if self.pool is None else list(self.pool)
        return _canonical(
            self.name, list(self.images.ids), list(self.sample_ids), [list(c) for c in self.captions],
            self.owner.tolist(), pool,
        )  # fmt: skip

    def limited(self, count: int) -> Self:
        """At most `count` samples with their images; the pool stays whole."""
        rows = spread(len(self.sample_ids), count)
        used = sorted(set(self.owner[rows].tolist()))
        position = {old: new for new, old in enumerate(used)}
        return replace(
            self,
            images=subset(self.images, used),
            sample_ids=tuple(self.sample_ids[row] for row in rows),
            captions=tuple(self.captions[row] for row in rows),
            owner=np.array([position[old] for old in self.owner[rows].tolist()], np.int64),
        )


@dataclass(frozen=True)
class CaptionChoices:
    """Questions which caption fits: caption i of a question is true of its image i, those beyond its images of none."""

    name: str
    images: ImageSource
    sample_ids: tuple[str, ...]  # of the questions
    kinds: tuple[str, ...]  # what sets the false captions of each question apart
    shown: tuple[tuple[int, ...], ...]  # positions in images.ids of each question's image, or two
    captions: tuple[tuple[str, ...], ...]
    variant: str = ""  # as in Classification

    def facts(self) -> bytes:
        return _canonical(
            self.name, list(self.images.ids), self.sample_ids, self.kinds, self.shown, self.captions
        )

    def limited(self, count: int) -> Self:
        """At most `count` questions, evenly spread, with their images."""
        rows = spread(len(self.sample_ids), count)
        used = sorted({image for row in rows for image in self.shown[row]})
        position = {old: new for new, old in enumerate(used)}
        return replace(
            self,
            images=subset(self.images, used),
            sample_ids=tuple(self.sample_ids[row] for row in rows),
            kinds=tuple(self.kinds[row] for row in rows),
            shown=tuple(tuple(position[image] for image in self.shown[row]) for row in rows),
            captions=tuple(self.captions[row] for row in rows),
        )


AnyDataset = Classification | MultiLabel | Retrieval | CaptionChains | CaptionChoices


def subset(images: ImageSource, rows: Sequence[int] | np.ndarray) -> Subset:
    """The images at the given positions."""
    return Subset(images, tuple(images.ids[row] for row in rows))


def spread(total: int, count: int) -> np.ndarray:
    """Positions of at most `count` of `total` items, evenly spaced, in order."""
    if count >= total:
        return np.arange(total)
    return np.arange(count) * total // count


def _keep_owners(images, captions, owner, rows):
    position = {int(old): new for new, old in enumerate(rows)}
    kept = [j for j, old in enumerate(owner.tolist()) if old in position]
    return (
        subset(images, rows),
        tuple(captions[j] for j in kept),
        np.array([position[int(owner[j])] for j in kept], np.int64),
    )


def _canonical(*parts) -> bytes:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()
