"""UNCHA's uncertainty of an embedding and the calibration of it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def uncertainty(points: Tensor) -> Tensor:
    """u(x) = log(1 + exp(−‖x̃‖)), (…, D) -> (…,): high near the origin, low far out (UNCHA, uncertainty model)."""
    return F.softplus(-torch.linalg.vector_norm(points, dim=-1))


def calibration(points: Tensor, residual: Tensor, valid: Tensor) -> Tensor:
    """10 · mean [½ sg(r) / (eᵘ + 1e-6) + ½ u + H(softmax u)] over the valid parts.

    points (N, D), residual r (N,) entailment losses of the parts, valid (N,) bool. The entropy H is taken over the
    parts of the batch, so the loss depends on the batch's composition, as released (`hierbench errata`).
    """
    u = uncertainty(points)
    share = u.masked_fill(~valid, float("-inf")).softmax(0)
    entropy = -torch.where(valid, share * share.clamp(min=1e-30).log(), 0).sum()
    each = residual.detach() / (u.exp() + 1e-6) / 2 + u / 2
    return 10 * (torch.where(valid, each, 0).sum() / valid.sum().clamp(min=1) + entropy)
