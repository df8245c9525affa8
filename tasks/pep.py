"""PEP, the probabilistic entailment protocol of ARGENT (§5): do entailment scores tell true pairs from false?

The paper leaves its list of pairs to a supplement that is not public. The lists below are this project's
reading. They alone say which pairs count; PAIRS_VERSION rises when they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from hierbench.contracts import (
    EmbeddingRequests,
    Embeddings,
    Fit,
    Geometry,
    MetricSpec,
    Scores,
    TaskSpec,
)
from hierbench.data.datasets import CaptionChains
from hierbench.data.manifests import Manifest
from hierbench.errors import DataError
from hierbench.metrics import bootstrap
from hierbench.metrics.entailment import auc_ap_statistic, ties
from hierbench.tasks._shared import column, image_features, positions, text_features

PAIRS_VERSION = 1

IMAGE = 4  # the place of the image in its sample's chain, after caption levels 0 to 3
ROOT = ""  # the empty caption: where geometries without cones look from
Relation = tuple[int, int]  # places of the general and the specific item in a chain


@dataclass(frozen=True)
class PairList:
    """Which pairs (general, specific) count.

    Positives: in every sample, place i → place j of its chain for each relation (i, j). Negatives: a pool of
    captions and a table (pool, images), true where the caption → the image counts.
    """

    positives: tuple[Relation, ...]
    negatives: Callable[[CaptionChains], tuple[tuple[str, ...], np.ndarray]]


def pool_captions(dataset: CaptionChains) -> tuple[tuple[str, ...], np.ndarray]:
    """Every caption of the dataset's pool with every image, unless it is one of that image's own.

    Raises DataError for a dataset without a pool.
    """
    if not dataset.pool:
        raise DataError(
            f"{dataset.name} has no negative captions: put pool.csv (one column, caption) beside its split.csv"
        )
    return dataset.pool, ~_own(dataset, dataset.pool)


def finest_of_others(dataset: CaptionChains, others: int = 100) -> tuple[tuple[str, ...], np.ndarray]:
    """For every image the finest captions of the first `others` samples, in file order, of other images."""
    first = others + int(np.bincount(dataset.owner).max())  # among them every image finds its `others`
    pool = tuple(chain[-1] for chain in dataset.captions[:first])
    other = dataset.owner[:first, None] != np.arange(len(dataset.images.ids))
    return pool, other & (np.cumsum(other, axis=0) <= others) & ~_own(dataset, pool)


CLEANED = PairList(
    positives=(
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 2),
        (1, 3),
        (2, 3),
        (0, IMAGE),
        (1, IMAGE),
        (2, IMAGE),
        (3, IMAGE),
    ),
    negatives=pool_captions,
)
UNCLEANED = PairList(
    positives=((0, IMAGE), (1, IMAGE), (2, IMAGE), (3, IMAGE)),
    negatives=finest_of_others,
)


@dataclass(frozen=True)
class Pep:
    """AUC-ROC and AP of p(general, specific) = max(1 − 2φ/π, 0), φ the exterior angle at the general item.

    Beside the headline: the same for each group of positives against the same negatives; `direction_auc`,
    positives against themselves reversed; ties. `radial` tasks serve geometries without cones, seen from the
    empty caption; the other tasks leave those blank. Intervals resample samples (those of one image together)
    with the pool fixed.
    """

    name: str
    dataset: str
    title: str
    pairs: PairList
    radial: bool = False
    fit: Fit = Fit.CROP
    protocol: str = "released"

    @classmethod
    def of(cls, kind: str, title: str, pairs: PairList, manifest: Manifest) -> list[Pep]:
        """The tasks of a dataset: for models with cones and, as `KIND-radial`, for models without."""

        def made(kind: str, title: str, radial: bool) -> Pep:
            name, title = manifest.task_called(kind), manifest.task_titled(title)
            return cls(name, manifest.name, title, pairs, radial, manifest.fit)

        return [made(kind, title, False), made(f"{kind}-radial", f"{title}, radial", True)]

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=PAIRS_VERSION,
            dataset=self.dataset,
            metrics=(
                MetricSpec("auc", "AUC", unit="fraction"),
                MetricSpec("ap", "AP", unit="fraction"),
                *(
                    MetricSpec(f"{metric}_{group}", f"{metric.upper()} {group}", unit="fraction")
                    for group in groups(self.pairs.positives)
                    for metric in ("auc", "ap")
                ),
                MetricSpec("direction_auc", "Direction AUC", unit="fraction"),
                MetricSpec("zero_fraction", "Zero scores", higher_is_better=False, unit="fraction"),
                MetricSpec("distinct", "Distinct scores", unit="raw"),
            ),
            headline="auc",
            fit=self.fit,
            protocol=self.protocol,
            source="ARGENT §5; pair list: our reading",
        )

    def inapplicable(self, geometry: Geometry) -> str | None:
        if self.radial and geometry.has_cones:
            return f"the model has entailment cones: see {self.name.replace('-radial', '')}"
        if not self.radial and not geometry.has_cones:
            base, slash, world = self.name.partition("/")
            return f"the model has no entailment cones: see {base}-radial{slash}{world}"
        return None

    def requests(self, dataset: CaptionChains) -> EmbeddingRequests:
        pool, _ = self.pairs.negatives(dataset)
        captions = [caption for chain in dataset.captions for caption in chain]
        return EmbeddingRequests.of(dataset.images.ids, [*([ROOT] if self.radial else []), *captions, *pool])

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        ids = column(items, "images", "image_id")
        samples = column(items, "samples", "sample_id")
        image_of = dict(zip(samples, column(items, "samples", "image_id"), strict=True))

        def unit(table: str, rows: np.ndarray) -> np.ndarray:  # a sample is resampled with its image
            return positions(
                [image_of.get(sample) for sample in column(items, table, "sample_id")[rows]], ids
            )

        score, label = column(items, "pairs", "score"), column(items, "pairs", "label")
        relation, reverse = column(items, "pairs", "relation"), column(items, "reversed", "score")
        positive, negative = label == 1, label == 0
        negatives = score[negative], positions(column(items, "pairs", "specific")[negative], ids)
        units = unit("pairs", positive)
        statistics = [
            auc_ap_statistic(score[positive][rows], units[rows], *negatives, len(ids), group)
            for group, names in {"": set(relation[positive]), **groups(self.pairs.positives)}.items()
            for rows in [np.isin(relation[positive], list(names))]
            if rows.any()
        ]
        against = reverse, unit("reversed", np.ones(len(reverse), bool))
        direction = auc_ap_statistic(score[positive], units, *against, len(ids))
        statistics.append(lambda counts: {"direction_auc": direction(counts)["auc"]})
        return bootstrap.Statistics(bootstrap.together(*statistics), tuple(ids), ties(score))

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: CaptionChains) -> Scores:
        pairs = self.pair_scores(geometry, embeddings, dataset)
        items = _items(dataset, self.pairs, pairs)
        note = f"{pairs.forward.size:,} positive and {pairs.negative.size:,} negative pairs"
        metrics = self.statistics(items).estimates()
        same = metrics["distinct"].value < 2
        degenerate = dict.fromkeys(metrics, "all pairs have the same score") if same else {}
        return Scores(metrics, len(dataset.sample_ids), items, (note,), degenerate)

    def pair_scores(self, geometry: Geometry, embeddings: Embeddings, dataset: CaptionChains) -> PairScores:
        """Entailment scores of all pairs."""
        pool, counted = self.pairs.negatives(dataset)
        if not counted.any():
            raise DataError(f"{dataset.name} leaves no negative pair for {self.name}: evaluate more samples")
        root = geometry.lift(text_features(embeddings, [ROOT])[0]) if self.radial else None
        entails = partial(geometry.entailment, root=root)
        images = geometry.lift(image_features(embeddings, dataset.images.ids))
        levels = [text_features(embeddings, level) for level in zip(*dataset.captions, strict=True)]
        chain = [*map(geometry.lift, levels), images[dataset.owner]]  # five places of (samples, D)
        general = torch.cat([chain[i] for i, _ in self.pairs.positives])
        specific = torch.cat([chain[j] for _, j in self.pairs.positives])

        def paired(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:  # in parts that stay in the cache
            parts = zip(a.split(1024), b.split(1024), strict=True)
            scores = torch.cat([entails(one, other, paired=True) for one, other in parts])
            return scores.numpy().reshape(len(self.pairs.positives), -1)

        caption, image = np.nonzero(counted)
        return PairScores(
            forward=paired(general, specific),
            backward=paired(specific, general),
            caption=[pool[row] for row in caption],
            image=image,
            negative=entails(geometry.lift(text_features(embeddings, pool)), images).numpy()[counted],
        )


@dataclass(frozen=True)
class PairScores:
    """Entailment scores of S samples under R relations, and of Q negative pairs."""

    forward: np.ndarray  # (R, S) general → specific
    backward: np.ndarray  # (R, S) the same pairs reversed
    caption: list[str]  # the Q general items
    image: np.ndarray  # (Q,) positions of the specific ones
    negative: np.ndarray  # (Q,)


def groups(relations: tuple[Relation, ...]) -> dict[str, list[str]]:
    """Names of relations by the group that has a figure: between captions, with an image, each relation alone."""
    between = [relation_name(relation) for relation in relations if relation[1] != IMAGE]
    with_image = [relation_name(relation) for relation in relations if relation[1] == IMAGE]
    united = {"text_text": between, "text_image": with_image} if between and with_image else {}
    return {**united, **{name: [name] for name in map(relation_name, relations)}}


def relation_name(relation: Relation) -> str:
    """(0, 2) -> "l1_l3", (3, IMAGE) -> "l4_image"."""
    return "_".join("image" if place == IMAGE else f"l{place + 1}" for place in relation)


def _own(dataset: CaptionChains, pool: tuple[str, ...]) -> np.ndarray:
    """(len(pool), images): whether the caption is one of the image's own, compared as strings."""
    images_of: dict[str, list[int]] = {}
    for chain, image in zip(dataset.captions, dataset.owner.tolist(), strict=True):
        for caption in chain:
            images_of.setdefault(caption, []).append(image)
    own = np.zeros((len(pool), len(dataset.images.ids)), bool)
    for row, caption in enumerate(pool):
        own[row, images_of.get(caption, [])] = True
    return own


def _items(dataset: CaptionChains, listed: PairList, pairs: PairScores) -> dict[str, dict]:
    """Tables of the headline's pairs and of the positives reversed; a negative pair belongs to no one sample."""
    positive = _chain_table(dataset, listed.positives, pairs.forward)
    negatives = len(pairs.negative)
    return {
        "pairs": {
            "sample_id": [*positive["sample_id"], *[""] * negatives],
            "general": [*positive["general"], *pairs.caption],
            "specific": [*positive["specific"], *(dataset.images.ids[position] for position in pairs.image)],
            "relation": [*positive["relation"], *["negative"] * negatives],
            "label": np.repeat([1, 0], [len(positive["score"]), negatives]),
            "score": np.concatenate([positive["score"], pairs.negative]),
        },
        "reversed": _chain_table(dataset, tuple((j, i) for i, j in listed.positives), pairs.backward),
        "samples": {
            "sample_id": list(dataset.sample_ids),
            "image_id": [dataset.images.ids[position] for position in dataset.owner],
        },
        "images": {"image_id": list(dataset.images.ids)},
    }


def _chain_table(dataset: CaptionChains, relations: tuple[Relation, ...], scores: np.ndarray) -> dict:
    ids = dataset.images.ids
    chains = [(*chain, ids[image]) for chain, image in zip(dataset.captions, dataset.owner, strict=True)]
    return {
        "sample_id": list(dataset.sample_ids) * len(relations),
        "general": [chain[general] for general, _ in relations for chain in chains],
        "specific": [chain[specific] for _, specific in relations for chain in chains],
        "relation": [relation_name(relation) for relation in relations for _ in chains],
        "score": scores.ravel(),
    }


PROTOCOLS = {
    "pep-v1": partial(Pep.of, "pep-v1", "PEP", CLEANED),
    "pep-uncleaned": partial(Pep.of, "pep-uncleaned", "PEP uncleaned", UNCLEANED),
}
