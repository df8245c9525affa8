"""Builds the record of images with any number of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hierbench.contracts import ImageSource
from hierbench.data.datasets import MultiLabel
from hierbench.data.manifests import Manifest


def multilabel(
    manifest: Manifest,
    images: ImageSource,
    present: Sequence[Iterable[str]],
    ignored: Sequence[Iterable[str]] | None = None,
    class_ids: Sequence[str] = (),
) -> MultiLabel:
    """Class ids present in (and neither counted as present nor as absent from) each image, as boolean matrices.

    `class_ids` take the place of the manifest's where that has none.
    """
    class_ids = manifest.class_ids or tuple(class_ids)
    column = {class_id: k for k, class_id in enumerate(class_ids)}

    def matrix(rows: Sequence[Iterable[str]]) -> np.ndarray:
        filled = np.zeros((len(rows), len(class_ids)), bool)
        for row, found in enumerate(rows):
            filled[row, [column[class_id] for class_id in found]] = True
        return filled

    return MultiLabel(
        name=manifest.name,
        images=images,
        present=matrix(present),
        class_ids=class_ids,
        ignored=None if ignored is None else matrix(ignored),
    )
