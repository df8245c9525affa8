"""Readings of a model with its radii changed, or as if its space were flat: what embeddings a task is scored on anew.

A radius is changed by stretching the tangent feature: directions stay as they are. A class counts as one item: all its
prompts are stretched alike, so that the class's point comes to lie at the radius asked for.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hierbench.contracts import Embeddings, Geometry
from hierbench.data.datasets import CaptionChains, Classification, Retrieval
from hierbench.errors import DataError, GeometryError
from hierbench.tasks._shared import filled
from hierbench.tasks._trees import in_tree, tree_of

if TYPE_CHECKING:  # that a record stands is known without torch
    from torch import Tensor

SEED = "hierbench.tasks.counterfactual"
POOL_LEVEL = -1  # of captions that stand in a pool of negatives alone

Items = Sequence[tuple[int, tuple[str, ...]]]
"""(level, its texts): a caption, or a class with its prompts."""


@dataclass(frozen=True)
class Reading:
    """One way to read the same embeddings."""

    name: str
    title: str  # in columns
    told: str  # in sentences: "with …"
    # radii (n,), levels (n,) -> new radii; None leaves them
    radii: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    geometry: Callable[[], Geometry] | None = None  # in place of the model's

    def of(self, geometry: Geometry, embeddings: Embeddings, items: Items) -> tuple[Geometry, Embeddings]:
        """What the task is scored on. Raises GeometryError where radii do not follow tangents."""
        if self.radii is None:
            return self.geometry() if self.geometry is not None else geometry, embeddings
        ids = embeddings.requests.images
        images = _stretched(geometry, embeddings.images(ids)[:, None], np.zeros(len(ids)), self.radii)[:, 0]
        texts = _stretched_texts(geometry, embeddings, items, self.radii)
        return geometry, replace(embeddings, image_features=images, text_features=texts)


def items_of(dataset: Any) -> Items:
    """The captions of a dataset by their level (0 the most general), or its classes by their depth in the tree.

    A text that stands in several places counts in the first. Raises DataError for a dataset of another kind.
    """
    found: dict[tuple[str, ...], int] = {}
    if isinstance(dataset, CaptionChains):
        for level, captions in enumerate(zip(*dataset.captions, strict=True)):
            for caption in captions:
                found.setdefault((caption,), level)
        for caption in dataset.pool or ():
            found.setdefault((caption,), POOL_LEVEL)
    elif isinstance(dataset, Retrieval):
        found = {(caption,): 0 for caption in dataset.captions}
    elif isinstance(dataset, Classification) and dataset.taxonomy is not None:
        part = in_tree(dataset)
        for name, level in zip(part.class_names, tree_of(part).depth.tolist(), strict=True):
            found.setdefault(tuple(filled([name], part.templates)), level)
    else:
        raise DataError(f"{dataset.name} has neither captions nor classes with a tree: no levels to look at")
    return [(level, texts) for texts, level in found.items()]


def _equal(radii: np.ndarray, levels: np.ndarray) -> np.ndarray:
    return np.full_like(radii, np.median(radii))


def _permuted(radii: np.ndarray, levels: np.ndarray) -> np.ndarray:
    return radii[_generator().permutation(len(radii))]


def _permuted_within(radii: np.ndarray, levels: np.ndarray) -> np.ndarray:
    generator, out = _generator(), radii.copy()
    for level in np.unique(levels):
        rows = np.flatnonzero(levels == level)
        out[rows] = radii[generator.permutation(rows)]
    return out


def _generator() -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(SEED.encode()))


def _flat(by: Literal["cosine", "euclidean"]) -> Geometry:
    from hierbench.geometry import Flat

    return Flat(by)


EQUALISED = Reading("equalised", "radii equal", "all radii set to their median", _equal)
SHUFFLED = Reading("shuffled", "radii shuffled", "the radii shuffled", _permuted)
WITHIN = Reading(
    "shuffled_within", "shuffled within levels", "the radii shuffled within each level", _permuted_within
)
FLAT_COSINE = Reading(
    "flat_cosine",
    "flat, cosine",
    "the tangent features compared by cosine",
    geometry=partial(_flat, "cosine"),
)
FLAT_EUCLIDEAN = Reading(
    "flat_euclidean",
    "flat, Euclidean",
    "the tangent features compared by Euclidean distance",
    geometry=partial(_flat, "euclidean"),
)
READINGS = (EQUALISED, SHUFFLED, WITHIN, FLAT_COSINE, FLAT_EUCLIDEAN)


def _tangents(embeddings: Embeddings, items: Items) -> Tensor:
    """(n, prompts, D): a dataset's items have equally many texts."""
    flat = embeddings.texts([text for _, texts in items for text in texts])
    return flat.unflatten(0, (len(items), -1))


def _stretched_texts(
    geometry: Geometry,
    embeddings: Embeddings,
    items: Items,
    change: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Tensor:
    """All text features, those of the items stretched; others (the empty caption) as they are."""
    levels = np.array([level for level, _ in items])
    changed = _stretched(geometry, _tangents(embeddings, items), levels, change)
    row = {text: number for number, text in enumerate(embeddings.requests.texts)}
    out = embeddings.text_features.clone()
    for (_, texts), features in zip(items, changed, strict=True):
        out[[row[text] for text in texts]] = features
    return out


def _radii(geometry: Geometry, tangents: Tensor) -> np.ndarray:
    """(n, prompts, D) -> (n,) float64 radii of their points."""
    return geometry.radius(geometry.mean(tangents.double())).numpy()


def _stretched(
    geometry: Geometry,
    tangents: Tensor,
    levels: np.ndarray,
    change: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Tensor:
    """(n, prompts, D) tangents, each item's by one factor, so that its point has the radius that `change` gives it.

    An item at the origin has no direction to go: it stays. Raises GeometryError for a geometry whose radius does not
    grow in proportion to the tangent.
    """
    before = _radii(geometry, tangents)
    target = change(before, levels)
    factor = np.where(before > 0, target / np.where(before > 0, before, 1), 1)
    import torch

    out = (tangents.double() * torch.from_numpy(factor)[:, None, None]).to(tangents.dtype)
    after = _radii(geometry, out)
    if not np.allclose(after[before > 0], target[before > 0], rtol=1e-3, atol=1e-6):
        raise GeometryError(
            f"in the geometry {geometry.name!r} radii do not grow in proportion to tangents: they cannot be changed "
            "alone"
        )
    return out


def applicable(dataset_kind: str) -> Iterator[Reading]:
    """The readings that differ for a kind of task: captions for retrieval have one level alone."""
    return (reading for reading in READINGS if reading is not WITHIN or dataset_kind != "retrieval")
