"""Entailment scores of true and false pairs: distributions, ROC and precision–recall by level; a row a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hierbench.analysis import style
from hierbench.analysis.entailment import ALL, Separation, thinned

TIED = 0.02  # a step of ties is dashed where it goes so far, both up and to the right
NEGATIVES = style.IMAGES


@style.styled
def entailment(found: Mapping[str, Separation], title: str) -> Figure:
    """Scores of positives by level and of negatives; ROC and precision–recall of each level and of all together."""
    figure = Figure(figsize=(style.TEXT, 1.85 * len(found) + 0.45))
    grid = figure.subplots(len(found), 3, squeeze=False, width_ratios=(1.25, 1, 1))
    levels = list(dict.fromkeys(name for one in found.values() for name in one.values if name != "negatives"))
    colours = {**style.of_groups(levels), "negatives": NEGATIVES, ALL: "black"}
    for number, ((model, one), (left, middle, right)) in enumerate(zip(found.items(), grid, strict=True)):
        _distributions(left, one, colours)
        _curves(middle, right, one, colours)
        style.entitle(left, model)
        whole = one.told[0]
        for axes, name, value in ((middle, "AUC", whole.auc.value), (right, "AP", whole.ap.value)):
            style.entitle(axes, f"{name} {100 * value:.1f}")
            if one.degenerate:
                _says_little(axes, one.degenerate)
        if number + 1 == len(found):
            middle.set_xlabel("false positive rate")
            right.set_xlabel("recall")
    handles: list[Artist] = [Patch(fc=to_rgba(NEGATIVES, 0.3), ec=NEGATIVES)]
    handles += [Line2D([], [], color=colours[name]) for name in [*levels, ALL]]
    handles += [Line2D([], [], color=style.GREY, lw=0.7, ls=":"), Line2D([], [], color=style.GREY, ls="--")]
    style.legend(figure, handles, ["negatives", *levels, "all levels", "chance", "ties"], title)
    return figure


def _distributions(axes: Axes, found: Separation, colours: Mapping[str, str]) -> None:
    widths = np.diff(found.edges)
    for name, counts in found.histogram.items():
        heights = counts / (counts.sum() * widths)
        heights[heights == 0] = np.nan  # no line along the axis
        if name == "negatives":
            axes.stairs(heights, found.edges, fill=True, color=to_rgba(NEGATIVES, 0.3), lw=0)
        axes.stairs(heights, found.edges, color=colours[name], lw=0.9)
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", nbins=4)
    axes.set_ylabel("density")
    zero = f"score 0: {_share(found.told[0].zero)} of positives, {_share(found.zero)} of negatives"
    if found.drawn == "margin":
        axes.axvline(0, color=style.GREY, lw=0.7)
        axes.set_xlabel(f"margin 1 − 2φ/π, the score where above 0\n{zero}")
    else:
        axes.set_xlabel(f"entailment score ({found.definition})\n{zero}")
    axes.xaxis.label.set_fontsize(style.SMALL)


def _curves(roc: Axes, precision: Axes, found: Separation, colours: Mapping[str, str]) -> None:
    for one in (*found.told[1:], found.told[0]):  # all together on top
        curve = thinned(one.curves)
        shown: dict[str, Any] = {"color": colours[one.group], "lw": 1.3 if one.group == ALL else 0.9}
        across, up = curve.false_positive_rate, curve.recall
        tied = (np.diff(across) > TIED) & (np.diff(up) > TIED)
        for start, end in zip([0, *np.flatnonzero(tied) + 1], [*np.flatnonzero(tied), len(up)], strict=True):
            roc.plot(across[start : end + 1], up[start : end + 1], **shown)
        for place in np.flatnonzero(tied):
            roc.plot(across[place : place + 2], up[place : place + 2], ls="--", **shown)
        precision.plot(curve.recall, curve.precision, drawstyle="steps-pre", **shown)
    for count in {one.positives for one in found.told}:
        precision.axhline(count / (count + found.negatives), color=style.GREY, lw=0.7, ls=":", zorder=0)
    roc.plot([0, 1], [0, 1], color=style.GREY, lw=0.7, ls=":", zorder=0)
    for axes, name in ((roc, "true positive rate"), (precision, "precision")):
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.03), ylabel=name)
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])


def _says_little(axes: Axes, why: str) -> None:
    lines = "\n".join(style.wrapped(why, 90))
    axes.text(
        0.5, 0.5, lines, ha="center", va="center", fontsize=style.SMALL, transform=axes.transAxes,
        bbox={"fc": "white", "ec": style.GREY, "lw": 0.5, "pad": 2.5},
    )  # fmt: skip


def _share(value: float) -> str:
    return f"{100 * value:.{0 if value in (0, 1) else 1}f} %"
