"""Multi-label classification: which of the classes are in an image, by similarity alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data import datasets
from hierbench.data.manifests import Manifest
from hierbench.metrics import bootstrap
from hierbench.metrics.multilabel import average_precisions, map_statistic
from hierbench.tasks._shared import (
    class_points,
    column,
    one_point,
    prompts,
    repeated_names,
)


@dataclass(frozen=True)
class MultiLabel:
    """Mean average precision; an image's score for a class is its similarity to the class's point.

    A class's point is the geometry's mean of its name in every template.
    """

    name: str
    dataset: str
    title: str
    fit: Fit = Fit.SQUEEZE
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset."""
        return [cls(*manifest.names_of("multilabel", "multi-label"), manifest.fit)]

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=1,
            dataset=self.dataset,
            metrics=(MetricSpec("map", "mAP"),),
            headline="map",
            fit=self.fit,
            protocol=self.protocol,
            source="UNCHA, multi-label evaluation",
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        return None

    def requests(self, dataset: datasets.MultiLabel) -> EmbeddingRequests:
        return EmbeddingRequests.of(dataset.images.ids, prompts(dataset))

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        kept = [column(items, "images", name) for name in ("scores", "present", "ignored")]
        return bootstrap.Statistics(map_statistic(*kept), tuple(column(items, "images", "image_id")))

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: datasets.MultiLabel) -> Scores:
        images = geometry.lift(embeddings.images(dataset.images.ids))
        classes = class_points(geometry, embeddings, dataset)
        scores = geometry.similarity(images, classes).numpy()
        labels = (dataset.present, dataset.ignored)
        counted = dataset.present if dataset.ignored is None else dataset.present & ~dataset.ignored
        per_class = average_precisions(scores, *labels)
        items: dict[str, dict[str, Any]] = {
            "images": {
                "image_id": list(dataset.images.ids),
                "scores": scores,
                "present": dataset.present,
                "ignored": np.zeros_like(dataset.present) if dataset.ignored is None else dataset.ignored,
            },
            "classes": {
                "class_id": list(dataset.class_ids),
                "name": list(dataset.class_names),
                "images": counted.sum(0),
                "average_precision": per_class,
            },
        }
        n = len(dataset.images.ids)
        metrics = self.statistics(items).estimates()
        degenerate = one_point(classes, "every class", metrics) | one_point(images, "every image", metrics)
        return Scores(metrics, n, items, _notes(dataset, counted), degenerate)


def _notes(dataset: datasets.MultiLabel, counted: np.ndarray) -> tuple[str, ...]:
    """What a reader of the figures should know about the images. `counted` (n, C): positives that count."""
    with_images = int(counted.any(0).sum())
    absent = f"the mean is over the {with_images} of {dataset.num_classes} classes that have images"
    notes = () if with_images == dataset.num_classes else (absent,)
    return notes + repeated_names(dataset, counted.sum(0))


PROTOCOLS = {"multilabel": MultiLabel.of}
