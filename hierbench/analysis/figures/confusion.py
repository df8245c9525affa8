"""Errors over the class tree: which branches are taken for which, a panel a model; how far off predictions are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from hierbench.analysis import style
from hierbench.analysis.tree_errors import Branch, TreeErrors

NAME = 62.0  # points of a branch's name at most
SQUARE = 144.0  # points of a side
TINY = style.SMALL - 1


@style.styled
def confusion(found: Mapping[str, TreeErrors], title: str) -> Figure:
    """Rows are true branches, columns predicted ones in the same order; the last panel has all models' distances."""
    figure, panels = style.panels(len(found) + 1, 2.5, extra=0.75)
    parts = next(iter(found.values())).branches
    scale = PowerNorm(0.5, 0, 1)  # rare confusions are seen as well
    colours = colormaps["Blues"].with_extremes(bad="#eeeeee")
    for number, ((model, one), axes) in enumerate(zip(found.items(), panels, strict=False)):
        drawn = axes.imshow(one.shares, norm=scale, cmap=colours, aspect="equal", interpolation="nearest")
        _borders(axes, parts)
        columns = style.columns(axes)
        first = number % columns == 0
        names = [style.shortened(part.name, NAME, TINY) for part in parts] if first else []
        axes.set_yticks(range(len(names)), names, fontsize=TINY)
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.spines[:].set(visible=True, linewidth=0.5)
        if number + columns >= len(found):
            axes.set_xlabel("predicted, in the same order")
        if first:
            axes.set_ylabel("true")
        style.entitle(axes, model, f"{100 * one.correct / one.images:.1f} % right", SQUARE)
        if one.degenerate:
            words = "\n".join(style.wrapped(one.degenerate, 90))
            axes.text(
                0.5, 0.5, words, ha="center", va="center", fontsize=style.SMALL, transform=axes.transAxes,
                bbox={"fc": "white", "ec": style.GREY, "lw": 0.5, "pad": 2.5},
            )  # fmt: skip
    bar = figure.colorbar(drawn, ax=panels, location="bottom", aspect=60, shrink=0.5, pad=0.02, fraction=0.04)
    bar.set_label("share of a true branch's images, %", fontsize=style.SMALL)
    bar.set_ticks([0, 0.01, 0.1, 0.25, 0.5, 1], labels=["0", "1", "10", "25", "50", "100"])
    bar.outline.set_linewidth(0.5)
    marks = style.of_models(found)
    _distances(panels[-1], found, marks)
    handles, names = panels[-1].get_legend_handles_labels()
    style.legend(figure, handles, names, title)
    return figure


def _borders(axes: Axes, parts: Sequence[Branch]) -> None:
    """Lines between branches, the heavier the nearer to the root they part."""
    for place, (one, other) in enumerate(pairwise(parts)):
        common = sum(a == b for a, b in zip(one.path, other.path, strict=False))
        width = {1: 0.9, 2: 0.45}.get(common, 0.0)
        if width:
            axes.axhline(place + 0.5, color=style.DARK, lw=width)
            axes.axvline(place + 0.5, color=style.DARK, lw=width)


def _distances(axes: Axes, found: Mapping[str, TreeErrors], marks: Mapping[str, tuple[str, str]]) -> None:
    """The share of the images that are predicted within so many edges of their class."""
    farthest = max(max(one.edges) for one in found.values())
    for model, one in found.items():
        colour, marker = marks[model]
        within = np.cumsum([one.edges.get(edges, 0) for edges in range(farthest + 1)])
        places = [
            edges
            for edges in range(farthest + 1)
            if edges == 0 or any(edges in o.edges for o in found.values())
        ]
        axes.plot(
            places,
            100 * within[places] / one.images,
            color=colour,
            marker=marker,
            label=model,
            drawstyle="steps-post",
        )
    axes.set_title("how far off")
    axes.set(xlabel="edges between true and predicted", ylabel="images within, %")
    axes.set_ylim(top=100 + 0.03 * (100 - axes.get_ylim()[0]))
    axes.locator_params(axis="x", integer=True, nbins=7)
    axes.grid(axis="y")
