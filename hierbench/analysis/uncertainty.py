"""UNCHA's uncertainty of an embedding: high near the origin, low far out."""

from __future__ import annotations

import torch
from torch import Tensor

from hierbench.contracts import Geometry
from hierbench.errors import UsageError


def uncertainty(geometry: Geometry, points: Tensor) -> Tensor:
    """u = log(1 + exp(−‖x̃‖)), x̃ the space components; (N, D) -> (N,), in (0, log 2] (UNCHA).

    Raises UsageError for a geometry in which all points have the same norm.
    """
    if not geometry.has_cones:
        raise UsageError(
            f"uncertainty goes by the norm, and in the geometry {geometry.name!r} all norms are 1"
        )
    return torch.nn.functional.softplus(-points.norm(dim=-1))
