"""What the tasks on class trees share: a dataset's tree, and the part of the dataset that stands in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hierbench import taxonomy
from hierbench.data.datasets import Classification, subset
from hierbench.errors import DataError


def tree_of(dataset: Classification) -> taxonomy.Taxonomy:
    """The tree over the classes of a dataset that `in_tree` gave. Raises DataError where it names none."""
    if dataset.taxonomy is None:
        raise DataError(f"dataset {dataset.name} names no taxonomy: add `taxonomy:` to its manifest")
    return taxonomy.load(dataset.taxonomy, dataset.class_ids)


def in_tree(dataset: Classification) -> Classification:
    """The images, classes and names of a dataset without those that its tree leaves out.

    Raises DataError where no image is left.
    """
    if not dataset.outside:
        return dataset
    out = set(dataset.outside)
    kept = [row for row, class_id in enumerate(dataset.class_ids) if class_id not in out]
    label = np.full(dataset.num_classes, -1, np.int64)
    label[kept] = np.arange(len(kept))
    rows = np.flatnonzero(label[dataset.labels] >= 0)
    if not len(rows):
        raise DataError(f"dataset {dataset.name}: no image is of a class that its tree holds")
    return replace(
        dataset,
        images=subset(dataset.images, rows),
        labels=label[dataset.labels[rows]],
        class_ids=tuple(dataset.class_ids[row] for row in kept),
        class_names=tuple(dataset.class_names[row] for row in kept),
        outside=(),
    )


def part_note(dataset: Classification, part: Classification) -> tuple[str, ...]:
    """On what part of the dataset a figure stands; nothing where it is the whole."""
    if not dataset.outside:
        return ()
    images, classes = (len(part.images.ids), len(dataset.images.ids)), (part.num_classes, dataset.num_classes)
    return (
        f"the tree holds {classes[0]} of {classes[1]} classes: {images[0]:,} of {images[1]:,} images, "
        "and the names of those classes alone compete",
    )
