"""Where a model computes: the device that a user's word stands for on this machine, and how much it takes at a time."""

from __future__ import annotations

import sys
from pathlib import Path

from hierbench.engine import processes
from hierbench.errors import UsageError

BATCH_SIZES = {"cuda": 256, "mps": 64, "cpu": 16}
"""Images a batch by type of device; on the CPU larger ones are no faster (benchmarks/bench_pipeline.py)."""

GPU_FILES = ("/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvmap", "/dev/kfd", "/dev/dxg")
"""What a GPU's driver shows on Linux (NVIDIA, its boards, AMD, WSL)."""


def resolve_device(asked: str) -> str:
    """The device "auto" stands for (cuda, else mps, else cpu), or another one if it is there.

    Under torchrun "cuda" is the GPU of this process's local rank. torch is asked, and imported, only where an
    accelerator is in question. Raises UsageError.
    """
    if asked == "auto" and not _may_accelerate():
        asked = "cpu"
    if asked == "cpu":
        return asked
    import torch

    if asked == "auto":
        asked = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind, colon, index = asked.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (colon and not index.isdecimal()):
        raise UsageError(f"no device {asked!r}: choose auto, cpu, cuda, cuda:0, mps")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UsageError("device mps is not available here: choose cpu")
    if kind == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda is not available here (no GPU, or torch without CUDA): choose cpu")
    if asked == "cuda" and processes.world_size() > 1:
        index = str(processes.local_rank())
        asked = f"cuda:{index}"
    if kind == "cuda" and index and int(index) >= torch.cuda.device_count():
        raise UsageError(f"no device {asked}: there are {torch.cuda.device_count()} GPUs")
    return asked


def default_batch_size(device: str) -> int:
    """Images a batch on a device such as "cuda:1"."""
    return BATCH_SIZES.get(device.partition(":")[0], BATCH_SIZES["cpu"])


def _may_accelerate() -> bool:
    """Whether torch could find an accelerator: on Linux not without the files of a GPU's driver."""
    return "torch" in sys.modules or sys.platform != "linux" or any(Path(file).exists() for file in GPU_FILES)
