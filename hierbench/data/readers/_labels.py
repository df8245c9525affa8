"""Joins a source's labels with the manifest's classes: by class id, never by position; checks that they fit.

A source whose labels are numbers says in its own words what each number means. Every word in use must mean one
class and no two words the same, so that labels in one order can never meet names in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from hierbench.contracts import ImageSource
from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.errors import DataError

SERVED = frozenset(("zero-shot", "hierarchy", "retrieval"))
"""Tasks of the datasets that generic layouts can hold: one label an image, or captions."""

OTHER_SPLIT = "other-split"
"""Variant of records that cannot be (a part of) the released split: they have more images than it."""


def class_ids_of(manifest: Manifest, words: Iterable[str], where: str) -> dict[str, str]:
    """The class id of every distinct word. Raises DataError for the first unknown one, or two of one class."""
    found: dict[str, str] = {}
    owner: dict[str, str] = {}
    for word in dict.fromkeys(words):
        class_id = manifest.class_for(word)
        if class_id is None:
            raise DataError(
                f"dataset {manifest.name}: {where} names a class {word!r} that is none of the "
                f"{len(manifest.classes)} classes: is it another dataset, or another version?"
            )
        if class_id in owner:
            raise DataError(
                f"dataset {manifest.name}: {where} has two names, {owner[class_id]!r} and {word!r}, for the class "
                f"{class_id!r}: rename one"
            )
        found[word] = class_id
        owner[class_id] = word
    return found


def by_names(
    manifest: Manifest, names: Sequence[str], labels: Sequence[int] | np.ndarray, where: str, first: int = 0
) -> list[str]:
    """Class id of every label; `names[label - first]` is the source's own word for a label.

    Names that no label uses may mean anything, but there must be as many names as classes: where a line is missing or
    doubled, labels after it have others' names. Two labels of one name (ImageNet's released names have two such pairs)
    can be told apart only where the whole list is the manifest's own, word for word.
    Raises DataError: another number of names, a label outside them, and what `class_ids_of` raises.
    """
    if len(names) != len(manifest.classes):
        raise DataError(
            f"dataset {manifest.name}: {where} are {len(names)}, the dataset has {len(manifest.classes)} classes: a "
            "name is missing or too many, and labels would get the names of others: fetch it again"
        )
    labels = in_range(manifest, labels, first, len(names), where)
    used = sorted({label - first for label in labels})
    times = Counter(names)
    repeated = [place for place in range(len(names)) if times[names[place]] > 1]
    if repeated and tuple(names) != manifest.class_names("released"):
        raise DataError(f"dataset {manifest.name}: {where} has two labels of the name {names[repeated[0]]!r}")
    meaning = class_ids_of(manifest, (names[place] for place in used if times[names[place]] == 1), where)
    class_id_of = {place: meaning.get(names[place]) or manifest.class_ids[place] for place in used}
    return [class_id_of[label - first] for label in labels]


def in_range(
    manifest: Manifest, labels: Sequence[int] | np.ndarray, first: int, count: int, where: str
) -> list[int]:
    """The labels as a list. Raises DataError for one outside [first, first + count)."""
    labels = np.asarray(labels, np.int64).reshape(-1)
    outside = np.flatnonzero((labels < first) | (labels >= first + count))
    if outside.size:
        row = int(outside[0])
        raise DataError(
            f"dataset {manifest.name}: {where}, image {row}: the label {labels[row]} is outside the range "
            f"{first} to {first + count - 1}: fetch it again"
        )
    return labels.tolist()


def classification(
    manifest: Manifest,
    images: ImageSource,
    class_ids: Sequence[str],
    variant: str = "",
) -> Classification:
    """The record of images with one class id each (in the order of `images.ids`).

    Raises DataError where there are no images or where a whole split has other counts per class than the manifest
    says: then labels and classes do not belong together. More images than the released split make a variant.
    """
    if not len(class_ids):
        raise DataError(f"dataset {manifest.name}: no images found: give the folder that holds them")
    more = _more_than_released(manifest, class_ids)
    position = {class_id: label for label, class_id in enumerate(manifest.class_ids)}
    if unknown := [class_id for class_id in class_ids if class_id not in position]:
        raise DataError(f"dataset {manifest.name}: {unknown[0]!r} is none of its {len(position)} classes")
    return Classification(
        name=manifest.name,
        images=images,
        labels=np.array([position[class_id] for class_id in class_ids], np.int64),
        class_ids=manifest.class_ids,
        variant=variant or (OTHER_SPLIT if more else ""),
    )


def _more_than_released(manifest: Manifest, class_ids: Sequence[str]) -> bool:
    whole, expected = manifest.counts.images, manifest.counts.per_class
    if isinstance(expected, int):
        expected = dict.fromkeys(manifest.class_ids, expected)
    counted = Counter(class_ids)
    odd = [k for k, count in counted.items() if expected and count > expected[k]]
    if expected and odd and len(class_ids) == whole:
        raise DataError(
            f"dataset {manifest.name}: the class {odd[0]!r} has {counted[odd[0]]} images, the released split "
            f"{expected[odd[0]]}: labels and classes of this source do not belong together, or it is another split"
        )
    return bool(odd) or (whole is not None and len(class_ids) > whole)
