"""Groups of captions and images: distributions of a number, points in the Poincaré disc; a panel a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch

from hierbench.analysis import style

BINS = 60
FEW = 5  # a group of fewer items is drawn as a line an item: it has no distribution
MANY = 5_000  # points beyond which a vector file holds them as an image
ALIKE = 2  # models whose points reach so many times farther than another's are shown on scales of their own
WHOLE = 0.97  # of the disc's radius: beyond, the disc is shown whole
RINGS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # hyperbolic distances between rings


@dataclass(frozen=True)
class Distribution:
    """One model's numbers by group, (n,) each, with what they are."""

    model: str
    values: Mapping[str, np.ndarray]
    label: str
    note: str = ""


@dataclass(frozen=True)
class Disc:
    """One model's points in the unit disc, (N, 2), with the group of each; `root` (2,) is where the root lies."""

    model: str
    points: np.ndarray
    groups: Sequence[str]
    root: np.ndarray
    note: str = ""


@style.styled
def distributions(found: Sequence[Distribution], title: str, from_zero: bool = False) -> Figure:
    """One histogram a group over common bins, each of area 1; `from_zero`: axes begin at 0."""
    groups = list(dict.fromkeys(name for one in found for name in one.values))
    colours = style.of_groups(groups)
    figure, panels = style.panels(len(found), 1.6, extra=0.5)
    for number, (one, axes) in enumerate(zip(found, panels, strict=True)):
        _histograms(axes, one.values, colours, from_zero)
        style.entitle(axes, one.model, one.note)
        axes.set_xlabel(one.label)
        if number % style.columns(axes) == 0:
            axes.set_ylabel("density")
    handles = [Patch(facecolor=to_rgba(colours[name], 0.45), edgecolor=colours[name]) for name in groups]
    style.legend(figure, handles, _counted(groups, [one.values for one in found]), title)
    return figure


def _histograms(
    axes: Axes, values: Mapping[str, np.ndarray], colours: Mapping[str, str], from_zero: bool
) -> None:
    together = np.concatenate(list(values.values()))
    low, high = 0.0 if from_zero else float(together.min()), float(together.max())
    if not high > low:
        low, high = low - 0.5, high + 0.5
    bins = np.linspace(low, high, BINS + 1)
    for name, found in values.items():
        if len(found) < FEW:
            axes.vlines(found, 0, 0.25, color=colours[name], lw=1.3, transform=axes.get_xaxis_transform())
            continue
        heights, edges = np.histogram(found, bins, density=True)
        heights[heights == 0] = np.nan  # no line along the axis
        axes.stairs(heights, edges, fill=True, color=to_rgba(colours[name], 0.3), lw=0)
        axes.stairs(heights, edges, color=colours[name], lw=0.9)
    axes.set_xlim(low, high + 0.02 * (high - low))
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", nbins=4)
    axes.locator_params(axis="x", nbins=6)
    if all(len(found) < FEW for found in values.values()):
        axes.set_yticks([])


def _counted(groups: Sequence[str], of: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
    """Names with their sizes where all models have the same."""
    sizes = {name: {len(values[name]) for values in of if name in values} for name in groups}
    return [f"{name} ({min(sizes[name]):,})" if len(sizes[name]) == 1 else name for name in groups]


@style.styled
def discs(found: Sequence[Disc], title: str, centre: str = "origin") -> Figure:
    """The part of the Poincaré disc that holds the points, with rings at round distances; it and its scale are stated.

    The part is the same for all models, unless a model would then lie in a corner of it: `ALIKE`.
    """
    groups = list(dict.fromkeys(name for one in found for name in one.groups))
    colours = style.of_groups(groups)
    extents = [1.06 * float(np.linalg.norm(one.points, axis=1).max()) for one in found]
    if max(extents) < ALIKE * min(extents):
        extents = [max(extents)] * len(found)
    parts = [1.0 if extent > WHOLE else extent for extent in extents]
    figure, panels = style.panels(len(found), 3.3 if len(found) in (1, 2, 4) else 2.35, extra=0.35)
    for one, axes, shown in zip(found, panels, parts, strict=True):
        _rings(axes, shown, _emptiest(found))
        names = np.array(one.groups)
        for name in reversed(groups):  # general captions are the fewest: on top
            rows = names == name
            x, y = one.points[rows].T
            many = len(names) > MANY
            axes.scatter(x, y, s=5, color=colours[name], alpha=0.75, lw=0, rasterized=many)
        axes.plot(*one.root, marker="+", ms=7, mew=1.3, color="black")
        axes.set(xlim=(-1.04 * shown, 1.04 * shown), ylim=(-1.04 * shown, 1.04 * shown), aspect="equal")
        axes.axis("off")
        style.entitle(axes, one.model, f"{one.note}, to {shown:.2f}")
    dots = [Line2D([], [], ls="", marker="o", ms=4, color=colours[name]) for name in groups]
    dots.append(Line2D([], [], ls="", marker="+", ms=7, mew=1.3, color="black"))
    counts = [{name: np.flatnonzero(np.array(one.groups) == name) for name in groups} for one in found]
    style.legend(figure, dots, [*_counted(groups, counts), "root"], title)
    middle = "the origin" if centre == "origin" else "the mean of the points"
    style.footnote(
        figure,
        f"shown: the disc to a part of its radius (to 1: the whole), around {middle}; "
        "rings: hyperbolic distance from there, in unit curvature",
    )
    return figure


def _emptiest(found: Sequence[Disc]) -> float:
    """Of eight directions the one with the fewest points around it, radians: room for labels."""
    ways = np.concatenate([np.arctan2(one.points[:, 1], one.points[:, 0]) for one in found])
    sectors = np.round(ways / (np.pi / 4)).astype(int) % 8
    return float(np.bincount(sectors, minlength=8).argmin() * np.pi / 4)


def _rings(axes: Axes, shown: float, way: float) -> None:
    """The border of what is shown, and two to four rings at round distances from the middle."""
    axes.add_patch(Circle((0, 0), shown, fill=False, color=style.GREY, lw=0.8))
    farthest = 2 * np.arctanh(min(shown, 0.995))
    step = next((ring for ring in RINGS if farthest / ring < 5), RINGS[-1])
    for number in range(1, 6):
        place = np.tanh(number * step / 2)
        if place > 0.97 * shown:
            break
        axes.add_patch(Circle((0, 0), place, fill=False, color=style.LIGHT, lw=0.7, zorder=0))
        x, y = float(place * np.cos(way)), float(place * np.sin(way))
        axes.text(
            x, y, f"{number * step:g}", fontsize=style.SMALL - 1, color=style.GREY, ha="center", va="center",
            zorder=4, bbox={"fc": "white", "ec": "none", "pad": 0.4, "alpha": 0.75},
        )  # fmt: skip
