"""One model's errors over the class tree, as they are shown: how far off, where they part, among which branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hierbench.analysis.confusion import Confusion, Node, confusions, over_tree
from hierbench.contracts import Scores, Task
from hierbench.taxonomy import Taxonomy

BRANCHES = 24  # that a picture at text width has room for


@dataclass(frozen=True)
class Branch:
    """Classes below a node that are shown as one; `path` leads to it from the root, `classes` are label positions."""

    name: str
    path: tuple[str, ...]
    classes: tuple[int, ...]


@dataclass(frozen=True)
class TreeErrors:
    """What a classifier's answers are over the tree of its classes."""

    task: str
    images: int
    correct: int
    edges: Mapping[int, int]  # edges between true and predicted class -> images
    nodes: tuple[Node, ...]
    confusions: tuple[Confusion, ...]
    branches: tuple[Branch, ...]
    matrix: np.ndarray  # (B, B) images of a branch (row) that are predicted within a branch (column)
    names: Mapping[str, str]  # of the nodes
    degenerate: str  # why all this says little; empty where it does not

    @property
    def shares(self) -> np.ndarray:
        """(B, B) `matrix` with rows that add up to 1; NaN for branches without images."""
        sums = self.matrix.sum(1, keepdims=True).astype(float)
        return np.divide(self.matrix, sums, out=np.full(self.matrix.shape, np.nan), where=sums > 0)


def tree_errors(task: Task, scores: Scores, tree: Taxonomy, most: int = BRANCHES) -> TreeErrors:
    """From what a hierarchy task's scoring gave; `tree` holds the task's classes. Raises MetricError."""
    images = scores.items["images"]
    true, predicted = np.asarray(images["label"]), np.asarray(images["predicted"])
    parts = branches(tree, most)
    of_class = np.empty(len(tree.leaves), int)
    for number, part in enumerate(parts):
        of_class[list(part.classes)] = number
    matrix = np.zeros((len(parts), len(parts)), int)
    np.add.at(matrix, (of_class[true], of_class[predicted]), 1)
    apart = Counter(tree.distance[true, predicted].astype(int).tolist())
    return TreeErrors(
        task.spec.name, len(true), int((true == predicted).sum()), dict(sorted(apart.items())),
        over_tree(predicted, true, tree), confusions(predicted, true, tree), parts, matrix,
        {node: tree.called(node) for node in tree.nodes}, scores.degenerate.get(task.spec.headline, ""),
    )  # fmt: skip


def branches(tree: Taxonomy, most: int = BRANCHES) -> tuple[Branch, ...]:
    """The classes in the order of the tree, as at most `most` branches: the one with the most classes is split first.

    A class that has classes below it stands before them, alone.
    """
    children: dict[str, list[str]] = {}
    for node, parent in tree.parent.items():
        children.setdefault(parent, []).append(node)
    position = {leaf: number for number, leaf in enumerate(tree.leaves)}

    def made(node: str, path: tuple[str, ...]) -> Branch:
        waiting, found = [node], []
        while waiting:
            here = waiting.pop()
            found += [position[here]] if here in position else []
            waiting += children.get(here, [])
        return Branch(tree.called(node), (*path, node), tuple(sorted(found)))

    def split(part: Branch) -> list[Branch]:
        node = part.path[-1]
        own = [Branch(part.name, part.path, (position[node],))] if node in position else []
        below = sorted(children.get(node, []), key=lambda child: (tree.called(child), child))
        return own + [branch for child in below if (branch := made(child, part.path)).classes]

    parts = [made(tree.root, ())]
    while True:
        largest = sorted(range(len(parts)), key=lambda place: -len(parts[place].classes))
        for place in largest:
            if len(parts[place].classes) > 1 and len(into := split(parts[place])) + len(parts) - 1 <= most:
                parts[place : place + 1] = into
                break
        else:
            return tuple(parts)


def row(model: str, found: TreeErrors, count: int = 3) -> dict[str, Any]:
    """One model: accuracy, how far off in the mean, where most errors part, which classes are confused most."""
    wrong = found.images - found.correct
    total = sum(edges * images for edges, images in found.edges.items())
    parting = sorted((node for node in found.nodes if node.parting), key=lambda node: -node.parting)
    return {
        "model": model, "task": found.task, "images": found.images,
        "right": 100 * found.correct / found.images, "edges": total / found.images,
        "edges_of_errors": total / wrong if wrong else None,
        "parting": [
            {"node": node.node, "name": node.name, "images": node.parting, "share": 100 * node.parting / wrong}
            for node in parting[:count]
        ],
        "confusions": [_pair(found, one) for one in found.confusions[:count]],
        "degenerate": found.degenerate or None,
    }  # fmt: skip


def document(model: str, found: TreeErrors, count: int = 3) -> dict[str, Any]:
    """One model with everything, for JSON."""
    return {
        **row(model, found, count),
        "confusions": [_pair(found, one) for one in found.confusions],
        "distances": [{"edges": edges, "images": images} for edges, images in found.edges.items()],
        "nodes": [asdict(node) for node in found.nodes],
        "branches": [
            {"name": part.name, "path": part.path, "classes": len(part.classes)} for part in found.branches
        ],
        "matrix": found.matrix.tolist(),
    }


def _pair(found: TreeErrors, one: Confusion) -> dict[str, Any]:
    names = {f"{end}_name": found.names[getattr(one, end)] for end in ("true", "predicted", "common")}
    return {**asdict(one), **names}
