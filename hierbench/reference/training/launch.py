"""Training in this process, or in the processes that torchrun started: nccl on CUDA, gloo on the CPU."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from hierbench.errors import HierbenchError
from hierbench.reference.schema import ReferenceConfig
from hierbench.reference.training.loop import train
from hierbench.reference.training.trainer import Processes, pick_device

LOST = ("gloo", "peer", "connection", "store", "timed out")
"""Words of the plain RuntimeErrors that gloo raises when another process is gone."""


def launch(config: ReferenceConfig, out: Path, *, device: str = "auto", resume: bool = False) -> Path | None:
    """Train; the path of the final weights on the leading process, None on the others.

    Raises what `train` raises. When a process ends early, the others stop with a message instead of waiting for it.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return train(config, out, device=device, resume=resume)
    rank = int(os.environ["RANK"])
    cuda = pick_device(device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ.get('LOCAL_RANK', rank)}"
        torch.cuda.set_device(device)
    with _ending_with_the_others(rank):
        dist.init_process_group("nccl" if cuda else "gloo")
        final = train(
            config, _of_the_first(out), device=device, resume=resume, processes=Processes(rank, world)
        )
        dist.barrier()
        dist.destroy_process_group()
    return final if rank == 0 else None


def _of_the_first(out: Path) -> Path:
    """The first process's folder in all: without --out it is called by the time, which each reads on its own clock."""
    shared = [out]
    dist.broadcast_object_list(shared, src=0)
    return shared[0]


@contextmanager
def _ending_with_the_others(rank: int) -> Iterator[None]:
    """The end of another process as a HierbenchError: a closed connection, or the SIGTERM that torchrun then sends."""

    def stopped(number, frame):
        raise HierbenchError(
            f"rank {rank} was told to stop, because another process of the run has ended or the job was cancelled: "
            "--resume goes on from the last checkpoint"
        )

    signals = threading.current_thread() is threading.main_thread()  # elsewhere Python sets no handlers
    before = signal.signal(signal.SIGTERM, stopped) if signals else None
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or any(word in str(error).lower() for word in LOST):
            raise HierbenchError(
                f"another process of the run has ended: rank {rank} stops too, see its message; "
                "--resume goes on from the last checkpoint"
            ) from error
        raise
    finally:
        if signals:  # a process that is ending with a message is given the time to say it
            signal.signal(signal.SIGTERM, before if sys.exc_info()[0] is None else signal.SIG_IGN)
