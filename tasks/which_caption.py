"""Which caption fits: a true caption against ones that differ in a word, an order, a relation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data.datasets import CaptionChoices
from hierbench.data.manifests import Manifest
from hierbench.metrics import bootstrap
from hierbench.metrics.choices import choice_items, choice_statistic
from hierbench.tasks._captions import similarities
from hierbench.tasks._shared import column, positions

OUTCOMES = ("text", "image", "group", "tied")


@dataclass(frozen=True)
class WhichCaption:
    """The share of questions where the true caption scores above the false ones; ties are wrong, `tied` counts them.

    `text_KIND`: of one kind of change; `macro`: the mean over kinds. Where a question has two images, each with a
    caption of its own (Winoground): `text`: both images choose their caption, `image`: both captions their image,
    `group`: both.
    """

    name: str
    dataset: str
    title: str
    kinds: tuple[str, ...]  # those with a figure of their own
    pairs: bool  # whether questions have two images
    source: str
    fit: Fit = Fit.CROP
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset."""
        return [
            cls(
                *manifest.names_of("which-caption", "which caption"),
                manifest.kinds,
                manifest.reader == "winoground",
                manifest.citation,
                manifest.fit,
            )
        ]

    @property
    def spec(self) -> TaskSpec:
        titles = {"text": "Text" if self.pairs else "Acc", "image": "Image", "group": "Group"}
        plain = ("text", "image", "group") if self.pairs else ("text",)
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=1,
            dataset=self.dataset,
            metrics=(
                *(MetricSpec(name, titles[name]) for name in plain),
                MetricSpec("macro", "Mean of kinds"),
                *(MetricSpec(f"text_{kind}", kind.replace("_", " ")) for kind in self.kinds),
                MetricSpec("tied", "Tied", higher_is_better=False, unit="fraction"),
            ),
            headline="group" if self.pairs else "text",
            fit=self.fit,
            protocol=self.protocol,
            source=self.source,
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        return None

    def requests(self, dataset: CaptionChoices) -> EmbeddingRequests:
        return EmbeddingRequests.of(
            dataset.images.ids, (text for texts in dataset.captions for text in texts)
        )

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        ids = column(items, "images", "image_id")
        statistic = choice_statistic(
            {name: column(items, "questions", name) for name in OUTCOMES},
            column(items, "questions", "kind"),
            self.kinds,
            positions(column(items, "questions", "image_id"), ids),
            len(ids),
        )
        wanted = {metric.name for metric in self.spec.metrics}
        all_tied = len(ids) and bool(np.all(column(items, "questions", "tied") == 1))
        why = "every question ties, and a tie counts as wrong"
        return bootstrap.Statistics(
            lambda counts: {name: values for name, values in statistic(counts).items() if name in wanted},
            tuple(ids),
            scored=len(column(items, "questions", "kind")),
            degenerate=dict.fromkeys(sorted(wanted), why) if all_tied else {},
        )

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: CaptionChoices) -> Scores:
        asked = list(zip(dataset.shown, dataset.captions, strict=True))
        images = [image for shown, said in asked for image in shown for _ in said]
        texts = [text for shown, said in asked for _ in shown for text in said]
        near = similarities(geometry, embeddings, dataset, images, texts)
        shapes = [(len(shown), len(said)) for shown, said in asked]
        ends = np.cumsum([k * m for k, m in shapes])[:-1]
        scores = [part.reshape(shape) for part, shape in zip(np.split(near, ends), shapes, strict=True)]
        first = [dataset.images.ids[shown[0]] for shown in dataset.shown]
        items: dict[str, dict[str, Any]] = {
            "questions": {
                "question_id": list(dataset.sample_ids),
                "image_id": first,
                "kind": list(dataset.kinds),
                "own": np.array([score.diagonal().min() for score in scores]),
                **choice_items(scores),
            },
            "images": {"image_id": list(dict.fromkeys(first))},
        }
        found = self.statistics(items)
        same = sum(len(set(said)) < len(said) for said in dataset.captions)
        notes = (
            (
                f"the captions of {same:,} of {len(scores):,} questions are the same: they tie, and count as wrong",
            )
            if same
            else ()
        )
        return Scores(found.estimates(), len(scores), items, notes, found.degenerate)


PROTOCOLS = {"which-caption": WhichCaption.of}
