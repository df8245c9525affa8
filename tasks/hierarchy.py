"""How far off zero-shot predictions are in a tree of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.metrics import bootstrap
from hierbench.metrics.hierarchy import (
    hierarchy_items,
    normalised_items,
    normalised_statistic,
    zero_based_items,
)
from hierbench.tasks._shared import column, prompts, same_answer
from hierbench.tasks._trees import in_tree, part_note, tree_of
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
NORMALISED = (
    MetricSpec("tie_by_depth", "TIE by depth", higher_is_better=False, unit="raw"),
    MetricSpec("lca_by_depth", "LCA by depth", higher_is_better=False, unit="raw"),
    MetricSpec("tie_by_chance", "TIE by chance", higher_is_better=False, unit="raw"),
    MetricSpec("lca_by_chance", "LCA by chance", higher_is_better=False, unit="raw"),
)


@dataclass(frozen=True)
class Hierarchy:
    """Tree metrics of the same predictions as `zero-shot/…` makes, from the same embeddings.

    LCA and Jaccard as published compare the *proper ancestors* of the predicted and the true class: LCA is 1 and
    Jaccard 100 % for a hit and for any mistake among siblings alike, and the LCA of a poodle taken for a cat is not
    that of a cat taken for a poodle. `lca_symmetric` and `jaccard_distance` count a class as part of its own path:
    they are 0 for a hit alone, and the same in both directions.

    Figures on different trees compare where they are normalised: `tie` and `lca_symmetric` divided by the depth of the
    true class, or (as a ratio of means) by what a random guess among the classes would get.
    """

    name: str
    dataset: str
    title: str
    fit: Fit = Fit.CROP
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset."""
        return [cls(*manifest.names_of("hierarchy", "hierarchy"), manifest.fit)]

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=3,
            dataset=self.dataset,
            metrics=(*METRICS, *NORMALISED),
            headline="tie",
            fit=self.fit,
            protocol=self.protocol,
            source="HyCoCLIP evaluator",
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        return None

    def requests(self, dataset: Classification) -> EmbeddingRequests:
        part = in_tree(dataset)
        return EmbeddingRequests.of(part.images.ids, prompts(part))

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        outcomes = {metric.name: column(items, "images", metric.name) for metric in METRICS}
        parts = {name: column(items, "images", name) for name in ("true_depth", "tie_chance", "lca_chance")}
        statistic = bootstrap.together(bootstrap.means(outcomes), normalised_statistic(outcomes | parts))
        answers = column(items, "images", "predicted"), column(items, "images", "label")
        same = same_answer(*answers, (metric.name for metric in self.spec.metrics))
        return bootstrap.Statistics(statistic, tuple(column(items, "images", "image_id")), degenerate=same)

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: Classification) -> Scores:
        part = in_tree(dataset)
        items = self.outcomes(geometry, embeddings, dataset)
        found = self.statistics(items)
        told = (*part_note(dataset, part), *notes(part))
        return Scores(found.estimates(), len(part.labels), items, told, found.degenerate)

    def outcomes(
        self, geometry: Geometry, embeddings: Embeddings, dataset: Classification
    ) -> dict[str, dict[str, Any]]:
        """Each image's prediction and how far off it is, as `statistics` takes them."""
        part = in_tree(dataset)
        tree = tree_of(part)
        predicted = classify(geometry, embeddings, part)
        return {
            "images": {
                "image_id": list(part.images.ids),
                "label": part.labels,
                "predicted": predicted,
                **hierarchy_items(predicted, part.labels, tree),
                **zero_based_items(predicted, part.labels, tree),
                **normalised_items(part.labels, tree),
            }
        }


PROTOCOLS = {"hierarchy": Hierarchy.of}
