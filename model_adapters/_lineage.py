"""What the lineage's adapters share: a checkpoint in the released layout becomes tangent features and a geometry."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image
from torch import Tensor

from hierbench.contracts import Fit, Geometry, ModelCard
from hierbench.data.images import to_square
from hierbench.errors import CheckpointError, EncodingError, GeometryError, UsageError
from hierbench.model_adapters._foreign import DTYPES, arithmetic
from hierbench.models.checkpoints import sha256
from hierbench.reference.checkpoint import load_dual_encoder
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.encoders import pack_step
from hierbench.reference.layouts import Layout
from hierbench.reference.packing import chunks, pack
from hierbench.reference.tokenizer import tokenize

IMAGES_AT_ONCE = {"cpu": 8}
"""Images a forward pass: on the CPU, activations of more fall out of the cache. Elsewhere the batch as it comes."""

TOKENS_AT_ONCE = {"cpu": 4096}
"""Tree nodes a pack (benchmarks/bench_text.py)."""


def load(
    family: str,
    layout: Layout,
    checkpoint: str | None,
    *,
    name: str | None,
    device: str,
    dtype: str,
    paper: str,
    keep_end: bool = True,
) -> LineageAdapter:
    """The adapter of a checkpoint file; `name` defaults to the file's stem. Raises CheckpointError, UsageError."""
    if checkpoint is None:
        raise CheckpointError(
            f"family {family} needs a checkpoint: give --checkpoint FILE or a name of the catalog"
        )
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            f"device {device} was asked for, but this machine or this torch has no CUDA: use cpu"
        )
    path = Path(checkpoint)
    model = load_dual_encoder(path, layout)
    return adapt(
        model.requires_grad_(False).to(device),
        family,
        name=name or path.stem,
        source=str(path),
        digest=sha256(path),
        dtype=dtype,
        paper=paper,
        keep_end=keep_end,
    )


def adapt(
    model: DualEncoder,
    family: str,
    *,
    name: str,
    source: str = "a model in memory",
    digest: str | None = None,
    dtype: str = "float32",
    paper: str | None = None,
    keep_end: bool = True,
) -> LineageAdapter:
    """The adapter of a model in memory (one in training, say), where it is and without changing it.

    `keep_end=False` truncates over-long captions as UNCHA's released code does. Raises UsageError for an unknown dtype.
    """
    if dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is not offered: choose {', '.join(DTYPES)}")
    try:
        geometry = model.geometry(learned=False)
    except GeometryError as error:
        raise CheckpointError(f"checkpoint {source}: {error}") from error
    mean, std = model.pixel_mean.flatten().tolist(), model.pixel_std.flatten().tolist()
    card = ModelCard(
        name=name,
        family=family,
        source=source,
        embedding_dim=model.embed_dim,
        image_size=model.image_size,
        parameters=_parameters(model),
        preprocessing=f"{model.image_size} px bicubic, mean {_short(mean)}, std {_short(std)}",
        tokenizing=_tokenizing(model, keep_end),
        sha256=digest,
        dtype=dtype,
        paper=paper,
        notes=_scalars(model, geometry),
    )
    return LineageAdapter(card, geometry, model, keep_end)


@dataclass(frozen=True)
class LineageAdapter:
    """A dual encoder of the lineage. Curvature, scales and pixel statistics are the checkpoint's, unclamped."""

    card: ModelCard
    geometry: Geometry
    model: DualEncoder
    keep_end: bool = True

    @property
    def device(self) -> torch.device:
        return self.model.device

    def with_end(self, kept: bool) -> Self:
        """The same model, which keeps or loses the end token of over-long captions."""
        card = replace(self.card, tokenizing=_tokenizing(self.model, kept))
        return replace(self, card=card, keep_end=kept)

    def preprocess(self, image: Image.Image, fit: Fit) -> Tensor:
        """RGB image -> (3, H, W) in [0, 1]; normalised when encoded."""
        return to_square(image, self.card.image_size, fit)

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, D) float32, on the model's device. Raises EncodingError for another shape."""
        size = self.card.image_size
        if pixels.shape[1:] != (3, size, size):
            raise EncodingError(
                f"{self.card.name} reads images as (B, 3, {size}, {size}), got {tuple(pixels.shape)}"
            )
        at_once = IMAGES_AT_ONCE.get(self.device.type, len(pixels))
        features = [torch.empty(0, self.card.embedding_dim, device=self.device)]
        with arithmetic(self.device, self.card.dtype):
            for part in pixels.split(max(at_once, 1)):
                part = part.to(self.device, torch.float32, non_blocking=True)
                features.append(self.model.image_tangents(part))
        return torch.cat(features)

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """-> (len(texts), D) float32, on the model's device; common beginnings are computed once.

        Raises EncodingError for a text with words that a bundled model has no embedding of.
        """
        tokens = tokenize(texts, context=self.model.textual.context, keep_end=self.keep_end)
        self._check_known(texts, tokens)
        features = torch.empty(len(texts), self.card.embedding_dim, device=self.device)
        step = pack_step(self.device)
        with arithmetic(self.device, self.card.dtype):
            for rows in chunks(tokens, TOKENS_AT_ONCE.get(self.device.type, 65_536)):
                features[rows] = self.model.text_tangents(pack([tokens[row] for row in rows], step=step))
        return features

    def _check_known(self, texts: Sequence[str], tokens: Sequence[Sequence[int]]) -> None:
        known = self.model.textual.known_tokens
        if known is None:
            return
        strange = (text for text, row in zip(texts, tokens, strict=True) if not known.issuperset(row))
        if (text := next(strange, None)) is not None:
            raise EncodingError(
                f"{self.card.name} cannot read {textwrap.shorten(text, 80, placeholder=' …')!r}: this bundled model "
                "knows only the miniature's words (hierbench.miniature.words()); take a model of natural captions"
            )


def _tokenizing(model: DualEncoder, keep_end: bool) -> str:
    return f"{model.textual.context} tokens, end token {'kept' if keep_end else 'lost when truncated'}"


def _parameters(model: DualEncoder) -> int:
    """How many there are, without the token rows that a bundled model's file leaves out."""
    count = sum(parameter.numel() for parameter in model.parameters())
    known, table = model.textual.known_tokens, model.textual.token_embed.weight
    return count if known is None else count - (len(table) - len(known)) * table.shape[1]


def _scalars(model: DualEncoder, geometry: Geometry) -> dict[str, Any]:
    """The learned scalars for the card, exponentiated; lists where a product has one of each factor."""
    notes: dict[str, Any] = {name: scale.item() for name, scale in model.scales().items()}
    notes |= {name: value for name, value in geometry.describe().items() if name != "name"}
    return notes | {name: alpha.tolist() for name, alpha in model.alphas().items()}


def _short(values: Sequence[float]) -> str:
    return "/".join(f"{value:.4g}" for value in values)
