"""Image-text retrieval: ranks by counting what is ahead, recall@k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, permutations

import numpy as np

from hierbench.contracts import Geometry
from hierbench.errors import MetricError
from hierbench.metrics import _checks, bootstrap

BLOCK = 4_000_000  # similarities in a tile: few enough for a cache, many enough for a fast product


def retrieval(geometry: Geometry, image, caption, owner, ks: Sequence[int] = (1, 5, 10)) -> dict[str, float]:
    """Recall@k in both directions, percent: {"t2i_r1", …, "i2t_r1", …}.

    `image` (N, D) and `caption` (M, D) are tangent features, caption j describes image `owner[j]`. Text to
    image counts a caption as found when its image is among the k most similar; image to text counts an image
    as found when any of its captions is. Ties are ranked by position (see `retrieval_ranks`).
    Raises MetricError on other shapes, non-finite features, an owner out of range, an image without captions,
    or a k below 1.
    """
    caption_ranks, image_ranks, owner = retrieval_ranks(geometry, image, caption, owner)
    return bootstrap.value(recall_statistic(caption_ranks, image_ranks, owner, ks), len(image_ranks))


def retrieval_ranks(
    geometry: Geometry, image, caption, owner, block: int = BLOCK
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ranks of each caption's image (M,) and of each image's best own caption (N,), and the checked owner (M,).

    A rank is one more than the number of candidates that come before: those with a higher similarity, and
    among equal ones those at a lower position. The similarities are computed once, in tiles of about `block`,
    and never sorted; a tile holds some images and all captions of some images, so that those on the diagonal
    give the similarities to be beaten.
    """
    image, caption = _checks.features(image, "image features"), _checks.features(caption, "caption features")
    _checks.same_width(image=image, caption=caption)
    owner = _checks.owners(owner, len(image), len(caption))
    image, caption = geometry.lift(image), geometry.lift(caption)

    by_image = np.argsort(owner, kind="stable")  # captions, image by image, each image's in their order
    first = np.searchsorted(owner[by_image], np.arange(len(image) + 1))  # where those of each image begin
    divisions = min(len(image), math.ceil((len(image) * len(caption) / block) ** 0.5))
    edges = np.linspace(0, len(image), 1 + divisions).astype(int)
    parts = [(np.arange(i, j), by_image[first[i] : first[j]]) for i, j in pairwise(edges)]

    def tile(images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        return geometry.similarity(image[images], caption[captions]).numpy()

    caption_ranks, image_ranks = np.ones(len(caption), np.int64), np.ones(len(image), np.int64)
    own = np.empty(len(caption), np.float64)  # similarity of each caption to its image
    best = np.empty(len(image), np.float64)  # similarity of each image to its best own caption …
    place = np.empty(len(image), np.int64)  # … and the first caption that reaches it

    def count(scores: np.ndarray, images: np.ndarray, captions: np.ndarray) -> None:
        image_ranks[images] += _ahead(scores, best[images], place[images], captions)
        caption_ranks[captions] += _ahead(scores.T, own[captions], owner[captions], images)

    for images, captions in parts:
        scores = tile(images, captions)
        begin = first[images] - first[images[0]]  # where each image's captions begin in this tile
        own[captions] = scores[owner[captions] - images[0], np.arange(len(captions))]
        best[images] = np.maximum.reduceat(own[captions], begin)
        reached = own[captions] == best[owner[captions]]
        place[images] = np.minimum.reduceat(np.where(reached, captions, len(caption)), begin)
        count(scores, images, captions)
    for (images, _), (_, captions) in permutations(parts, 2):
        count(tile(images, captions), images, captions)
    return caption_ranks, image_ranks, owner


def _ahead(scores: np.ndarray, best: np.ndarray, place: np.ndarray, places: np.ndarray) -> np.ndarray:
    """How many entries of each row of scores (R, C) come before `best` (R,) at `place`; columns are at `places`."""
    best = best.astype(scores.dtype)[:, None]
    ahead = np.count_nonzero(scores > best, axis=1)
    equal = scores == best
    for row in np.flatnonzero(equal.any(axis=1)):
        ahead[row] += np.count_nonzero(places[equal[row]] < place[row])
    return ahead


def recall_statistic(
    caption_ranks, image_ranks, owner, ks: Sequence[int] = (1, 5, 10)
) -> bootstrap.Statistic:
    """The statistic behind `retrieval`; its units are images, drawn with their captions."""
    if not ks or any(int(k) != k or k < 1 for k in ks):
        raise MetricError(f"ks must be whole numbers from 1 up, got {tuple(ks)}")
    return bootstrap.together(
        bootstrap.means({f"t2i_r{k}": 100.0 * (caption_ranks <= k) for k in ks}, owner),
        bootstrap.means({f"i2t_r{k}": 100.0 * (image_ranks <= k) for k in ks}),
    )
