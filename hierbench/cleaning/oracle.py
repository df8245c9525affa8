"""Roles that know the truth of the miniature: what a faultless cleaning finds, and a quick cast for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from hierbench.cleaning import questions
from hierbench.cleaning.roles import Cast, Pair, Question
from hierbench.errors import UsageError
from hierbench.miniature.captions import Meaning, Mention, entails, full_meaning, is_true
from hierbench.miniature.noise import NoisyChains
from hierbench.miniature.scenes import Scene
from hierbench.miniature.vocabulary import BY_NAME


class Oracle:
    """Plays all three roles for one set of noisy chains: 1 for what is true, 0 for what is not."""

    def __init__(self, noisy: NoisyChains):
        from hierbench.miniature.datasets import scene_by_id

        images = noisy.dataset.images
        self._scenes = {hashlib.sha256(images.read(name)).digest(): scene_by_id(name) for name in images.ids}
        self._meanings = dict(noisy.meanings)
        scenes = self._scenes.values()
        told = [*map(full_meaning, scenes), *self._meanings.values()]
        self._columns = {name: i for i, name in enumerate(sorted({f for m in told for f in _features(m)}))}
        self.identity: dict[str, Any] = {
            "model": "oracle",
            "revision": f"1-{hashlib.sha256(repr(tuple(self._columns)).encode()).hexdigest()[:12]}",  # of embeddings
            "prompt_hash": None,
            "backend": "oracle",
            "dtype": "float64",
        }

    def probability_of_yes(self, asked: Sequence[Question]) -> np.ndarray:
        """As `roles.Verifier`. Raises UsageError for images and captions that are not the chains'."""
        return np.array([float(self._judge(question)) for question in asked])

    def embed_images(self, images: Sequence[bytes]) -> np.ndarray:
        """As `roles.Embedder`: an image has the features of all that can be said of it."""
        return np.stack([self._vector(full_meaning(self._scene(image))) for image in images])

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """As `roles.Embedder`: a caption has the features of what it says."""
        return np.stack([self._vector(self._meaning(text)) for text in texts])

    def relevance(self, pairs: Sequence[Pair]) -> np.ndarray:
        """As `roles.Reranker`."""
        return np.array(
            [float(is_true(self._meaning(pair.caption), self._scene(pair.image))) for pair in pairs]
        )

    def _judge(self, question: Question) -> bool:
        match questions.understood(question.text):
            case questions.Describes(caption):
                return is_true(self._meaning(caption), self._scene(question.image))
            case questions.Entails(specific, general):
                return entails(self._meaning(specific), self._meaning(general))

    def _scene(self, image: bytes | None) -> Scene:
        try:
            return self._scenes[hashlib.sha256(image or b"").digest()]
        except KeyError:
            raise UsageError("the oracle knows only the images of the miniature's noisy chains") from None

    def _meaning(self, text: str) -> Meaning:
        try:
            return self._meanings[text]
        except KeyError:
            raise UsageError(
                f"the oracle knows only captions of the miniature's noisy chains, not {text!r}"
            ) from None

    def _vector(self, meaning: Meaning) -> np.ndarray:
        row = np.zeros(len(self._columns), np.float32)
        row[[self._columns[name] for name in _features(meaning)]] = 1
        return row / np.linalg.norm(row)


def cast(noisy: NoisyChains, wrap: Callable[[Any], Any] = lambda role: role) -> Cast:
    """An oracle in all three roles; `wrap` may put something around it (a counter, a fault)."""
    oracle = wrap(Oracle(noisy))
    return Cast(oracle, oracle, oracle)


@cache
def _features(meaning: Meaning) -> tuple[str, ...]:
    """Names of what is said, so that captions that say much the same share most of them."""
    found = {f"at {meaning.background}"} if meaning.background else set()
    for mention in meaning.mentions:
        found |= set(_said(mention))
    if meaning.relation and len(meaning.mentions) == 2:
        first, second = meaning.mentions
        found.add(f"{first.noun} {meaning.relation} {second.noun}")
    return tuple(sorted(found))


def _said(mention: Mention) -> list[str]:
    kind = BY_NAME.get(mention.noun or "")
    nouns = [mention.noun, *(kind.hypernyms if kind else ())] if mention.noun else ["thing"]
    properties = [word for word in (mention.colour, mention.size) if word]
    return [*nouns, *properties, *(f"{word} {noun}" for word in properties for noun in nouns[:1])]
