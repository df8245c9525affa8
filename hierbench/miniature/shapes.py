"""How things look: each kind a few signed distance functions, in coordinates where the thing fills [−1, 1]².

u runs right, v runs down. A distance is negative inside; what a shape covers of a pixel is taken from it
directly, so edges are smooth. Only + − × ÷, square roots and comparisons of doubles, one array operation at a
time: their results are exact by IEEE 754, so every platform draws the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

Colour = tuple[float, ...]  # one number a channel of the canvas

OUTLINE = 1.1  # pixels of ink around a body
MARGIN = 3  # pixels around a sprite's [−1, 1]², for the outline


class Pen:
    """Draws on a canvas (channels, H, W) of doubles in coordinates of its own, inside a window around them.

    `x, y` is the pixel corner that becomes the origin, `radius` how many pixels are 1.
    """

    def __init__(self, canvas, x, y, radius, *, reach=1.0):
        height, width = canvas.shape[1:]
        extent = int(radius * reach) + MARGIN
        left, top = max(x - extent, 0), max(y - extent, 0)
        self.window = canvas[:, top : min(y + extent, height), left : min(x + extent, width)]
        self.u = (np.arange(left, left + self.window.shape[2]) + (0.5 - x)) / radius
        self.v = ((np.arange(top, top + self.window.shape[1]) + (0.5 - y)) / radius)[:, None]
        self.radius = radius

    # ----------------------------------------------------------------------------------------------- painting

    def fill(self, distance: np.ndarray, colour: Colour) -> None:
        """Paint the inside of a shape; a pixel on its edge takes the share that is covered."""
        share = np.minimum(np.maximum(0.5 - distance * self.radius, 0.0), 1.0)
        for channel, value in zip(self.window, colour, strict=True):
            channel += (value - channel) * share

    def body(self, *parts: np.ndarray, colour: Colour | None = None) -> None:
        """Paint the union of the parts, by default in the thing's colour, with ink around it."""
        distance = union(*parts)
        self.fill(distance - OUTLINE / self.radius, INK)
        self.fill(distance, colour or BODY)

    # ------------------------------------------------------------------------------------------------- shapes

    def circle(self, x, y, radius):
        du, dv = self.u - x, self.v - y
        return np.sqrt(du * du + dv * dv) - radius

    def ring(self, x, y, radius, half_width):
        return np.abs(self.circle(x, y, radius)) - half_width

    def ellipse(self, x, y, wide, high):
        """Half axes `wide` and `high`; the distance is of first order, exact on the edge."""
        p, q = (self.u - x) / wide, (self.v - y) / high
        slope_u, slope_v = p / wide, q / high
        return (p * p + q * q - 1.0) / (2.0 * np.sqrt(slope_u * slope_u + slope_v * slope_v) + 1e-9)

    def box(self, x, y, wide, high, corner=0.0):
        """A rectangle with half sides `wide` and `high`, its corners rounded inwards."""
        a, b = np.abs(self.u - x) - (wide - corner), np.abs(self.v - y) - (high - corner)
        p, q = np.maximum(a, 0.0), np.maximum(b, 0.0)
        return np.sqrt(p * p + q * q) + np.minimum(np.maximum(a, b), 0.0) - corner

    def line(self, x1, y1, x2, y2, half_width):
        """A stroke with round ends."""
        du, dv, run, rise = self.u - x1, self.v - y1, x2 - x1, y2 - y1
        along = np.minimum(np.maximum((du * run + dv * rise) / (run * run + rise * rise), 0.0), 1.0)
        p, q = du - along * run, dv - along * rise
        return np.sqrt(p * p + q * q) - half_width

    def polygon(self, *corners: tuple[float, float]):
        """A convex polygon, corners clockwise as seen; outside near a corner too small a distance."""
        return reduce(np.maximum, (self._side(*corners[i - 1], *corners[i]) for i in range(len(corners))))

    def star(self, x, y, radius):
        """A five-pointed star: the points inside at least four of its five lines."""
        corners = [(x + a * radius, y + b * radius) for a, b in PENTAGON]
        sides = [self._side(*corners[i], *corners[(i + 2) % 5]) for i in range(5)]
        return np.sort(np.stack(sides), axis=0)[3]

    def _side(self, x1, y1, x2, y2):
        run, rise = x2 - x1, y2 - y1
        length = float(np.sqrt(run * run + rise * rise))
        return (self.u - x1) * (rise / length) - (self.v - y1) * (run / length)


PENTAGON = (
    (0.0, -1.0),
    (0.9510565163, -0.3090169944),
    (0.5877852523, 0.8090169944),
    (-0.5877852523, 0.8090169944),
    (-0.9510565163, -0.3090169944),
)
_HALF = 0.7071067812
OCTAGON = (
    (1.0, 0.0), (_HALF, _HALF), (0.0, 1.0), (-_HALF, _HALF),
    (-1.0, 0.0), (-_HALF, -_HALF), (0.0, -1.0), (_HALF, -_HALF),
)  # fmt: skip


def union(*parts: np.ndarray) -> np.ndarray:
    return reduce(np.minimum, parts)


def both(*parts: np.ndarray) -> np.ndarray:
    """What lies inside all of the parts."""
    return reduce(np.maximum, parts)


def without(shape: np.ndarray, hole: np.ndarray) -> np.ndarray:
    return np.maximum(shape, -hole)


# ---------------------------------------------------------------------------------------------------- sprites


def _paint(red: float, green: float, blue: float) -> Colour:
    return (0.0, 0.0, red, green, blue)


# A sprite is drawn once for all colours and backgrounds: its channels say how much of a pixel is background,
# how much of the thing's own colour is added to it, and what red, green and blue of fixed colours.
NOTHING: Colour = (1.0, 0.0, 0.0, 0.0, 0.0)
BODY: Colour = (0.0, 1.0, 0.0, 0.0, 0.0)
DARK: Colour = (0.0, 0.66, 0.0, 0.0, 0.0)
LIGHT: Colour = (0.0, 0.5, 127.5, 127.5, 127.5)
INK = _paint(28, 26, 36)
SNOW = _paint(250, 250, 250)
GREY = _paint(128, 130, 138)
STONE = _paint(176, 172, 166)
GLASS = _paint(176, 222, 244)
GOLD = _paint(240, 170, 40)
LAMP = _paint(255, 236, 120)
WOOD = _paint(122, 82, 48)
STEM = _paint(58, 134, 62)
SKIN = _paint(150, 164, 96)
ROOF = _paint(92, 74, 74)


@dataclass(frozen=True)
class Sprite:
    """A drawn thing, facing right: channels (5, S, S) as above and the tight box of what it covers."""

    channels: np.ndarray
    box: tuple[int, int, int, int]  # left, top, right, bottom; the last two exclusive


@lru_cache(maxsize=2048)
def sprite(kind: str, radius: int) -> Sprite:
    """The thing with the given half width in pixels; S = 2 (radius + MARGIN)."""
    side = 2 * (radius + MARGIN)
    canvas = np.empty((5, side, side))
    canvas[:] = np.array(NOTHING)[:, None, None]
    DRAW[kind](Pen(canvas, side // 2, side // 2, radius))
    covered = canvas[0] < 1.0
    rows, columns = np.flatnonzero(covered.any(1)), np.flatnonzero(covered.any(0))
    canvas.setflags(write=False)
    return Sprite(canvas, (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1))


# ---------------------------------------------------------------------------------------------------- animals


def dog(p: Pen) -> None:
    p.body(*(p.line(x, 0.3, x, 0.84, 0.1) for x in (-0.38, 0.36)), colour=DARK)
    p.body(
        p.ellipse(-0.05, 0.18, 0.62, 0.3),
        p.circle(0.5, -0.4, 0.34),
        p.ellipse(0.76, -0.26, 0.22, 0.17),
        p.line(0.32, 0.1, 0.45, -0.3, 0.2),
        p.line(-0.58, 0.3, -0.56, 0.84, 0.11),
        p.line(0.18, 0.3, 0.18, 0.84, 0.11),
        p.line(-0.6, 0.02, -0.88, -0.42, 0.08),
    )
    p.fill(p.ellipse(0.27, -0.3, 0.15, 0.34), DARK)
    p.fill(p.circle(0.56, -0.48, 0.08), INK)
    p.fill(p.circle(0.93, -0.34, 0.1), INK)
    p.fill(p.line(0.72, -0.16, 0.9, -0.16, 0.025), INK)


def cat(p: Pen) -> None:
    p.body(p.line(0.3, 0.75, 0.72, 0.62, 0.1), p.line(0.72, 0.62, 0.8, 0.15, 0.1))
    p.body(
        p.ellipse(0.0, 0.45, 0.46, 0.5),
        p.ellipse(0.0, -0.32, 0.54, 0.44),
        p.polygon((-0.53, -0.94), (-0.1, -0.6), (-0.5, -0.3)),
        p.polygon((0.53, -0.94), (0.5, -0.3), (0.1, -0.6)),
    )
    p.fill(p.ellipse(0.0, 0.55, 0.22, 0.3), LIGHT)
    p.fill(p.line(-0.13, 0.6, -0.13, 0.9, 0.03), DARK)
    p.fill(p.line(0.13, 0.6, 0.13, 0.9, 0.03), DARK)
    for x in (-0.22, 0.22):
        p.fill(p.ellipse(x, -0.38, 0.13, 0.13), LAMP)
        p.fill(p.ellipse(x, -0.38, 0.05, 0.12), INK)
        for y in (-0.2, -0.08):
            p.fill(p.line(x, -0.15, 3.4 * x, y, 0.02), INK)
    p.fill(p.polygon((-0.08, -0.22), (0.08, -0.22), (0.0, -0.1)), INK)


def elephant(p: Pen) -> None:
    p.body(*(p.box(x, 0.62, 0.12, 0.24) for x in (-0.38, 0.2)), colour=DARK)
    p.body(
        p.ellipse(-0.22, 0.02, 0.62, 0.5),
        p.ellipse(0.42, -0.2, 0.34, 0.36),
        p.box(-0.62, 0.6, 0.15, 0.3, 0.04),
        p.box(-0.06, 0.6, 0.15, 0.3, 0.04),
        p.line(0.66, -0.1, 0.82, 0.35, 0.12),
        p.line(0.82, 0.35, 0.8, 0.62, 0.1),
        p.line(0.8, 0.68, 0.92, 0.7, 0.08),
        p.line(-0.8, 0.0, -0.92, 0.35, 0.04),
    )
    p.fill(p.ellipse(0.2, -0.14, 0.26, 0.36), INK)
    p.fill(p.ellipse(0.2, -0.14, 0.22, 0.32), LIGHT)
    p.fill(p.circle(0.56, -0.26, 0.07), INK)
    p.fill(p.line(0.56, 0.12, 0.66, 0.3, 0.06), SNOW)


def rabbit(p: Pen) -> None:
    p.body(
        p.ellipse(-0.22, -0.62, 0.15, 0.36),
        p.ellipse(0.22, -0.62, 0.15, 0.36),
        p.circle(0.0, -0.08, 0.38),
        p.ellipse(0.0, 0.58, 0.42, 0.38),
        p.ellipse(-0.34, 0.86, 0.2, 0.11),
        p.ellipse(0.34, 0.86, 0.2, 0.11),
    )
    p.fill(p.ellipse(-0.22, -0.6, 0.07, 0.26), LIGHT)
    p.fill(p.ellipse(0.22, -0.6, 0.07, 0.26), LIGHT)
    p.fill(p.ellipse(0.0, 0.6, 0.24, 0.26), LIGHT)
    for x in (-0.16, 0.16):
        p.fill(p.circle(x, -0.15, 0.075), INK)
    p.fill(p.ellipse(0.0, 0.0, 0.08, 0.06), INK)
    p.fill(p.box(0.0, 0.15, 0.08, 0.09), SNOW)


def duck(p: Pen) -> None:
    p.body(p.polygon((0.6, -0.5), (0.98, -0.38), (0.6, -0.22)), colour=GOLD)
    p.body(
        p.ellipse(-0.08, 0.32, 0.74, 0.46),
        p.circle(0.38, -0.4, 0.36),
        p.line(0.3, -0.2, 0.2, 0.15, 0.24),
        p.polygon((-0.96, -0.22), (-0.4, 0.0), (-0.6, 0.5)),
    )
    p.fill(p.ellipse(-0.16, 0.32, 0.38, 0.22), DARK)
    p.fill(p.circle(0.46, -0.48, 0.09), SNOW)
    p.fill(p.circle(0.48, -0.48, 0.06), INK)


def owl(p: Pen) -> None:
    p.body(
        p.ellipse(0.0, 0.15, 0.62, 0.76),
        p.polygon((-0.6, -0.94), (-0.1, -0.55), (-0.55, -0.2)),
        p.polygon((0.6, -0.94), (0.55, -0.2), (0.1, -0.55)),
    )
    p.fill(p.ellipse(0.0, 0.45, 0.34, 0.38), LIGHT)
    for y in (0.34, 0.54):
        for x in (-0.14, 0.14):
            p.fill(p.line(x - 0.06, y, x + 0.06, y, 0.035), DARK)
    p.fill(both(p.ellipse(-0.5, 0.3, 0.2, 0.44), p.u + 0.36), DARK)
    p.fill(both(p.ellipse(0.5, 0.3, 0.2, 0.44), 0.36 - p.u), DARK)
    for x in (-0.26, 0.26):
        p.fill(p.circle(x, -0.28, 0.27), INK)
        p.fill(p.circle(x, -0.28, 0.23), SNOW)
        p.fill(p.circle(x, -0.28, 0.12), INK)
        p.fill(p.ellipse(x, 0.9, 0.16, 0.08), GOLD)
    p.fill(p.polygon((-0.1, -0.2), (0.1, -0.2), (0.0, 0.06)), GOLD)


def penguin(p: Pen) -> None:
    p.body(p.ellipse(-0.22, 0.9, 0.24, 0.09), p.ellipse(0.22, 0.9, 0.24, 0.09), colour=GOLD)
    p.body(p.line(-0.4, -0.05, -0.66, 0.45, 0.1), p.line(0.4, -0.05, 0.66, 0.45, 0.1), colour=DARK)
    p.body(p.ellipse(0.0, 0.25, 0.52, 0.64), p.circle(0.0, -0.52, 0.38))
    p.fill(p.ellipse(0.0, 0.34, 0.32, 0.48), SNOW)
    p.fill(p.circle(-0.14, -0.5, 0.17), SNOW)
    p.fill(p.circle(0.14, -0.5, 0.17), SNOW)
    p.fill(p.circle(-0.14, -0.52, 0.07), INK)
    p.fill(p.circle(0.14, -0.52, 0.07), INK)
    p.fill(p.polygon((-0.14, -0.4), (0.14, -0.4), (0.0, -0.18)), GOLD)


def fish(p: Pen) -> None:
    p.body(p.polygon((-0.95, -0.48), (-0.45, 0.0), (-0.95, 0.48)), colour=DARK)
    p.body(
        p.polygon((-0.2, -0.4), (0.1, -0.7), (0.35, -0.35)),
        p.polygon((-0.1, 0.35), (0.2, 0.35), (-0.1, 0.62)),
        colour=DARK,
    )
    p.body(p.ellipse(0.15, 0.0, 0.78, 0.46))
    for x in (-0.28, -0.04):
        p.fill(both(p.box(x, 0.0, 0.055, 0.5), p.ellipse(0.15, 0.0, 0.74, 0.42)), LIGHT)
    p.fill(p.line(0.3, -0.22, 0.3, 0.22, 0.03), DARK)
    p.fill(p.circle(0.56, -0.12, 0.13), SNOW)
    p.fill(p.circle(0.59, -0.12, 0.08), INK)
    p.fill(p.line(0.72, 0.14, 0.86, 0.1, 0.03), INK)


def turtle(p: Pen) -> None:
    p.body(
        p.ellipse(0.78, 0.1, 0.2, 0.22),
        p.line(0.5, 0.3, 0.72, 0.16, 0.11),
        p.ellipse(-0.48, 0.56, 0.16, 0.2),
        p.ellipse(0.36, 0.56, 0.16, 0.2),
        p.polygon((-0.98, 0.44), (-0.6, 0.2), (-0.6, 0.44)),
        colour=SKIN,
    )
    p.body(both(p.ellipse(-0.08, 0.38, 0.7, 0.86), p.v - 0.4))
    for x1, y1, x2, y2 in ((-0.3, -0.32, -0.4, 0.36), (0.14, -0.32, 0.24, 0.36), (-0.68, 0.08, 0.52, 0.08)):
        p.fill(p.line(x1, y1, x2, y2, 0.035), DARK)
    p.fill(p.line(-0.74, 0.38, 0.58, 0.38, 0.06), DARK)
    p.fill(p.circle(0.84, 0.04, 0.06), INK)


def butterfly(p: Pen) -> None:
    for side in (-1.0, 1.0):
        p.body(
            p.line(0.1 * side, 0.05, 0.42 * side, 0.5, 0.14), p.circle(0.46 * side, 0.54, 0.26), colour=DARK
        )
    for side in (-1.0, 1.0):
        p.body(
            p.line(0.08 * side, -0.1, 0.62 * side, -0.5, 0.16),
            p.line(0.62 * side, -0.58, 0.78 * side, -0.2, 0.18),
            p.line(0.3 * side, -0.14, 0.7 * side, -0.14, 0.16),
        )
        p.fill(p.circle(0.66 * side, -0.44, 0.14), LIGHT)
        p.fill(p.circle(0.46 * side, -0.16, 0.08), LIGHT)
        p.fill(p.circle(0.48 * side, 0.56, 0.12), LIGHT)
        p.fill(p.line(0.0, -0.5, 0.24 * side, -0.9, 0.035), INK)
        p.fill(p.circle(0.26 * side, -0.9, 0.06), INK)
    p.fill(p.line(0.0, -0.5, 0.0, 0.6, 0.09), INK)


# ----------------------------------------------------------------------------------------------------- plants


def palm(p: Pen) -> None:
    p.body(p.line(0.12, 0.9, 0.12, 0.4, 0.1), p.line(0.12, 0.4, 0.0, -0.25, 0.09), colour=WOOD)
    for y in (0.0, 0.3, 0.6):
        p.fill(p.line(-0.06 + 0.12 * (y > 0.1), y, 0.2, y, 0.025), INK)
    fronds = ((-0.5, -0.66, -0.92, -0.3), (0.5, -0.66, 0.92, -0.3), (-0.42, -0.28, -0.66, 0.14),
              (0.42, -0.28, 0.66, 0.14), (-0.14, -0.7, -0.36, -0.92), (0.16, -0.7, 0.4, -0.92))  # fmt: skip
    p.body(
        *(p.line(0.0, -0.4, x1, y1, 0.13) for x1, y1, _, _ in fronds),
        *(p.line(x1, y1, x2, y2, 0.09) for x1, y1, x2, y2 in fronds),
    )
    for x1, y1, _, _ in fronds[:4]:
        p.fill(p.line(0.0, -0.4, x1, y1, 0.03), DARK)
    p.fill(p.circle(-0.1, -0.28, 0.1), WOOD)
    p.fill(p.circle(0.1, -0.28, 0.1), WOOD)


def pine(p: Pen) -> None:
    p.body(p.box(0.0, 0.8, 0.12, 0.16), colour=WOOD)
    for top, bottom, half, colour in (
        (-0.1, 0.66, 0.72, DARK),
        (-0.5, 0.26, 0.58, BODY),
        (-0.95, -0.14, 0.44, BODY),
    ):
        p.body(p.polygon((0.0, top), (half, bottom), (-half, bottom)), colour=colour)


def cactus(p: Pen) -> None:
    p.body(
        p.line(0.0, -0.7, 0.0, 0.85, 0.24),
        p.line(-0.2, 0.3, -0.62, 0.3, 0.15),
        p.line(-0.62, 0.3, -0.62, -0.2, 0.15),
        p.line(0.2, 0.08, 0.62, 0.08, 0.15),
        p.line(0.62, 0.08, 0.62, -0.42, 0.15),
    )
    for x, top, bottom in ((-0.08, -0.7, 0.95), (0.08, -0.7, 0.95), (-0.62, -0.2, 0.28), (0.62, -0.42, 0.06)):
        p.fill(p.line(x, top, x, bottom, 0.03), DARK)
    for x, y in (
        (-0.26, -0.5),
        (0.26, -0.3),
        (-0.26, 0.0),
        (0.26, 0.5),
        (-0.78, 0.0),
        (0.78, -0.2),
        (-0.26, 0.7),
    ):
        p.fill(p.line(x - 0.06, y, x + 0.06, y, 0.025), INK)


def tulip(p: Pen) -> None:
    p.body(
        p.line(0.0, 0.0, 0.0, 0.9, 0.07),
        p.line(-0.05, 0.85, -0.5, 0.3, 0.1),
        p.line(0.05, 0.85, 0.5, 0.3, 0.1),
        colour=STEM,
    )
    cup = both(p.ellipse(0.0, -0.42, 0.5, 0.54), -0.42 - p.v)
    p.body(
        cup,
        p.polygon((-0.5, -0.94), (-0.1, -0.4), (-0.5, -0.38)),
        p.polygon((0.0, -0.94), (0.3, -0.38), (-0.3, -0.38)),
        p.polygon((0.5, -0.94), (0.5, -0.38), (0.1, -0.4)),
    )
    p.fill(p.line(-0.14, -0.55, -0.2, -0.1, 0.035), DARK)
    p.fill(p.line(0.14, -0.55, 0.2, -0.1, 0.035), DARK)


def sunflower(p: Pen) -> None:
    p.body(
        p.line(0.0, 0.1, 0.0, 0.92, 0.07),
        p.ellipse(-0.26, 0.66, 0.24, 0.11),
        p.ellipse(0.26, 0.72, 0.24, 0.11),
        colour=STEM,
    )
    p.body(*(p.line(0.2 * a, 0.2 * b - 0.32, 0.5 * a, 0.5 * b - 0.32, 0.15) for a, b in OCTAGON))
    p.fill(p.circle(0.0, -0.32, 0.37), INK)
    p.fill(p.circle(0.0, -0.32, 0.32), WOOD)
    for a, b in OCTAGON[::2]:
        p.fill(p.circle(0.14 * a, 0.14 * b - 0.32, 0.05), INK)


# --------------------------------------------------------------------------------------------------- vehicles


def wheel(p: Pen, x: float, y: float, radius: float) -> None:
    p.fill(p.circle(x, y, radius), INK)
    p.fill(p.circle(x, y, radius * 0.5), STONE)


def car(p: Pen) -> None:
    p.body(
        p.polygon((-0.4, -0.5), (0.28, -0.5), (0.6, 0.05), (-0.64, 0.05)),
        p.box(0.0, 0.2, 0.95, 0.24, 0.1),
    )
    p.fill(p.polygon((-0.34, -0.38), (-0.08, -0.38), (-0.08, -0.04), (-0.5, -0.04)), GLASS)
    p.fill(p.polygon((0.04, -0.38), (0.24, -0.38), (0.44, -0.04), (0.04, -0.04)), GLASS)
    p.fill(p.line(-0.02, 0.02, -0.02, 0.36, 0.025), DARK)
    p.fill(p.circle(0.86, 0.14, 0.09), LAMP)
    p.fill(p.box(-0.9, 0.16, 0.05, 0.08), ROOF)
    wheel(p, -0.5, 0.42, 0.25)
    wheel(p, 0.5, 0.42, 0.25)


def truck(p: Pen) -> None:
    p.body(p.box(0.0, 0.34, 0.94, 0.08), colour=GREY)
    p.body(p.polygon((0.42, -0.32), (0.74, -0.32), (0.94, 0.02), (0.94, 0.32), (0.42, 0.32)), colour=LIGHT)
    p.body(p.box(-0.3, -0.18, 0.64, 0.5))
    for x in (-0.62, -0.3, 0.02):
        p.fill(p.line(x, -0.5, x, 0.14, 0.03), DARK)
    p.fill(p.polygon((0.54, -0.2), (0.7, -0.2), (0.83, 0.02), (0.54, 0.02)), GLASS)
    p.fill(p.circle(0.9, 0.2, 0.07), LAMP)
    for x in (-0.66, -0.2, 0.66):
        wheel(p, x, 0.5, 0.22)


def bicycle(p: Pen) -> None:
    for x in (-0.54, 0.54):
        p.body(p.ring(x, 0.3, 0.38, 0.06), colour=GREY)
        p.fill(p.line(x, -0.02, x, 0.62, 0.015), GREY)
        p.fill(p.line(x - 0.32, 0.3, x + 0.32, 0.3, 0.015), GREY)
    p.body(
        p.line(-0.54, 0.3, -0.26, -0.28, 0.085),
        p.line(-0.26, -0.28, 0.36, -0.28, 0.085),
        p.line(0.36, -0.28, -0.04, 0.3, 0.085),
        p.line(-0.04, 0.3, -0.26, -0.28, 0.085),
        p.line(-0.04, 0.3, -0.54, 0.3, 0.085),
        p.line(0.54, 0.3, 0.3, -0.5, 0.085),
    )
    p.fill(p.line(-0.42, -0.42, -0.14, -0.42, 0.08), INK)
    p.fill(p.line(-0.28, -0.4, -0.26, -0.28, 0.04), INK)
    p.fill(p.line(0.3, -0.54, 0.54, -0.58, 0.06), INK)
    p.fill(p.circle(-0.04, 0.3, 0.1), INK)


def airplane(p: Pen) -> None:
    p.body(p.polygon((-0.92, -0.62), (-0.66, -0.62), (-0.36, -0.02), (-0.82, -0.02)), colour=DARK)
    p.body(p.polygon((-0.1, -0.2), (-0.34, -0.6), (-0.16, -0.6), (0.26, -0.14)), colour=DARK)
    p.body(
        p.line(-0.62, 0.0, 0.6, 0.0, 0.22),
        p.ellipse(0.64, 0.02, 0.32, 0.2),
        p.polygon((-0.96, -0.14), (-0.5, -0.2), (-0.5, 0.2)),
    )
    for x in (-0.42, -0.18, 0.06, 0.3):
        p.fill(p.circle(x, -0.06, 0.065), GLASS)
    p.fill(p.polygon((0.56, -0.15), (0.68, -0.15), (0.84, -0.02), (0.56, -0.02)), GLASS)
    p.body(p.polygon((-0.06, 0.06), (0.32, 0.06), (-0.22, 0.64), (-0.46, 0.64)), colour=DARK)


def sailboat(p: Pen) -> None:
    p.body(p.polygon((-0.06, -0.9), (-0.06, 0.36), (-0.72, 0.36)), colour=SNOW)
    p.body(p.polygon((0.06, -0.74), (0.72, 0.36), (0.06, 0.36)))
    p.fill(p.line(0.0, -0.95, 0.0, 0.5, 0.04), WOOD)
    p.body(p.polygon((-0.92, 0.48), (0.92, 0.48), (0.58, 0.9), (-0.6, 0.9)))
    p.fill(p.line(-0.76, 0.62, 0.76, 0.62, 0.04), LIGHT)


def rocket(p: Pen) -> None:
    p.fill(p.polygon((-0.24, 0.58), (0.24, 0.58), (0.0, 0.99)), GOLD)
    p.fill(p.polygon((-0.13, 0.58), (0.13, 0.58), (0.0, 0.84)), LAMP)
    p.body(p.polygon((-0.26, 0.1), (-0.26, 0.56), (-0.66, 0.76), (-0.62, 0.46)), colour=DARK)
    p.body(p.polygon((0.26, 0.1), (0.62, 0.46), (0.66, 0.76), (0.26, 0.56)), colour=DARK)
    p.body(both(p.ellipse(0.0, 0.1, 0.36, 1.06), p.v - 0.58))
    p.fill(both(p.ellipse(0.0, 0.1, 0.33, 1.03), p.v + 0.52), DARK)
    p.fill(p.circle(0.0, -0.2, 0.2), INK)
    p.fill(p.circle(0.0, -0.2, 0.15), GLASS)
    p.fill(p.line(-0.28, 0.36, 0.28, 0.36, 0.05), LIGHT)


# ------------------------------------------------------------------------------------------------- structures


def house(p: Pen) -> None:
    p.body(p.box(0.46, -0.56, 0.12, 0.26), colour=GREY)
    p.body(p.box(0.0, 0.36, 0.72, 0.54))
    p.body(p.polygon((0.0, -0.9), (0.95, -0.14), (-0.95, -0.14)), colour=ROOF)
    p.fill(p.box(0.0, 0.58, 0.17, 0.32), WOOD)
    for x in (-0.44, 0.44):
        p.fill(p.box(x, 0.26, 0.19, 0.18), INK)
        p.fill(p.box(x, 0.26, 0.15, 0.14), GLASS)
        p.fill(p.line(x, 0.12, x, 0.4, 0.02), INK)
        p.fill(p.line(x - 0.15, 0.26, x + 0.15, 0.26, 0.02), INK)


def church(p: Pen) -> None:
    p.fill(p.line(-0.48, -0.96, -0.48, -0.66, 0.05), INK)
    p.fill(p.line(-0.6, -0.86, -0.36, -0.86, 0.05), INK)
    p.body(p.box(0.26, 0.5, 0.64, 0.4))
    p.body(p.polygon((-0.2, -0.24), (0.76, -0.24), (0.94, 0.14), (-0.2, 0.14)), colour=ROOF)
    p.body(p.box(-0.48, 0.32, 0.28, 0.58))
    p.body(p.polygon((-0.48, -0.78), (-0.14, -0.24), (-0.82, -0.24)), colour=ROOF)
    p.fill(union(p.box(-0.48, 0.76, 0.12, 0.14), p.circle(-0.48, 0.62, 0.12)), WOOD)
    p.fill(p.circle(-0.48, 0.06, 0.13), GLASS)
    for x in (0.08, 0.38, 0.68):
        p.fill(union(p.box(x, 0.54, 0.08, 0.16), p.circle(x, 0.38, 0.08)), GLASS)


def castle(p: Pen) -> None:
    for x in (-0.68, 0.68):
        p.fill(p.line(x, -0.95, x, -0.6, 0.03), INK)
        p.fill(p.polygon((x, -0.97), (x + 0.26, -0.87), (x, -0.77)), GOLD)
    teeth = [p.box(x, -0.06, 0.07, 0.1) for x in (-0.26, 0.0, 0.26)]
    p.body(p.box(0.0, 0.46, 0.5, 0.44), *teeth)
    for x in (-0.68, 0.68):
        p.body(p.box(x, 0.24, 0.26, 0.66), *(p.box(x + d, -0.5, 0.07, 0.1) for d in (-0.19, 0.0, 0.19)))
        p.fill(p.line(x, -0.14, x, 0.06, 0.07), INK)
    p.fill(union(p.box(0.0, 0.72, 0.2, 0.18), p.circle(0.0, 0.54, 0.2)), INK)
    p.fill(union(p.box(0.0, 0.74, 0.14, 0.16), p.circle(0.0, 0.56, 0.14)), WOOD)


def lighthouse(p: Pen) -> None:
    p.fill(p.polygon((0.2, -0.68), (0.95, -0.92), (0.95, -0.4), (0.2, -0.58)), LAMP)
    tower = p.polygon((-0.3, -0.46), (0.3, -0.46), (0.48, 0.84), (-0.48, 0.84))
    p.body(tower)
    for y in (-0.1, 0.42):
        p.fill(both(tower, p.box(0.0, y, 0.5, 0.1)), SNOW)
    p.body(p.box(0.0, -0.64, 0.18, 0.16), colour=LAMP)
    p.body(p.polygon((0.0, -0.98), (0.3, -0.78), (-0.3, -0.78)), p.box(0.0, -0.46, 0.4, 0.05))
    p.body(p.box(0.0, 0.86, 0.66, 0.07), colour=STONE)
    p.fill(union(p.box(0.0, 0.74, 0.09, 0.1), p.circle(0.0, 0.64, 0.09)), INK)


def tent(p: Pen) -> None:
    p.fill(p.line(0.0, -0.8, 0.0, -0.5, 0.04), WOOD)
    p.body(p.polygon((0.0, -0.62), (0.94, 0.7), (-0.94, 0.7)))
    p.fill(p.polygon((0.0, -0.54), (-0.34, 0.7), (-0.86, 0.7)), LIGHT)
    p.fill(p.polygon((0.0, -0.3), (0.34, 0.7), (-0.34, 0.7)), INK)
    p.fill(p.polygon((0.0, -0.3), (0.1, 0.1), (-0.34, 0.7), (-0.4, 0.6)), DARK)
    p.fill(p.line(0.9, 0.66, 0.98, 0.78, 0.04), WOOD)
    p.fill(p.line(-0.9, 0.66, -0.98, 0.78, 0.04), WOOD)


# ---------------------------------------------------------------------------------------------- plane figures


def circle(p: Pen) -> None:
    p.body(p.circle(0.0, 0.0, 0.9))


def square(p: Pen) -> None:
    p.body(p.box(0.0, 0.0, 0.82, 0.82))


def triangle(p: Pen) -> None:
    p.body(p.polygon((0.0, -0.86), (0.94, 0.76), (-0.94, 0.76)))


def star(p: Pen) -> None:
    p.body(p.star(0.0, 0.06, 0.9))


DRAW: dict[str, Callable[[Pen], None]] = {
    draw.__name__: draw
    for draw in (
        dog, cat, elephant, rabbit, duck, owl, penguin, fish, turtle, butterfly, palm, pine, cactus, tulip,
        sunflower, car, truck, bicycle, airplane, sailboat, rocket, house, church, castle, lighthouse, tent,
        circle, square, triangle, star,
    )
}  # fmt: skip
"""How each kind of thing is drawn, by its name."""
