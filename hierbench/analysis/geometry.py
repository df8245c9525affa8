"""Whether a model's geometry does any work: where its points lie, where depth is, what its figures owe to radii.

Read from embeddings alone. What is asked follows the audit arXiv 2607.05268 (abstract), in our reading: how far out
the points lie against the curvature, how many cones are half-spaces, whether radii or directions tell depth, how
tree-like distances are, and how figures change where radii are changed or curvature is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hierbench.analysis.depth import Depth, directions, follow, told_by_direction
from hierbench.analysis.groups import IMAGES
from hierbench.analysis.hyperbolicity import Hyperbolicity, hyperbolicity
from hierbench.contracts import Embeddings, Estimate, Geometry, MetricSpec
from hierbench.data.datasets import CaptionChains, Retrieval, spread
from hierbench.errors import GeometryError
from hierbench.geometry import factors

QUANTILES = {"p5": 0.05, "p50": 0.5, "p95": 0.95}
SCORED = 500  # items and images, spread evenly, whose entailment scores are looked at


@dataclass(frozen=True)
class Place:
    """Where a group of points lies. None: the geometry has none of it."""

    group: str  # "level 1", "depth 4", "captions", "images"
    points: int
    radius: Mapping[str, float] | None
    """Quantiles of √κ · radius, mean over a product's factors; without κ, of radius."""
    excess: float | None
    """How much longer a circle is at the median radius than in flat space, sinh(r)/r − 1; mean over factors."""
    half_spaces: float | None  # share of the cones (of all factors) that are half-spaces
    half_aperture: float | None  # median, in degrees; of a product the mean over factors


@dataclass(frozen=True)
class Change:
    """What a reading does to a figure: reading − model, paired."""

    reading: str
    title: str
    figure: str
    difference: Estimate


@dataclass(frozen=True)
class Look:
    """What embeddings of one dataset say about one model's geometry; `missing` tells why something is not there."""

    dataset: str
    items: str  # what has levels: "captions", "class prompts"
    geometry: Mapping[str, Any]
    places: tuple[Place, ...]
    zeros: float | None  # share of the entailment scores item -> image, of all of either, that are 0
    radius: Depth | None
    direction: Depth | None
    hyperbolicity: Mapping[str, Hyperbolicity]
    headline: MetricSpec | None
    figures: Mapping[str, Estimate]  # as the model is
    changes: tuple[Change, ...]
    sentences: tuple[str, ...]  # of the changes of the headline figure
    missing: Mapping[str, str]


def look(geometry: Geometry, embeddings: Embeddings, dataset: Any, task: Any) -> Look:
    """`task` is the dataset's `counterfactual/…`, `embeddings` what it requests. Raises what its scoring raises, but
    for a geometry whose radii cannot be changed alone."""
    items = [(level, texts) for level, texts in task.items(dataset) if level >= 0]  # the pool has no level
    levels = np.array([level for level, _ in items])
    tangents = embeddings.texts([text for _, texts in items for text in texts])
    points = geometry.mean(tangents.double().unflatten(0, (len(items), -1)))
    images = geometry.lift(embeddings.images(dataset.images.ids).double())
    missing: dict[str, str] = {}
    scale = _curved(geometry)
    if not geometry.has_origin:
        missing["radius"] = f"the geometry {geometry.name!r} has no origin, and so no radii"
    elif scale is None:
        missing["curvature"] = f"the geometry {geometry.name!r} has no curvature: radii in its own unit"
    if not geometry.has_cones:
        missing["cones"] = f"the geometry {geometry.name!r} has no entailment cones"
    samples = _samples(items, dataset)
    if samples is None:
        missing["depth"] = "all captions are of one level"
    radius = direction = None
    if samples is not None:
        direction = told_by_direction(directions(geometry, points), levels, samples)
        if geometry.has_origin:
            radius = follow(geometry.radius(points).numpy(), levels, samples)
    named = "captions" if isinstance(dataset, (CaptionChains, Retrieval)) else "class prompts"
    groups = {
        _group(level, dataset): points[np.flatnonzero(levels == level)] for level in sorted(set(levels))
    }
    found = {named: hyperbolicity(geometry, points), IMAGES: hyperbolicity(geometry, images)}
    headline, figures, changes, sentences = _changes(geometry, embeddings, dataset, task, missing)
    return Look(
        dataset.name,
        named,
        geometry.describe(),
        tuple(_place(geometry, name, part) for name, part in [*groups.items(), (IMAGES, images)]),
        _zeros(geometry, points, images) if geometry.has_cones else None,
        radius,
        direction,
        {name: one for name, one in found.items() if one is not None},
        headline,
        figures,
        changes,
        sentences,
        missing,
    )


def _group(level: int, dataset: Any) -> str:
    if isinstance(dataset, CaptionChains):
        return f"level {level + 1}"
    return "captions" if isinstance(dataset, Retrieval) else f"depth {level}"


def _samples(items: Sequence[tuple[int, tuple[str, ...]]], dataset: Any) -> np.ndarray | None:
    """(S, L) which items belong together: the captions of a sample, or all classes; None where there is one level."""
    if isinstance(dataset, Retrieval):
        return None
    if not isinstance(dataset, CaptionChains):
        return np.arange(len(items))[None]
    row = {texts[0]: number for number, (_, texts) in enumerate(items)}
    return np.array([[row[caption] for caption in chain] for chain in dataset.captions])


def _curved(geometry: Geometry) -> list[float] | None:
    """√κ of each factor; None where a factor has no curvature."""
    found = [factor.describe().get("curvature") for (factor,) in factors(geometry)]
    return None if any(one is None for one in found) else [float(one) ** 0.5 for one in found]


def _place(geometry: Geometry, group: str, points: Tensor) -> Place:
    radius = excess = half_spaces = aperture = None
    scale = _curved(geometry)
    parts = list(factors(geometry, points))
    if geometry.has_origin:
        each = np.stack([space.radius(part).numpy() for space, part in parts])
        if scale is not None:
            each = each * np.array(scale)[:, None]
            middle = np.maximum(np.median(each, axis=1), 1e-9)
            excess = float((np.sinh(middle) / middle - 1).mean())
        along = each.mean(0)
        radius = {name: float(np.quantile(along, q)) for name, q in QUANTILES.items()}
    if geometry.has_cones:
        angles = torch.stack([space.half_aperture(part) for space, part in parts])
        half_spaces = float((angles >= torch.pi / 2 - 1e-9).double().mean())
        aperture = float(torch.rad2deg(angles.mean(0).median()))
    return Place(group, len(points), radius, excess, half_spaces, aperture)


def _zeros(geometry: Geometry, points: Tensor, images: Tensor) -> float:
    some = [part[spread(len(part), SCORED)] for part in (points, images)]
    return float((geometry.entailment(*some) == 0).double().mean())


def _changes(
    geometry: Geometry, embeddings: Embeddings, dataset: Any, task: Any, missing: dict[str, str]
) -> tuple[MetricSpec | None, Mapping[str, Estimate], tuple[Change, ...], tuple[str, ...]]:
    """The headline, the figures, their changes by reading, what they allow to say; `missing` is told why not."""
    if why := task.inapplicable(geometry):
        missing["changes"] = why
        return None, {}, (), ()
    try:
        scores = task.score(geometry, embeddings, dataset)
    except GeometryError as error:
        missing["changes"] = str(error)
        return None, {}, (), ()
    names = {figure.name: figure for figure in task.figures}
    headline = names[task.spec.headline.removeprefix("equalised_")]
    changes = tuple(
        Change(reading.name, reading.title, name, scores.metrics[f"{reading.name}_{name}"])
        for reading in task.readings
        for name in names
    )
    return headline, {name: scores.metrics[name] for name in names}, changes, scores.notes
