"""Each analysis from embeddings to what is shown: files in a folder, and rows to print."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hierbench.analysis import ambiguity, figures, horopca
from hierbench.analysis.geometry import Look
from hierbench.analysis.geometry_words import document
from hierbench.analysis.groups import IMAGES, Embedded, stacked
from hierbench.analysis.norms import radii, summary
from hierbench.analysis.traversal import STEPS, traverse
from hierbench.analysis.uncertainty import TRAINED, UNTRAINED, uncertainty
from hierbench.contracts import Estimate
from hierbench.data.datasets import CaptionChains
from hierbench.errors import OutputError, UsageError
from hierbench.files import replacing

Rows = list[dict[str, Any]]


def norms(embedded: Embedded, out: Path, title: str) -> Rows:
    """norms.csv (group, item, radius) and norms.png; a row a group: n, mean, std and quantiles of the radii."""
    values = radii(embedded)
    _save_items(out / "norms.csv", "radius", embedded, np.concatenate(list(values.values())))
    _save(figures.distributions(values, "distance from the root", title), out / "norms.png")
    return summary(values)


def uncertainties(embedded: Embedded, out: Path, title: str) -> Rows:
    """uncertainty.csv (group, item, uncertainty) and uncertainty.png; a row a group, as for norms.

    Where the model's family is not trained with an uncertainty, the column, the picture and the rows say so: the figure
    is then UNCHA's formula applied to norms that mean what they mean there. Raises UsageError for a geometry without
    an origin.
    """
    trained = embedded.family in TRAINED
    column = "uncertainty" if trained else f"uncertainty ({UNTRAINED})"
    values = {name: uncertainty(embedded.geometry, embedded.points(name)).numpy() for name in embedded.groups}
    _save_items(out / "uncertainty.csv", column, embedded, np.concatenate(list(values.values())))
    _save(figures.distributions(values, column, title), out / "uncertainty.png")
    return [{**row, "trained": trained} for row in summary(values)]


def horopca_plane(embedded: Embedded, out: Path, title: str, centre: str = "origin") -> Rows:
    """horopca.csv (group, item, x, y in the unit disc) and horopca.png; one row: how much variance is kept.

    Raises UsageError for a geometry without curvature, or where all points coincide.
    """
    curvature = embedded.geometry.describe().get("curvature")
    if curvature is None:
        raise UsageError(
            f"HoroPCA is for hyperbolic models; this one's geometry is {embedded.geometry.name!r}"
        )
    groups, labels, points = stacked(embedded)
    points = points.double() * curvature**0.5
    try:
        plane = horopca.fit(points, centre=centre)
    except ValueError as error:
        raise UsageError(str(error)) from error
    places = plane.project(points).numpy()
    rows = ([*item, *place] for item, place in zip(zip(groups, labels, strict=True), places, strict=True))
    _save_rows(out / "horopca.csv", ("group", "item", "x", "y"), rows)
    _save(figures.disc(places, groups, title), out / "horopca.png")
    return [{"n": len(points), "centre": centre, "variance_kept": plane.kept, "by_one_direction": plane.line}]


def traversals(
    embedded: Embedded, out: Path, image_ids: Sequence[str], *, steps: int = STEPS, within_cones: bool = True
) -> Rows:
    """traversal.csv and its rows (image, step, caption, within_cones): what is met from each image to the root.

    `within_cones`: only captions whose cone holds the point are met. Where the way leaves no caption then, as with
    models whose cones are narrower than the angles between captions and images, the nearest captions are met without
    regard to cones, and the row says so. Raises UsageError for an image that was not embedded.
    """
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
                "caption": "[ROOT]" if stop.caption is None else names[stop.caption],
                "within_cones": held,
            }
            for stop in stops
        ]
    header = ("image", "step", "caption", "within_cones")
    _save_rows(out / "traversal.csv", header, (row.values() for row in rows))
    return rows


def ambiguities(
    embedded: Embedded,
    dataset: CaptionChains,
    finder: Embedded,
    out: Path,
    title: str,
    *,
    ks: Sequence[int] = ambiguity.REMOVED,
    pool: int = ambiguity.POOL,
) -> Rows:
    """ambiguity.csv, .json and .png; similar.csv (image, rank, similar): ARGENT's Table 1 and Figure 5.

    `embedded` is the model that is measured, `finder` the one whose image embeddings say which images are similar. A
    row (figure, at, value, low, high, change, chance) for precision and recall at each k, in percent with 95 %
    intervals and the change from the first k, and for recall@1 at each level with what guessing gives.
    Raises UsageError for a k or pool of more images than there are others.
    """
    if not ks or pool < 1:
        raise UsageError("give at least one number of similar images to remove, and a pool of at least 1")
    ids = dataset.images.ids
    similar = ambiguity.similar_images(finder.geometry, finder.groups[IMAGES].tangents, max(*ks, pool))
    removals = ambiguity.removals(embedded, dataset, similar, ks)
    levels = ambiguity.local_recall(embedded, dataset, similar[:, :pool])
    rows = [
        _row(name, f"k={entry.k}", getattr(entry, name), first=getattr(removals[0], name))
        for name in ("precision", "recall")
        for entry in removals
    ] + [_row("recall@1", f"level {entry.level}", entry.recall, chance=entry.chance) for entry in levels]
    _save_rows(out / "ambiguity.csv", list(rows[0]), (row.values() for row in rows))
    _save_rows(
        out / "similar.csv",
        ("image", "rank", "similar"),
        (
            (ids[row], rank, ids[other])
            for row, others in enumerate(similar)
            for rank, other in enumerate(others, 1)
        ),
    )
    _save_json(out / "ambiguity.json", {"title": title, "images": len(ids), "pool": pool, "rows": rows})
    _save(figures.ambiguity(removals, levels, title), out / "ambiguity.png")
    return rows


def geometries(looks: Mapping[str, Mapping[str, Look]], out: Path, title: str) -> list[dict[str, Any]]:
    """geometry.json and geometry.png from dataset -> model -> look; a document a model and dataset."""
    documents = [document(model, look) for found in looks.values() for model, look in found.items()]
    _save_json(out / "geometry.json", {"title": title, "looks": documents})
    _save(figures.geometry(looks, title), out / "geometry.png")
    return documents


def _row(
    figure: str, at: str, found: Estimate, first: Estimate | None = None, chance: float | None = None
) -> dict[str, Any]:
    value, low, high = (None if x is None else 100 * x for x in (found.value, found.low, found.high))
    change = None if first is None else 100 * (found.value - first.value)
    chance = None if chance is None else 100 * chance
    return {
        "figure": figure, "at": at, "value": value, "low": low, "high": high, "change": change, "chance": chance,
    }  # fmt: skip


def _save_items(path: Path, column: str, embedded: Embedded, values: np.ndarray) -> None:
    groups, labels, _ = stacked(embedded)
    _save_rows(path, ("group", "item", column), zip(groups, labels, values.tolist(), strict=True))


def _save_rows(path: Path, header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    try:
        with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}: choose another folder") from error


def _save_json(path: Path, document: Any) -> None:
    try:
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}: choose another folder") from error


def _save(figure, path: Path) -> None:
    try:
        figures.save(figure, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}: choose another folder") from error
