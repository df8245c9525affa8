"""How a model's entailment scores tell true pairs from false ones, level by level: PEP's pairs, looked at closely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hierbench.contracts import Estimate, Geometry, Scores, Task
from hierbench.errors import UsageError
from hierbench.metrics.entailment import Curves, curves, tied_fraction

BINS = 50
POINTS = 400  # of a curve that is kept: all that an eye tells apart
ALL = "all"
CLOSE = 1e-4  # of scores to margins cut off at 0


@dataclass(frozen=True)
class Told:
    """Positives of one level, or of all, against all negatives. Fractions."""

    group: str  # "all", "level 1" (the most general), …
    positives: int
    auc: Estimate
    ap: Estimate
    zero: float  # share of its positives whose score is 0
    tied: float  # share of the comparisons of a positive with a negative that tie
    curves: Curves


@dataclass(frozen=True)
class Separation:
    """What one model's scores do; `values` are what is drawn: margins where the score is the margin cut off at 0."""

    task: str
    definition: str  # of the score
    drawn: str  # "margin": 1 − 2φ/π, of which the score is what lies above 0; or "score"
    negatives: int
    zero: float  # share of the negatives whose score is 0
    told: tuple[Told, ...]
    values: Mapping[str, np.ndarray]  # "negatives" and each level -> (n,)
    edges: np.ndarray  # (BINS + 1,), of the histogram of `values`
    degenerate: str  # why AUC and AP say little; empty where they do not

    @property
    def histogram(self) -> dict[str, np.ndarray]:
        """Group -> (BINS,) how many of its pairs lie between two edges."""
        return {name: np.histogram(values, self.edges)[0] for name, values in self.values.items()}


def applicable(tasks: Sequence[Task], geometry: Geometry, model: str) -> Task:
    """The first of a dataset's PEP tasks that says something of a geometry. Raises UsageError where none does."""
    for task in tasks:
        why = task.inapplicable(geometry)
        if not why:
            return task
    raise UsageError(f"{model}: {why}")


def separation(task: Task, scores: Scores) -> Separation:
    """From what a PEP task's scoring gave."""
    pairs = scores.items["pairs"]
    score, positive = np.asarray(pairs["score"], float), np.asarray(pairs["label"]) == 1
    relation = np.asarray(pairs["relation"], object)
    negative = score[~positive]
    clamped = np.maximum(pairs.get("margin", np.inf), 0)
    drawn = "margin" if np.allclose(score, clamped, atol=CLOSE) else "score"
    shown = np.asarray(pairs[drawn], float)
    values, told = {"negatives": shown[~positive]}, []
    for name in ("", *dict.fromkeys(relation[positive])):
        rows = positive & (relation == name) if name else positive
        group, suffix = (f"level {name.split('_')[0][1:]}", f"_{name}") if name else (ALL, "")
        if name:
            values[group] = shown[rows]
        mine = score[rows]
        labels = np.repeat([1, 0], [len(mine), len(negative)])
        told.append(
            Told(
                group, len(mine), scores.metrics[f"auc{suffix}"], scores.metrics[f"ap{suffix}"],
                float((mine == 0).mean()), tied_fraction(mine, negative),
                curves(np.concatenate([mine, negative]), labels),
            )
        )  # fmt: skip
    low, high = float(shown.min()), float(shown.max())
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return Separation(
        task.spec.name, scores.definition, drawn, len(negative), float((negative == 0).mean()), tuple(told),
        values, np.linspace(low, high, BINS + 1), scores.degenerate.get("auc", ""),
    )  # fmt: skip


def thinned(found: Curves, most: int = POINTS) -> Curves:
    """At most `most` of a curve's points, spread along it, its ends among them."""
    if len(found.recall) <= most:
        return found
    coordinates = np.stack([found.false_positive_rate, found.recall, found.precision])
    length = np.append(0, np.abs(np.diff(coordinates)).sum(0).cumsum())
    rows = np.searchsorted(length, np.linspace(0, length[-1], most))
    rows = np.unique(np.append(rows[:-1], len(length) - 1))
    return Curves(*(x[rows] for x in (found.threshold, *coordinates)))


def rows(model: str, found: Separation) -> list[dict[str, Any]]:
    """A row a group, in percent: AUC and AP with their 95 % intervals, shares of scores of 0 and of ties."""
    return [
        {
            "model": model, "task": found.task, "group": one.group, "positives": one.positives,
            "negatives": found.negatives,
            **{
                f"{name}{suffix}": None if value is None else 100 * value
                for name, figure in (("auc", one.auc), ("ap", one.ap))
                for suffix, value in (("", figure.value), ("_low", figure.low), ("_high", figure.high))
            },
            "zero_positives": 100 * one.zero, "zero_negatives": 100 * found.zero, "tied": 100 * one.tied,
            "degenerate": found.degenerate or None,
        }
        for one in found.told
    ]  # fmt: skip


def document(model: str, found: Separation) -> dict[str, Any]:
    """One model, for JSON: the rows, the curves (thinned, fractions) and the histogram of what is drawn (counts)."""

    def curve(one: Curves) -> dict[str, Any]:
        few = thinned(one)
        return {
            "threshold": [None, *few.threshold[1:].tolist()],  # the first calls nothing true
            "false_positive_rate": few.false_positive_rate.tolist(),
            "recall": few.recall.tolist(),
            "precision": few.precision.tolist(),
        }

    return {
        "model": model, "task": found.task, "definition": found.definition, "drawn": found.drawn,
        "degenerate": found.degenerate or None, "rows": rows(model, found),
        "curves": {one.group: curve(one.curves) for one in found.told},
        "histogram": {
            "edges": found.edges.tolist(), "counts": {n: c.tolist() for n, c in found.histogram.items()},
        },
    }  # fmt: skip
