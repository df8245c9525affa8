"""Ways from images to the root: each image with the captions that are met, a strip a model, strips below each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from PIL import Image

from hierbench.analysis import style

SIDE, EDGE, GAP = 58.0, 4.0, 9.0  # of a picture; of the figure; between boxes, points
LINE, PAD, BAR = 8.2, 2.6, 4.0  # a line of text; around a box's text; the bar's height
WIDEST = 118.0  # text of a box
PIXELS = 256  # of the longer side of a picture: more is not seen
ROOT = "[ROOT]"
FOOT = (
    "bar: the way from the image to the root, in the colour of the nearest caption from where it is first met"
)


@dataclass(frozen=True)
class Way:
    """What one model meets on the way from an image: captions with the part of the way, 0 = the image, 1 = the root."""

    model: str
    met: Sequence[tuple[str, float]]
    note: str = ""


@dataclass(frozen=True)
class Strip:
    """An image with its ways, a model each."""

    name: str
    image: Image.Image
    ways: Sequence[Way]


@dataclass(frozen=True)
class _Box:
    """A caption's box: its lower left corner is (x, y − height)."""

    x: float
    y: float
    width: float
    height: float
    lines: Sequence[str]
    colour: str


@style.styled
def traversals(strips: Sequence[Strip]) -> Figure:
    """All strips at text width, as high as their captions need."""
    width = style.TEXT * style.POINTS
    left = EDGE + SIDE + GAP
    room = width - EDGE - left
    heights = [max(SIDE + LINE, sum(_height(way, room) for way in strip.ways)) for strip in strips]
    height = sum(heights) + GAP * len(strips) + LINE + 2 * EDGE
    figure = Figure(figsize=(style.TEXT, height / style.POINTS))
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    top = height - EDGE
    for strip, tall in zip(strips, heights, strict=True):
        _picture(axes, strip, top)
        y = top
        for way in strip.ways:
            y = _draw(axes, way, left, y, room)
        top -= tall + GAP
    axes.text(EDGE, EDGE, style.shortened(FOOT, width), fontsize=style.SMALL, color=style.GREY, va="bottom")
    return figure


def _picture(axes: Axes, strip: Strip, top: float) -> None:
    image = strip.image.convert("RGB")
    image.thumbnail((PIXELS, PIXELS), Image.Resampling.LANCZOS)
    wide, tall = (SIDE * side / max(image.size) for side in image.size)
    left = EDGE + (SIDE - wide) / 2
    smooth = "nearest" if max(image.size) < 128 else "antialiased"
    limits = axes.get_xlim(), axes.get_ylim()
    axes.imshow(
        np.asarray(image), extent=(left, left + wide, top - tall, top), interpolation=smooth, aspect="auto"
    )
    axes.set(xlim=limits[0], ylim=limits[1])
    name = style.shortened(strip.name, SIDE, style.SMALL - 1)
    axes.text(
        EDGE + SIDE / 2,
        top - tall - 1.5,
        name,
        fontsize=style.SMALL - 1,
        color=style.GREY,
        ha="center",
        va="top",
    )


def _draw(axes: Axes, way: Way, left: float, top: float, room: float) -> float:
    """A model's name, its bar and its boxes; returns where the next may begin."""
    note = f"   {way.note}" if way.note else ""
    name = style.shortened(way.model, room - style.text_width(note))
    axes.text(left, top, name, fontsize=style.SMALL, va="top")
    after = left + style.text_width(name)
    axes.text(after, top, note, fontsize=style.SMALL, color=style.GREY, va="top")
    bar = top - LINE - PAD
    starts = [part for _, part in way.met] + [1.0]
    for (caption, part), end in zip(way.met, starts[1:], strict=True):
        colour = _colour(caption, part)
        start, length = left + room * part, room * max(end - part, 0.0)
        axes.add_patch(Rectangle((start, bar - BAR), length, BAR, fc=colour, ec="white", lw=0.4))
    axes.add_patch(Rectangle((left, bar - BAR), room, BAR, fc="none", ec=style.GREY, lw=0.4))
    boxes = list(_boxes(way, left, bar - BAR - PAD, room))
    for number, box in enumerate(boxes):
        _box(axes, box)
        if number + 1 < len(boxes):
            middle = box.y - min(box.height, LINE + 2 * PAD) / 2
            axes.text(
                box.x + box.width + GAP / 2, middle, "→", fontsize=style.SMALL, color=style.GREY, ha="center",
                va="center",
            )  # fmt: skip
    return top - _height(way, room)


def _box(axes: Axes, box: _Box) -> None:
    rounded = "round,pad=0,rounding_size=2"
    edge = style.GREY if box.colour == "#ffffff" else "none"
    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y - box.height),
            box.width,
            box.height,
            boxstyle=rounded,
            fc=box.colour,
            ec=edge,
            lw=0.5,
        )
    )
    light = float(np.dot(to_rgb(box.colour), (0.299, 0.587, 0.114)))
    for number, line in enumerate(box.lines):
        axes.text(
            box.x + PAD, box.y - PAD - number * LINE, line, fontsize=style.SMALL, va="top",
            color="black" if light > 0.55 else "white",
        )  # fmt: skip


def _boxes(way: Way, left: float, top: float, room: float) -> Iterator[_Box]:
    """The captions from left to right, on as many rows as they need."""
    x, y, lowest = left, top, 0.0
    for caption, part in way.met:
        lines = style.wrapped(caption, WIDEST) if caption.strip() else ["(empty)"]
        width = max(map(style.text_width, lines)) + 2 * PAD
        height = len(lines) * LINE + 2 * PAD - 1
        if x > left and x + width > left + room:
            x, y, lowest = left, y - lowest - PAD, 0.0
        yield _Box(x, y, width, height, lines, _colour(caption, part))
        x += width + GAP
        lowest = max(lowest, height)


def _height(way: Way, room: float) -> float:
    """Points that a model's strip takes, with the space below it."""
    lowest = min((box.y - box.height for box in _boxes(way, 0, 0, room)), default=0.0)
    return LINE + 2 * PAD + BAR - lowest + GAP


def _colour(caption: str, part: float) -> str:
    """Dark near the image, light near the root: as levels of captions are coloured."""
    return "#ffffff" if caption == ROOT else to_hex(style.LEVELS(1 - 0.8 * part))
