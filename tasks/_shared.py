"""What the task files share: the fit of square images, embeddings checked as they are looked up."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hierbench.contracts import Embeddings, Fit
from hierbench.errors import EncodingError

SQUARE = Fit.SQUEEZE  # for square images, where both fits give the same: one embedding then serves every task


def image_features(embeddings: Embeddings, ids: Sequence[str]) -> Tensor:
    """(n,) image ids -> (n, D) tangents; EncodingError where one is not finite."""
    return _finite(embeddings.images(ids), "image", ids)


def text_features(embeddings: Embeddings, strings: Sequence[str]) -> Tensor:
    """(n,) strings -> (n, D) tangents; EncodingError where one is not finite."""
    return _finite(embeddings.texts(strings), "text", strings)


def _finite(features: Tensor, kind: str, names: Sequence[str]) -> Tensor:
    bad = (~torch.isfinite(features)).any(1).nonzero().flatten()
    if len(bad):
        raise EncodingError(
            f"the embedding of {kind} {names[int(bad[0])]!r} is not finite (one of {len(bad)} such): "
            "check the checkpoint, or try --dtype float32"
        )
    return features
