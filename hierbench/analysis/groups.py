"""What an analysis looks at: a dataset's embeddings, in named groups from general to specific."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hierbench.contracts import EmbeddingRequests, Fit, Geometry, ModelAdapter
from hierbench.data.datasets import CaptionChains, Classification, ImageFiles, Retrieval
from hierbench.engine.encoding import embed
from hierbench.errors import DataError
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

    def points(self, name: str) -> Tensor:
        """(N, D) lifted points of a group."""
        return self.geometry.lift(self.groups[name].tangents)

    def root_point(self) -> Tensor:
        """(D,) what counts as the most general point; geometries with an origin ignore it."""
        return self.geometry.lift(self.root)


def gather(adapter: ModelAdapter, dataset: Any, fit: Fit, **options: Any) -> Embedded:
    """Embed a dataset's captions and images. `options` as `hierbench.engine.encoding.embed` takes them.

    Caption chains give one group a level, "level 1" the most general; the other datasets one of captions or of
    prompts. The last group holds the images. Raises what embedding raises.
    """
    texts = _texts(dataset)
    wanted = EmbeddingRequests.of(
        dataset.images.ids, [ROOT, *(text for group in texts.values() for text in group)]
    )
    found = embed(adapter, dataset, wanted, fit, **options)
    groups = {name: Group(labels, found.texts(labels)) for name, labels in texts.items()}
    groups[IMAGES] = Group(tuple(dataset.images.ids), found.images(dataset.images.ids))
    return Embedded(adapter.geometry, groups, found.texts([ROOT])[0])


def with_own(dataset: Any, images: Mapping[str, Path], captions: Path | None) -> Any:
    """The dataset itself, or one of the user's own images (files by id) and captions (a file, one a line).

    Where only one of the two is given, the dataset provides the other. Raises DataError for an unreadable file.
    """
    if not images and captions is None:
        return dataset
    source, texts = dataset.images, [text for group in _texts(dataset).values() for text in group]
    if images:
        source = ImageFiles(tuple(images), tuple(images.values()))
    if captions is not None:
        try:
            texts = [
                line.strip() for line in text_lines(captions.read_text(encoding="utf-8")) if line.strip()
            ]
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"captions {captions} cannot be read: {error}") from error
        if not texts:
            raise DataError(f"captions {captions} holds none: write one a line")
    nobody = np.zeros(len(texts), np.int64)  # whose they are does not matter here
    return Retrieval(dataset.name, source, tuple(dict.fromkeys(texts)), nobody)


def _texts(dataset: Any) -> dict[str, tuple[str, ...]]:
    """Distinct strings by group, in order of first mention."""
    if isinstance(dataset, CaptionChains):
        levels = zip(*dataset.captions, strict=True)
        return {f"level {number}": tuple(dict.fromkeys(level)) for number, level in enumerate(levels, 1)}
    if isinstance(dataset, Retrieval):
        return {"captions": tuple(dict.fromkeys(dataset.captions))}
    if isinstance(dataset, Classification):
        prompts = (t.replace("{}", name) for name in dataset.class_names for t in dataset.templates)
        return {"prompts": tuple(dict.fromkeys(prompts))}
    raise TypeError(f"no groups are known for a {type(dataset).__name__}")


def stacked(embedded: Embedded) -> tuple[list[str], list[str], Tensor]:
    """(group of each item, label of each item, (N, D) lifted points) over all groups."""
    names = [name for name, group in embedded.groups.items() for _ in group.labels]
    labels = [label for group in embedded.groups.values() for label in group.labels]
    return names, labels, torch.cat([embedded.points(name) for name in embedded.groups])
