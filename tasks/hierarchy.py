"""How far off zero-shot predictions are in the WordNet tree of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hierbench import taxonomy
from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.errors import DataError
from hierbench.metrics import bootstrap
from hierbench.metrics.hierarchy import hierarchy_items, zero_based_items
from hierbench.tasks._shared import column, prompts, same_answer
from hierbench.tasks.zero_shot import classify, notes

METRICS = (
    MetricSpec("tie", "TIE", higher_is_better=False, unit="raw"),
    MetricSpec("lca", "LCA", higher_is_better=False, unit="raw"),
    MetricSpec("jaccard", "Jaccard", unit="fraction"),
    MetricSpec("precision", "H-precision", unit="fraction"),
    MetricSpec("recall", "H-recall", unit="fraction"),
    MetricSpec("lca_symmetric", "LCA, symmetric", higher_is_better=False, unit="raw"),
    MetricSpec("jaccard_distance", "Jaccard distance", higher_is_better=False, unit="fraction"),
)


@dataclass(frozen=True)
class Hierarchy:
    """Tree metrics of the same predictions as `zero-shot/…` makes, from the same embeddings.

    LCA and Jaccard as published compare the *proper ancestors* of the predicted and the true class: LCA is 1 and
    Jaccard 100 % for a hit and for any mistake among siblings alike, and the LCA of a poodle taken for a cat is not
    that of a cat taken for a poodle. `lca_symmetric` and `jaccard_distance` count a class as part of its own path:
    they are 0 for a hit alone, and the same in both directions.
    """

    name: str
    dataset: str
    title: str
    fit: Fit = Fit.CROP
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset."""
        return [
            cls(
                manifest.task_called("hierarchy"),
                manifest.name,
                manifest.task_titled("hierarchy"),
                manifest.fit,
            )
        ]

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=2,
            dataset=self.dataset,
            metrics=METRICS,
            headline="tie",
            fit=self.fit,
            protocol=self.protocol,
            source="HyCoCLIP evaluator",
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        return None

    def requests(self, dataset: Classification) -> EmbeddingRequests:
        return EmbeddingRequests.of(dataset.images.ids, prompts(dataset))

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        outcomes = {metric.name: column(items, "images", metric.name) for metric in METRICS}
        return bootstrap.Statistics(bootstrap.means(outcomes), tuple(column(items, "images", "image_id")))

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: Classification) -> Scores:
        items = self.outcomes(geometry, embeddings, dataset)
        metrics = self.statistics(items).estimates()
        return Scores(metrics, len(dataset.labels), items, notes(dataset), self.degenerate(items))

    def outcomes(
        self, geometry: Geometry, embeddings: Embeddings, dataset: Classification
    ) -> dict[str, dict[str, Any]]:
        """Each image's prediction and how far off it is, as `statistics` takes them. DataError without a tree."""
        if dataset.taxonomy is None:
            raise DataError(f"dataset {dataset.name} names no taxonomy: add `taxonomy:` to its manifest")
        tree = taxonomy.load(dataset.taxonomy, dataset.class_ids)
        predicted = classify(geometry, embeddings, dataset)
        return {
            "images": {
                "image_id": list(dataset.images.ids),
                "label": dataset.labels,
                "predicted": predicted,
                **hierarchy_items(predicted, dataset.labels, tree),
                **zero_based_items(predicted, dataset.labels, tree),
            }
        }

    def degenerate(self, items: Mapping[str, Any]) -> dict[str, str]:
        """What `Scores.degenerate` says of outcomes."""
        predicted, labels = column(items, "images", "predicted"), column(items, "images", "label")
        return same_answer(predicted, labels, [metric.name for metric in METRICS])


PROTOCOLS = {"hierarchy": Hierarchy.of}
