"""UNCHA's uncertainty of an embedding: high near the origin, low far out."""

from __future__ import annotations

import torch
from torch import Tensor

from hierbench.contracts import Geometry
from hierbench.errors import UsageError

TRAINED = ("uncha",)
"""Families whose loss knows the uncertainty; for others it is a formula of the norm, and no more."""

UNTRAINED = "the model was not trained with it"


def uncertainty(geometry: Geometry, points: Tensor) -> Tensor:
    """u = log(1 + exp(−‖x̃‖)), x̃ the space components; (N, D) -> (N,), in (0, log 2] (UNCHA).

    Raises UsageError for a geometry without an origin, in which norms say nothing.
    """
    if not geometry.has_origin:
        raise UsageError(
            f"uncertainty goes by the norm, and in the geometry {geometry.name!r} norms say nothing"
        )
    return torch.nn.functional.softplus(-points.norm(dim=-1))
