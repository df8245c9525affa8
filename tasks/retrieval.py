"""Image-text retrieval in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data import datasets
from hierbench.data.manifests import Manifest
from hierbench.metrics import bootstrap
from hierbench.metrics.ranking import recall_statistic, retrieval_ranks
from hierbench.tasks._shared import column, one_point, positions

KS = (1, 5, 10)


@dataclass(frozen=True)
class Retrieval:
    """Recall@k: captions to find their image by, images to find one of their captions by."""

    name: str
    dataset: str
    title: str
    fit: Fit = Fit.SQUEEZE
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset."""
        return [cls(*manifest.names_of("retrieval", "retrieval"), manifest.fit)]

    @property
    def spec(self) -> TaskSpec:
        directions = (("t2i", "T→I"), ("i2t", "I→T"))
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=1,
            dataset=self.dataset,
            metrics=tuple(
                MetricSpec(f"{key}_r{k}", f"{title} R@{k}") for key, title in directions for k in KS
            ),
            headline="t2i_r5",
            fit=self.fit,
            protocol=self.protocol,
            source="MERU, HyCoCLIP, UNCHA evaluators",
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        return None

    def requests(self, dataset: datasets.Retrieval) -> EmbeddingRequests:
        return EmbeddingRequests.of(dataset.images.ids, dataset.captions)

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        ids = column(items, "images", "image_id")
        owner = positions(column(items, "captions", "image_id"), ids)
        ranks = column(items, "captions", "rank"), column(items, "images", "rank")
        return bootstrap.Statistics(recall_statistic(*ranks, owner, KS), tuple(ids))

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: datasets.Retrieval) -> Scores:
        items = self.outcomes(geometry, embeddings, dataset)
        metrics = self.statistics(items).estimates()
        ids = dataset.images.ids
        images, captions = embeddings.images(ids), embeddings.texts(dataset.captions)
        degenerate = one_point(captions, "every caption", metrics) | one_point(images, "every image", metrics)
        return Scores(metrics, len(ids), items, degenerate=degenerate)

    def outcomes(
        self, geometry: Geometry, embeddings: Embeddings, dataset: datasets.Retrieval
    ) -> dict[str, dict[str, Any]]:
        """The rank of each caption's image and of each image's best caption, as `statistics` takes them."""
        ids = dataset.images.ids
        images, captions = embeddings.images(ids), embeddings.texts(dataset.captions)
        caption_ranks, image_ranks, owner = retrieval_ranks(geometry, images, captions, dataset.owner)
        return {
            "captions": {
                "caption": list(dataset.captions),
                "image_id": [ids[position] for position in owner],
                "rank": caption_ranks,
            },
            "images": {
                "image_id": list(ids),
                "captions": np.bincount(owner, minlength=len(ids)),
                "rank": image_ranks,
            },
        }


PROTOCOLS = {"retrieval": Retrieval.of}
