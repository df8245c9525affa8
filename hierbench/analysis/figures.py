"""The pictures: distributions by group, points in the Poincaré disc, intervals. No display is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from hierbench.files import replacing

if TYPE_CHECKING:
    from hierbench.analysis.ambiguity import Level, Removal
    from hierbench.analysis.geometry import Look
    from hierbench.contracts import Estimate

DPI = 150
BINS = 60


def distributions(values: Mapping[str, np.ndarray], label: str, title: str) -> Figure:
    """One histogram a group over common bins, each of area 1."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    together = np.concatenate(list(values.values()))
    low, high = float(together.min()), float(together.max())
    bins = np.linspace(low, high if high > low else low + 1, BINS + 1)
    for name, found in values.items():
        axes.hist(
            found,
            bins.tolist(),
            density=True,
            histtype="stepfilled",
            alpha=0.45,
            label=f"{name} ({len(found):,})",
        )
    axes.set(xlabel=label, ylabel="density", title=title)
    axes.legend()
    return figure


def disc(points: np.ndarray, groups: Sequence[str], title: str) -> Figure:
    """(N, 2) points in the unit disc, coloured by group."""
    figure = Figure(figsize=(6.5, 6.5), layout="constrained")
    axes = figure.subplots()
    axes.add_patch(Circle((0, 0), 1, fill=False, color="0.5"))
    axes.plot(0, 0, "+", color="0.3")
    for name in dict.fromkeys(groups):
        rows = np.array([group == name for group in groups])
        axes.scatter(
            points[rows, 0],
            points[rows, 1],
            s=6,
            alpha=0.6,
            linewidths=0,
            label=f"{name} ({int(rows.sum()):,})",
        )
    axes.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), aspect="equal", title=title)
    axes.axis("off")
    axes.legend(loc="upper right", markerscale=2.5)
    return figure


def ambiguity(removals: Sequence[Removal], levels: Sequence[Level], title: str) -> Figure:
    """Precision and recall by the number of similar images whose captions are gone; recall@1 by level of caption."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, name in enumerate(("precision", "recall")):
        found = [getattr(entry, name) for entry in removals]
        left.errorbar(
            np.arange(len(removals))
            + 0.04 * (2 * number - 1),  # side by side: intervals would cover each other
            [100 * one.value for one in found],
            yerr=_whiskers(found),
            marker="os"[number],
            capsize=3,
            label=name,
        )
    left.set_xticks(range(len(removals)), [f"k = {entry.k}" for entry in removals])
    left.set(xlabel="similar images whose captions are removed", ylabel="%", title="pool of all captions")
    left.set_ylim(0, 1.25 * left.get_ylim()[1])
    left.legend(loc="upper left", ncols=2)
    found, places = [entry.recall for entry in levels], np.arange(len(levels))
    right.bar(places, [100 * one.value for one in found], yerr=_whiskers(found), capsize=3, color="0.75")
    chance = [100 * entry.chance for entry in levels]
    right.hlines(chance, places - 0.4, places + 0.4, color="tab:red", linestyle="--", label="chance")
    right.set_xticks(places, [f"level {entry.level}" for entry in levels])
    right.set(ylabel="recall@1, %", title="own captions and those of similar images", ylim=(0, 100))
    right.legend(loc="upper left")
    figure.suptitle(title)
    return figure


def geometry(looks: Mapping[str, Mapping[str, Look]], title: str) -> Figure:
    """Dataset -> model -> look: a row a dataset; radii by level, where depth is, changes of the headline figure."""
    figure = Figure(figsize=(13, 3.4 * len(looks) + 0.6), layout="constrained")
    grid = figure.subplots(len(looks), 3, squeeze=False, width_ratios=(1.1, 1, 1.6))
    models = list(dict.fromkeys(model for found in looks.values() for model in found))
    colours = dict(zip(models, colormaps["tab10"](np.arange(len(models)) % 10), strict=True))
    for (dataset, found), (left, middle, right) in zip(looks.items(), grid, strict=True):
        _radii_by_level(left, found, colours)
        _where_depth_is(middle, found, colours)
        _changes(right, found, colours)
        left.set_title(dataset, loc="left", fontweight="bold")
    marks = [Line2D([], [], color=colours[model], marker="o") for model in models]
    figure.legend(marks, models, loc="outside lower center", ncols=min(5, len(models)), frameon=False)
    figure.suptitle(title)
    return figure


def _radii_by_level(axes: Axes, found: Mapping[str, Look], colours: Mapping[str, Any]) -> None:
    """Medians with the middle 90 %, general to specific, then images."""
    groups = list(dict.fromkeys(place.group for look in found.values() for place in look.places))
    for shift, (model, look) in zip(_shifts(len(found)), found.items(), strict=True):
        there = [place for place in look.places if place.radius is not None]
        if not there:
            continue
        low, middle, high = (np.array([(p.radius or {})[q] for p in there]) for q in ("p5", "p50", "p95"))
        places = np.array([groups.index(place.group) for place in there]) + shift
        whiskers = np.array([middle - low, high - middle])
        axes.errorbar(places, middle, whiskers, fmt="o", ms=3.5, lw=1, color=colours[model])
        axes.plot(places[:-1], middle[:-1], lw=0.8, color=colours[model])
    if not axes.has_data():
        _nothing(axes, "no radii")
        return
    axes.set_xticks(range(len(groups)), groups, rotation=0 if len(groups) < 6 else 45)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(
        "√κ · radius" if not all("curvature" in look.missing for look in found.values()) else "radius"
    )
    axes.spines[["top", "right"]].set_visible(False)


def _where_depth_is(axes: Axes, found: Mapping[str, Look], colours: Mapping[str, Any]) -> None:
    """Correlation with the level and its interval; grey what shuffled levels give."""
    for shift, (model, look) in zip(_shifts(len(found)), found.items(), strict=True):
        for place, depth in enumerate((look.radius, look.direction)):
            if depth is not None:
                axes.vlines(place + shift, *depth.null, color="0.82", lw=6)
                _interval(axes, place + shift, depth.correlation, colours[model])
    if not axes.has_data():
        _nothing(axes, "captions of one level: no depth")
        return
    _by_zero(axes, ["in the radius", "in the direction"])
    axes.set(ylim=(-1.05, 1.05), ylabel="correlation with the level")


def _changes(axes: Axes, found: Mapping[str, Look], colours: Mapping[str, Any]) -> None:
    """Paired differences of the headline figure, reading − model."""
    metric, titles = None, []
    for shift, (model, look) in zip(_shifts(len(found)), found.items(), strict=True):
        if look.headline is None:
            continue
        metric = look.headline
        changes = [change for change in look.changes if change.figure == metric.name]
        titles = [change.title for change in changes]
        for place, change in enumerate(changes):
            _interval(
                axes,
                place + shift,
                change.difference,
                colours[model],
                100 if metric.unit == "fraction" else 1,
            )
    if metric is None:
        _nothing(axes, "nothing to change")
        return
    _by_zero(
        axes,
        [
            title.replace(", ", ",\n").replace("radii ", "radii\n").replace("shuffled w", "shuffled\nw")
            for title in titles
        ],
    )
    unit = "" if metric.unit == "raw" else ", points"
    axes.set_ylabel(f"change of {metric.title}{unit}")


def _by_zero(axes: Axes, labels: Sequence[str]) -> None:
    axes.axhline(0, color="0.5", lw=0.8, zorder=0)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _interval(axes: Axes, place: float, found: Estimate, colour: Any, scale: float = 1) -> None:
    whiskers = _whiskers([found])
    axes.errorbar(
        place, scale * found.value, None if whiskers is None else whiskers * scale / 100,
        fmt="o", ms=3.5, lw=1.2, color=colour,
    )  # fmt: skip


def _nothing(axes: Axes, why: str) -> None:
    axes.axis("off")
    axes.text(0.5, 0.5, why, ha="center", va="center", color="0.5", transform=axes.transAxes)


def _shifts(count: int) -> np.ndarray:
    """Places of several models around one tick."""
    return (np.arange(count) - (count - 1) / 2) * min(0.12, 0.7 / count)


def _whiskers(found: Sequence[Estimate]) -> np.ndarray | None:
    """(2, n) lengths below and above in percent; None where there are no intervals."""
    below = [one.value - one.low for one in found if one.low is not None]
    above = [one.high - one.value for one in found if one.high is not None]
    if not len(below) == len(above) == len(found):
        return None
    return 100 * np.array([below, above]).clip(min=0)


def save(figure: Figure, path: Path) -> None:
    """Write a PNG whole or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI)
