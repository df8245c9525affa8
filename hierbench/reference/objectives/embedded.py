"""What the terms of an objective see: lifted embeddings of a batch, which parts are real, the learned temperatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from hierbench.contracts import Geometry
from hierbench.reference.objectives.tiles import TILE_MIB

Item = Literal["image", "text", "part_image", "part_text"]
PARTS: tuple[Item, ...] = ("part_image", "part_text")


def _same(rows: Tensor) -> Tensor:
    return rows


@dataclass(frozen=True)
class Sharing:
    """How the rows of a batch are shared out among processes: alike, in the order of ranks."""

    rank: int = 0
    world: int = 1
    # (b, …) of each process -> (world · b, …) of all on every one. Gradients must add up over the processes, as all
    # of them compute the whole loss (`training.gather.gather_rows`)
    gather: Callable[[Tensor], Tensor] = _same

    def own(self, count: int) -> slice:
        """This process's run of `count` rows."""
        each = count // self.world
        return slice(each * self.rank, each * (self.rank + 1))


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
    sharing: Sharing = field(default_factory=Sharing)  # which process's samples they are
    tile_mib: float = TILE_MIB  # what a tile of the matrix of pairs may fill

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
