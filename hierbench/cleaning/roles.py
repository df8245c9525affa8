"""The three roles of the cleaning pipeline, which backends play: verifier, embedder, reranker.

The paper casts Qwen3-VL, Qwen3-VL-Embedding and Qwen3-VL-Reranker (ARGENT §4). Whoever plays a role answers item by
item: an answer depends on its item alone, never on the others of the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hierbench.errors import HierbenchError


@dataclass(frozen=True)
class Question:
    """A yes-or-no question; `image` holds encoded image bytes, None for a question about text alone."""

    text: str
    image: bytes | None = None


@dataclass(frozen=True)
class Pair:
    """An image and a caption that may describe it."""

    image: bytes
    caption: str


@runtime_checkable
class Verifier(Protocol):
    """Answers yes-or-no questions about images and texts.

    One that knows how much of its probability is on yes and no at all may also have `probability_and_share`: the same
    questions -> (n, 2), the probability of yes and that share; the share is then kept and reported.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """What an answer depends on: model, revision, prompt_hash, backend, dtype."""

    def probability_of_yes(self, questions: Sequence[Question]) -> np.ndarray:
        """(n,) float64 in [0, 1]."""


@runtime_checkable
class Embedder(Protocol):
    """Puts images and captions into one space."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """As `Verifier.identity`."""

    def embed_images(self, images: Sequence[bytes]) -> np.ndarray:
        """(n, D) float32, each row of length 1."""

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32, each row of length 1."""


@runtime_checkable
class Reranker(Protocol):
    """Scores how well a caption fits an image."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """As `Verifier.identity`."""

    def relevance(self, pairs: Sequence[Pair]) -> np.ndarray:
        """(n,) float64 in [0, 1]."""


@dataclass(frozen=True)
class Absent:
    """Stands for a player that cannot be reached where nothing is to be asked; raises `reason` when asked after all."""

    identity: Mapping[str, Any]
    reason: HierbenchError

    def _refuse(self, items: Sequence[Any]) -> np.ndarray:
        raise self.reason

    probability_of_yes = embed_images = embed_texts = relevance = _refuse


@dataclass(frozen=True)
class Cast:
    """Who plays which role in a run."""

    verifier: Verifier
    embedder: Embedder
    reranker: Reranker
