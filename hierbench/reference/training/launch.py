"""Training in this process, or in the processes that torchrun started: nccl on CUDA, gloo on the CPU."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist

from hierbench.errors import DataError, HierbenchError
from hierbench.files import check_writable
from hierbench.reference.schema import ReferenceConfig
from hierbench.reference.training.elastic import meet, own_folder, own_run
from hierbench.reference.training.loop import train
from hierbench.reference.training.trainer import Processes, pick_device

__all__ = ["launch", "own_folder"]

T = TypeVar("T")

LOST = ("gloo", "peer", "connection", "store", "timed out")
"""Words of the plain RuntimeErrors that gloo raises when another process is gone."""

TERMINATED = "killed by signal: Terminated"
"""What torch says of a data worker that got the SIGTERM which torchrun sends to all, before its parent could say so."""


def launch(config: ReferenceConfig, out: Path, *, device: str = "auto", resume: bool = False) -> Path | None:
    """Train; the path of the final weights on the leading process, None on the others.

    A launch that torchrun has restarted goes on with the run in `out` that it began, without `resume`.
    Raises what `train` raises, and OutputError before anything is built where a new run cannot be written. When a
    process ends early, the others stop with a message instead of waiting for it.
    """
    if not resume:
        check_writable(out)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return train(config, out, device=device, resume=resume or _restarted(out))
    rank = int(os.environ["RANK"])
    cuda = pick_device(device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ.get('LOCAL_RANK', rank)}"
        torch.cuda.set_device(device)
    with _ending_with_the_others(rank):
        meet("nccl" if cuda else "gloo")
        out, resume = _of_the_first((out, resume or (rank == 0 and _restarted(out))))
        final = train(config, out, device=device, resume=resume, processes=Processes(rank, world))
        dist.barrier()
        dist.destroy_process_group()
    return final if rank == 0 else None


def _restarted(out: Path) -> bool:
    """Whether the run in `out` is this launch's own, which is told."""
    own = own_run(out)
    if own:
        print(f"restarted by torchrun: goes on with {out}", file=sys.stderr)
    return own


def _of_the_first(value: T) -> T:
    """The first process's value in all: without --out a folder is called by the time, which each reads on its own
    clock, and only the first one's launch is sure to have begun the run.
    """
    shared = [value]
    dist.broadcast_object_list(shared, src=0)
    return shared[0]


@contextmanager
def _ending_with_the_others(rank: int) -> Iterator[None]:
    """The end of another process as a HierbenchError: a closed connection, or the SIGTERM that torchrun then sends."""

    told = HierbenchError(
        f"rank {rank} was told to stop, because another process of the run has ended or the job was cancelled: "
        "--resume goes on from the last checkpoint"
    )

    def stopped(number, frame):
        raise told

    signals = threading.current_thread() is threading.main_thread()  # elsewhere Python sets no handlers
    before = signal.signal(signal.SIGTERM, stopped) if signals else None
    try:
        yield
    except (RuntimeError, DataError) as error:
        if TERMINATED in str(error):
            raise told from error
        lost = isinstance(error, dist.DistError) or any(word in str(error).lower() for word in LOST)
        if lost and isinstance(error, RuntimeError):
            raise HierbenchError(
                f"another process of the run has ended: rank {rank} stops too, see its message; "
                "--resume goes on from the last checkpoint"
            ) from error
        raise
    finally:
        if signals:  # a process that is ending with a message is given the time to say it
            signal.signal(signal.SIGTERM, before if sys.exc_info()[0] is None else signal.SIG_IGN)
