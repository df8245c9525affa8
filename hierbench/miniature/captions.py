"""What is said of a scene: captions of four levels, each with its meaning, and when a meaning is true.

Level 1 names a group, a colour or a place ("an animal", "something red", "a scene at night"), level 2 a kind,
level 3 a kind with one property, level 4 everything that captions can say. A meaning says that something is
there, not that nothing else is; so a finer caption entails the coarser ones of its chain.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from hierbench.miniature.draws import Draws
from hierbench.miniature.scenes import Scene, Thing
from hierbench.miniature.vocabulary import (
    BACKGROUNDS,
    BY_NAME,
    COLOURS,
    GROUPS,
    HYPERNYMS,
    INVERSE,
    KINDS,
)

LEVELS = 4
PARAPHRASES = 4  # captions a level
PART_LEVELS, PART_PARAPHRASES = 3, 2

THING_TEMPLATES = ("{}", "the {}", "a photo of the {}.")
COLOUR_TEMPLATES = ("something {}", "the {} thing", "a photo of something {}.")
BACKGROUND_TEMPLATES = ("a scene {}", "a photo {}")
"""Prompts for zero-shot classification; captions have these forms too, for a model knows no others."""

# n: a noun with what is said of it, a: the same with its article, w: the place
_NAMING = (
    *(t.replace("{}", "{n}") for t in THING_TEMPLATES),
    "{a}",
    "{a}",
    "a photo of {a}.",
    "there is {a}",
)
_TELLING = ("{a} {w}", "{a} {w}", "a photo of {a} {w}.", "there is {a} {w}", "{w}, {a}", "{w}, there is {a}")

SIZE_WORDS = {"large": ("large", "big"), "small": ("small", "little")}
RELATION_WORDS = {
    "above": ("above", "over"),
    "below": ("below", "under"),
    "left": ("left of", "to the left of"),
    "right": ("right of", "to the right of"),
}


@dataclass(frozen=True)
class Mention:
    """What is said of one thing; None = nothing. `noun` is the name of a kind or a hypernym."""

    noun: str | None = None
    colour: str | None = None
    size: str | None = None


@dataclass(frozen=True)
class Meaning:
    """A scene has these things, the first in that relation to the second, before that background."""

    mentions: tuple[Mention, ...] = ()
    relation: str | None = None
    background: str | None = None


@dataclass(frozen=True)
class Caption:
    """A string and what it says."""

    text: str
    level: int  # 1, the most general, to 4
    meaning: Meaning


# ------------------------------------------------------------------------------------------------------ truth


def entails(specific: Meaning, general: Meaning) -> bool:
    """Whether every scene of which the first is true is one of which the second is true."""
    if general.background not in (None, specific.background):
        return False
    if len(general.mentions) < 2:
        return all(any(_covers(said, wanted) for said in specific.mentions) for wanted in general.mentions)
    if len(specific.mentions) < 2:
        return False
    wanted = general.mentions
    return any(
        _covers(said[0], wanted[0]) and _covers(said[1], wanted[1]) and general.relation in (None, relation)
        for said, relation in (
            (specific.mentions, specific.relation),
            (specific.mentions[::-1], INVERSE.get(specific.relation or "")),
        )
    )


def is_true(meaning: Meaning, scene: Scene) -> bool:
    """Whether a meaning holds of a scene. Exact."""
    return entails(full_meaning(scene), meaning)


def full_meaning(scene: Scene) -> Meaning:
    """All that captions can say of a scene."""
    mentions = tuple(Mention(thing.kind, thing.colour, thing.size) for thing in scene.things)
    return Meaning(mentions, scene.relation, scene.background)


def _covers(specific: Mention, general: Mention) -> bool:
    return (
        general.colour in (None, specific.colour)
        and general.size in (None, specific.size)
        and (general.noun in (None, specific.noun) or _is_a(specific.noun, general.noun))
    )


def _is_a(noun: str | None, hypernym: str) -> bool:
    if noun in BY_NAME:
        return hypernym in BY_NAME[noun].hypernyms
    return hypernym in GROUPS and any(k.hypernyms == (hypernym, noun) for k in KINDS)


# --------------------------------------------------------------------------------------------------- captions


Spoken = tuple[str, Meaning]


def captions(scene: Scene) -> tuple[tuple[Caption, ...], ...]:
    """(LEVELS, PARAPHRASES) captions that are true of a scene: `captions_at` every level."""
    return tuple(captions_at(scene, level) for level in range(1, LEVELS + 1))


def captions_at(scene: Scene, level: int, count: int = PARAPHRASES) -> tuple[Caption, ...]:
    """The first `count` captions of one level, 1 to LEVELS, that are true of a scene, all different.

    They differ in wording; those of a coarse level pick out a thing, a colour or the place.
    """
    draws = Draws("captions", scene.split, scene.index, level)
    tell = (_level_1, _level_2, _level_3, _level_4)[level - 1]
    return _distinct(level, count, partial(tell, scene, draws))


def chain(scene: Scene) -> tuple[Caption, ...]:
    """One caption a level on the first thing, each entailed by the next: group, kind, kind in colour, all."""
    draws = Draws("chain", scene.split, scene.index)
    thing = scene.things[0]
    spoken = (
        _phrase(draws, Mention(draws.choice(BY_NAME[thing.kind].hypernyms))),
        _phrase(draws, Mention(thing.kind)),
        _phrase(draws, Mention(thing.kind, thing.colour)),
        _level_4(scene, draws),
    )
    return tuple(Caption(text, level, meaning) for level, (text, meaning) in enumerate(spoken, 1))


def part_captions(scene: Scene, position: int, level: int) -> tuple[Caption, ...]:
    """PART_PARAPHRASES phrases for the box of one thing at level 1 to PART_LEVELS.

    The levels are its group or colour, its kind, its kind in colour; size cannot be seen in a crop.
    """
    draws = Draws("part", scene.split, scene.index, position, level)
    return _distinct(level, PART_PARAPHRASES, partial(_part_phrase, scene.things[position], level, draws))


def words() -> tuple[str, ...]:
    """Every word that a caption or a prompt can hold, sorted; commas and full stops are words."""
    said = [
        *(name for kind in KINDS for name in kind.names), *HYPERNYMS, *COLOURS,
        *(phrase for phrases in BACKGROUNDS.values() for phrase in phrases),
        *(word for table in (SIZE_WORDS, RELATION_WORDS) for row in table.values() for word in row),
        *(re.sub("{.?}", " ", form) for form in (*_NAMING, *_TELLING, *COLOUR_TEMPLATES)),
        *BACKGROUND_TEMPLATES, "a an",
    ]  # fmt: skip
    return tuple(sorted({word for text in said for word in re.findall(r"\w+|[.,]", text)}))


def _distinct(level: int, count: int, say: Callable[[], Spoken]) -> tuple[Caption, ...]:
    """`count` captions with different texts."""
    said: dict[str, Meaning] = {}
    while len(said) < count:
        text, meaning = say()
        said.setdefault(text, meaning)
    return tuple(Caption(text, level, meaning) for text, meaning in said.items())


def _level_1(scene: Scene, draws: Draws) -> Spoken:
    if draws.below(4) == 0:
        where = draws.choice(BACKGROUNDS[scene.background])
        return draws.choice(BACKGROUND_TEMPLATES).format(where), Meaning(background=scene.background)
    return _phrase(draws, _general(draws, draws.choice(scene.things)))


def _level_2(scene: Scene, draws: Draws) -> Spoken:
    return _phrase(draws, Mention(draws.choice(scene.things).kind))


def _level_3(scene: Scene, draws: Draws) -> Spoken:
    thing, option = draws.choice(scene.things), draws.below(4)
    if option < 2:
        return _phrase(draws, Mention(thing.kind, thing.colour))
    if option == 2:
        return _phrase(draws, Mention(thing.kind, size=thing.size))
    return _phrase(draws, Mention(thing.kind), scene.background)


def _level_4(scene: Scene, draws: Draws) -> Spoken:
    """A full caption: either thing may come first, the place may stand at either end."""
    meaning = full_meaning(scene)
    if scene.relation and draws.below(2):
        meaning = Meaning(meaning.mentions[::-1], INVERSE[scene.relation], scene.background)
    return told_fully(meaning, draws), meaning


def told_fully(meaning: Meaning, draws: Draws) -> str:
    """A full caption of a meaning with a place; the draws decide its wording, alike for meanings of one form."""
    told = _with_article(_noun(draws, meaning.mentions[0]))
    if meaning.relation:
        other = _with_article(_noun(draws, meaning.mentions[1]))
        told = f"{told} {draws.choice(RELATION_WORDS[meaning.relation])} {other}"
    return draws.choice(_TELLING).format(a=told, w=draws.choice(BACKGROUNDS[meaning.background or ""]))


def _part_phrase(thing: Thing, level: int, draws: Draws) -> Spoken:
    if level == 1:
        return _phrase(draws, _general(draws, thing))
    return _phrase(draws, Mention(thing.kind, thing.colour if level == 3 else None))


def _general(draws: Draws, thing: Thing) -> Mention:
    """A thing's group or, one time in three, its colour alone."""
    if draws.below(3) == 0:
        return Mention(colour=thing.colour)
    return Mention(draws.choice(BY_NAME[thing.kind].hypernyms))


def _phrase(draws: Draws, mention: Mention, background: str | None = None) -> Spoken:
    """One thing, in one of several forms, perhaps with a place."""
    meaning = Meaning((mention,), None, background)
    if mention.noun is None:
        return draws.choice(COLOUR_TEMPLATES).format(mention.colour), meaning
    noun = _noun(draws, mention)
    if background is not None:
        noun = f"{noun} {draws.choice(BACKGROUNDS[background])}"
    return draws.choice(_NAMING).format(n=noun, a=_with_article(noun)), meaning


def _noun(draws: Draws, mention: Mention) -> str:
    size = draws.choice(SIZE_WORDS[mention.size]) if mention.size else ""
    noun = draws.choice(BY_NAME[mention.noun].names) if mention.noun in BY_NAME else mention.noun
    return " ".join(word for word in (size, mention.colour, noun) if word)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
