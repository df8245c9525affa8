"""UNCHA's uncertainty of an embedding and the calibration of it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hierbench.reference.objectives.embedded import valid_mean


def uncertainty(points: Tensor) -> Tensor:
    """u(x) = log(1 + exp(−‖x̃‖)), (…, D) -> (…,): high near the origin, low far out (UNCHA, uncertainty model)."""
    return F.softplus(-torch.linalg.vector_norm(points, dim=-1))


def calibration(points: Tensor, residual: Tensor, valid: Tensor, *, groups: int | None = 1) -> Tensor:
    """10 · mean [½ sg(r) / (eᵘ + 1e-6) + ½ u + H(softmax u)] over the valid parts.

    points (N, D), residual r (N,) entailment losses of the parts, valid (N,) bool. The entropy H is taken over each of
    `groups` equal runs of rows and averaged, so the loss depends on the batch's composition (`hierbench errata`);
    groups = None leaves H out.
    """
    u = uncertainty(points)
    each = residual.detach() / (u.exp() + 1e-6) / 2 + u / 2
    if groups is None:
        return 10 * valid_mean(each, valid)
    share = u.masked_fill(~valid, torch.finfo(u.dtype).min).unflatten(0, (groups, -1)).softmax(1).flatten()
    entropy = -torch.where(valid, share * share.clamp(min=1e-30).log(), 0).sum() / groups
    return 10 * (valid_mean(each, valid) + entropy)
