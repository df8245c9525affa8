"""Figures with their 95 % intervals: how ambiguous a benchmark is; what a model's geometry does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hierbench.analysis import style

if TYPE_CHECKING:
    from hierbench.analysis.ambiguity import Level, Removal
    from hierbench.analysis.geometry import Change, Look
    from hierbench.contracts import Estimate

Looks = Mapping[str, "Look"]
Marks = Mapping[str, tuple[str, str]]  # model -> colour and marker

TICKS = {
    "equalised": "radii\nequal",
    "shuffled": "radii\nshuffled",
    "shuffled_within": "shuffled\nin levels",
    "flat_cosine": "flat,\ncosine",
    "flat_euclidean": "flat,\nEuclid.",
}


@style.styled
def ambiguity(found: Mapping[str, tuple[Sequence[Removal], Sequence[Level]]], title: str) -> Figure:
    """Precision and recall by the number of similar images whose captions are gone; recall@1 by level of caption."""
    figure = Figure(figsize=(style.TEXT, 2.4))
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
    marks = style.of_models(found)
    for shift, (model, (removals, levels)) in zip(_shifts(len(found)), found.items(), strict=True):
        for axes, name in ((left, "precision"), (middle, "recall")):
            for place, entry in enumerate(removals):
                _interval(axes, place + shift, getattr(entry, name), marks[model], 100)
            axes.plot(
                np.arange(len(removals)) + shift,
                [100 * getattr(entry, name).value for entry in removals],
                lw=0.6, color=marks[model][0],
            )  # fmt: skip
        for place, level in enumerate(levels):
            _interval(right, place + shift, level.recall, marks[model], 100)
            half = min(0.3, 0.35 / len(found))
            right.hlines(100 * level.chance, place + shift - half, place + shift + half, color=style.GREY)
        ks = [str(entry.k) for entry in removals]
        numbers = [str(level.level) for level in levels]
    for axes, name in ((left, "precision"), (middle, "recall")):
        axes.set_xticks(range(len(ks)), ks)
        axes.set_xlim(-0.5, len(ks) - 0.5)
        axes.set(ylabel=f"{name}, %")
        axes.locator_params(axis="y", nbins=5)
    left.set_xlabel("similar images whose captions are gone", loc="left")
    right.set_xticks(range(len(numbers)), numbers)
    right.set(xlabel="level of the caption", ylabel="recall@1, %", ylim=(0, 104))
    left.set_title("pool of all captions")
    right.set_title("own captions and similar images'")
    chance = Line2D([], [], color=style.GREY)
    style.legend(figure, [*_handles(marks), chance], [*found, "by chance"], title)
    return figure


@style.styled
def geometry(looks: Mapping[str, Looks]) -> Figure:
    """Dataset -> model -> look: a row a dataset; radii by level, where depth is, changes of the headline figure."""
    figure = Figure(figsize=(style.TEXT, 1.75 * len(looks) + 0.5))
    grid = figure.subplots(len(looks), 3, squeeze=False, width_ratios=(1, 0.85, 1.45))
    marks = style.of_models(model for found in looks.values() for model in found)
    for (dataset, found), (left, middle, right) in zip(looks.items(), grid, strict=True):
        _radii_by_level(left, found, marks)
        _where_depth_is(middle, found, marks)
        _changes(right, found, marks)
        style.entitle(left, dataset)
        left.title.set_fontweight("bold")
    null = Line2D([], [], color=style.LIGHT, lw=5)
    style.legend(figure, [*_handles(marks), null], [*marks, "levels shuffled, 95 %"])
    return figure


def _handles(marks: Marks) -> list[Line2D]:
    return [Line2D([], [], color=colour, marker=marker, ms=4) for colour, marker in marks.values()]


def _radii_by_level(axes: Axes, found: Looks, marks: Marks) -> None:
    """Medians with the middle 90 %, general to specific, then images."""
    groups = list(dict.fromkeys(place.group for look in found.values() for place in look.places))
    for shift, (model, look) in zip(_shifts(len(found)), found.items(), strict=True):
        there = [place for place in look.places if place.radius is not None]
        if not there:
            continue
        low, middle, high = (np.array([(p.radius or {})[q] for p in there]) for q in ("p5", "p50", "p95"))
        places = np.array([groups.index(place.group) for place in there]) + shift
        colour, marker = marks[model]
        axes.errorbar(places, middle, np.array([middle - low, high - middle]), fmt=marker, lw=1, color=colour)
        axes.plot(places[:-1], middle[:-1], lw=0.7, color=colour)
    if not axes.has_data():
        style.note(axes, "no radii")
        return
    kinds = {group.split()[0] for group in groups if group.split()[-1].isdigit()}
    short = [group.split()[-1] for group in groups] if kinds else groups
    axes.set_xticks(range(len(groups)), short)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    if kinds:
        axes.set_xlabel(" ".join(kinds))
    axes.set_ylim(bottom=0)
    flat = all("curvature" in look.missing for look in found.values())
    axes.set_ylabel("radius" if flat else "√κ · radius")


def _where_depth_is(axes: Axes, found: Looks, marks: Marks) -> None:
    """Correlation with the level and its interval; grey what shuffled levels give."""
    for shift, (model, look) in zip(_shifts(len(found)), found.items(), strict=True):
        for place, depth in enumerate((look.radius, look.direction)):
            if depth is not None:
                axes.vlines(place + shift, *depth.null, color=style.LIGHT, lw=4)
                _interval(axes, place + shift, depth.correlation, marks[model])
    if not axes.has_data():
        style.note(axes, "captions of one level:\nno depth")
        return
    _by_zero(axes, ["by the\nradius", "by the\ndirection"])
    axes.set(ylim=(-1.08, 1.08), ylabel="correlation with level", yticks=(-1, -0.5, 0, 0.5, 1))


def _changes(axes: Axes, found: Looks, marks: Marks) -> None:
    """Paired differences of the headline figure, reading − model."""
    metric = None
    shown: list[Change] = []
    for shift, (model, look) in zip(_shifts(len(found)), found.items(), strict=True):
        if look.headline is None:
            continue
        metric = look.headline
        shown = [change for change in look.changes if change.figure == metric.name]
        scale = 100 if metric.unit == "fraction" else 1
        for place, change in enumerate(shown):
            _interval(axes, place + shift, change.difference, marks[model], scale)
    if metric is None:
        style.note(axes, "no figure that\nother radii change")
        return
    _by_zero(axes, [TICKS.get(change.reading, change.title) for change in shown])
    unit = "" if metric.unit == "raw" else ", points"
    axes.set_ylabel(f"change of {metric.title}{unit}")


def _by_zero(axes: Axes, labels: Sequence[str]) -> None:
    axes.axhline(0, color=style.GREY, lw=0.6, zorder=0)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlim(-0.5, len(labels) - 0.5)


def _interval(axes: Axes, place: float, found: Estimate, mark: tuple[str, str], scale: float = 1) -> None:
    colour, marker = mark
    whiskers = None
    if found.low is not None and found.high is not None:
        whiskers = scale * np.array([[found.value - found.low], [found.high - found.value]]).clip(min=0)
    axes.errorbar([place], [scale * found.value], whiskers, fmt=marker, lw=1, color=colour)


def _shifts(count: int) -> np.ndarray:
    """Places of several models around one tick."""
    return (np.arange(count) - (count - 1) / 2) * min(0.14, 0.75 / count)
