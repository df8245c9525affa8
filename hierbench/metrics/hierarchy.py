"""How far wrong predictions are in a tree of classes (as in HyCoCLIP's evaluator)."""

from __future__ import annotations

import numpy as np

from hierbench.metrics import _checks


def hierarchy(predicted, true, taxonomy) -> dict[str, float]:
    """Means over images of the five tree metrics.

    `predicted` and `true` are class indices (n,) into `taxonomy.leaves`. With A(c) the ancestors of class c:
    `tie` = edges between prediction p and truth t; `lca` = |A(p)| − |A(p) ∩ A(t)| + 1 (1 where correct), both
    lower is better; `jaccard` = |A(p) ∩ A(t)| / |A(p) ∪ A(t)|, `precision` = |A(p) ∩ A(t)| / |A(p)|, `recall`
    = |A(p) ∩ A(t)| / |A(t)|, fractions. Raises MetricError on other shapes or values out of range.
    """
    return {name: float(column.mean()) for name, column in hierarchy_items(predicted, true, taxonomy).items()}


def zero_based_items(predicted, true, taxonomy) -> dict[str, np.ndarray]:
    """Symmetric distances of each image, (n,) each, 0 where the prediction is correct and nowhere else.

    The released definitions count proper ancestors alone: a sibling's mistake has the LCA and the Jaccard of a hit, and
    LCA depends on which of two classes was predicted. Here each class belongs to its own path P(c) = A(c) ∪ {c}:
    `lca_symmetric` = edges from the lowest common node up or down to the farther of the two classes,
    max(|P(p)|, |P(t)|) − |P(p) ∩ P(t)|; `jaccard_distance` = 1 − |P(p) ∩ P(t)| / |P(p) ∪ P(t)|, a fraction.
    """
    classes = len(taxonomy.leaves)
    true = _checks.integers(true, "true", classes)
    predicted = _checks.integers(predicted, "predicted", classes, len(true))
    apart = taxonomy.distance[predicted, true]
    of_predicted, of_true = taxonomy.depth[predicted] + 1, taxonomy.depth[true] + 1
    shared = (of_predicted + of_true - apart) // 2
    return {
        "lca_symmetric": np.maximum(of_predicted, of_true) - shared,
        "jaccard_distance": apart / (shared + apart),
    }


def hierarchy_items(predicted, true, taxonomy) -> dict[str, np.ndarray]:
    """The five metrics of each image, (n,) each; the means of the columns are what `hierarchy` gives."""
    classes = len(taxonomy.leaves)
    true = _checks.integers(true, "true", classes)
    predicted = _checks.integers(predicted, "predicted", classes, len(true))
    common = taxonomy.overlap[predicted, true]
    of_predicted, of_true = taxonomy.depth[predicted], taxonomy.depth[true]
    return {
        "tie": taxonomy.distance[predicted, true],
        "lca": of_predicted - common + 1,
        "jaccard": common / (of_predicted + of_true - common),
        "precision": common / of_predicted,
        "recall": common / of_true,
    }
