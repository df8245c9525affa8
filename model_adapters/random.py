"""A baseline that learned nothing: seeded random projections of pixels and words, to test with."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from hierbench.contracts import Fit, Geometry, ModelCard
from hierbench.data.images import to_square
from hierbench.errors import CheckpointError
from hierbench.geometry import Lorentz, Sphere

DIM = 64
SIZE = 64  # pixels
GRID = 8  # an image counts as its GRID x GRID means
WORD_LENGTH, IMAGE_LENGTH = 0.2, 2.0  # an image's length is about 1: root mean squares of grids are near ½
PATTERN = re.compile(r"(lorentz|sphere)(?::(\d{1,9}))?")


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> RandomAdapter:
    """`checkpoint`: "lorentz" (the default) or "sphere", with a seed if wanted ("sphere:3"; default 0).

    Arithmetic is float32 whatever `dtype` says. Raises CheckpointError for any other `checkpoint`.
    """
    found = PATTERN.fullmatch(checkpoint or "lorentz")
    if not found:
        raise CheckpointError(
            f"random takes 'lorentz' or 'sphere', perhaps with a seed ('sphere:3'), not {checkpoint!r}"
        )
    kind, seed = found[1], int(found[2] or 0)
    settings = f"{kind}:{seed}"
    rng = np.random.default_rng(seed)
    signs = rng.integers(0, 2, (3 * GRID * GRID, DIM)) * 2 - 1  # integers: the same on every platform
    projection = torch.from_numpy(signs.astype(np.float32)).div_((3 * GRID * GRID * DIM) ** 0.5)
    card = ModelCard(
        name=name or ("random" if checkpoint is None else "random-" + checkpoint.replace(":", "-")),
        family="random",
        source=settings,
        embedding_dim=DIM,
        image_size=SIZE,
        parameters=projection.numel(),
        preprocessing=f"resized to {SIZE} (bicubic), means of an {GRID} x {GRID} grid",
        # A name for these exact features: the version rises when the formulas below change.
        sha256=hashlib.sha256(f"hierbench random 1 {settings}".encode()).hexdigest(),
        licence="Apache-2.0",
        notes={"seed": seed},
    )
    return RandomAdapter(card, Lorentz(1.0) if kind == "lorentz" else Sphere(), projection.to(device), seed)


@dataclass(frozen=True)
class RandomAdapter:
    """Nothing is learned, yet like inputs get like features, and short captions lie nearer to the origin."""

    card: ModelCard
    geometry: Geometry
    projection: Tensor  # (3 · GRID², DIM), equal but for the signs; keeps the root mean square of a grid
    seed: int

    def preprocess(self, image: Image.Image, fit: Fit) -> Tensor:
        """RGB image -> (3, SIZE, SIZE) in [0, 1]."""
        return to_square(image, SIZE, fit)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """(B, 3, SIZE, SIZE) -> (B, DIM): grid means around mid-grey, projected."""
        grid = F.adaptive_avg_pool2d(pixels.to(self.projection), GRID).flatten(1) * 2 - 1
        return IMAGE_LENGTH * grid @ self.projection

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """-> (len(texts), DIM): the sum of one vector a word, so length grows with the number of words."""
        features = np.stack([_caption(text, self.seed) for text in ["", *texts]])[1:]
        return torch.from_numpy(features).to(self.projection)


def _caption(text: str, seed: int) -> np.ndarray:
    words = Counter(re.findall(r"\w+", text.lower()))
    parts = (_word(word, seed) * np.float32(count**0.5) for word, count in words.items())
    return np.float32(WORD_LENGTH) * sum(parts, _word("", seed))


@cache
def _word(word: str, seed: int) -> np.ndarray:
    """A vector of length about 1: mostly the word's own, partly its trigrams', so that like words are near.

    The empty word stands at the start of every caption and alone for the empty one; it is short.
    """
    if not word:
        return 0.1 * _signs("", seed)
    marked = f"<{word}>"
    trigrams = [marked[i : i + 3] for i in range(len(marked) - 2)]
    parts = np.sum([_signs(part, seed) for part in trigrams], 0) / np.float32(len(trigrams) ** 0.5)
    return (0.8 * _signs(word + " ", seed) + 0.6 * parts).astype(np.float32)


@cache
def _signs(text: str, seed: int) -> np.ndarray:
    """(DIM,) ±1 / √DIM from the bits of a hash; a hash of its own, as Python's differs between processes."""
    digest = hashlib.blake2b(f"{seed}:{text}".encode("utf-8", "surrogatepass"), digest_size=DIM // 8).digest()
    bits = np.unpackbits(np.frombuffer(digest, np.uint8))
    return (bits.astype(np.float32) * 2 - 1) / np.float32(DIM**0.5)
