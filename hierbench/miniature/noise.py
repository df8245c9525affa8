"""Caption chains of the miniature with planted faults: what a cleaning must find, and the truth about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hierbench.data.datasets import CaptionChains
from hierbench.errors import UsageError
from hierbench.miniature.captions import Caption, Meaning, captions, chain, is_true
from hierbench.miniature.datasets import CHAINED, MiniatureImages, retrieval_scenes
from hierbench.miniature.draws import Draws
from hierbench.miniature.scenes import Scene
from hierbench.miniature.vocabulary import BY_NAME, COLOURS, KINDS

SHARE = 0.3  # of the samples that get a fault
SEED = "noise"

FAULTS = {
    "other scene": "the whole chain is another sample's, and its finest caption is false here",
    "wrong colour": "the finer two captions name a colour that the thing does not have",
    "wrong thing": "the captions name a thing that is not there, of the same group where there is one",
    "swapped levels": "two neighbouring captions stand in the wrong order",
    "duplicate": "the finest caption is true, but it is another sample's third and describes that image as well",
}
"""The faults, about as many of each."""

Chain = tuple[Caption, ...]


@dataclass(frozen=True)
class NoisyChains:
    """The dataset, the fault of each sample (None = faultless) and what every string means."""

    dataset: CaptionChains
    faults: tuple[str | None, ...]
    meanings: Mapping[str, Meaning]  # of every caption of the dataset


def noisy_chains(count: int = CHAINED, share: float = SHARE, seed: str = SEED) -> NoisyChains:
    """The first `count` samples of `miniature-chains`, a `share` of them with a fault; the same for the same seed.

    Every fault is a real one by the exact truth of the miniature, and no faultless sample becomes ambiguous by
    another's fault. Without a pool: a cleaning makes one. Raises UsageError for numbers out of range.
    """
    if not 10 <= count <= len(retrieval_scenes()):
        raise UsageError(f"{count} samples: choose 10 to {len(retrieval_scenes())}")
    if not 0 <= share <= 0.5:
        raise UsageError(f"a share of {share} faulty samples: choose 0 to 0.5")
    scenes = retrieval_scenes()[:count]
    chains = [chain(scene) for scene in scenes]
    draws = Draws("noise", seed)
    order = sorted(range(count), key=lambda row: (Draws("noise", seed, row).below(1 << 40), row))
    chosen, clean = order[: round(share * count)], order[round(share * count) :]
    faults: list[str | None] = [None] * count
    planted = list(chains)
    for row in chosen:  # the rarest fault so far, unless this scene has no partner for it
        for fault in sorted(FAULTS, key=lambda name: (faults.count(name), name)):
            made = _MAKERS[fault](draws, scenes[row], chains[row], [(scenes[i], chains[i]) for i in clean])
            if made is not None:
                faults[row], planted[row] = fault, made
                break
    dataset = CaptionChains(
        name="miniature-noisy",
        images=MiniatureImages(tuple(scene.id for scene in scenes)),
        sample_ids=tuple(scene.id for scene in scenes),
        captions=tuple(tuple(caption.text for caption in made) for made in planted),
        owner=np.arange(count, dtype=np.int64),
    )
    meanings = {caption.text: caption.meaning for made in planted for caption in made}
    return NoisyChains(dataset, tuple(faults), meanings)


def labelled_pairs(
    count: int, split: str = "train", seed: str = "labelled"
) -> list[tuple[Scene, Caption, bool]]:
    """Scenes with captions of every level and whether they are true, to set a judge's scale by.

    Of each scene: a caption a level that is true, one made false by a small change (colour, thing) and one of
    another scene, which may be either. Scenes are the first `count` of the split.
    """
    from hierbench.miniature.scenes import scene as nth

    draws = Draws("labelled", seed)
    scenes = [nth(split, index) for index in range(count)]
    pairs = []
    for scene in scenes:
        other = draws.choice(scenes)
        changed = _recoloured(draws, scene) if draws.below(2) else _replaced(draws, scene)
        for told in (chain(scene), chain(changed), chain(other), tuple(row[0] for row in captions(scene))):
            pairs += [(scene, caption, is_true(caption.meaning, scene)) for caption in told]
    return pairs


# ------------------------------------------------------------------------------------------------- the faults

Others = list[tuple[Scene, Chain]]


def _other_scene(draws: Draws, scene: Scene, own: Chain, others: Others) -> Chain | None:
    false = [told for _, told in others if not is_true(told[-1].meaning, scene)]
    return draws.choice(false) if false else None


def _wrong_colour(draws: Draws, scene: Scene, own: Chain, others: Others) -> Chain | None:
    return own[:2] + chain(_recoloured(draws, scene))[2:]


def _wrong_thing(draws: Draws, scene: Scene, own: Chain, others: Others) -> Chain | None:
    return chain(_replaced(draws, scene))


def _swapped_levels(draws: Draws, scene: Scene, own: Chain, others: Others) -> Chain | None:
    first = draws.below(len(own) - 1)
    swapped = list(own)
    swapped[first], swapped[first + 1] = own[first + 1], own[first]
    return tuple(swapped)


def _duplicate(draws: Draws, scene: Scene, own: Chain, others: Others) -> Chain | None:
    same = [told[2] for other, told in others if other.id != scene.id and told[2].meaning == own[2].meaning]
    return (*own[:3], draws.choice(same)) if same else None


_MAKERS: dict[str, Callable[[Draws, Scene, Chain, Others], Chain | None]] = dict(
    zip(FAULTS, (_other_scene, _wrong_colour, _wrong_thing, _swapped_levels, _duplicate), strict=True)
)


def _recoloured(draws: Draws, scene: Scene) -> Scene:
    """The scene as it would be with its first thing in another colour."""
    thing = scene.things[0]
    colour = draws.choice([colour for colour in COLOURS if colour != thing.colour])
    return replace(scene, things=(replace(thing, colour=colour), *scene.things[1:]))


def _replaced(draws: Draws, scene: Scene) -> Scene:
    """The scene as it would be with another thing in place of its first."""
    thing = scene.things[0]
    absent = [kind for kind in KINDS if all(kind.name != shown.kind for shown in scene.things)]
    similar = [kind for kind in absent if kind.group == BY_NAME[thing.kind].group]
    kind = draws.choice(similar or absent)
    return replace(scene, things=(replace(thing, kind=kind.name), *scene.things[1:]))
