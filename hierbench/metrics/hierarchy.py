"""How far wrong predictions are in a tree of classes (as in HyCoCLIP's evaluator)."""

from __future__ import annotations

import numpy as np

from hierbench.metrics import _checks, bootstrap


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


def normalised_items(true, taxonomy) -> dict[str, np.ndarray]:
    """What each image's errors are divided by, (n,) each: `true_depth`, the depth of its class, and `tie_chance` and
    `lca_chance`, the TIE and the symmetric LCA that a guess has on average, all classes being equally likely."""
    true = _checks.integers(true, "true", len(taxonomy.leaves))
    nodes = taxonomy.depth + 1  # on each class's path, the root and itself counted
    shared = (nodes[:, None] + nodes[None, :] - taxonomy.distance) // 2
    symmetric = np.maximum(nodes[:, None], nodes[None, :]) - shared
    return {
        "true_depth": taxonomy.depth[true],
        "tie_chance": taxonomy.distance.mean(0)[true],
        "lca_chance": symmetric.mean(0)[true],
    }


def normalised_statistic(items) -> bootstrap.Statistic:
    """`tie_by_depth` and `lca_by_depth`, means of each image's error over the depth of its class; `tie_by_chance` and
    `lca_by_chance`, the mean error over the mean error of a guess. 0 where all is right; 1 by chance = as a guess."""
    depth = np.asarray(items["true_depth"], np.float64)
    errors = {
        "tie": np.asarray(items["tie"], np.float64),
        "lca": np.asarray(items["lca_symmetric"], np.float64),
    }
    by_depth = bootstrap.means({f"{name}_by_depth": error / depth for name, error in errors.items()})
    means = bootstrap.means({**errors, **{f"{name}_chance": items[f"{name}_chance"] for name in errors}})

    def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
        mean = means(counts)
        with np.errstate(invalid="ignore", divide="ignore"):
            by_chance = {f"{name}_by_chance": mean[name] / mean[f"{name}_chance"] for name in errors}
        return {**by_depth(counts), **by_chance}

    return statistic


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
