"""Zero-shot classification asked at every level of a tree of the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hierbench import taxonomy
from hierbench.contracts import EmbeddingRequests, Embeddings, Fit, Geometry, MetricSpec, Scores, TaskSpec
from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.metrics import bootstrap
from hierbench.metrics.levels import ask, level_items, level_statistic
from hierbench.tasks._shared import class_points, column, filled, same_answer
from hierbench.tasks._trees import in_tree, part_note, tree_of
from hierbench.tasks.zero_shot import notes

METRICS = (
    MetricSpec("leaf", "Leaf"),
    MetricSpec("hca", "HCA"),
    MetricSpec("por", "POR"),
    MetricSpec("strict_por", "Strict POR"),
    MetricSpec("tor", "TOR"),
    MetricSpec("consistency", "Consist."),
    MetricSpec("gain", "Gain", minimum=-100.0),
    MetricSpec("mta", "MTA"),
)
ITEMS = ("leaf", "hca", "por", "strict_por", "tor", "consistent", "mta")


@dataclass(frozen=True)
class Levels:
    """At every depth of the tree an image is classified among all names of that depth, by the dataset's prompts.

    The root is left out, and so is a depth with a single name. In an uneven tree a class that ends above a depth stands
    among its names. The path of a label are its inner nodes, each asked at its depth, then the class among all classes:
    the leaf predictions are those of `zero-shot/…` and `hierarchy/…`.

    `hca`: the whole path right; `por`: share of the path right; `strict_por`: its right beginning; `tor`: share of
    neighbouring pairs both right; `consistency`: each answer an ancestor of the next, whatever the label; `gain`:
    accuracy asked at a level less that of the leaf prediction's ancestor there; `mta`: mean accuracy over 25 seeded
    cuts of the tree.
    """

    name: str
    dataset: str
    title: str
    keys: tuple[str, ...]  # of the levels above the leaves
    fit: Fit = Fit.CROP
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset."""
        return [
            cls(*manifest.names_of("levels", "levels"), taxonomy.Levels(manifest.tree()).keys, manifest.fit)
        ]

    @property
    def spec(self) -> TaskSpec:
        at = [
            key.replace("_", " ").capitalize() if not key.isdigit() else f"depth {key}" for key in self.keys
        ]
        levels = list(zip(self.keys, at, strict=True))
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=1,
            dataset=self.dataset,
            metrics=(
                *(MetricSpec(f"accuracy_{key}", f"Acc {title}") for key, title in levels),
                *METRICS,
                *(MetricSpec(f"gain_{key}", f"Gain {title}", minimum=-100.0) for key, title in levels),
            ),
            headline="hca",
            fit=self.fit,
            protocol=self.protocol,
            source="Tan et al., CVPR 2026, asked among all names of a level; MTA: Wu et al., CVPR 2024",
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        return None

    def requests(self, dataset: Classification) -> EmbeddingRequests:
        part = in_tree(dataset)
        names = (*part.class_names, *_inner_names(part, taxonomy.Levels(tree_of(part))))
        return EmbeddingRequests.of(part.images.ids, filled(names, part.templates))

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        names = [*ITEMS, *(f"{side}_{key}" for key in self.keys for side in ("right", "leaf_right"))]
        outcomes = {name: column(items, "images", name) for name in names}
        ids = tuple(column(items, "images", "image_id"))
        answers = column(items, "images", "predicted"), column(items, "images", "label")
        same = same_answer(*answers, (metric.name for metric in self.spec.metrics))
        return bootstrap.Statistics(level_statistic(self.keys, outcomes), ids, degenerate=same)

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: Classification) -> Scores:
        part = in_tree(dataset)
        levels = taxonomy.Levels(tree_of(part))
        inner = _inner_names(part, levels)
        texts = embeddings.texts(filled(inner, part.templates))
        points = geometry.mean(texts.reshape(len(inner), len(part.templates), texts.shape[-1]))
        cuts = levels.cuts()
        leaf, answers = ask(
            geometry,
            geometry.lift(embeddings.images(part.images.ids)),
            class_points(geometry, embeddings, part),
            points,
            [np.unique(answer) for answer in (*levels.answers, *cuts)],
        )
        answers, cut = np.split(answers, [len(levels.depths)])
        images = {
            "image_id": list(part.images.ids),
            "label": part.labels,
            "predicted": leaf,
            **{f"predicted_{key}": answers[row] for row, key in enumerate(levels.keys)},
            **level_items(levels, part.labels, leaf, answers),
            "mta": (cut == cuts[:, part.labels]).mean(0),
        }
        items: dict[str, dict[str, Any]] = {"images": images}
        found = self.statistics(items)
        said = (*part_note(dataset, part), *notes(part), *_shared_names(part, levels, inner))
        return Scores(found.estimates(), len(leaf), items, said, found.degenerate)


def _inner_names(dataset: Classification, levels: taxonomy.Levels) -> tuple[str, ...]:
    """Names of the inner nodes in the order of `levels.nodes`: the manifest's, or the tree's own."""
    count = dataset.num_classes
    return tuple(
        dataset.node_names.get(node, name)
        for node, name in zip(levels.nodes[count:], levels.names[count:], strict=True)
    )


def _shared_names(
    dataset: Classification, levels: taxonomy.Levels, inner: tuple[str, ...]
) -> tuple[str, ...]:
    """A note on names that several nodes of one level share, whose scores tie; those of classes are noted elsewhere."""
    names = (*dataset.class_names, *inner)
    shared: dict[str, None] = {}
    for answer in levels.answers:
        nodes = np.unique(answer)
        times = Counter(names[node] for node in nodes)
        shared |= {
            name: None for node in nodes if node >= dataset.num_classes and times[name := names[node]] > 1
        }
    if not shared:
        return ()
    return (
        f"nodes of one level share names ({', '.join(shared)}): their scores tie, and an answer goes to the first",
    )


PROTOCOLS = {"levels": Levels.of}
