"""How ambiguous a benchmark of caption chains is: captions of similar images that are true of an image as well.

ARGENT §4 shows it of HierarCaps in two ways. Table 1: precision and recall of radial retrieval rise as the captions of
the k most similar images leave an image's pool. Figure 5: among its own captions and those of its 5 most similar
images, a model finds an image's own caption less often the more general the level.

What the paper leaves open is read as follows: captions are strings, so a removed string is gone whoever else has it,
an image's own strings always stay; at each level the candidates are the captions of that level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hierbench.analysis.groups import IMAGES, Embedded
from hierbench.contracts import Estimate, Geometry
from hierbench.data.datasets import CaptionChains
from hierbench.errors import UsageError
from hierbench.metrics import bootstrap
from hierbench.metrics.radial import LEVELS, radial_retrieval

REMOVED = (0, 5, 10)  # Table 1
POOL = 5  # Figure 5
ROWS = 1024  # images whose similarities are held at a time


@dataclass(frozen=True)
class Removal:
    """Radial retrieval when the captions of the `k` most similar images are gone; fractions over images."""

    k: int
    precision: Estimate
    recall: Estimate


@dataclass(frozen=True)
class Level:
    """How often an image's own caption is the best of a level's in the local pool, and by chance."""

    level: int  # 1 = the most general
    hits: np.ndarray  # (N,) bool, by image
    recall: Estimate
    chance: float
    """What guessing among the pool's strings gives."""


def similar_images(geometry: Geometry, tangents: Tensor, count: int) -> np.ndarray:
    """(N, D) tangent features of images -> (N, count) rows of the most similar others, best first, ties by row.

    Raises UsageError where there are not so many others.
    """
    if not 0 <= count < len(tangents):
        raise UsageError(
            f"{count} similar images of {len(tangents)}: there are {len(tangents) - 1} others at most"
        )
    points = geometry.lift(tangents)
    found = []
    for start in range(0, len(points), ROWS):
        rows = torch.arange(start, min(start + ROWS, len(points)))
        likeness = geometry.similarity(points[rows], points)
        likeness[torch.arange(len(rows)), rows] = -torch.inf
        found.append(likeness.argsort(dim=1, descending=True, stable=True)[:, :count])
    return torch.cat(found).numpy()


def removals(
    embedded: Embedded, dataset: CaptionChains, similar: np.ndarray, ks: Sequence[int] = REMOVED
) -> list[Removal]:
    """Table 1: one entry for each k; `similar` (N, at least max k) as `similar_images` gives them."""
    texts = [text.strip() for chain in dataset.captions for text in chain]
    number = {text: position for position, text in enumerate(dict.fromkeys(texts))}
    strings = np.array([number[text] for text in texts])
    own = _ownership(dataset, strings, np.repeat(dataset.owner, LEVELS), len(number))
    features = [_features(embedded, dataset, level) for level in range(LEVELS)]
    entries = []
    for k in ks:
        gone = np.zeros_like(own)
        for column in similar[:, :k].T:
            gone |= own[column]
        outcome = radial_retrieval(
            embedded.geometry,
            embedded.groups[IMAGES].tangents,
            torch.stack(features, 1),
            dataset.owner,
            texts,
            embedded.root,
            removed=(gone & ~own)[:, strings],
        )
        figures = bootstrap.estimates(
            bootstrap.means({"precision": outcome.precision, "recall": outcome.recall}), len(own)
        )
        entries.append(Removal(k, figures["precision"], figures["recall"]))
    return entries


def local_recall(embedded: Embedded, dataset: CaptionChains, similar: np.ndarray) -> list[Level]:
    """Figure 5: recall@1 by level in the pool of each image's own captions and those of its `similar` images.

    A hit is an own caption with a higher similarity than every other string of the pool.
    """
    images = embedded.geometry.lift(embedded.groups[IMAGES].tangents)
    entries = []
    for level in range(LEVELS):
        group = embedded.groups[f"level {level + 1}"]
        number = {text.strip(): position for position, text in enumerate(group.labels)}
        strings = np.array([number[chain[level].strip()] for chain in dataset.captions])
        own = _ownership(dataset, strings, dataset.owner, len(group.labels))
        others = np.zeros_like(own)
        for column in similar.T:
            others |= own[column]
        others &= ~own
        likeness = embedded.geometry.similarity(images, embedded.geometry.lift(group.tangents)).numpy()
        best_own, best_other = (np.where(of, likeness, -np.inf).max(1) for of in (own, others))
        hits = best_own > best_other
        figures = bootstrap.estimates(bootstrap.means({"recall": hits.astype(float)}), len(hits))
        chance = float((own.sum(1) / (own.sum(1) + others.sum(1))).mean())
        entries.append(Level(level + 1, hits, figures["recall"], chance))
    return entries


def _features(embedded: Embedded, dataset: CaptionChains, level: int) -> Tensor:
    """(samples, D) tangent features of the captions of a level."""
    group = embedded.groups[f"level {level + 1}"]
    row = {text: position for position, text in enumerate(group.labels)}
    return group.tangents[[row[chain[level]] for chain in dataset.captions]]


def _ownership(dataset: CaptionChains, strings: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    """(N, count) bool: which images have which strings; `strings` and `owner` run over captions."""
    own = np.zeros((len(dataset.images.ids), count), bool)
    own[owner, strings] = True
    return own
