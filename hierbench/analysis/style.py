"""How every picture looks: sizes of a paper's columns, fonts, colours, legends outside, files of the same bytes.

Pictures are made at the size at which they are printed, so that 7 points are 7 points. Text stays text in PDF and SVG.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from matplotlib import colormaps, style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from hierbench.errors import UsageError
from hierbench.files import replacing

COLUMN, TEXT = 3.3, 6.9
"""Widths of a column and of the text of a two-column paper, inches."""

SMALL, NORMAL = 6.5, 7.5  # points
POINTS = 72  # to the inch
DPI = 300
HINTED = 1.04  # letters that a rasteriser fits to its pixels are so much wider at most
FAMILY = "DejaVu Sans"  # comes with matplotlib: the same letters on every machine
GREY, DARK, LIGHT = "#767676", "#333333", "#dddddd"

CATEGORICAL = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Okabe and Ito's colours for all kinds of colour vision, without the yellow that is too light for lines."""

MARKERS = ("o", "s", "D", "^", "v", "P", "X")  # tell models apart without colours
IMAGES = CATEGORICAL[1]
LEVELS = colormaps["Blues"]
"""Levels of captions: light = general, dark = specific; images stand out by their hue."""

METADATA: Mapping[str, Mapping[str, Any]] = {
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "png": {"Software": None},
    "svg": {"Creator": None, "Date": None, "Format": None, "Type": None},
}
"""The forms in which pictures are written, each without a date or a version: the same picture is the same bytes."""

SETTINGS: Mapping[str, Any] = {
    "font.family": FAMILY,
    "font.size": NORMAL,
    "axes.titlesize": NORMAL,
    "axes.labelsize": NORMAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "figure.titlesize": NORMAL,
    "text.parse_math": False,  # a caption may hold dollars
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": DARK,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": LIGHT,
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 3,
    "errorbar.capsize": 0,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.2,
    "legend.borderaxespad": 0.2,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.03,
    "figure.constrained_layout.h_pad": 0.03,
    "savefig.dpi": DPI,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "hierbench",
    "image.composite_image": False,  # each picture in a vector file stays a picture
}

P = ParamSpec("P")
T = TypeVar("T")


def styled(function: Callable[P, T]) -> Callable[P, T]:
    """A function that draws or writes, in this style whatever matplotlib's settings are on the machine."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        with style.context(dict(SETTINGS), after_reset=True):
            return function(*args, **kwargs)

    return inside


@styled
def save(figure: Figure, folder: Path, name: str, form: str = "png") -> Path:
    """Write `name.form` whole or not at all; the same figure gives the same bytes. Raises UsageError, OSError."""
    if form not in METADATA:
        raise UsageError(f"pictures are not written as {form!r}: choose {', '.join(METADATA)}")
    path = folder / f"{name}.{form}"
    with replacing(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for it, and nothing can be done
        figure.savefig(temporary, format=form, metadata=dict(METADATA[form]))
    return path


# ------------------------------------------------------------------------------------------------------- colours


def of_groups(groups: Iterable[str]) -> dict[str, str]:
    """A colour a group: levels ("level 1", "depth 4", …) from light to dark in their order, images apart."""
    names = list(dict.fromkeys(groups))
    levels = [name for name in names if name != "images"]
    shades = np.linspace(0.42, 1.0, len(levels)) if len(levels) > 1 else [0.85]
    found = {name: to_hex(LEVELS(shade)) for name, shade in zip(levels, shades, strict=True)}
    return found | ({"images": IMAGES} if "images" in names else {})


def of_models(models: Iterable[str]) -> dict[str, tuple[str, str]]:
    """A colour and a marker a model; with more models than colours, colours come again with other markers."""
    names = list(dict.fromkeys(models))
    colours, markers = len(CATEGORICAL), len(MARKERS)
    return {
        name: (CATEGORICAL[i % colours], MARKERS[(i + i // colours) % markers])
        for i, name in enumerate(names)
    }


# -------------------------------------------------------------------------------------------------------- layout


def panels(
    count: int, height: float, *, most: int = 3, extra: float = 0.45, **settings: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels of `height` inches: one at column width, several at text width, `most` in a row.

    `extra`: inches for what stands above them all. Places without a panel are empty.
    """
    across = count if count <= most else next((c for c in (most, most - 1) if count % c == 0), most)
    rows = -(-count // across)
    figure = Figure(figsize=(COLUMN if count == 1 else TEXT, rows * height + extra))
    every = figure.subplots(rows, across, squeeze=False, **settings).ravel()
    for spare in every[count:]:
        spare.remove()
    return figure, list(every[:count])


def legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], title: str = "") -> None:
    """One legend for all panels, outside them; as many columns as the labels leave room for."""
    width = float(figure.get_size_inches()[0]) * POINTS - 10
    labels = [shortened(label, width - 30) for label in labels]
    widest = max((text_width(label) for label in labels), default=0) + 26
    across = max(1, min(len(labels), int(width // widest)))
    across = -(-len(labels) // -(-len(labels) // across))  # rows of like length
    beside = 2 * text_width(title, NORMAL) + widest * len(labels) < width and across == len(labels)
    if title and beside:
        figure.suptitle(title, x=0.01, ha="left", color=GREY)
    found = figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=across,
        title="" if beside else shortened(title, width) or None,
        alignment="left",
        title_fontsize=SMALL,
    )
    found.get_title().set_color(GREY)


def columns(axes: Axes) -> int:
    """How many panels stand beside each other in a panel's figure."""
    spec = axes.get_subplotspec()
    return 1 if spec is None else int(spec.get_gridspec().ncols)


def entitle(axes: Axes, name: str, note: str = "", width: float | None = None) -> None:
    """A panel's name at the left and a note at the right, with the name shortened to what there is room for.

    `width`: of the panel in points; by default the figure's, shared among the panels of a row.
    """
    if width is None:
        figure: Any = axes.figure
        width = float(figure.get_size_inches()[0]) * POINTS / columns(axes) - 30
    axes.set_title(shortened(name, width - text_width(note) - (8 if note else 0), NORMAL), loc="left")
    if note:
        axes.set_title(note, loc="right", fontsize=SMALL, color=GREY)


def text_width(text: str, size: float = SMALL) -> float:
    """Points that a line of text takes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        font = FontProperties(family=FAMILY, size=size)
        return HINTED * float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def shortened(text: str, width: float, size: float = SMALL) -> str:
    """A text with its middle left out where it is wider than `width` points; both ends of a name tell it apart."""
    if text_width(text, size) <= width:
        return text

    def keeping(kept: int) -> str:
        return text[: -(-kept // 2)] + "…" + text[len(text) - kept // 2 :]

    counts = range(len(text) - 1, 1, -1)
    first = bisect_left(counts, True, key=lambda kept: text_width(keeping(kept), size) <= width)
    return keeping(counts[first]) if first < len(counts) else "…"


def wrapped(text: str, width: float, size: float = SMALL, lines: int = 4) -> list[str]:
    """A text in lines of at most `width` points, the last cut short where it takes more than `lines`."""
    found = [""]
    for word in text.split():
        longer = f"{found[-1]} {word}".strip()
        if not found[-1] or text_width(longer, size) <= width:
            found[-1] = longer
        else:
            found.append(word)
    if len(found) > lines:
        found = [*found[: lines - 1], found[lines - 1] + " …"]
    return [shortened(line, width, size) for line in found]


def footnote(figure: Figure, text: str) -> None:
    """Words below all panels."""
    width = float(figure.get_size_inches()[0]) * POINTS - 12
    figure.supxlabel("\n".join(wrapped(text, width)), fontsize=SMALL, color=GREY)


def note(axes: Axes, text: str) -> None:
    """Words in the place of what cannot be drawn."""
    axes.axis("off")
    axes.text(0.5, 0.5, text, ha="center", va="center", color=GREY, wrap=True, transform=axes.transAxes)
