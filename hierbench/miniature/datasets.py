"""The miniature as datasets for tasks and as samples for training; nothing is read from disk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from hierbench import png
from hierbench.data.datasets import (
    AnyDataset,
    CaptionChains,
    CaptionChoices,
    Classification,
    MultiLabel,
    Retrieval,
)
from hierbench.data.manifests import Manifest, load_manifest
from hierbench.data.naming import Words
from hierbench.errors import UnknownNameError
from hierbench.miniature.alterations import ALTERATIONS, altered
from hierbench.miniature.captions import (
    LEVELS,
    Caption,
    captions_at,
    chain,
    full_meaning,
    part_captions,
    told_fully,
)
from hierbench.miniature.draws import Draws
from hierbench.miniature.scenes import SPLITS, Box, Scene, all_scenes, render, scene
from hierbench.miniature.vocabulary import BACKGROUNDS, COLOURS, INVERSE, KINDS

LABELLED = 1_000  # images of a classification set
RETRIEVED = 1_000  # images of the retrieval set
CAPTIONS_EACH = 2  # captions an image of the retrieval set
ASKED = 200  # scenes with questions which caption fits
CHAINED, POOLED = 400, 100  # samples of the chains, captions of their pool


@dataclass(frozen=True)
class MiniatureImages:
    """Scenes as encoded images; an id is `Scene.id`."""

    ids: tuple[str, ...]

    def read(self, image_id: str) -> bytes:
        """The scene drawn and encoded as PNG: the same bytes everywhere."""
        return png.encode(render(scene_by_id(image_id)).pixels)

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """The code that draws the scenes: the same code draws the same bytes (`engine.contents`)."""
        return _code()


@cache
def _code() -> bytes:
    """SHA-256 over the source of this package."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def scene_by_id(image_id: str) -> Scene:
    """The scene whose `Scene.id` this is."""
    split, _, index = image_id.rpartition("-")
    return scene(split, int(index))


# -------------------------------------------------------------------------------------------------- for tasks


def dataset(name: str) -> AnyDataset:
    """A dataset of the miniature by the name of its manifest, as `hierbench.data.readers` opens it."""
    manifest = load_manifest(name)
    return Words.of(manifest).given_to(read(manifest))


def read(manifest: Manifest) -> AnyDataset:
    """Ids and class ids of a dataset of the miniature. Raises UnknownNameError for a name not ours."""
    match manifest.name:
        case "miniature-things" | "miniature-words":
            kinds = [kind.name for kind in KINDS]
            chosen = single_scenes()
            labels = [kinds.index(scene.things[0].kind) for scene in chosen]
        case "miniature-colours":
            chosen = single_scenes()
            labels = [list(COLOURS).index(scene.things[0].colour) for scene in chosen]
        case "miniature-backgrounds":
            chosen = all_scenes("test")[:LABELLED]
            labels = [list(BACKGROUNDS).index(scene.background) for scene in chosen]
        case "miniature-objects":
            images, present = multilabel()
            return MultiLabel(manifest.name, images, present, manifest.class_ids)
        case "miniature":
            return _retrieval(manifest.name)
        case "miniature-chains":
            return _chains(manifest.name)
        case "miniature-choices":
            return choices(manifest.name)
        case name:
            raise UnknownNameError(
                f"no dataset {name!r} in the miniature: its manifest cannot be one of a user's"
            )
    return Classification(manifest.name, _images(chosen), np.array(labels, np.int64), manifest.class_ids)


def multilabel() -> tuple[MiniatureImages, np.ndarray]:
    """The test scenes with two things and what is in them: (N, len(KINDS)) bool, columns as in KINDS."""
    chosen = [scene for scene in all_scenes("test") if len(scene.things) == 2]
    shown = [{thing.kind for thing in scene.things} for scene in chosen]
    present = [[kind.name in kinds for kind in KINDS] for kinds in shown]
    return _images(chosen), np.array(present)


def single_scenes() -> tuple[Scene, ...]:
    """The first LABELLED test scenes that show one thing."""
    return tuple([scene for scene in all_scenes("test") if len(scene.things) == 1][:LABELLED])


@cache
def retrieval_scenes() -> tuple[Scene, ...]:
    """The first RETRIEVED test scenes whose full captions are true of no other among them."""
    chosen: list[Scene] = []
    told: set = set()  # what may be said fully of the chosen scenes
    own: set = set()  # their full captions
    for candidate in all_scenes("test"):
        full, *true = _full_truths(candidate)
        if full not in told and own.isdisjoint((full, *true)):
            chosen.append(candidate)
            own.add(full)
            told.update((full, *true))
    return tuple(chosen[:RETRIEVED])


def pool_scenes() -> tuple[Scene, ...]:
    """The first POOLED scenes of the split `pool` whose full captions are false of every test scene."""
    told = {truth for scene in all_scenes("test") for truth in _full_truths(scene)}
    return tuple([scene for scene in all_scenes("pool") if _full_truths(scene)[0] not in told][:POOLED])


def _full_truths(scene: Scene) -> list:
    """Keys of all full captions that are true of a scene, its own first.

    A caption that names one thing with its size, colour and place is true of a scene with a second thing too.
    """
    things = [(thing.kind, thing.colour, thing.size, scene.background) for thing in scene.things]
    if len(things) == 1:
        return things
    if scene.relation in ("below", "right"):  # said the other way round: above, left
        return [(*things[::-1], INVERSE[scene.relation]), *things]
    return [(*things, scene.relation), *things]


def _retrieval(name: str) -> Retrieval:
    chosen = retrieval_scenes()
    texts = [caption.text for scene in chosen for caption in captions_at(scene, LEVELS, CAPTIONS_EACH)]
    owner = np.repeat(np.arange(len(chosen), dtype=np.int64), CAPTIONS_EACH)
    return Retrieval(name, _images(chosen), tuple(texts), owner)


def _chains(name: str) -> CaptionChains:
    chosen = retrieval_scenes()[:CHAINED]
    return CaptionChains(
        name,
        images=_images(chosen),
        sample_ids=tuple(scene.id for scene in chosen),
        captions=tuple(tuple(caption.text for caption in chain(scene)) for scene in chosen),
        owner=np.arange(len(chosen), dtype=np.int64),
        pool=tuple(captions_at(scene, LEVELS, 1)[0].text for scene in pool_scenes()),
    )


def choices(name: str) -> CaptionChoices:
    """A question for each alteration of each of the first ASKED retrieval scenes with two things, which it makes false.

    The true and the false caption are worded alike, but for what is altered.
    """
    asked = [scene for scene in retrieval_scenes() if len(scene.things) == 2][:ASKED]
    ids, kinds, shown, captions = [], [], [], []
    for position, drawn in enumerate(asked):
        meaning = full_meaning(drawn)
        for kind in ALTERATIONS:
            other = altered(drawn, kind)
            if other is None:
                continue
            told = (told_fully(said, Draws("choices", drawn.split, drawn.index)) for said in (meaning, other))
            ids.append(f"{drawn.id}/{kind}")
            kinds.append(kind)
            shown.append((position,))
            captions.append(tuple(told))
    return CaptionChoices(name, _images(asked), tuple(ids), tuple(kinds), tuple(shown), tuple(captions))


def _images(scenes) -> MiniatureImages:
    return MiniatureImages(tuple(scene.id for scene in scenes))


# ----------------------------------------------------------------------------------------------- for training


@dataclass(frozen=True)
class TrainingSample:
    """A scene to train on: (64, 64, 3) uint8 pixels and a box for each thing. Captions are told when asked for."""

    scene: Scene
    pixels: np.ndarray
    boxes: tuple[Box, ...]

    def captions(self, level: int) -> tuple[Caption, ...]:
        """Captions of the scene, level 1 to 4."""
        return captions_at(self.scene, level)

    def part_captions(self, position: int, level: int) -> tuple[Caption, ...]:
        """Phrases for a box, level 1 to 3."""
        return part_captions(self.scene, position, level)

    def crop(self, position: int) -> np.ndarray:
        """The pixels in a box, a view."""
        left, top, right, bottom = self.boxes[position]
        return self.pixels[top:bottom, left:right]


def training_sample(index: int) -> TrainingSample:
    """Sample `index` of the TRAINING_SAMPLES; raises IndexError beyond them."""
    shown = scene("train", index)
    drawn = render(shown)
    return TrainingSample(shown, drawn.pixels, drawn.boxes)


TRAINING_SAMPLES = SPLITS["train"]
