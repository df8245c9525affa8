"""PEP, the probabilistic entailment protocol of ARGENT (§5): do entailment scores tell true pairs from false?

The paper leaves its list of pairs to a supplement that is not public, but its printed figures fix the ratio. Where a
share t of the positives scores above 0 and no negative does, AUC = (1 + t) / 2 and AP = t + (1 − t) π, π the share of
positives: four printed rows obey this at 4 positives to 100 negatives an image, and at no other whole number. Hence
the headline: a sample's four captions -> its image, against a pool of 100 captions -> each image. That the four are
these is our reading, fixed by the printed figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

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
from hierbench.errors import DataError, GeometryError
from hierbench.metrics import bootstrap
from hierbench.metrics.entailment import auc_ap_statistic, tied_fraction, ties
from hierbench.tasks._pairs import (
    BETWEEN,
    CLEANED,
    PAIRS_VERSION,
    UNCLEANED,
    WITH_IMAGE,
    PairList,
    Relation,
    own_captions,
    relation_name,
)
from hierbench.tasks._shared import column, positions

if TYPE_CHECKING:  # that a record stands is known without torch
    from torch import Tensor

ROOT = ""  # the empty caption: where geometries without cones look from
MOST_TIES = 0.9  # of the comparisons of a positive with a negative pair; beyond, AUC and AP say little
READING = "ARGENT §5; the pairs: our reading, fixed by the printed figures"


@dataclass(frozen=True)
class Pep:
    """AUC-ROC and AP of the geometry's entailment score of captions -> images.

    On cones that is max(1 − 2φ/π, 0), φ the exterior angle at the general item; a record names its geometry's
    definition. Beside the headline: each caption level alone; captions -> captions, against the same negatives and
    (`…_vs_text`) against the pool's captions -> the same captions; `direction_auc`, the positives against themselves
    reversed; `…_signed`, the margin 1 − 2φ/π without clamp, where the geometry has angles; `…_similarity`, the same
    pairs told apart by similarity alone, and `…_gain`, what entailment adds to it; ties.

    `radial` tasks serve geometries without cones, seen from the empty caption; the other tasks leave those blank.
    Intervals resample images with their samples, with the pool fixed.
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
            return cls(*manifest.names_of(kind, title), pairs, radial, manifest.fit)

        return [made(kind, title, False), made(f"{kind}-radial", f"{title}, radial", True)]

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            name=self.name,
            title=self.title,
            version=PAIRS_VERSION,
            dataset=self.dataset,
            metrics=tuple(_metrics(self.pairs)),
            headline="auc",
            fit=self.fit,
            protocol=self.protocol,
            source=READING,
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
        tables = _Contests(items)
        contests = list(tables.all(self.pairs))
        fixed = {
            **ties(tables.score),
            "tied_fraction": contests[0].tied,
        }  # the headline's contest is the first
        found = _with_gains([contest.statistic for contest in contests])
        degenerate = {
            name: why for contest in contests if (why := contest.degenerate()) for name in contest.names
        }
        return bootstrap.Statistics(found, tables.images, fixed, degenerate)

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: CaptionChains) -> Scores:
        items = self.outcomes(geometry, embeddings, dataset)
        found = self.statistics(items)
        label = np.asarray(items["pairs"]["label"])
        note = f"{int(label.sum()):,} positive and {int((1 - label).sum()):,} negative pairs"
        definition, n = geometry.entailment_definition, len(dataset.sample_ids)
        return Scores(found.estimates(), n, items, (note,), found.degenerate, definition)

    def outcomes(
        self, geometry: Geometry, embeddings: Embeddings, dataset: CaptionChains
    ) -> dict[str, dict[str, Any]]:
        """Every pair with its scores, as `statistics` takes them: the headline's, reversed, captions -> captions."""
        pool, counted = self.pairs.negatives(dataset)
        if not counted.any():
            raise DataError(f"{dataset.name} leaves no negative pair for {self.name}: evaluate more samples")
        root = geometry.lift(embeddings.texts([ROOT])[0]) if self.radial else None
        images = geometry.lift(embeddings.images(dataset.images.ids))
        levels = [embeddings.texts(level) for level in zip(*dataset.captions, strict=True)]
        chain = [*map(geometry.lift, levels), images[dataset.owner]]  # five places of (samples, D)
        others = geometry.lift(embeddings.texts(pool))

        entails = partial(geometry.entailment, root=root)
        kinds: dict[str, Any] = {"score": entails, "similarity": partial(_similarity, geometry)}
        if _has_angles(geometry, others[:1], images[:1], root):
            kinds["margin"] = partial(_margin, geometry, root)

        reverse = [(j, i) for i, j in WITH_IMAGE]
        forward, backward = _chain_table(dataset, WITH_IMAGE), _chain_table(dataset, reverse)
        caption, image = np.nonzero(counted)
        negatives = {
            "sample_id": [""] * len(image),  # a negative pair belongs to no one sample
            "general": [pool[row] for row in caption],
            "specific": [dataset.images.ids[position] for position in image.tolist()],
            "relation": ["negative"] * len(image),
        }
        for kind, function in kinds.items():
            forward[kind] = _paired(function, chain, WITH_IMAGE)
            negatives[kind] = function(others, images).numpy()[counted]
        backward["score"] = _paired(entails, chain, reverse)
        tables = {
            "pairs": _joined(forward, negatives),
            "reversed": backward,
            "samples": {
                "sample_id": list(dataset.sample_ids),
                "image_id": [dataset.images.ids[position] for position in dataset.owner],
            },
            "images": {"image_id": list(dataset.images.ids)},
        }
        if self.pairs.between:
            between = _chain_table(dataset, BETWEEN)
            between["score"] = _paired(entails, chain, BETWEEN)
            against = [_against(dataset, pool, level, entails(others, chain[level])) for level in (1, 2, 3)]
            tables["captions"] = _joined(between, *against)
        return tables


# ------------------------------------------------------------------------------------------------------ the figures


def _metrics(pairs: PairList) -> Iterator[MetricSpec]:
    def both(group: str, title: str) -> Iterator[MetricSpec]:
        suffix = f"_{group}" if group else ""
        for metric in ("auc", "ap"):
            yield MetricSpec(metric + suffix, f"{metric.upper()} {title}".rstrip(), unit="fraction")

    yield from both("", "")
    yield from both("signed", "signed")
    yield MetricSpec("direction_auc", "Direction AUC", unit="fraction")
    yield MetricSpec("zero_fraction", "Zero scores", higher_is_better=None, unit="fraction")
    yield from both("similarity", "similarity")
    for metric in ("auc", "ap"):
        yield MetricSpec(f"{metric}_gain", f"{metric.upper()} gain", unit="fraction", minimum=-1.0)
    for group in (*_groups(WITH_IMAGE), *(_groups(BETWEEN) if pairs.between else ())):
        yield from both(group, group)
    for group in _groups(BETWEEN) if pairs.between else ():
        yield from both(f"{group}_vs_text", f"{group} vs text")
    yield MetricSpec("distinct", "Distinct scores", higher_is_better=None, unit="raw")
    yield MetricSpec("tied_fraction", "Ties", higher_is_better=None, unit="fraction")


def _groups(relations: Sequence[Relation]) -> dict[str, list[str]]:
    """Names of relations by the group that has a figure: each alone, and captions -> captions together."""
    names = [relation_name(relation) for relation in relations]
    united = {"text_text": names} if relations == BETWEEN else {}
    return {**united, **{name: [name] for name in names}}


@dataclass(frozen=True)
class _Contest:
    """Positive scores (p,) against negative ones (q,), each with its unit: `auc_GROUP` and `ap_GROUP`."""

    group: str
    positive: np.ndarray
    positive_unit: np.ndarray
    negative: np.ndarray
    negative_unit: np.ndarray
    units: int

    @property
    def statistic(self) -> bootstrap.Statistic:
        found = auc_ap_statistic(
            self.positive, self.positive_unit, self.negative, self.negative_unit, self.units, self.group
        )
        if self.group != "direction":
            return found
        return lambda counts: {"direction_auc": found(counts)["auc_direction"]}

    @property
    def names(self) -> tuple[str, ...]:
        """The figures that ties of these scores concern."""
        if self.group == "direction":
            return ("direction_auc",)
        if not self.group:
            return ("auc", "ap", "auc_gain", "ap_gain")
        return (f"auc_{self.group}", f"ap_{self.group}")

    @cached_property
    def tied(self) -> float:
        """Share of the comparisons of a positive with a negative that tie."""
        return tied_fraction(self.positive, self.negative)

    def degenerate(self) -> str:
        """Why these figures say little; empty where they do not."""
        if len(self.positive) + len(self.negative) > 1 and self.tied == 1:
            return "all pairs have the same score"
        if self.tied > MOST_TIES:
            return f"{100 * self.tied:.1f} % of the comparisons of a positive with a negative pair tie"
        return ""


class _Contests:
    """What is held against what, from the tables that a task keeps."""

    def __init__(self, items: Mapping[str, Any]):
        self.items = items
        self.images = tuple(column(items, "images", "image_id"))
        samples = column(items, "samples", "sample_id")
        self.image_of = dict(zip(samples, column(items, "samples", "image_id"), strict=True))
        self.score = column(items, "pairs", "score")
        self.positive = column(items, "pairs", "label") == 1
        self.unit = self._units("pairs", self.positive)  # a sample is resampled with its image
        specific = column(items, "pairs", "specific")[~self.positive]
        self.negative_unit = positions(specific, self.images)

    def headline(self, kind: str = "score", group: str = "") -> _Contest:
        """The four captions -> image against the pool -> image, by one of the kinds of score."""
        values = column(self.items, "pairs", kind)
        return self._contest(
            group, values[self.positive], self.unit, values[~self.positive], self.negative_unit
        )

    def all(self, pairs: PairList) -> Iterator[_Contest]:
        """Every contest that has a figure."""
        yield self.headline()
        yield self.headline("similarity", "similarity")
        if "margin" in self.items["pairs"]:
            yield self.headline("margin", "signed")
        positive, negative = self.score[self.positive], self.score[~self.positive]
        back = column(self.items, "reversed", "score")
        everything = np.ones(len(back), bool)
        yield self._contest("direction", positive, self.unit, back, self._units("reversed", everything))
        relation = column(self.items, "pairs", "relation")[self.positive]
        for group, names in _groups(WITH_IMAGE).items():
            rows = np.isin(relation, names)
            if rows.any():
                yield self._contest(group, positive[rows], self.unit[rows], negative, self.negative_unit)
        if pairs.between:
            yield from self._between(negative)

    def _between(self, negative: np.ndarray) -> Iterator[_Contest]:
        score, relation = column(self.items, "captions", "score"), column(self.items, "captions", "relation")
        unit = self._units("captions", np.ones(len(score), bool))
        for group, names in _groups(BETWEEN).items():
            rows = np.isin(relation, names)
            against = np.isin(relation, [f"negative_{name.rpartition('_')[2]}" for name in names])
            if rows.any():
                yield self._contest(group, score[rows], unit[rows], negative, self.negative_unit)
            if rows.any() and against.any():
                other = score[against], unit[against]
                yield self._contest(f"{group}_vs_text", score[rows], unit[rows], *other)

    def _contest(
        self,
        group: str,
        positive: np.ndarray,
        unit: np.ndarray,
        negative: np.ndarray,
        negative_unit: np.ndarray,
    ) -> _Contest:
        return _Contest(group, positive, unit, negative, negative_unit, len(self.images))

    def _units(self, table: str, rows: np.ndarray) -> np.ndarray:
        samples = column(self.items, table, "sample_id")[rows]
        return positions([self.image_of.get(sample) for sample in samples], self.images)


def _with_gains(statistics: Sequence[bootstrap.Statistic]) -> bootstrap.Statistic:
    """All statistics, and the paired differences entailment − similarity."""
    together = bootstrap.together(*statistics)

    def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
        found = dict(together(counts))
        gains = {f"{metric}_gain": found[metric] - found[f"{metric}_similarity"] for metric in ("auc", "ap")}
        return found | gains

    return statistic


# ------------------------------------------------------------------------------------------------------- the tables


def _similarity(geometry: Geometry, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
    """In float64, then float32: pairs that are equally similar get equal numbers, row by row or by matrix."""
    return geometry.similarity(a.double(), b.double(), paired=paired).float()


def _margin(
    geometry: Geometry,
    root: Tensor | None,
    general: Tensor,
    specific: Tensor,
    *,
    paired: bool = False,
) -> Tensor:
    """1 − 2φ/π."""
    return 1 - geometry.exterior_angle(general, specific, paired=paired, root=root) * (2 / math.pi)


def _has_angles(geometry: Geometry, general: Tensor, specific: Tensor, root: Tensor | None) -> bool:
    try:
        geometry.exterior_angle(general, specific, root=root)
    except GeometryError:
        return False
    return True


def _paired(function: Any, chain: Sequence[Tensor], relations: Sequence[Relation]) -> np.ndarray:
    """(relations · samples,) scores of each chain's pairs, in parts that stay in the cache."""
    import torch

    general = torch.cat([chain[i] for i, _ in relations])
    specific = torch.cat([chain[j] for _, j in relations])
    parts = zip(general.split(1024), specific.split(1024), strict=True)
    return torch.cat([function(a, b, paired=True) for a, b in parts]).numpy()


def _chain_table(dataset: CaptionChains, relations: Sequence[Relation]) -> dict[str, Any]:
    ids = dataset.images.ids
    chains = [(*chain, ids[image]) for chain, image in zip(dataset.captions, dataset.owner, strict=True)]
    return {
        "sample_id": list(dataset.sample_ids) * len(relations),
        "general": [chain[general] for general, _ in relations for chain in chains],
        "specific": [chain[specific] for _, specific in relations for chain in chains],
        "relation": [relation_name(relation) for relation in relations for _ in chains],
    }


def _against(dataset: CaptionChains, pool: tuple[str, ...], level: int, scores: Tensor) -> dict[str, Any]:
    """The pool -> each sample's caption of a level, unless the pool's is one of its image's own. `scores` (pool, S)."""
    counted = ~own_captions(dataset, pool)[:, dataset.owner]
    row, sample = np.nonzero(counted)
    return {
        "sample_id": [dataset.sample_ids[s] for s in sample],
        "general": [pool[r] for r in row],
        "specific": [dataset.captions[s][level] for s in sample],
        "relation": [f"negative_l{level + 1}"] * len(row),
        "score": scores.numpy()[counted],
    }


def _joined(positive: dict[str, Any], *negatives: dict[str, Any]) -> dict[str, Any]:
    """One table of positive pairs, then negative ones, told apart by `label`."""
    parts = (positive, *negatives)
    sizes = [len(part["relation"]) for part in parts]
    strings = {
        name: [value for part in parts for value in part[name]]
        for name in ("sample_id", "general", "specific", "relation")
    }
    numbers = {
        name: np.concatenate([part[name] for part in parts]) for name in positive if name not in strings
    }
    return {**strings, "label": np.repeat([1] + [0] * len(negatives), sizes), **numbers}


PROTOCOLS = {
    "pep-v2": partial(Pep.of, "pep-v2", "PEP", CLEANED),
    "pep-uncleaned": partial(Pep.of, "pep-uncleaned", "PEP uncleaned", UNCLEANED),
}
