"""Features of all processes on every process, with gradients that add up to those of one big process."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, local: Tensor) -> Tensor:
        ctx.rows = local.shape[0]
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, local.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        own = gradient.new_empty(ctx.rows, *gradient.shape[1:])
        # torch 2.14 has another name for it, and warns of the old one
        reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        reduce_scatter(own, gradient.contiguous())
        return own


def gather_rows(local: Tensor) -> Tensor:
    """(b, …) on each of W processes -> (W·b, …) on all, in the order of ranks; the identity with one process.

    Every process computes the whole loss from gathered rows, so the gradient of a row arrives W times over; DDP's mean
    over processes divides by W again, which leaves exactly the gradient of the one-process loss. That holds as well for
    what a process computes from its own rows alone, when its results are gathered in turn: its gradients are then W
    times too large before the mean, as those of all the others' rows are missing.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return local
    if local.dtype == torch.bool:
        return _Gather.apply(local.to(torch.uint8)).bool()
    return _Gather.apply(local)
