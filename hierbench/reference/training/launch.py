"""Training in this process, or in the processes that torchrun started: nccl on CUDA, gloo on the CPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from hierbench.errors import HierbenchError, UsageError
from hierbench.reference.configuration import ReferenceConfig
from hierbench.reference.training.loop import Processes, train


def launch(config: ReferenceConfig, out: Path, *, device: str = "auto", resume: bool = False) -> Path | None:
    """Train; the path of the final weights on the leading process, None on the others.

    Raises what `train` raises. When a process ends early, the others stop with a message instead of waiting for it.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return train(config, out, device=device, resume=resume)
    rank = int(os.environ["RANK"])
    cuda = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if cuda:
        if not torch.cuda.is_available():
            raise UsageError(f"device {device}: no CUDA device here, use --device cpu (small models only)")
        device = f"cuda:{os.environ.get('LOCAL_RANK', rank)}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        final = train(config, out, device=device, resume=resume, processes=Processes(rank, world))
        dist.barrier()
    except HierbenchError:
        raise
    except RuntimeError as error:
        if "peer" in str(error).lower() or "connection" in str(error).lower():
            raise HierbenchError(
                f"another process of the run has ended: rank {rank} stops too, see its message"
            ) from error
        raise
    finally:
        if sys.exc_info()[0] is None:
            dist.destroy_process_group()
    return final if rank == 0 else None
