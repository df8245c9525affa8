"""Where a model computes: the device that a user's word stands for on this machine."""

from __future__ import annotations

import torch

from hierbench.engine import distributed
from hierbench.errors import UsageError


def resolve_device(asked: str) -> str:
    """The device "auto" stands for (cuda, else mps, else cpu), or another one if it is there.

    Under torchrun "cuda" is the GPU of this process's local rank. Raises UsageError.
    """
    if asked == "auto":
        asked = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind, colon, index = asked.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (colon and not index.isdecimal()):
        raise UsageError(f"no device {asked!r}: choose auto, cpu, cuda, cuda:0, mps")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UsageError("device mps is not available here: choose cpu")
    if kind == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda is not available here (no GPU, or torch without CUDA): choose cpu")
    if asked == "cuda" and distributed.world_size() > 1:
        index = str(distributed.local_rank())
        asked = f"cuda:{index}"
    if kind == "cuda" and index and int(index) >= torch.cuda.device_count():
        raise UsageError(f"no device {asked}: there are {torch.cuda.device_count()} GPUs")
    return asked
