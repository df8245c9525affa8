"""ARGENT's norm regulariser, which keeps embeddings from drifting out once no cone holds them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hierbench.reference.objectives.embedded import Embedded


@dataclass(frozen=True)
class NormRegulariser:
    """Mean of ‖x̃‖² − log‖x̃‖ over all embeddings of the batch (ARGENT §4); least at ‖x̃‖ = √½."""

    members: tuple[str, ...] = ("image", "text", "part_image", "part_text")

    def __call__(self, batch: Embedded) -> Tensor:
        """Scalar loss."""
        total, count = 0.0, 0.0
        for name in self.members:
            norm = torch.linalg.vector_norm(batch.points(name), dim=-1).clamp(min=1e-8)
            values = norm.square() - norm.log()
            if name.startswith("part"):
                total, count = total + torch.where(batch.valid, values, 0).sum(), count + batch.valid.sum()
            else:
                total, count = total + values.sum(), count + len(values)
        return total / count
