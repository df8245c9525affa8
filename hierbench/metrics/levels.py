"""How a classifier does when it is asked at every level of a tree (`hierbench.taxonomy.Levels`).

Figures as in "Vision LLMs are bad at hierarchical visual understanding" (Tan et al., CVPR 2026), asked among all names
of a level in place of four, and the mean accuracy over cuts of the tree of ProTeCt (Wu et al., CVPR 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hierbench.contracts import Geometry
from hierbench.metrics import _checks, bootstrap

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 4096  # images at a time; the chunk of `classification.nearest`, whose leaf predictions these are bit by bit


def ask(
    geometry: Geometry, images: Tensor, classes: Tensor, inner: Tensor, questions: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The most similar option of each image: (n,) among all `classes`, and (Q, n) of each of the `questions`.

    `images` (n, D), `classes` (C, D) and `inner` (I, D) are points; a question is an array of positions, below C of a
    class, from C on of an inner node. Options with the same point tie, and the first in the question wins, as in
    `classification.nearest`. Similarities are computed once for all questions, for 4,096 images at a time.
    """
    import torch

    first, distinct = _first_equal(torch.cat([classes, inner]))
    own = distinct < len(classes)  # distinct points that a class has
    columns = [np.unique(first[question], return_index=True) for question in questions]
    place = {int(position): column for column, position in enumerate(distinct)}
    chosen = [
        np.array([place[int(p)] for p in group], np.int64)[np.argsort(at, kind="stable")]
        for group, at in columns
    ]
    options = [question[np.sort(at)] for question, (_, at) in zip(questions, columns, strict=True)]
    parts = [torch.from_numpy(distinct[own]), torch.from_numpy(distinct[~own] - len(classes))]
    leaf, answers = [], []
    for chunk in images.split(CHUNK):
        near = geometry.similarity(chunk, classes[parts[0]])
        leaf.append(parts[0][near.argmax(1)])
        if len(parts[1]):
            near = torch.cat([near, geometry.similarity(chunk, inner[parts[1]])], 1)
        near = near.T.contiguous()  # a question then takes whole rows
        answers.append(np.stack([_best(near, rows, among) for rows, among in zip(chosen, options, strict=True)])
                       if questions else np.zeros((0, len(chunk)), np.int64))  # fmt: skip
    return torch.cat(leaf).numpy(), np.concatenate(answers, 1)


def _best(near: Tensor, rows: np.ndarray, among: np.ndarray) -> np.ndarray:
    import torch

    return among[near[torch.from_numpy(rows)].argmax(0).numpy()]


def _first_equal(points: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(P,) the first position with the same point, and those firsts in order."""
    import torch

    _, group = torch.unique(points, dim=0, return_inverse=True)
    firsts = torch.full((int(group.max()) + 1,), len(points)).scatter_reduce(
        0, group, torch.arange(len(points)), "amin"
    )
    first = firsts[group].numpy()
    return first, np.unique(first)


def level_items(levels: Any, label: Any, leaf: Any, answers: Any) -> dict[str, np.ndarray]:
    """What holds of each image, (n,) float64 each, NaN where it is not asked.

    `levels` is a `Levels`; `label` and `leaf` (n,) are the true and the predicted class; `answers` (L, n) the nodes
    predicted at each of its depths. Of an image whose path has k questions, the last being the class among all classes:

    `right_KEY`, `leaf_right_KEY`: whether the answer at a depth, or the leaf prediction's ancestor there, is right (of
    images whose class lies so deep); `leaf`; `hca`: all k right; `por`: share of k right; `strict_por`: length of the
    right beginning over k; `tor`: share of the k − 1 neighbouring pairs both right; `consistent`: each answer is an
    ancestor of the next, or the same, the leaf prediction last.
    """
    classes = len(levels.tree.leaves)
    label = _checks.integers(label, "label", classes)
    leaf = _checks.integers(leaf, "leaf", classes, len(label))
    answers = np.asarray(answers, np.int64).reshape(len(levels.depths), len(label))
    truth, inherited = levels.answers[:, label], levels.answers[:, leaf]
    asked, on_path = levels.asked[:, label], levels.on_path[:, label]
    right, leaf_right = answers == truth, leaf == label
    items: dict[str, np.ndarray] = {}
    for row, key in enumerate(levels.keys):
        items[f"right_{key}"] = np.where(asked[row], right[row], np.nan)
        items[f"leaf_right_{key}"] = np.where(asked[row], (inherited == truth)[row], np.nan)
    return items | {"leaf": leaf_right.astype(float)} | _along(right, on_path, leaf_right) | {
        "consistent": _consistent(levels, answers, leaf).astype(float)
    }  # fmt: skip


def _along(right: np.ndarray, on_path: np.ndarray, leaf_right: np.ndarray) -> dict[str, np.ndarray]:
    """Figures of the path's questions: (L, n) answers of inner nodes, of which `on_path` are on it, and the leaf's."""
    inner = on_path.sum(0)
    k = inner + 1
    rightly = (right & on_path).sum(0) + leaf_right
    beginning = (np.cumprod(np.where(on_path, right, True), 0) * on_path).sum(0)
    whole = beginning == inner
    both = (right[:-1] & right[1:] & on_path[1:]).sum(0) if len(right) else np.zeros(len(leaf_right), int)
    last = (
        np.where(on_path, right, False)[np.maximum(inner - 1, 0), np.arange(len(k))]
        if len(right)
        else leaf_right
    )
    both = both + (last & leaf_right & (inner > 0))
    return {
        "hca": (whole & leaf_right).astype(float),
        "por": rightly / k,
        "strict_por": (beginning + (whole & leaf_right)) / k,
        "tor": np.where(k > 1, both / np.maximum(k - 1, 1), np.nan),
    }


def _consistent(levels: Any, answers: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """(n,) bool: every answer is an ancestor of the next one, or the same."""
    held = np.ones(len(leaf), bool)
    for general, specific in pairwise((*answers, leaf)):
        pairs, where = np.unique(np.stack([general, specific]), axis=1, return_inverse=True)
        fits = [
            above == below or levels.nodes[above] in levels.tree.ancestors(levels.nodes[below])
            for above, below in pairs.T
        ]
        held &= np.array(fits)[where.ravel()]
    return held


def level_statistic(keys: Sequence[str], items: Mapping[str, np.ndarray]) -> bootstrap.Statistic:
    """Figures in percent from the columns of `level_items` and `mta`; its units are images.

    `accuracy_KEY`; `gain_KEY`: that less the accuracy of the leaf prediction's ancestor, `gain` over all questions of
    all `keys`; `leaf`, `hca`, `por`, `strict_por`, `tor`, `consistency`, `mta`.
    """
    plain = {"leaf": "leaf", "hca": "hca", "por": "por", "strict_por": "strict_por", "tor": "tor", "mta": "mta",
             "consistency": "consistent"}  # fmt: skip
    names = [*(f"{side}_{key}" for key in keys for side in ("right", "leaf_right")), *plain.values()]
    table = np.stack([np.asarray(items[name], np.float64) for name in names], 1)
    there = np.isfinite(table)
    summed = np.concatenate([np.where(there, table, 0.0), there.astype(float)], 1)
    row = {name: number for number, name in enumerate(names)}

    def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
        sums, asked = np.split(counts @ summed, 2, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = 100 * sums / asked
            found = {figure: share[:, row[name]] for figure, name in plain.items()}
            for key in keys:
                found[f"accuracy_{key}"] = share[:, row[f"right_{key}"]]
                found[f"gain_{key}"] = share[:, row[f"right_{key}"]] - share[:, row[f"leaf_right_{key}"]]
            over = [row[f"right_{key}"] for key in keys], [row[f"leaf_right_{key}"] for key in keys]
            more = sums[:, over[0]].sum(1) - sums[:, over[1]].sum(1)
            found["gain"] = 100 * more / asked[:, over[0]].sum(1)
        return found

    return statistic
