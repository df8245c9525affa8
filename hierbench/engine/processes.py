"""Which process of a run this is, where torchrun started several: told by the environment, without torch."""

from __future__ import annotations

import os

from hierbench.errors import HierbenchError


class LostRankError(HierbenchError):
    """Another process of the run has ended; the run cannot go on."""


def world_size() -> int:
    """Number of processes that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """This process's number; only rank 0 prints and writes."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """This process's number on its machine: which GPU it takes."""
    return int(os.environ.get("LOCAL_RANK", "0"))
