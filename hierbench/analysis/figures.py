"""The pictures: distributions by group, and points in the Poincaré disc. No display is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from hierbench.files import replacing

if TYPE_CHECKING:
    from hierbench.analysis.ambiguity import Level, Removal
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
