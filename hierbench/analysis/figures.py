"""The pictures: distributions by group, and points in the Poincaré disc. No display is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from hierbench.files import replacing

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
            found, bins, density=True, histtype="stepfilled", alpha=0.45, label=f"{name} ({len(found):,})"
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
        axes.scatter(*points[rows].T, s=6, alpha=0.6, linewidths=0, label=f"{name} ({int(rows.sum()):,})")
    axes.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), aspect="equal", title=title)
    axes.axis("off")
    axes.legend(loc="upper right", markerscale=2.5)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a PNG whole or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI)
