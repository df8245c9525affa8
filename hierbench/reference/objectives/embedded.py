"""What the terms of an objective see: lifted embeddings of a batch, which parts are real, the learned temperatures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from hierbench.contracts import Geometry

Item = Literal["image", "text", "part_image", "part_text"]
PARTS: tuple[Item, ...] = ("part_image", "part_text")


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
    processes: int = 1  # how many the samples came from, in equal runs of rows

    def points(self, item: Item) -> Tensor:
        """The rows of one kind of item."""
        return getattr(self, item)


class Term(Protocol):
    """One summand of an objective, a frozen dataclass: its fields are the term's options in a config."""

    label: ClassVar[str]  # its loss is logged as <label>_loss
    needs_cones: ClassVar[bool]  # makes sense in hyperbolic space alone

    @property
    def items(self) -> frozenset[str]:
        """The items that it looks at."""

    @property
    def temperatures(self) -> frozenset[str]:
        """The logit scales that it reads."""

    def __call__(self, batch: Embedded) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The loss, and the figures it is made of by relation (perhaps none)."""


def valid_mean(values: Tensor, valid: Tensor | None) -> Tensor:
    """Mean over the valid rows (all where `valid` is None; 0 where there are none), without waiting for the device."""
    if valid is None:
        return values.mean()
    return torch.where(valid, values, 0).sum() / valid.sum().clamp(min=1)
