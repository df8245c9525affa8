"""The scenes: what is in number i of a split, and its picture.

`scene(split, i)` decides everything from the split's name and i alone, so scenes can be asked for in any
order and nothing is stored. `render` makes the pixels and the boxes of the things.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from hierbench.miniature.backdrops import SIDE, VARIANTS, backdrop
from hierbench.miniature.draws import Draws
from hierbench.miniature.shapes import MARGIN, sprite
from hierbench.miniature.vocabulary import BACKGROUNDS, COLOURS, HELD_OUT, INVERSE, KINDS, SIZES

SPLITS: dict[str, int] = {"train": 20_000, "test": 2_000, "pool": 400}
"""Number of scenes of each split. `pool` is where negative captions come from; it is drawn as `test` is."""

GRID = 16  # centres are multiples of it, pixels: what models of a few minutes can learn to recognise

_SINGLE = (9, 16)  # share of scenes with one thing
_SHADE, _TINT = 12, 8  # largest change of a body's and of the background's red, green and blue

Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels; the last two exclusive


@dataclass(frozen=True)
class Thing:
    """A thing in a scene: what captions may say of it, then how it is drawn."""

    kind: str
    colour: str
    size: str
    x: int  # the pixel corner at its centre
    y: int
    radius: int  # half its width, pixels
    mirrored: bool
    rgb: tuple[int, int, int]

    @property
    def held_out(self) -> bool:
        """Whether this kind in this colour is never seen in training."""
        return HELD_OUT[self.kind] == self.colour


@dataclass(frozen=True)
class Scene:
    """One or two things of different kinds before a background."""

    split: str
    index: int
    things: tuple[Thing, ...]
    relation: str | None  # of the first thing to the second: above, below, left or right
    background: str
    variant: int
    mirrored: bool  # the background
    tint: tuple[int, int, int]

    @property
    def id(self) -> str:
        return f"{self.split}-{self.index:05d}"

    @property
    def held_out(self) -> bool:
        """Whether some kind stands in a colour that training never shows."""
        return any(thing.held_out for thing in self.things)


@dataclass(frozen=True)
class Rendering:
    """A scene's picture (SIDE, SIDE, 3) uint8 and the tight box of each thing."""

    pixels: np.ndarray
    boxes: tuple[Box, ...]


def scene(split: str, index: int) -> Scene:
    """Scene `index` of a split, any index below SPLITS[split]; raises KeyError or IndexError otherwise."""
    if not 0 <= index < SPLITS[split]:
        raise IndexError(f"no scene {index} in split {split!r}: it has {SPLITS[split]}")
    draws = Draws("scene", split, index)
    background = draws.choice(tuple(BACKGROUNDS))
    single = draws.below(_SINGLE[1]) < _SINGLE[0]
    first = draws.below(len(KINDS))
    rows = [first] if single else [first, (first + 1 + draws.below(len(KINDS) - 1)) % len(KINDS)]
    looks = [_look(draws, KINDS[row].name, split) for row in rows]
    relation = None if single else draws.choice(tuple(INVERSE))
    radii = [SIZES[size] for _, _, size in looks]
    places = _place_one(draws, *radii) if relation is None else _place_two(draws, relation, *radii)
    things = tuple(
        Thing(
            kind, colour, size, x, y, radius,
            mirrored=draws.below(2) == 1,
            rgb=_rgb(min(max(value + draws.between(-_SHADE, _SHADE), 0), 255) for value in COLOURS[colour]),
        )
        for (kind, colour, size), radius, (x, y) in zip(looks, radii, places, strict=True)
    )  # fmt: skip
    return Scene(
        split, index, things, relation, background,
        variant=draws.below(VARIANTS),
        mirrored=draws.below(2) == 1,
        tint=_rgb(draws.between(-_TINT, _TINT) for _ in range(3)),
    )  # fmt: skip


def _rgb(values: Iterable[int]) -> tuple[int, int, int]:
    red, green, blue = values
    return red, green, blue


def _look(draws: Draws, kind: str, split: str) -> tuple[str, str, str]:
    colours = [c for c in COLOURS if split != "train" or c != HELD_OUT[kind]]
    return kind, draws.choice(colours), draws.choice(tuple(SIZES))


def _place_one(draws: Draws, radius: int) -> list[tuple[int, int]]:
    places = _places(radius)
    return [(draws.choice(places), draws.choice(places))]


def _place_two(draws: Draws, relation: str, radius: int, other: int) -> list[tuple[int, int]]:
    """Centres so that the things do not overlap and only the one relation holds: they are in line."""
    along = draws.choice(
        [(a, b) for a in _places(radius) for b in _places(other) if b - a >= radius + other]
        if relation in ("above", "left")
        else [(a, b) for a in _places(radius) for b in _places(other) if a - b >= radius + other]
    )
    across = draws.choice(_places(max(radius, other)))
    if relation in ("left", "right"):
        return [(place, across) for place in along]
    return [(across, place) for place in along]


@cache
def _places(radius: int) -> tuple[int, ...]:
    """Where the centre of a thing may be, on either axis, so that all of it lies in the picture."""
    return tuple(place for place in range(0, SIDE, GRID) if radius <= place <= SIDE - radius)


def render(scene: Scene) -> Rendering:
    """The picture of a scene and the boxes of its things, in the order of `scene.things`."""
    ground = backdrop(scene.background, scene.variant)
    canvas = ground[:, :, ::-1].copy() if scene.mirrored else ground.copy()
    canvas += np.array(scene.tint, float)[:, None, None]
    boxes = tuple(_stamp(canvas, thing) for thing in scene.things)
    pixels = np.minimum(np.maximum(canvas, 0.0), 255.0) + 0.5
    return Rendering(np.ascontiguousarray(pixels.astype(np.uint8).transpose(1, 2, 0)), boxes)


def _stamp(canvas: np.ndarray, thing: Thing) -> Box:
    """Draw a thing onto the canvas; returns its box."""
    drawn = sprite(thing.kind, thing.radius)
    side = 2 * (thing.radius + MARGIN)
    left, top = thing.x - side // 2, thing.y - side // 2
    a, b, c, d = drawn.box
    channels = drawn.channels
    if thing.mirrored:
        channels, a, c = channels[:, :, ::-1], side - c, side - a
    # what of the covered part lies inside the picture
    a, b, c, d = max(a, -left), max(b, -top), min(c, SIDE - left), min(d, SIDE - top)
    box = (left + a, top + b, left + c, top + d)
    window = canvas[:, box[1] : box[3], box[0] : box[2]]
    part = channels[:, b:d, a:c]
    window *= part[0]
    window += part[2:]
    for channel, value in zip(window, thing.rgb, strict=True):
        channel += part[1] * float(value)
    return box


@lru_cache(maxsize=4)
def all_scenes(split: str) -> tuple[Scene, ...]:
    """Every scene of a split, made once."""
    return tuple(scene(split, index) for index in range(SPLITS[split]))
