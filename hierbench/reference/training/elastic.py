"""What torchrun does when a worker dies: it starts all of them again. A launch knows its own run again and goes on.

`torchrun --max-restarts N` keeps a launch's id over its restarts, and over those of a job whose --rdzv-id is the job's.
The run's config.yaml holds the id of the launch that began it.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from hierbench.errors import HierbenchError
from hierbench.reference.training import folder
from hierbench.reference.training.state import WEIGHTS

PATIENCE = timedelta(minutes=30)  # as torch waits for the other processes
GLANCE = 0.02  # seconds between two looks into the store


def launch_id() -> str | None:
    """What this launch is called in each of its restarts; None where torchrun has no part in it.

    Without a rendezvous of its own (`--master-addr`) it is called "none" by torchrun, and here by the process that
    starts the workers: the first worker's is the same in every restart.
    """
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    return f"{socket.gethostname()}-{os.getppid()}" if name == "none" else name


def own_run(out: Path) -> bool:
    """Whether the run in `out` was begun by this launch, which has been restarted since.

    A finished one is another launch's of the same --rdzv-id, unless torchrun says that it has restarted its workers.
    """
    name = launch_id()
    if name is None or folder.begun_by(out) != name:
        return False
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0" or not (out / WEIGHTS).exists()


def own_folder(parent: Path, pattern: str) -> Path | None:
    """The newest folder in `parent` with a run that this launch has begun: what it is called says only when."""
    if launch_id() is None:
        return None
    return next((out for out in sorted(parent.glob(pattern), reverse=True) if own_run(out)), None)


def meet(backend: str) -> None:
    """Make the group of all processes that torchrun started. Raises HierbenchError where some never come.

    After a restart torchrun's store still holds the addresses of the dead, under the names where the living are going
    to write theirs: who reads too early connects to nobody. So a group has a name of its own.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        dist.init_process_group(backend)
        return
    store, rank, world = next(iter(rendezvous("env://")))
    name = agreed_name(store, rank, world)
    dist.init_process_group(backend, store=dist.PrefixStore(name, store), rank=rank, world_size=world)


def agreed_name(store: dist.Store, rank: int, world: int, patience: timedelta = PATIENCE) -> str:
    """A name that no group had before, the same for all `world` processes that ask now.

    The first process makes it and answers each question of the others until they have agreed; of what dead ones asked
    and agreed to, nothing is taken for an answer.
    """
    mine, deadline = uuid.uuid4().hex, time.monotonic() + patience.total_seconds()
    if rank:
        store.set(f"asks/{rank}", mine)
    waiting = set(range(1, world)) if rank == 0 else {rank}
    while waiting and time.monotonic() < deadline:
        for other in sorted(waiting):
            if rank:
                asked, _, name = _said(store, f"answered/{rank}").partition(" ")
                if asked == mine:
                    store.set(f"agrees/{rank}", name)
                    return name
            elif _said(store, f"agrees/{other}") == mine:
                waiting.discard(other)
            elif asked := _said(store, f"asks/{other}"):
                store.set(f"answered/{other}", f"{asked} {mine}")
        time.sleep(GLANCE)
    if waiting:
        raise HierbenchError(f"rank {rank} has waited {patience} for other processes of the run: none came")
    return mine


def _said(store: dist.Store, key: str) -> str:
    """What stands under a key, '' where nothing does."""
    return store.get(key).decode() if store.check([key]) else ""
