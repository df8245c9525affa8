"""Metrics: pure functions of features, scores and labels (numpy or torch), checked against independent
references.

Beneath each function is one that gives per-item outcomes or a *statistic* (see `bootstrap`), used by the
tasks.
"""

from hierbench.metrics.classification import accuracy
from hierbench.metrics.entailment import entailment
from hierbench.metrics.hierarchy import hierarchy
from hierbench.metrics.multilabel import multilabel
from hierbench.metrics.radial import hierarcaps
from hierbench.metrics.ranking import retrieval

__all__ = ["accuracy", "entailment", "hierarcaps", "hierarchy", "multilabel", "retrieval"]
