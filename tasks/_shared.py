"""What the task files share: columns of kept outcomes, what makes figures say little, classes by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hierbench.contracts import Embeddings, Geometry
from hierbench.data.datasets import Classification, MultiLabel
from hierbench.errors import OutputError

if TYPE_CHECKING:  # that a record stands is known without torch
    from torch import Tensor


# --------------------------------------------------------------------------------------------- per-item outcomes


def column(items: Mapping[str, Any], table: str, name: str) -> np.ndarray:
    """A column of the outcomes that a task kept: (n,), or (n, C) where each item has a list.

    `items` as `Task.statistics` takes them. Raises OutputError where there is no such column.
    """
    try:
        values = items[table][name]
    except KeyError:
        raise OutputError(
            f"the per-item outcomes have no column {name} in a table {table}: run the task again"
        ) from None
    strings = len(values) and isinstance(values[0], str)
    # A copy: pandas hands out read-only views, torch would complain. Of strings no table as wide as the longest.
    array = np.array(values, object) if strings else np.array(values)
    lists = array.dtype == object and len(array) and isinstance(array[0], np.ndarray)
    return np.stack(list(array)) if lists else array


def same_answer(predicted: np.ndarray, labels: np.ndarray, metrics: Iterable[str]) -> dict[str, str]:
    """What `Scores.degenerate` says of a classifier that gives images of several classes all the same class."""
    if len(np.unique(labels)) < 2 or len(np.unique(predicted)) > 1:
        return {}
    return dict.fromkeys(metrics, "every image is given the same class")


def one_point(features: Tensor, what: str, metrics: Iterable[str]) -> dict[str, str]:
    """What `Scores.degenerate` says where all of `features` (n, D), n > 1, are the same: every comparison ties."""
    if len(features) < 2 or not bool((features == features[0]).all()):
        return {}
    return dict.fromkeys(metrics, f"{what} has the same embedding: the order of ties decides")


def positions(of: Iterable[str | None], among: Iterable[str]) -> np.ndarray:
    """Where each id stands in a list of ids, (n,) int64. Raises OutputError for one that does not."""
    place: dict[str | None, int] = {name: number for number, name in enumerate(among)}
    try:
        return np.array([place[name] for name in of], np.int64)
    except KeyError as error:
        raise OutputError(
            f"the per-item outcomes name {error}, which is none of their images: run the task again"
        ) from None


# ------------------------------------------------------------------------------------------------ classes by name


def prompts(dataset: Classification | MultiLabel) -> list[str]:
    """Every class name in every template, class by class."""
    return filled(dataset.class_names, dataset.templates)


def filled(names: Iterable[str], templates: Sequence[str]) -> list[str]:
    """Every name in every template, name by name."""
    return [template.replace("{}", name) for name in names for template in templates]


def class_points(geometry: Geometry, embeddings: Embeddings, dataset: Classification | MultiLabel) -> Tensor:
    """(classes, D): the point of each class, the geometry's mean of its prompts."""
    texts = embeddings.texts(prompts(dataset))
    return geometry.mean(texts.reshape(dataset.num_classes, len(dataset.templates), -1))


def repeated_names(dataset: Classification | MultiLabel, images: np.ndarray) -> tuple[str, ...]:
    """A note on names that several classes share; nothing where every class has its own. `images` (C,): of each class.

    Such classes have the same point, so that every score of theirs is a tie.
    """
    repeated = {name for name, times in Counter(dataset.class_names).items() if times > 1}
    if not repeated:
        return ()
    sharing = [row for row, name in enumerate(dataset.class_names) if name in repeated]
    names = ", ".join(dict.fromkeys(dataset.class_names[row] for row in sharing))
    return (
        f"{len(sharing)} classes with {int(images[sharing].sum()):,} images share names ({names}): "
        "their scores tie, and a prediction goes to the first",
    )
