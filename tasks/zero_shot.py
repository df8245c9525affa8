"""Zero-shot classification: each image goes to the class whose prompts are nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.metrics import bootstrap
from hierbench.metrics.classification import accuracy_statistic, nearest
from hierbench.tasks._shared import class_points, column, prompts, repeated_names, same_answer


@dataclass(frozen=True)
class ZeroShot:
    """Accuracy of the nearest class; a class is the geometry's mean of its name in every template."""

    name: str
    dataset: str
    title: str
    fit: Fit = Fit.CROP
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset."""
        return [cls(*manifest.names_of("zero-shot", "zero-shot"), manifest.fit)]

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=1,
            dataset=self.dataset,
            metrics=(MetricSpec("mean_per_class", "Acc"), MetricSpec("top1", "Top-1")),
            headline="mean_per_class",
            fit=self.fit,
            protocol=self.protocol,
            source="MERU, HyCoCLIP, UNCHA evaluators",
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        return None

    def requests(self, dataset: Classification) -> EmbeddingRequests:
        return EmbeddingRequests.of(dataset.images.ids, prompts(dataset))

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        label, predicted = column(items, "images", "label"), column(items, "images", "predicted")
        classes = int(max(label.max(), predicted.max())) + 1  # any others would count nowhere
        statistic = accuracy_statistic(predicted, label, classes, self.protocol)
        same = same_answer(predicted, label, (metric.name for metric in self.spec.metrics))
        return bootstrap.Statistics(statistic, tuple(column(items, "images", "image_id")), degenerate=same)

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: Classification) -> Scores:
        predicted = classify(geometry, embeddings, dataset)
        images = {
            "image_id": list(dataset.images.ids),
            "label": dataset.labels,
            "predicted": predicted,
            "correct": predicted == dataset.labels,
        }
        items: dict[str, dict[str, Any]] = {"images": images}
        found = self.statistics(items)
        return Scores(found.estimates(), len(dataset.labels), items, notes(dataset), found.degenerate)


def classify(geometry: Geometry, embeddings: Embeddings, dataset: Classification) -> np.ndarray:
    """Predicted label (n,) of each image of the dataset."""
    images = geometry.lift(embeddings.images(dataset.images.ids))
    return nearest(geometry, images, class_points(geometry, embeddings, dataset))


def notes(dataset: Classification) -> tuple[str, ...]:
    """What a reader of the figures should know about the images."""
    images = np.bincount(dataset.labels, minlength=dataset.num_classes)  # of each class
    occurring, known = np.count_nonzero(images), dataset.num_classes
    partial_set = f"images of {occurring} of {known} classes; the names of all {known} compete"
    return (() if occurring == known else (partial_set,)) + repeated_names(dataset, images)


PROTOCOLS = {"zero-shot": ZeroShot.of}
