"""ARGENT's norm regulariser, which keeps embeddings from drifting out once no cone holds them."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from hierbench.reference.objectives.embedded import PARTS, Embedded, Item

LEAST_NORM = 1e-8  # keeps the logarithm of an embedding at the origin finite


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class NormRegulariser:
    """Mean of ‖x̃‖² − log‖x̃‖ over all embeddings of the batch (ARGENT §4); least at ‖x̃‖ = √½."""

    members: Annotated[tuple[Item, ...], Field(min_length=1, max_length=16)] = ("image", "text", *PARTS)

    label: ClassVar[str] = "norm"
    needs_cones: ClassVar[bool] = True
    temperatures: ClassVar[frozenset[str]] = frozenset()

    @property
    def items(self) -> frozenset[str]:
        return frozenset(self.members)

    def __call__(self, batch: Embedded) -> tuple[Tensor, dict]:
        total = count = batch.image.new_zeros(())
        for item in self.members:
            norm = torch.linalg.vector_norm(batch.points(item), dim=-1).clamp(min=LEAST_NORM)
            values = norm.square() - norm.log()
            valid = batch.valid if item in PARTS else None
            if valid is None:
                valid = torch.ones_like(values, dtype=torch.bool)
            total, count = total + torch.where(valid, values, 0).sum(), count + valid.sum()
        return total / count, {}
