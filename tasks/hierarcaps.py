"""HierarCaps retrieval as published: a chain of captions found by widening the radius."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data.datasets import CaptionChains
from hierbench.data.manifests import Manifest
from hierbench.metrics import bootstrap
from hierbench.metrics.radial import radial_retrieval
from hierbench.tasks._shared import column, positions

TIED = 0.1  # share of tied pairs of radii from which Kendall's tau is an artefact of how ties count
ROOT = ""  # the empty caption: the root of geometries without an origin


@dataclass(frozen=True)
class HierarCaps:
    """Precision and recall of the retrieved chain, Kendall's tau of the radii of its four levels.

    Radii that tie count as rightly ordered under `released`, so a model that puts all captions at one point gets a
    perfect tau; under `corrected` they count 0. `tied` is their share of all pairs; where it is high, `d_corr` is
    marked as degenerate.
    """

    name: str
    dataset: str
    title: str
    fit: Fit = Fit.CROP
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset."""
        return [cls(*manifest.names_of("hierarcaps", "HierarCaps retrieval"), manifest.fit)]

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=2,
            dataset=self.dataset,
            metrics=(
                MetricSpec("precision", "Prec", unit="fraction"),
                MetricSpec("recall", "Rec", unit="fraction"),
                MetricSpec("tied", "Tied radii", higher_is_better=None, unit="fraction"),
                MetricSpec("d_corr", "d_corr", unit="fraction", minimum=-1.0),
            ),
            headline="d_corr",
            fit=self.fit,
            protocol=self.protocol,
            source="HierarCaps (Alper and Averbuch-Elor, 2024) evaluator",
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        return None

    def requests(self, dataset: CaptionChains) -> EmbeddingRequests:
        return EmbeddingRequests.of(
            dataset.images.ids, [ROOT, *(text for chain in dataset.captions for text in chain)]
        )

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        ids = column(items, "images", "image_id")
        owner = positions(column(items, "samples", "image_id"), ids)
        statistic = bootstrap.together(
            bootstrap.means({name: column(items, "images", name) for name in ("precision", "recall")}),
            bootstrap.means({"d_corr": column(items, "samples", "tau")}, owner),
            bootstrap.means({"tied": column(items, "samples", "ties")}, owner),
        )
        tied = float(column(items, "samples", "ties").mean())
        return bootstrap.Statistics(statistic, tuple(ids), degenerate=self._degenerate(tied))

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: CaptionChains) -> Scores:
        ids = dataset.images.ids
        texts = [text for chain in dataset.captions for text in chain]
        outcome = radial_retrieval(
            geometry,
            embeddings.images(ids),
            embeddings.texts(texts),
            dataset.owner,
            texts,
            embeddings.texts([ROOT])[0],
            protocol=self.protocol,
        )
        items: dict[str, dict[str, Any]] = {
            "images": {"image_id": list(ids), "precision": outcome.precision, "recall": outcome.recall},
            "samples": {
                "sample_id": list(dataset.sample_ids),
                "image_id": [ids[position] for position in dataset.owner],
                "tau": outcome.tau,
                "ties": outcome.ties,
                **{f"radius_l{level}": outcome.radius[:, level - 1] for level in (1, 2, 3, 4)},
            },
        }
        found = self.statistics(items)
        return Scores(found.estimates(), len(ids), items, degenerate=found.degenerate)

    def _degenerate(self, tied: float) -> dict[str, str]:
        if tied <= TIED:
            return {}
        how = "count as rightly ordered" if self.protocol == "released" else "order nothing"
        return {"d_corr": f"d_corr says little: {100 * tied:.1f} % of the pairs of radii tie, which {how}"}


PROTOCOLS = {"hierarcaps": HierarCaps.of}
