"""A classifier's errors over the tree of its classes: where predictions leave the true path, which are confused."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from hierbench.errors import MetricError
from hierbench.metrics import _checks
from hierbench.taxonomy import Taxonomy


@dataclass(frozen=True)
class Node:
    """A node of the tree with the images whose class is this node or lies below it.

    A node's path has the root and the node itself; a prediction stays within a node whose path it shares.
    """

    node: str
    name: str
    parent: str  # "" of the root
    depth: int  # edges from the root
    images: int
    correct: int  # predicted as their very class
    within: int  # predicted as this node or a class below it
    parting: int  # errors whose two classes have this node as their lowest common one

    @property
    def is_right(self) -> float:
        """Accuracy of its images, a fraction."""
        return self.correct / self.images

    @property
    def stays(self) -> float:
        """Share of its images that are predicted within it: its recall at its own depth."""
        return self.within / self.images


@dataclass(frozen=True)
class Confusion:
    """A class taken for another."""

    true: str
    predicted: str
    images: int
    share: float  # of the images of the true class
    common: str  # their lowest common node
    edges: int  # between them


def over_tree(predicted, true, taxonomy: Taxonomy) -> tuple[Node, ...]:
    """Every node that has images, parents before children, siblings by name.

    `predicted` and `true` (n,) are class indices into `taxonomy.leaves`. The images of the root are all; the sum of
    `parting` over the nodes is the number of errors. Raises MetricError as `metrics.hierarchy`.
    """
    counts = _counts(predicted, true, taxonomy)
    paths = [_path(taxonomy, leaf) for leaf in taxonomy.leaves]
    images, correct, within, parting = (Counter[str]() for _ in range(4))
    for a, b, number in counts:
        common = _shared(paths[a], paths[b])
        for place, node in enumerate(paths[a]):
            images[node] += number
            correct[node] += number if a == b else 0
            within[node] += number if place < common else 0
        if a != b:
            parting[paths[a][common - 1]] += number
    found: list[Node] = []
    below: dict[str, list[str]] = {}
    for node in images:
        below.setdefault(taxonomy.parent.get(node, ""), []).append(node)
    waiting = [(taxonomy.root, 0)]
    while waiting:
        node, depth = waiting.pop()
        found.append(
            Node(
                node, taxonomy.called(node), taxonomy.parent.get(node, ""), depth,
                images[node], correct[node], within[node], parting[node],
            )
        )  # fmt: skip
        children = sorted(below.get(node, ()), key=lambda child: (taxonomy.called(child), child))
        waiting += [(child, depth + 1) for child in reversed(children)]
    return tuple(found)


def confusions(predicted, true, taxonomy: Taxonomy, most: int | None = None) -> tuple[Confusion, ...]:
    """Pairs of classes that are confused, the most frequent first, then those farthest apart in the tree.

    Arguments as for `over_tree`; `most` pairs at most. Raises MetricError.
    """
    counts = _counts(predicted, true, taxonomy)
    of_class = Counter[int]()
    for a, _, number in counts:
        of_class[a] += number
    wrong = [entry for entry in counts if entry[0] != entry[1]]
    wrong.sort(key=lambda entry: (-entry[2], -taxonomy.distance[entry[0], entry[1]], entry[0], entry[1]))
    found = []
    for a, b, number in wrong[:most]:
        paths = [_path(taxonomy, taxonomy.leaves[row]) for row in (a, b)]
        found.append(
            Confusion(
                taxonomy.leaves[a], taxonomy.leaves[b], number, number / of_class[a],
                paths[0][_shared(*paths) - 1], int(taxonomy.distance[a, b]),
            )
        )  # fmt: skip
    return tuple(found)


def _counts(predicted, true, taxonomy: Taxonomy) -> list[tuple[int, int, int]]:
    """(true class, predicted class, images) of the pairs that occur."""
    classes = len(taxonomy.leaves)
    if not classes:
        raise MetricError(f"taxonomy {taxonomy.name} has no classes")
    true = _checks.integers(true, "true", classes)
    predicted = _checks.integers(predicted, "predicted", classes, len(true))
    pairs, numbers = np.unique(true * classes + predicted, return_counts=True)
    return [
        (int(pair // classes), int(pair % classes), int(n)) for pair, n in zip(pairs, numbers, strict=True)
    ]


def _path(taxonomy: Taxonomy, node: str) -> tuple[str, ...]:
    """From the root down to the node."""
    return (*taxonomy.ancestors(node)[::-1], node)


def _shared(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """How many nodes two paths share."""
    return sum(a == b for a, b in zip(first, second, strict=False))
