"""Image-text retrieval: ranks without sorting, recall@k (PROTOCOLS §2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from hierbench.contracts import Geometry
from hierbench.errors import MetricError
from hierbench.metrics import _checks, bootstrap

BLOCK = 16_000_000  # similarities held at a time


def retrieval(geometry: Geometry, image, caption, owner, ks: Sequence[int] = (1, 5, 10)) -> dict[str, float]:
    """Recall@k in both directions, percent: {"t2i_r1", …, "i2t_r1", …}.

    `image` (N, D) and `caption` (M, D) are tangent features, caption j describes image `owner[j]`. Text to
    image counts a caption as found when its image is among the k most similar; image to text counts an image
    as found when any of its captions is. Ties are ranked by position (see `ranks`). Raises MetricError on
    other shapes, non-finite features, an owner out of range, an image without captions, or a k < 1.
    """
    caption_ranks, image_ranks, owner = retrieval_ranks(geometry, image, caption, owner)
    return bootstrap.value(recall_statistic(caption_ranks, image_ranks, owner, ks), len(image_ranks))


def retrieval_ranks(geometry: Geometry, image, caption, owner) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rank (M,) of each caption's image, rank (N,) of each image's best own caption, and the checked owner
    (M,).

    Ranks start at 1.
    """
    image, caption = _checks.features(image, "image features"), _checks.features(caption, "caption features")
    _checks.same_width(image=image, caption=caption)
    owner = _checks.owners(owner, len(image), len(caption))
    image, caption = geometry.lift(image), geometry.lift(caption)
    captions = np.arange(len(caption))
    return (
        ranks(geometry, caption, image, captions, owner),
        ranks(geometry, image, caption, owner, captions),
        owner,
    )


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


def ranks(
    geometry: Geometry,
    queries: Tensor,
    candidates: Tensor,
    query: np.ndarray,
    candidate: np.ndarray,
    block: int = BLOCK,
) -> np.ndarray:
    """Rank (len(queries),), from 1, of each query's best relevant candidate.

    `candidate[i]` is relevant to `query[i]`; every query has at least one. The rank is one more than the
    number of candidates that come before: those with a higher similarity, and among equal ones those at a
    lower position. At most about `block` similarities are held at a time, and none is sorted.
    """
    order = np.lexsort((candidate, query))
    query, candidate = query[order], candidate[order]
    first = np.searchsorted(query, np.arange(len(queries) + 1))  # where the candidates of each query begin
    found = np.empty(len(queries), np.int64)
    rows = max(1, block // len(candidates))
    for start in range(0, len(queries), rows):
        scores = geometry.similarity(queries[start : start + rows], candidates).numpy()
        for row, line in enumerate(scores, start):  # numpy counts lines faster than torch counts a block
            relevant = candidate[first[row] : first[row + 1]]
            best = relevant[line[relevant].argmax()]
            higher = np.count_nonzero(line > line[best])
            equal_before = np.count_nonzero(line[:best] == line[best])
            found[row] = 1 + higher + equal_before
    return found
