"""The towers over several processes: a copy in each with gradients averaged (DDP), or cut over all (FSDP2).

Cut (`train.sharding: full`), each process holds its share of every weight, its gradient and its moments; a layer's
weights are gathered while it runs. The learned scalars stand outside the towers and are whole in every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from hierbench.errors import UsageError
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.schema import TrainConfig


def check_processes(train: TrainConfig, world: int) -> None:
    """Raise UsageError where the batch or the model cannot be shared by so many processes."""
    if train.batch_size % world:
        fitting = [count for count in range(1, train.batch_size + 1) if train.batch_size % count == 0]
        near = [max(n for n in fitting if n < world), *(n for n in fitting if n > world)][:2]
        raise UsageError(
            f"train.batch_size={train.batch_size} cannot be split over {world} processes, but over "
            f"{' or '.join(map(str, near))}, or any other number that divides it"
        )
    if train.sharding == "full" and world == 1:
        raise UsageError(
            "train.sharding=full cuts the model over processes and this is one: start it with "
            "torchrun --nproc-per-node N -m hierbench train ..., or set train.sharding=none"
        )


def over_processes(encoders: nn.Module, encoder: DualEncoder, train: TrainConfig, world: int) -> nn.Module:
    """`encoders`, whose forward pass runs the towers of `encoder`, made one of `world` processes.

    Parameters that are cut become other objects: make an optimiser afterwards.
    """
    if world == 1:
        return encoders
    if train.sharding == "none":
        return nn.parallel.DistributedDataParallel(encoders)
    mesh = init_device_mesh(encoder.device.type, (world,))
    blocks: list[Any] = [*encoder.visual.blocks, *encoder.textual.resblocks]
    for block in blocks:
        fully_shard(block, mesh=mesh)
    register_fsdp_forward_method(blocks[-1], "at_ends")  # how the last layer of texts is called
    fully_shard(encoders, mesh=mesh)
    return encoders


def added_up(count: int, device: torch.device, world: int) -> int:
    """The sum of what each of `world` processes counted; waits for the device and for all."""
    if world == 1:
        return count
    total = torch.tensor(count, device=device)
    dist.all_reduce(total)
    return int(total)


@contextmanager
def accumulating(encoders: nn.Module, last: bool) -> Iterator[None]:
    """A backward pass whose gradients are exchanged with the other processes only if it is the `last` one."""
    if isinstance(encoders, nn.parallel.DistributedDataParallel) and not last:
        with encoders.no_sync():
            yield
        return
    if isinstance(encoders, FSDPModule):
        encoders.set_is_last_backward(last)
        encoders.set_requires_gradient_sync(last)
    yield


def gradient_norm(parameters: Sequence[Tensor]) -> Tensor:
    """The norm of all gradients of parameters that have one; the same number in every process."""
    norms = [
        torch.nn.utils.get_total_norm([p.grad for p in alike if p.grad is not None])
        for alike in partition(parameters)
    ]
    norms = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))


def clip(parameters: Sequence[Tensor], most: float, norm: Tensor) -> None:
    """Shorten the gradients, whose norm is `norm`, to `most`."""
    for alike in partition(parameters):
        torch.nn.utils.clip_grads_with_norm_(alike, most, norm)


def partition(tensors: Sequence[Any]) -> list[list[Any]]:
    """Tensors that are whole, and those that are cut over processes, if any: operations on lists take no mixture."""
    cut = [tensor for tensor in tensors if isinstance(tensor, DTensor)]
    whole = [tensor for tensor in tensors if not isinstance(tensor, DTensor)]
    return [group for group in (whole, cut) if group]


def local(tensor: Tensor) -> Tensor:
    """This process's share of a tensor, in the same memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@torch.no_grad()
def gathered(entries: dict[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Whole tensors of the entries of a state dict, cut ones gathered to the CPU; without `keep` an empty dict.

    All processes take part, and one keeps them.
    """
    found = {}
    for name, tensor in entries.items():
        if isinstance(tensor, DTensor):
            whole = tensor.full_tensor()
            if keep:
                found[name] = whole.cpu()
        elif keep:
            found[name] = tensor
    return found


@torch.no_grad()
def put(target: Tensor, whole: Tensor) -> None:
    """Write a whole tensor, which every process has, into one that may be cut. Raises ValueError for other shapes."""
    if target.shape != whole.shape:
        raise ValueError(f"shape {list(whole.shape)} instead of {list(target.shape)}")
    if isinstance(target, DTensor):
        value = whole.to(target.device, target.dtype)
        target.copy_(distribute_tensor(value, target.device_mesh, target.placements))
    else:
        target.copy_(whole)
