"""Zero-shot classification: each image goes to the class whose prompts are nearest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data.datasets import Classification
from hierbench.metrics import bootstrap
from hierbench.metrics.classification import accuracy_statistic, nearest
from hierbench.tasks._shared import SQUARE, image_features, text_features


@dataclass(frozen=True)
class ZeroShot:
    """Accuracy of the nearest class; a class is the geometry's mean of its name in every template."""

    dataset: str
    title: str
    fit: Fit = Fit.CROP
    protocol: str = "released"

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            name=f"zero-shot/{self.dataset}",
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

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: Classification) -> Scores:
        predicted = classify(geometry, embeddings, dataset)
        statistic = accuracy_statistic(predicted, dataset.labels, dataset.num_classes, self.protocol)
        images = {
            "image_id": list(dataset.images.ids),
            "label": dataset.labels,
            "predicted": predicted,
            "correct": predicted == dataset.labels,
        }
        n = len(dataset.labels)
        return Scores(bootstrap.estimates(statistic, n), n, {"images": images}, notes(dataset))


def prompts(dataset: Classification) -> list[str]:
    """Every class name in every template, class by class."""
    return [template.replace("{}", name) for name in dataset.class_names for template in dataset.templates]


def classify(geometry: Geometry, embeddings: Embeddings, dataset: Classification) -> np.ndarray:
    """Predicted label (n,) of each image of the dataset."""
    texts = text_features(embeddings, prompts(dataset))
    classes = geometry.mean(texts.reshape(dataset.num_classes, len(dataset.templates), -1))
    images = geometry.lift(image_features(embeddings, dataset.images.ids))
    return nearest(geometry, images, classes)


def notes(dataset: Classification) -> tuple[str, ...]:
    """What a reader of the figures should know about the images."""
    occurring, known = len(np.unique(dataset.labels)), dataset.num_classes
    if occurring == known:
        return ()
    return (f"images of {occurring} of {known} classes; the names of all {known} compete",)


TASKS = {
    "zero-shot/imagenet": partial(ZeroShot, "imagenet", "ImageNet zero-shot"),
    "zero-shot/miniature-things": partial(
        ZeroShot, "miniature-things", "Miniature things zero-shot", fit=SQUARE
    ),
    "zero-shot/miniature-colours": partial(
        ZeroShot, "miniature-colours", "Miniature colours zero-shot", fit=SQUARE
    ),
    "zero-shot/miniature-backgrounds": partial(
        ZeroShot, "miniature-backgrounds", "Miniature backgrounds zero-shot", fit=SQUARE
    ),
}
