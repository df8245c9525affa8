"""Backgrounds of scenes: eight places or times, each in several variants, drawn as the things in `shapes`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from hierbench.miniature.draws import Draws
from hierbench.miniature.shapes import Pen, union

SIDE = 64  # pixels of a scene
VARIANTS = 24  # of each background

Rgb = tuple[float, float, float]


@lru_cache(maxsize=8 * VARIANTS)
def backdrop(name: str, variant: int) -> np.ndarray:
    """A background as (3, SIDE, SIDE) doubles in [0, 255], read-only."""
    canvas = np.zeros((3, SIDE, SIDE))
    DRAW[name](canvas, Draws("backdrop", name, variant))
    canvas.setflags(write=False)
    return canvas


def _fade(canvas: np.ndarray, first: int, last: int, top: Rgb, bottom: Rgb) -> None:
    """Rows first … last − 1 go from one colour to the other."""
    step = (np.arange(last - first) / max(last - first - 1, 1))[:, None]
    for channel, a, b in zip(canvas, top, bottom, strict=True):
        channel[first:last] = a + step * (b - a)


def _blob(canvas: np.ndarray, x: int, y: int, radius: int, colour: Rgb) -> None:
    pen = Pen(canvas, x, y, radius)
    pen.fill(pen.circle(0.0, 0.0, 1.0), colour)


def _cloud(canvas: np.ndarray, x: int, y: int, size: int, colour: Rgb) -> None:
    pen = Pen(canvas, x, y, size, reach=1.6)
    pen.fill(
        union(pen.circle(-0.7, 0.1, 0.5), pen.circle(0.0, -0.1, 0.65), pen.circle(0.75, 0.15, 0.45),
              pen.box(0.0, 0.38, 1.1, 0.22, 0.2)),
        colour,
    )  # fmt: skip


def _hill(canvas: np.ndarray, x: int, y: int, wide: int, high: float, colour: Rgb) -> None:
    """The upper part of an ellipse that stands `high` times its half width above y."""
    pen = Pen(canvas, x, y, wide)
    pen.fill(pen.ellipse(0.0, 0.0, 1.0, high), colour)


def sky(canvas: np.ndarray, draws: Draws) -> None:
    _fade(canvas, 0, SIDE, (108, 176, 240), (190, 224, 250))
    for _ in range(draws.between(3, 4)):
        _cloud(canvas, draws.below(SIDE), draws.between(6, 58), draws.between(6, 10), (248, 250, 255))


def night(canvas: np.ndarray, draws: Draws) -> None:
    _fade(canvas, 0, SIDE, (14, 18, 52), (44, 48, 96))
    for _ in range(draws.between(22, 30)):
        x, y, shine = draws.below(SIDE), draws.below(SIDE), draws.between(150, 240)
        canvas[:, y, x] = (shine, shine, 0.8 * shine)
    x, y, size = draws.between(8, 56), draws.between(7, 14), draws.between(5, 7)
    _blob(canvas, x, y, size, (244, 238, 196))
    _blob(canvas, x + 3, y - 2, size, (22, 26, 62))


def meadow(canvas: np.ndarray, draws: Draws) -> None:
    horizon = draws.between(20, 26)
    _fade(canvas, 0, horizon, (150, 206, 244), (214, 236, 250))
    _fade(canvas, horizon, SIDE, (128, 190, 84), (84, 150, 58))
    _hill(canvas, draws.below(SIDE), horizon + 2, draws.between(20, 32), 0.3, (128, 190, 84))
    for _ in range(36):
        x, y = draws.below(SIDE), draws.between(horizon + 4, SIDE - 3)
        canvas[:, y : y + 3, x] = np.array((62.0, 122.0, 46.0))[:, None]


def sea(canvas: np.ndarray, draws: Draws) -> None:
    horizon = draws.between(18, 26)
    _fade(canvas, 0, horizon, (176, 210, 232), (222, 234, 240))
    _fade(canvas, horizon, SIDE, (36, 132, 168), (14, 78, 124))
    for _ in range(18):
        x, y, length = draws.between(-4, SIDE - 4), draws.between(horizon + 3, SIDE - 2), draws.between(4, 9)
        canvas[:, y, max(x, 0) : x + length] = np.array((148.0, 206.0, 220.0))[:, None]
        canvas[:, y - 1, max(x + 2, 0) : max(x + length - 2, 0)] = np.array((200.0, 232.0, 238.0))[:, None]


def desert(canvas: np.ndarray, draws: Draws) -> None:
    horizon = draws.between(22, 28)
    _fade(canvas, 0, horizon, (244, 218, 160), (250, 236, 200))
    _blob(canvas, draws.between(8, 56), draws.between(7, 12), 5, (255, 250, 220))
    _fade(canvas, horizon, SIDE, (226, 186, 120), (206, 158, 92))
    _hill(canvas, draws.between(0, 24), horizon + 3, draws.between(18, 26), 0.36, (226, 186, 120))
    _hill(canvas, draws.between(40, 63), horizon + 14, draws.between(22, 30), 0.34, (216, 172, 106))
    _hill(canvas, draws.between(4, 40), SIDE, draws.between(26, 34), 0.4, (198, 150, 84))


def snow(canvas: np.ndarray, draws: Draws) -> None:
    horizon = draws.between(26, 34)
    _fade(canvas, 0, horizon, (150, 166, 186), (192, 204, 218))
    _fade(canvas, horizon, SIDE, (228, 234, 242), (208, 218, 232))
    _hill(canvas, draws.below(SIDE), horizon + 3, draws.between(22, 32), 0.3, (228, 234, 242))
    for _ in range(26):
        x, y = draws.below(SIDE - 1), draws.below(SIDE - 1)
        canvas[:, y : y + 2, x : x + 2] = 252.0


def room(canvas: np.ndarray, draws: Draws) -> None:
    floor = draws.between(44, 50)
    canvas[:, :floor] = np.array((222.0, 204.0, 184.0))[:, None, None]
    for x in range(draws.below(8), SIDE, 8):
        canvas[:, :floor, x : x + 2] = np.array((206.0, 184.0, 166.0))[:, None, None]
    canvas[:, floor : floor + 2] = np.array((246.0, 242.0, 232.0))[:, None, None]
    _fade(canvas, floor + 2, SIDE, (166, 122, 84), (148, 104, 70))
    for y in range(floor + 6, SIDE, 5):
        canvas[:, y] = np.array((122.0, 84.0, 56.0))[:, None]
    left, top = draws.between(2, 44), draws.between(3, 8)
    canvas[:, top : top + 17, left : left + 18] = np.array((250.0, 248.0, 242.0))[:, None, None]
    for x in (left + 2, left + 10):
        canvas[:, top + 2 : top + 15, x : x + 6] = np.array((158.0, 202.0, 232.0))[:, None, None]


def sunset(canvas: np.ndarray, draws: Draws) -> None:
    horizon = draws.between(42, 50)
    _fade(canvas, 0, horizon, (92, 56, 122), (250, 150, 84))
    _blob(canvas, draws.between(12, 52), horizon - draws.between(0, 3), draws.between(7, 10), (255, 226, 140))
    for _ in range(3):
        x, y, length = draws.between(-6, 50), draws.between(5, 30), draws.between(12, 24)
        canvas[:, y, max(x, 0) : x + length] = np.array((214.0, 122.0, 128.0))[:, None]
    _fade(canvas, horizon, SIDE, (74, 42, 66), (46, 28, 48))


DRAW: dict[str, Callable[[np.ndarray, Draws], None]] = {
    draw.__name__: draw for draw in (sky, night, meadow, sea, desert, snow, room, sunset)
}
