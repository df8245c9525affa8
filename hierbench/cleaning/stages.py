"""The four stages of asking: verify, embed, rerank, relate. Each asks what has no answer yet, and keeps what it gets.

verify   is each caption true of its image; does each caption follow from the next finer one (text alone)?
embed    images and distinct captions in one space; who is near whom
rerank   how well do captions of other samples fit an image?
relate   of those that fit: do they say less than the sample's own finest caption (text alone)?
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from hierbench.cleaning import questions
from hierbench.cleaning.answers import Answers, item_key
from hierbench.cleaning.roles import Cast, Pair, Question
from hierbench.cleaning.sources import LEVELS, Source
from hierbench.errors import EncodingError
from hierbench.progress import Progress

STAGES = ("verify", "embed", "rerank", "relate")
CHUNK = 32  # items a call: what a kill may lose
LENGTHENED = 0.02  # by which a unit vector's length may differ from 1: half precision

Call = Callable[[Sequence[Any]], np.ndarray]


@dataclass(frozen=True)
class Item:
    """Something to ask. Items of one `group` (an image, mostly) go to one process, together."""

    key: bytes
    group: int
    build: Callable[[], Any]  # what the role is given


@dataclass(frozen=True)
class Inquiry:
    """Items of one kind, the answers to them, and who answers."""

    title: str
    items: tuple[Item, ...]
    answers: Answers
    call: Call
    probabilities: bool  # answers are (n,) in [0, 1], or (n, 2) with shares; otherwise (n, D) unit vectors

    @property
    def missing(self) -> list[Item]:
        """Items without an answer, each once."""
        item_of = {item.key: item for item in self.items}
        return [item_of[key] for key in self.answers.missing(item_of)]

    def share(self, shard: tuple[int, int]) -> list[Item]:
        """What is missing and this shard's to ask."""
        number, of = shard
        return [item for item in self.missing if item.group % of == number]

    def ask(
        self, shard: tuple[int, int], progress: Progress, chunk: int = CHUNK, most: int | None = None
    ) -> None:
        """Ask this shard's missing items, `chunk` a call, `most` in all. Raises EncodingError and what roles raise."""
        items = self.share(shard)[:most]
        if items:
            self.answers.ready()
        since = time.monotonic()
        with progress.bar(self.title, len(items)) as advance:
            for start in range(0, len(items), chunk):
                part = items[start : start + chunk]
                rows = self._checked(self.call([item.build() for item in part]), len(part))
                self.answers.add([item.key for item in part], [row.tobytes() for row in rows])
                advance(len(part))
        self.answers.keep_pace(self.title, len(items), time.monotonic() - since)

    def values(self) -> np.ndarray:
        """The answers in the order of `items`: (n,) float64, or (n, D) float32."""
        dtype = np.float64 if self.probabilities else np.float32
        rows = [np.frombuffer(self.answers[item.key], dtype) for item in self.items]
        if self.probabilities:
            return np.array([row[0] for row in rows])
        if len({len(row) for row in rows}) > 1:
            raise EncodingError(f"{self.title}: embeddings of different widths in {self.answers.folder}")
        return np.stack(rows) if rows else np.zeros((0, 1), dtype)

    def shares(self) -> np.ndarray:
        """(n,) share of probability that was on yes and no together; NaN where the verifier did not say."""
        rows = [np.frombuffer(self.answers[item.key], np.float64) for item in self.items]
        return np.array([row[1] if len(row) > 1 else np.nan for row in rows])

    def _checked(self, rows: np.ndarray, count: int) -> np.ndarray:
        rows = np.ascontiguousarray(rows, np.float64 if self.probabilities else np.float32)
        who = self.answers.identity.get("model", "a role")
        wanted = (
            [(count,), (count, 2)] if self.probabilities else [(count, rows.shape[-1] if rows.ndim else 0)]
        )
        if rows.shape not in wanted:
            raise EncodingError(f"{self.title}: {who} gave {rows.shape} for {count} items")
        if not np.isfinite(rows).all():
            raise EncodingError(f"{self.title}: {who} gave answers that are not finite")
        if self.probabilities and (rows.min() < 0 or rows.max() > 1):
            raise EncodingError(f"{self.title}: {who} gave {rows.min()} to {rows.max()}, not probabilities")
        if not self.probabilities and abs(np.linalg.norm(rows, axis=1) - 1).max() > LENGTHENED:
            raise EncodingError(f"{self.title}: {who} gave embeddings that are not of length 1")
        return rows


def _is_probability(content: bytes) -> bool:
    """Whether bytes can be an answer of verifier or reranker: float64, one or (with a share) two, in [0, 1]."""
    if len(content) not in (8, 16):
        return False
    numbers = np.frombuffer(content, np.float64)
    return bool(((numbers >= 0) & (numbers <= 1)).all())


def _is_direction(content: bytes) -> bool:
    """Whether bytes can be an answer of the embedder: float32, a vector of length 1."""
    if not content or len(content) % 4:
        return False
    with np.errstate(all="ignore"):
        return bool(abs(np.linalg.norm(np.frombuffer(content, np.float32)) - 1) <= LENGTHENED)


class Asking:
    """The batches of all stages over one source, one cast and one folder of answers."""

    def __init__(self, source: Source, cast: Cast, folder: Path, top_captions: int, top_images: int):
        self.source, self.cast, self.folder = source, cast, folder
        self.top_captions, self.top_images = top_captions, top_images
        self._opened: dict[tuple[str, str], Answers] = {}
        self._image = lru_cache(maxsize=256)(source.dataset.images.read)

    def verify(self) -> tuple[Inquiry, Inquiry]:
        """Every sample's image with its captions, (samples x LEVELS); neighbouring captions, (samples x 3)."""
        dataset = self.source.dataset
        seen = [
            self._question(image, image, questions.describes(caption))
            for chain, image in zip(dataset.captions, dataset.owner.tolist(), strict=True)
            for caption in chain
        ]
        told = [
            self._question(row, None, questions.entails(chain[level + 1], chain[level]))
            for row, chain in enumerate(dataset.captions)
            for level in range(LEVELS - 1)
        ]
        return self._verifying("verify: captions of images", seen), self._verifying("verify: order", told)

    def embed(self) -> tuple[Inquiry, Inquiry]:
        """Every image and every distinct caption."""
        role, hashes = self.cast.embedder, self.source.image_hashes
        answers = self._answers("embed", role)
        images = [
            Item(item_key("image", hashes[i]), i, partial(self._image, image_id))
            for i, image_id in enumerate(self.source.dataset.images.ids)
        ]
        texts = [
            Item(item_key("text", caption), i, partial(str, caption))
            for i, caption in enumerate(self.source.captions)
        ]
        return (
            Inquiry("embed: images", tuple(images), answers, lambda x: role.embed_images(x), False),
            Inquiry("embed: captions", tuple(texts), answers, lambda x: role.embed_texts(x), False),
        )

    def rerank(self, pairs: Iterable[tuple[int, int]]) -> Inquiry:
        """(image, caption) places."""
        role, source = self.cast.reranker, self.source
        items = tuple(
            Item(
                item_key("pair", source.image_hashes[image], source.captions[caption]),
                image,
                partial(self._pair, source.dataset.images.ids[image], source.captions[caption]),
            )
            for image, caption in pairs
        )
        answers = self._answers("rerank", role)
        return Inquiry("rerank: captions of others", items, answers, lambda x: role.relevance(x), True)

    def relate(self, pairs: Iterable[tuple[int, int, int]]) -> Inquiry:
        """(sample, specific, general): captions by place."""
        captions = self.source.captions
        items = [
            self._question(sample, None, questions.entails(captions[specific], captions[general]))
            for sample, specific, general in pairs
        ]
        return self._verifying("relate: what fits to what is told", items)

    def _verifying(self, title: str, items: list[Item]) -> Inquiry:
        role = self.cast.verifier

        def call(asked: Sequence[Question]) -> np.ndarray:
            with_share = getattr(role, "probability_and_share", None)
            return with_share(asked) if with_share else role.probability_of_yes(asked)

        return Inquiry(title, tuple(items), self._answers("verify", role), call, True)

    def _answers(self, kind: str, role: Any) -> Answers:
        key = (kind, repr(sorted(role.identity.items(), key=str)))
        if key not in self._opened:
            even = kind == "embed"
            usable = _is_direction if even else _is_probability
            self._opened[key] = Answers(self.folder, kind, role.identity, usable, even)
        return self._opened[key]

    def answers(self) -> dict[str, Answers]:
        """Role -> the answers that its player has given."""
        kinds = {"verifier": "verify", "embedder": "embed", "reranker": "rerank"}
        return {role: self._answers(kind, getattr(self.cast, role)) for role, kind in kinds.items()}

    def refresh(self) -> None:
        """Take up what other processes have answered."""
        for answers in self._opened.values():
            answers.refresh()

    def _question(self, group: int, image: int | None, text: str) -> Item:
        if image is None:
            return Item(item_key("question", text, None), group, lambda: Question(text))
        image_id = self.source.dataset.images.ids[image]
        key = item_key("question", text, self.source.image_hashes[image])
        return Item(key, group, lambda: Question(text, self._image(image_id)))

    def _pair(self, image_id: str, caption: str) -> Pair:
        return Pair(self._image(image_id), caption)


# ------------------------------------------------------------------------------------------------ who is near


@dataclass(frozen=True)
class Neighbours:
    """Pairs of images and captions of other samples that are near in the embedder's space, and how near.

    Row p is about image[p] and caption[p] (places). `by_image` is the caption's rank among those that the image
    retrieves (0 = nearest), -1 beyond the top; `by_caption` the image's rank among those of the caption.
    """

    image: np.ndarray
    caption: np.ndarray
    similarity: np.ndarray  # cosine
    by_image: np.ndarray
    by_caption: np.ndarray


def neighbours(
    source: Source, images: np.ndarray, captions: np.ndarray, top_captions: int, top_images: int
) -> Neighbours:
    """For each image the nearest captions of other samples, for each caption the nearest images of others.

    (I, D) and (C, D) unit vectors. A caption that some other image's sample has counts as another's, unless it is
    one of this image's own coarser captions (of which "animal" is many a sample's); the own finest stays: another
    sample that has the same is what is looked for. Ties by place.
    """
    own, coarse, elsewhere = _ownership(source)
    similarity = images @ captions.T
    allowed = elsewhere & ~coarse  # (I, C)
    foreign = ~own
    found: dict[tuple[int, int], list[int]] = {}
    for i in range(len(images)):
        row = np.where(allowed[i], similarity[i], -np.inf)
        for rank, c in enumerate(_top(row, top_captions)):
            found.setdefault((i, c), [-1, -1])[0] = rank
    for c in range(len(captions)):
        row = np.where(foreign[:, c], similarity[:, c], -np.inf)
        for rank, i in enumerate(_top(row, top_images)):
            found.setdefault((i, c), [-1, -1])[1] = rank
    pairs = sorted(found)
    image, caption = np.array(pairs, np.int64).reshape(-1, 2).T
    ranks = np.array([found[pair] for pair in pairs], np.int64).reshape(-1, 2)
    return Neighbours(image, caption, similarity[image, caption].astype(np.float64), ranks[:, 0], ranks[:, 1])


def _ownership(source: Source) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(images, captions) bool: own to the image; own, but not its finest; some other image's."""
    owner, chains = source.dataset.owner, source.chains
    shape = (len(source.dataset.images.ids), len(source.captions))
    own, finest = np.zeros(shape, bool), np.zeros(shape, bool)
    own[np.repeat(owner, LEVELS), chains.ravel()] = True
    finest[owner, chains[:, -1]] = True
    elsewhere = own.sum(0)[None] - own > 0
    return own, own & ~finest, elsewhere


def _top(row: np.ndarray, count: int) -> list[int]:
    """Places of the `count` largest finite entries, largest first, ties by place."""
    order = np.argsort(-row, kind="stable")[:count]
    return [int(place) for place in order if np.isfinite(row[place])]
