"""Captions made false of a scene by one change: colours swapped, the relation turned round, one word replaced.

Whether a caption is false is decided exactly (`captions.is_true`), not assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hierbench.miniature.captions import Meaning, full_meaning, is_true
from hierbench.miniature.draws import Draws
from hierbench.miniature.scenes import Scene
from hierbench.miniature.vocabulary import BACKGROUNDS, BY_NAME, COLOURS, INVERSE, KINDS


def _swap_colours(meaning: Meaning, draws: Draws) -> Meaning:
    first, second = meaning.mentions
    return replace(
        meaning, mentions=(replace(first, colour=second.colour), replace(second, colour=first.colour))
    )


def _swap_relation(meaning: Meaning, draws: Draws) -> Meaning:
    return replace(meaning, relation=INVERSE[meaning.relation or ""])


def _replace_thing(meaning: Meaning, draws: Draws) -> Meaning:
    """Another kind of the same group, the hardest to tell apart."""
    first, second = meaning.mentions
    group = BY_NAME[first.noun or ""].group
    others = [
        kind.name for kind in KINDS if kind.group == group and kind.name not in (first.noun, second.noun)
    ]
    return replace(meaning, mentions=(replace(first, noun=draws.choice(others)), second))


def _replace_colour(meaning: Meaning, draws: Draws) -> Meaning:
    first, second = meaning.mentions
    others = [colour for colour in COLOURS if colour != first.colour]
    return replace(meaning, mentions=(replace(first, colour=draws.choice(others)), second))


def _replace_place(meaning: Meaning, draws: Draws) -> Meaning:
    return replace(
        meaning, background=draws.choice([place for place in BACKGROUNDS if place != meaning.background])
    )


ALTERATIONS: dict[str, Callable[[Meaning, Draws], Meaning]] = {
    "swap_colours": _swap_colours,
    "swap_relation": _swap_relation,
    "replace_thing": _replace_thing,
    "replace_colour": _replace_colour,
    "replace_place": _replace_place,
}


def altered(scene: Scene, kind: str) -> Meaning | None:
    """The full meaning of a scene with two things after an alteration; None where it is true of the scene still."""
    changed = ALTERATIONS[kind](full_meaning(scene), Draws("altered", kind, scene.split, scene.index))
    return None if is_true(changed, scene) else changed
