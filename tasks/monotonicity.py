"""Whether a fuller caption fits its image better: HiMo@K on chains of ever fuller captions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data.datasets import CaptionChains
from hierbench.data.manifests import Manifest
from hierbench.metrics import bootstrap
from hierbench.metrics.choices import monotonicity
from hierbench.tasks._captions import similarities
from hierbench.tasks._shared import column, positions


@dataclass(frozen=True)
class Monotonicity:
    """Correlation of a caption's place in its chain, from general to full, and its similarity to the image, K levels.

    `himo` as published (Pearson's, of the geometry's similarity); `himo_rank` (Spearman's) does not depend on the scale
    of the similarity and compares across geometries; `rising`: the share of chains where every step rises.
    """

    name: str
    dataset: str
    title: str
    fit: Fit = Fit.CROP
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset."""
        return [cls(*manifest.names_of("himo", "HiMo@4"), manifest.fit)]

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=1,
            dataset=self.dataset,
            metrics=(
                MetricSpec("himo", "HiMo@4", unit="fraction", minimum=-1.0),
                MetricSpec("himo_rank", "HiMo@4, ranks", unit="fraction", minimum=-1.0),
                MetricSpec("rising", "Rising", unit="fraction"),
            ),
            headline="himo",
            fit=self.fit,
            protocol=self.protocol,
            source="HiMo-CLIP (Wu et al., AAAI 2026)",
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        return None

    def requests(self, dataset: CaptionChains) -> EmbeddingRequests:
        return EmbeddingRequests.of(
            dataset.images.ids, (text for chain in dataset.captions for text in chain)
        )

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        ids = column(items, "images", "image_id")
        owner = positions(column(items, "samples", "image_id"), ids)
        outcomes = {name: column(items, "samples", name) for name in ("himo", "himo_rank", "rising")}
        levels = [name for name in items["samples"] if name.startswith("similarity_")]
        near = np.stack([column(items, "samples", name) for name in levels], 1)
        flat = "every caption is as similar as any other of its chain"
        degenerate = dict.fromkeys(outcomes, flat) if (near == near[:, :1]).all() else {}
        return bootstrap.Statistics(bootstrap.means(outcomes, owner), tuple(ids), degenerate=degenerate)

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: CaptionChains) -> Scores:
        levels = len(dataset.captions[0])
        texts = [text for chain in dataset.captions for text in chain]
        owners = np.repeat(dataset.owner, levels)
        near = similarities(geometry, embeddings, dataset, owners, texts).reshape(-1, levels)
        items: dict[str, dict[str, Any]] = {
            "samples": {
                "sample_id": list(dataset.sample_ids),
                "image_id": [dataset.images.ids[position] for position in dataset.owner],
                **{f"similarity_{level}": near[:, level - 1] for level in range(1, levels + 1)},
                **monotonicity(near),
            },
            "images": {"image_id": list(dataset.images.ids)},
        }
        found = self.statistics(items)
        return Scores(found.estimates(), len(near), items, degenerate=found.degenerate)


PROTOCOLS = {"himo": Monotonicity.of}
