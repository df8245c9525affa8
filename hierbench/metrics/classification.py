"""Zero-shot classification: predictions by similarity, mean per-class and top-1 accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hierbench.contracts import Geometry
from hierbench.errors import MetricError
from hierbench.metrics import _checks, bootstrap

if TYPE_CHECKING:
    from scipy import sparse
    from torch import Tensor


def accuracy(predicted, labels, num_classes: int, protocol: str = "released") -> dict[str, float]:
    """Mean per-class accuracy and top-1 accuracy, percent.

    `predicted` and `labels` are integers (n,) in [0, num_classes). `mean_per_class` averages the accuracy of
    each class over the classes that occur among the labels (protocol `corrected`), or that occur or are
    predicted (`released`: a class that is predicted but never occurs counts 0, as in the released MERU /
    HyCoCLIP / UNCHA evaluators). Raises MetricError on other shapes, values out of range, or another
    protocol.
    """
    statistic = accuracy_statistic(predicted, labels, num_classes, protocol)
    return bootstrap.value(statistic, len(predicted))


def accuracy_statistic(
    predicted, labels, num_classes: int, protocol: str = "released"
) -> bootstrap.Statistic:
    """The statistic behind `accuracy`; its units are images."""
    if protocol not in ("released", "corrected"):
        raise MetricError(f"no accuracy protocol {protocol!r}: released or corrected")
    labels = _checks.integers(labels, "labels", num_classes)
    predicted = _checks.integers(predicted, "predicted", num_classes, len(labels))
    correct = predicted == labels
    everything = np.ones(len(labels), bool)
    of_class, hits_of = _members(labels, everything, num_classes), _members(labels, correct, num_classes)
    guesses_of = _members(predicted, everything, num_classes)

    def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
        columns = np.ascontiguousarray(counts.T)
        occurs, hits = of_class @ columns, hits_of @ columns
        averaged = occurs > 0
        if protocol == "released":
            averaged = averaged | (guesses_of @ columns > 0)
        per_class = hits / np.maximum(occurs, 1)
        return {
            "mean_per_class": 100 * per_class.sum(0) / averaged.sum(0),
            "top1": 100 * (counts @ correct) / counts.sum(1),
        }

    return statistic


def nearest(geometry: Geometry, points: Tensor, classes: Tensor, chunk: int = 4096) -> np.ndarray:
    """Index (n,) of the most similar of the `classes` (C, D) for each of the `points` (n, D).

    Classes with the same embedding tie; the first of them wins, as in the released evaluators (two ImageNet
    names occur twice). They are merged beforehand, because a matrix product may round equal columns
    differently.
    """
    import torch

    distinct, group = torch.unique(classes, dim=0, return_inverse=True)
    first = torch.full((len(distinct),), len(classes)).scatter_reduce(
        0, group, torch.arange(len(classes)), "amin"
    )
    first = first.sort().values  # back to the order of the classes
    best = [geometry.similarity(part, classes[first]).argmax(1) for part in points.split(chunk)]
    return first[torch.cat(best)].numpy()


def _members(group: np.ndarray, counted: np.ndarray, num_classes: int) -> sparse.csr_matrix:
    """(num_classes, n): 1 where an item that is counted is of a class."""
    from scipy import sparse

    items = np.flatnonzero(counted)
    return sparse.csr_matrix((np.ones(len(items)), (group[items], items)), shape=(num_classes, len(group)))
