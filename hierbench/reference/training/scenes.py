"""What a training sample of the built-in world shows and says: every part stands in the relations that losses assume.

A part's phrase is entailed by the caption and says strictly less; it is about a thing that the caption speaks of; the
part's crop lies in the image shown. A caption so general that nothing is left to say has no part.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hierbench.miniature.captions import PART_LEVELS, Caption, Meaning, entails, is_true
from hierbench.reference.schema import DataConfig

if TYPE_CHECKING:
    from hierbench.miniature.datasets import TrainingSample


@dataclass(frozen=True)
class Showing:
    """The choices for one sample: the whole scene or the box of one thing, its caption, boxes with phrases."""

    close_up: int | None  # the position of the thing whose box is the image; None = the whole scene
    caption: Caption
    parts: tuple[tuple[int, Caption], ...]  # positions of things, and what is said of each


def draw_showing(
    sample: TrainingSample, draw: random.Random, config: DataConfig, full_share: float
) -> Showing:
    """Choose what a sample shows. With probability `full_share` its caption and phrases are the finest there are."""
    full = draw.random() < full_share
    level = 4 if full else draw.choices((1, 2, 3, 4), config.caption_levels)[0]
    close_up = None
    if draw.random() < config.close_ups:
        close_up = draw.randrange(len(sample.boxes))
        captions = sample.part_captions(close_up, min(level, PART_LEVELS))
    else:
        captions = sample.captions(level)
    caption = draw.choice(captions)
    shown = range(len(sample.boxes)) if close_up is None else [close_up]
    parts: list[tuple[int, Caption]] = []
    for position in draw.sample(shown, len(shown)) if config.boxes else ():
        by_level = _phrases(sample, position, caption.meaning)
        if by_level and len(parts) < config.boxes:
            parts.append((position, draw.choice(by_level[-1] if full else draw.choice(by_level))))
    return Showing(close_up, caption, tuple(parts))


def _phrases(sample: TrainingSample, position: int, said: Meaning) -> list[list[Caption]]:
    """Phrases for a box that what is said of the image entails, of each level that has some, coarsest first."""
    alone = replace(sample.scene, things=(sample.scene.things[position],), relation=None)
    spoken_of = [Meaning((m,)) for m in said.mentions if is_true(Meaning((m,)), alone)]
    found = [
        [
            phrase
            for phrase in sample.part_captions(position, level)
            if any(entails(meaning, phrase.meaning) for meaning in spoken_of)
            and not entails(phrase.meaning, said)
        ]
        for level in range(1, PART_LEVELS + 1)
    ]
    return [phrases for phrases in found if phrases]
