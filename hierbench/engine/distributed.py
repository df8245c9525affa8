"""Several processes, one run: under torchrun the batches to encode are shared out and gathered again.

Rank 0 runs the evaluation; the other ranks wait for jobs, encode their part and send it back. So only rank 0
decides, scores and writes, and no two ranks can come to different conclusions. Features travel on the CPU by
gloo, whatever the models compute on.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import torch.distributed as dist

from hierbench.engine.encoding import Features, Job
from hierbench.engine.processes import LostRankError, rank, world_size
from hierbench.errors import EncodingError, HierbenchError, explained

PATIENCE = timedelta(
    days=1
)  # ranks wait while another scores; a rank that dies closes its connection at once


@dataclass(frozen=True)
class _Call:
    """What rank 0 tells the others to do."""

    model: int  # position in the run's models
    dataset: str
    job: Job


@dataclass(frozen=True)
class _End:
    """The run is over; with an error, for every rank."""

    error: str | None


class Team:
    """The processes of a run. Made by every rank at the same point."""

    def __init__(self):
        self.size = world_size()
        if not dist.is_initialized():
            dist.init_process_group("gloo", timeout=PATIENCE)
            self._group = dist.group.WORLD
        else:  # a script's own group may be nccl's
            self._group = dist.new_group(backend="gloo", timeout=PATIENCE)

    def encode(self, model: int, dataset: str, job: Job, encode: Callable[[Job], Features]) -> Features:
        """On rank 0: encode a job together; `encode` does this rank's part. As one process would return it.

        Raises what `encode` raises on any rank (the lowest one that failed), LostRankError where one is gone.
        """
        self._tell(_Call(model, dataset, job))
        shares = self._gather(_attempt(encode, job.part(0, self.size), 0))
        done: list[Features] = []
        for share in shares:
            if isinstance(share, Exception):
                raise share
            done.append(share)
        parts = [job.part(number, self.size) for number in range(self.size)]
        return (
            _merge(job.images, [part.images for part in parts], [share[0] for share in done]),
            _merge(job.texts, [part.texts for part in parts], [share[1] for share in done]),
        )

    def serve(self, encode: Callable[[int, str, Job], Features]) -> None:
        """On the other ranks: encode parts until rank 0 says that the run is over; raises if it ended badly."""
        while True:
            message = self._told()
            if isinstance(message, _End):
                if message.error:
                    raise HierbenchError(f"rank 0: {message.error}")
                return
            part = message.job.part(rank(), self.size)
            self._gather(_attempt(partial(encode, message.model, message.dataset), part, rank()))

    def end(self, error: str | None = None) -> None:
        """On rank 0: tell the others that the run is over."""
        self._tell(_End(error))

    def _tell(self, message: _Call | _End) -> None:
        _guarded(lambda: dist.broadcast_object_list([message], src=0, group=self._group))

    def _told(self) -> Any:
        received = [None]
        _guarded(lambda: dist.broadcast_object_list(received, src=0, group=self._group))
        return received[0]

    def _gather(self, share: Features | Exception) -> list[Features | Exception]:
        shares: Any = [None] * self.size if rank() == 0 else None
        _guarded(lambda: dist.gather_object(share, shares, dst=0, group=self._group))
        return shares


def _attempt(encode: Callable[[Job], Features], part: Job, number: int) -> Features | Exception:
    """A rank's part, or why there is none: a rank that raised instead would leave the others waiting."""
    try:
        return encode(part)
    except HierbenchError as error:
        return error.with_traceback(None)
    except Exception as error:
        failure = EncodingError(f"rank {number}: {explained(error)}")
        failure.add_note("".join(traceback.format_exception(error)))
        return failure


def _merge(batches: tuple, parts: list[tuple], features: list[np.ndarray]) -> np.ndarray:
    """Rows of all ranks in the order of `batches`, by item. Raises EncodingError unless each item came once."""
    row_of: dict[Any, np.ndarray] = {}
    for part, rows in zip(parts, features, strict=True):
        items = [item for batch in part for item in batch]
        if len(items) != len(rows):
            raise EncodingError(f"a process sent {len(rows)} embeddings for {len(items)} items")
        row_of.update(zip(items, rows, strict=True))
    wanted = [item for batch in batches for item in batch]
    if len(row_of) != len(wanted) or any(item not in row_of for item in wanted):
        raise EncodingError(f"the processes sent {len(row_of)} embeddings for {len(wanted)} items")
    return np.stack([row_of[item] for item in wanted]) if wanted else features[0]


def _guarded(communicate: Callable[[], None]) -> None:
    try:
        communicate()
    except RuntimeError as error:
        raise LostRankError(
            f"rank {rank()}: another process of the run has ended, see its message"
        ) from error
