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
    protocol: str,
    prompts: str,
    ignored: Sequence[Iterable[str]] | None = None,
    classes: dict[str, str] | None = None,
) -> MultiLabel:
    """Class ids present in (and neither counted as present nor as absent from) each image, as boolean matrices.

    `classes`, id -> name, takes the place of the manifest's where that has none.
    """
    names = manifest.class_names(protocol) if classes is None else tuple(classes.values())
    class_ids = manifest.class_ids if classes is None else tuple(classes)
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
        class_names=names,
        templates=manifest.prompts(prompts),
        ignored=None if ignored is None else matrix(ignored),
    )
