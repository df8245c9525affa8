"""Each analysis from embeddings to what is shown: files in a folder, and rows to print.

Most take several models, name -> embeddings of one dataset, and draw them side by side. `form`: pdf, png or svg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hierbench.analysis import ambiguity, entailment, horopca, tree_errors
from hierbench.analysis.confusion import Node
from hierbench.analysis.figures import groups as pictures
from hierbench.analysis.figures import intervals
from hierbench.analysis.figures.confusion import confusion as draw_confusion
from hierbench.analysis.figures.entailment import entailment as draw_entailment
from hierbench.analysis.figures.traversal import ROOT, Strip, Way
from hierbench.analysis.figures.traversal import traversals as draw_traversals
from hierbench.analysis.files import save_figure, save_json, save_rows
from hierbench.analysis.geometry import Look
from hierbench.analysis.geometry_words import document
from hierbench.analysis.groups import IMAGES, Embedded, stacked
from hierbench.analysis.norms import radii, summary, unit_of
from hierbench.analysis.traversal import STEPS, traverse
from hierbench.analysis.uncertainty import TRAINED, UNTRAINED, uncertainty
from hierbench.contracts import Estimate, ImageSource, Scores, Task
from hierbench.data.datasets import CaptionChains
from hierbench.data.images import decode
from hierbench.errors import UsageError
from hierbench.taxonomy import Taxonomy

Rows = list[dict[str, Any]]
Models = Mapping[str, Embedded]

DRAWN = 12  # images of a traversal that fit a page


def norms(models: Models, out: Path, title: str, form: str = "png") -> Rows:
    """norms.csv (model, group, item, radius) and its picture; a row a model and group: n, mean, std and quantiles."""
    values = {model: radii(embedded) for model, embedded in models.items()}
    drawn = [
        pictures.Distribution(model, found, *unit_of(models[model].geometry))
        for model, found in values.items()
    ]
    figure = pictures.distributions(drawn, title, from_zero=True)
    _save_items(out / "norms.csv", "radius", models, values)
    save_figure(figure, out, "norms", form)
    return [{"model": model, **row} for model, found in values.items() for row in summary(found)]


def uncertainties(models: Models, out: Path, title: str, form: str = "png") -> Rows:
    """uncertainty.csv (model, group, item, uncertainty) and its picture; a row a model and group, as for norms.

    Where a model's family is not trained with an uncertainty, the column, the picture and the rows say so: the figure
    is then UNCHA's formula applied to norms that mean what they mean there. Raises UsageError for a geometry without
    an origin.
    """
    trained = {model: embedded.family in TRAINED for model, embedded in models.items()}
    column = "uncertainty" if all(trained.values()) else f"uncertainty ({UNTRAINED})"
    if any(trained.values()) and not all(trained.values()):
        column = "uncertainty (some models were not trained with it)"
    values = {model: _uncertainties(model, embedded) for model, embedded in models.items()}
    drawn = [
        pictures.Distribution(model, found, "uncertainty", "" if trained[model] else "not trained with it")
        for model, found in values.items()
    ]
    figure = pictures.distributions(drawn, title)
    _save_items(out / "uncertainty.csv", column, models, values)
    save_figure(figure, out, "uncertainty", form)
    return [
        {"model": model, **row, "trained": trained[model]}
        for model, found in values.items()
        for row in summary(found)
    ]


def _uncertainties(model: str, embedded: Embedded) -> dict[str, Any]:
    try:
        return {
            name: uncertainty(embedded.geometry, embedded.points(name)).numpy() for name in embedded.groups
        }
    except UsageError as error:
        raise UsageError(f"{model}: {error}") from error


def horopca_plane(models: Models, out: Path, title: str, centre: str = "origin", form: str = "png") -> Rows:
    """horopca.csv (model, group, item, x, y in the unit disc) and its picture; a row a model: how much is kept.

    Raises UsageError for a geometry without curvature, or where all points coincide.
    """
    rows, items, drawn = [], [], []
    for model, embedded in models.items():
        curvature = embedded.geometry.describe().get("curvature")
        if not isinstance(curvature, float):
            raise UsageError(
                f"HoroPCA is for models with one hyperbolic space; the geometry of {model} is "
                f"{embedded.geometry.name!r}"
            )
        groups, labels, points = stacked(embedded)
        points = points.double() * curvature**0.5
        try:
            plane = horopca.fit(points, centre=centre)
        except ValueError as error:
            raise UsageError(f"{model}: {error}") from error
        places = plane.project(points).numpy()
        root = plane.project(torch.zeros_like(points[:1])).numpy()[0]
        drawn.append(pictures.Disc(model, places, groups, root, f"{100 * plane.kept:.0f} % kept"))
        items += [
            (model, group, label, *place)
            for group, label, place in zip(groups, labels, places.tolist(), strict=True)
        ]
        rows.append(
            {
                "model": model, "n": len(points), "centre": centre, "variance_kept": plane.kept,
                "by_one_direction": plane.line,
            }
        )  # fmt: skip
    figure = pictures.discs(drawn, title, centre)
    save_rows(out / "horopca.csv", ("model", "group", "item", "x", "y"), items)
    save_figure(figure, out, "horopca", form)
    return rows


def traversals(
    models: Models,
    source: ImageSource,
    out: Path,
    image_ids: Sequence[str],
    *,
    steps: int = STEPS,
    within_cones: bool = True,
    form: str = "png",
) -> Rows:
    """traversal.csv, its rows (model, image, step, caption, within_cones) and picture: what is met to the root.

    `source` has the images. `within_cones`: only captions whose cone holds the point are met. Where the way leaves no
    caption then, as with models whose cones are narrower than the angles between captions and images, the nearest
    captions are met without regard to cones, and the row says so. The first `DRAWN` images are drawn. Raises UsageError
    for an image that was not embedded, DataError for one that cannot be read.
    """
    rows = [
        {"model": model, **row}
        for model, embedded in models.items()
        for row in _met(embedded, image_ids, steps, within_cones)
    ]
    strips = [
        Strip(
            image_id,
            decode(source.read(image_id), image_id),
            _ways(models, rows, image_id, steps, within_cones),
        )
        for image_id in dict.fromkeys(image_ids[:DRAWN])
    ]
    figure = draw_traversals(strips)
    header = ("model", "image", "step", "caption", "within_cones")
    save_rows(out / "traversal.csv", header, (row.values() for row in rows))
    save_figure(figure, out, "traversal", form)
    return rows


def _ways(models: Models, rows: Rows, image_id: str, steps: int, within_cones: bool) -> list[Way]:
    ways = []
    for model, embedded in models.items():
        met = [row for row in rows if (row["model"], row["image"]) == (model, image_id)]
        beside = within_cones and embedded.geometry.has_cones and not met[0]["within_cones"]
        note = "no cone holds the way: nearest captions, whatever their cones" if beside else ""
        ways.append(Way(model, [(row["caption"], row["step"] / (steps - 1)) for row in met], note))
    return ways


def _met(embedded: Embedded, image_ids: Sequence[str], steps: int, within_cones: bool) -> Rows:
    captions: dict[str, Tensor] = {}
    for name, group in embedded.groups.items():
        if name != IMAGES:
            captions.update(zip(group.labels, group.tangents, strict=True))
    names, none = list(captions), embedded.root.new_empty(0, len(embedded.root))
    candidates = torch.stack(list(captions.values())) if captions else none
    images = embedded.groups[IMAGES]
    within_cones = within_cones and embedded.geometry.has_cones
    rows = []
    for image_id in image_ids:
        if image_id not in images.labels:
            raise UsageError(
                f"no image {image_id!r}: there are {images.labels[0]}, … ({len(images.labels)} in all)"
            )
        image = images.tangents[images.labels.index(image_id)]
        for held in (True, False) if within_cones else (False,):
            stops = traverse(
                embedded.geometry, image, candidates, root=embedded.root, steps=steps, within_cones=held
            )
            if any(stop.caption is not None for stop in stops):
                break
        rows += [
            {
                "image": image_id,
                "step": stop.step,
                "caption": ROOT if stop.caption is None else names[stop.caption],
                "within_cones": held,
            }
            for stop in stops
        ]
    return rows


def ambiguities(
    models: Models,
    dataset: CaptionChains,
    finder: Embedded | None,
    out: Path,
    title: str,
    *,
    ks: Sequence[int] = ambiguity.REMOVED,
    pool: int = ambiguity.POOL,
    form: str = "png",
) -> Rows:
    """ambiguity.csv, .json and picture; similar.csv (model, image, rank, similar): ARGENT's Table 1 and Figure 5.

    `models` are measured; `finder` is the one whose image embeddings say which images are similar, None: each model
    for itself. A row (model, figure, at, value, low, high, change, chance) for precision and recall at each k, in
    percent with 95 % intervals and the change from the first k, and for recall@1 at each level with what guessing
    gives. Raises UsageError for a k or pool of more images than there are others.
    """
    if not ks or pool < 1:
        raise UsageError("give at least one number of similar images to remove, and a pool of at least 1")
    ids = dataset.images.ids
    rows, similar, found = [], [], {}
    for model, embedded in models.items():
        by = finder or embedded
        near = ambiguity.similar_images(by.geometry, by.groups[IMAGES].tangents, max(*ks, pool))
        removals = ambiguity.removals(embedded, dataset, near, ks)
        levels = ambiguity.local_recall(embedded, dataset, near[:, :pool])
        found[model] = removals, levels
        rows += [
            _row(model, name, f"k={entry.k}", getattr(entry, name), first=getattr(removals[0], name))
            for name in ("precision", "recall")
            for entry in removals
        ]
        rows += [
            _row(model, "recall@1", f"level {entry.level}", entry.recall, chance=entry.chance)
            for entry in levels
        ]
        similar += [
            (model, ids[row], rank, ids[other])
            for row, others in enumerate(near)
            for rank, other in enumerate(others, 1)
        ]
    figure = intervals.ambiguity(found, title)
    save_rows(out / "ambiguity.csv", list(rows[0]), (row.values() for row in rows))
    save_rows(out / "similar.csv", ("model", "image", "rank", "similar"), similar)
    save_json(out / "ambiguity.json", {"title": title, "images": len(ids), "pool": pool, "rows": rows})
    save_figure(figure, out, "ambiguity", form)
    return rows


def geometries(
    looks: Mapping[str, Mapping[str, Look]], out: Path, title: str, form: str = "png"
) -> list[dict[str, Any]]:
    """geometry.json and its picture from dataset -> model -> look; a document a model and dataset."""
    documents = [document(model, look) for found in looks.values() for model, look in found.items()]
    figure = intervals.geometry(looks)
    save_json(out / "geometry.json", {"title": title, "looks": documents})
    save_figure(figure, out, "geometry", form)
    return documents


def entailments(scored: Mapping[str, tuple[Task, Scores]], out: Path, title: str, form: str = "png") -> Rows:
    """entailment.csv, .json and picture from model -> (PEP task, its scores); a row a model and level, in percent."""
    found = {model: entailment.separation(task, scores) for model, (task, scores) in scored.items()}
    rows = [row for model, one in found.items() for row in entailment.rows(model, one)]
    documents = [entailment.document(model, one) for model, one in found.items()]
    figure = draw_entailment(found, title)
    save_rows(out / "entailment.csv", list(rows[0]), (row.values() for row in rows))
    save_json(out / "entailment.json", {"title": title, "models": documents})
    save_figure(figure, out, "entailment", form)
    return rows


def confusions(
    scored: Mapping[str, tuple[Task, Scores]],
    tree: Taxonomy,
    out: Path,
    title: str,
    count: int = 3,
    form: str = "png",
) -> Rows:
    """confusion.csv (every node of the tree), confusion.json and picture; a row a model with its `count` worst.

    `scored`: model -> (hierarchy task, its scores), `tree` the one of its classes. Raises MetricError.
    """
    found = {model: tree_errors.tree_errors(task, scores, tree) for model, (task, scores) in scored.items()}
    rows = [tree_errors.row(model, one, count) for model, one in found.items()]
    figure = draw_confusion(found, title)
    header = [field.name for field in fields(Node)]
    nodes = ((model, *astuple(node)) for model, one in found.items() for node in one.nodes)
    save_rows(out / "confusion.csv", ("model", *header), nodes)
    models = [tree_errors.document(model, one, count) for model, one in found.items()]
    save_json(out / "confusion.json", {"title": title, "models": models})
    save_figure(figure, out, "confusion", form)
    return rows


def _row(
    model: str,
    figure: str,
    at: str,
    found: Estimate,
    first: Estimate | None = None,
    chance: float | None = None,
) -> dict[str, Any]:
    value, low, high = (None if x is None else 100 * x for x in (found.value, found.low, found.high))
    change = None if first is None else 100 * (found.value - first.value)
    chance = None if chance is None else 100 * chance
    return {
        "model": model, "figure": figure, "at": at, "value": value, "low": low, "high": high, "change": change,
        "chance": chance,
    }  # fmt: skip


def _save_items(path: Path, column: str, models: Models, values: Mapping[str, Mapping[str, Any]]) -> None:
    rows = [
        (model, group, label, value)
        for model, found in values.items()
        for group, numbers in found.items()
        for label, value in zip(models[model].groups[group].labels, numbers.tolist(), strict=True)
    ]
    save_rows(path, ("model", "group", "item", column), rows)
