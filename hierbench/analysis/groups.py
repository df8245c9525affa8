"""What an analysis looks at: a dataset's embeddings, in named groups from general to specific."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hierbench.contracts import EmbeddingRequests, Fit, Geometry, ImageSource
from hierbench.data.datasets import (
    CaptionChains,
    CaptionChoices,
    Classification,
    ImageFiles,
    MultiLabel,
    Retrieval,
)
from hierbench.engine.session import Session
from hierbench.errors import DataError, UsageError
from hierbench.files import text_lines

ROOT = ""  # the caption that stands for the root where a geometry has no origin of its own
IMAGES = "images"


@dataclass(frozen=True)
class Group:
    """Some items: `labels[i]` (a caption or an image id) has the tangent feature `tangents[i]`."""

    labels: tuple[str, ...]
    tangents: Tensor  # (len(labels), D)


@dataclass(frozen=True)
class Embedded:
    """Groups of embeddings in one geometry; `root` is the tangent feature of the empty caption, (D,)."""

    geometry: Geometry
    groups: Mapping[str, Group]
    root: Tensor
    family: str = ""  # of the model

    def points(self, name: str) -> Tensor:
        """(N, D) lifted points of a group."""
        return self.geometry.lift(self.groups[name].tangents)

    def root_point(self) -> Tensor:
        """(D,) what counts as the most general point; geometries with an origin ignore it."""
        return self.geometry.lift(self.root)


def gather(session: Session, dataset: Any, fit: Fit) -> Embedded:
    """Embed a dataset's captions and images.

    Caption chains give one group a level, "level 1" the most general; the other datasets one of captions or of
    prompts. The last group holds the images. Raises what embedding raises.
    """
    texts = _texts(dataset)
    wanted = EmbeddingRequests.of(
        dataset.images.ids, [ROOT, *(text for group in texts.values() for text in group)]
    )
    found = session.embed(dataset, wanted, fit)
    groups = {name: Group(labels, found.texts(labels)) for name, labels in texts.items()}
    groups[IMAGES] = Group(tuple(dataset.images.ids), found.images(dataset.images.ids))
    return Embedded(session.geometry, groups, found.texts([ROOT])[0], session.card.family)


@dataclass(frozen=True)
class ChosenImages:
    """Images picked by name: a dataset's own by id, and files that lie anywhere by the path that the user gave."""

    ids: tuple[str, ...]
    whole: ImageSource  # the dataset's
    files: Mapping[str, Path]

    def read(self, image_id: str) -> bytes:
        """Encoded bytes of one image. Raises DataError where a file is gone or empty."""
        if image_id not in self.files:
            return self.whole.read(image_id)
        path = self.files[image_id]
        return ImageFiles(path.parent, (path.name,)).read(path.name)


def with_own(dataset: Any, images: Sequence[str], captions: Path | None = None) -> Retrieval:
    """Some images (ids of the dataset's, or paths of files) with the user's captions (a file, one a line).

    Without `captions`, those of the dataset. Raises UsageError for an image that is neither, DataError for a file
    of captions that cannot be read.
    """
    known = set(dataset.images.ids)
    files = {name: Path(name).expanduser() for name in images if name not in known}
    for name, path in files.items():
        if not path.is_file():
            raise UsageError(
                f"no image {name!r}: it is no file, and {dataset.name} has {dataset.images.ids[0]}, … "
                f"({len(known)} in all)"
            )
    texts = [text for group in _texts(dataset).values() for text in group]
    if captions is not None:
        texts = _lines(captions)
    nobody = np.zeros(len(texts), np.int64)  # whose they are does not matter here
    source = ChosenImages(tuple(dict.fromkeys(images)), dataset.images, files)
    return Retrieval(dataset.name, source, tuple(dict.fromkeys(texts)), nobody)


def _lines(path: Path) -> list[str]:
    """The captions in a file. Raises UsageError where there is none, DataError where it cannot be read."""
    if not path.is_file():
        raise UsageError(f"--captions {path}: there is no such file")
    try:
        lines = [line.strip() for line in text_lines(path.read_text(encoding="utf-8"))]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"captions {path} cannot be read: {error}") from error
    if not any(lines):
        raise DataError(f"captions {path} holds none: write one a line")
    return [line for line in lines if line]


def _texts(dataset: Any) -> dict[str, tuple[str, ...]]:
    """Distinct strings by group, in order of first mention."""
    if isinstance(dataset, CaptionChains):
        levels = zip(*dataset.captions, strict=True)
        return {f"level {number}": tuple(dict.fromkeys(level)) for number, level in enumerate(levels, 1)}
    if isinstance(dataset, Retrieval):
        return {"captions": tuple(dict.fromkeys(dataset.captions))}
    if isinstance(dataset, (Classification, MultiLabel)):
        prompts = (t.replace("{}", name) for name in dataset.class_names for t in dataset.templates)
        return {"prompts": tuple(dict.fromkeys(prompts))}
    if isinstance(dataset, CaptionChoices):
        return {"captions": tuple(dict.fromkeys(text for texts in dataset.captions for text in texts))}
    raise TypeError(f"no groups are known for a {type(dataset).__name__}")


def stacked(embedded: Embedded) -> tuple[list[str], list[str], Tensor]:
    """(group of each item, label of each item, (N, D) lifted points) over all groups."""
    names = [name for name, group in embedded.groups.items() for _ in group.labels]
    labels = [label for group in embedded.groups.values() for label in group.labels]
    return names, labels, torch.cat([embedded.points(name) for name in embedded.groups])
