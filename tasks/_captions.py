"""What the tasks that hold captions against images share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hierbench.contracts import Embeddings, Geometry
from hierbench.data.datasets import CaptionChains, CaptionChoices
from hierbench.metrics.choices import pair_similarity


def similarities(
    geometry: Geometry,
    embeddings: Embeddings,
    dataset: CaptionChains | CaptionChoices,
    images: Sequence[int] | np.ndarray,
    captions: Sequence[str],
) -> np.ndarray:
    """(P,) float64: how similar each caption is to its image, a position in the dataset; each string is lifted once."""
    texts = list(dict.fromkeys(captions))
    place = {text: row for row, text in enumerate(texts)}
    return pair_similarity(
        geometry,
        geometry.lift(embeddings.images(dataset.images.ids)),
        geometry.lift(embeddings.texts(texts)),
        np.asarray(images),
        np.array([place[text] for text in captions]),
    )
