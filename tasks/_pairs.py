"""Which pairs (general, specific) PEP counts: positives of a sample's chain, negatives of a pool of captions.

ARGENT leaves its list to a supplement that is not public; the ratio of the pairs is fixed by its printed figures (see
`tasks/pep.py`). The lists here alone say what counts; PAIRS_VERSION rises when they change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hierbench.data.datasets import CaptionChains
from hierbench.errors import DataError

PAIRS_VERSION = 2

IMAGE = 4  # the place of the image in its sample's chain, after caption levels 0 to 3
Relation = tuple[int, int]  # places of the general and the specific item in a chain

WITH_IMAGE: tuple[Relation, ...] = ((0, IMAGE), (1, IMAGE), (2, IMAGE), (3, IMAGE))
"""The positives of the headline: each of a sample's four captions -> its image."""
BETWEEN: tuple[Relation, ...] = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
"""Caption level i -> level j of the same sample: beside the headline, never in it."""


@dataclass(frozen=True)
class PairList:
    """Which negatives count, and whether captions -> captions have figures of their own.

    `negatives` gives a pool of captions and a table (pool, images), true where the caption -> the image counts.
    """

    negatives: Callable[[CaptionChains], tuple[tuple[str, ...], np.ndarray]]
    between: bool


def pool_captions(dataset: CaptionChains) -> tuple[tuple[str, ...], np.ndarray]:
    """Every caption of the dataset's pool with every image, unless it is one of that image's own.

    Raises DataError for a dataset without a pool.
    """
    if not dataset.pool:
        raise DataError(
            f"{dataset.name} has no negative captions: put pool.csv (one column, caption) beside its split.csv"
        )
    return dataset.pool, ~own_captions(dataset, dataset.pool)


def finest_of_others(dataset: CaptionChains, others: int = 100) -> tuple[tuple[str, ...], np.ndarray]:
    """For every image the finest captions of the first `others` samples, in file order, of other images."""
    first = others + int(np.bincount(dataset.owner).max())  # among them every image finds its `others`
    pool = tuple(chain[-1] for chain in dataset.captions[:first])
    other = dataset.owner[:first, None] != np.arange(len(dataset.images.ids))
    return pool, other & (np.cumsum(other, axis=0) <= others) & ~own_captions(dataset, pool)


def own_captions(dataset: CaptionChains, pool: tuple[str, ...]) -> np.ndarray:
    """(len(pool), images): whether the caption is one of the image's own, compared as strings."""
    images_of: dict[str, list[int]] = {}
    for chain, image in zip(dataset.captions, dataset.owner.tolist(), strict=True):
        for caption in chain:
            images_of.setdefault(caption, []).append(image)
    own = np.zeros((len(pool), len(dataset.images.ids)), bool)
    for row, caption in enumerate(pool):
        own[row, images_of.get(caption, [])] = True
    return own


def relation_name(relation: Relation) -> str:
    """(0, 2) -> "l1_l3", (3, IMAGE) -> "l4_image"."""
    return "_".join("image" if place == IMAGE else f"l{place + 1}" for place in relation)


CLEANED = PairList(pool_captions, between=True)
UNCLEANED = PairList(finest_of_others, between=False)
