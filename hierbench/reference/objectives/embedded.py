"""What the terms of an objective see: lifted embeddings of a batch, which parts are real, the learned temperatures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from hierbench.contracts import Geometry


@dataclass(frozen=True)
class Embedded:
    """Points of B samples with up to P parts each, on all processes together.

    Parts are flattened, sample after sample: row b·P + p is part p of sample b.
    """

    geometry: Geometry
    image: Tensor  # (B, D)
    text: Tensor  # (B, D)
    scales: Mapping[str, Tensor]  # exp of the logit scales by name
    part_image: Tensor | None = None  # (B·P, D)
    part_text: Tensor | None = None  # (B·P, D)
    valid: Tensor | None = None  # (B·P,) bool; other rows are padding
    owner: Tensor | None = None  # (B·P,) int64 sample of each part

    def points(self, name: str) -> Tensor:
        """`image`, `text`, `part_image` or `part_text`."""
        return getattr(self, name)


def valid_mean(values: Tensor, valid: Tensor | None) -> Tensor:
    """Mean over the valid rows (all where `valid` is None); no wait for the device."""
    if valid is None:
        return values.mean()
    return (values * valid).sum() / valid.sum().clamp(min=1)
