"""How fast a run goes: samples and model FLOPs a second, the share of waiting for data, the most memory it held."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

import torch

from hierbench.reference.training import flops
from hierbench.reference.training.batches import TrainingBatch


class Meter:
    """Counts from one `figures` to the next. Looks at clocks alone: nothing waits for the device.

    `cost` and `peak` are those of one process and its device.
    """

    def __init__(self, cost: flops.Cost, device: torch.device, peak: float | None):
        self._cost, self._device, self._peak = cost, device, peak
        self._start()

    def timed(self, batches: Iterator[TrainingBatch]) -> Iterator[TrainingBatch]:
        """The batches, the time until each is there counted as waiting."""
        while True:
            began = time.monotonic()
            batch = next(batches, None)
            self._waited += time.monotonic() - began
            if batch is None:
                return
            yield batch

    def count(self, batch: TrainingBatch, samples: int) -> None:
        """One more step on a batch of this process, of `samples` samples over all."""
        true, padded = self._cost.step(len(batch.pixels), batch.text_lengths)
        self._true += true
        self._padded += padded
        self._samples += samples

    def figures(self) -> dict[str, float]:
        """samples_per_second (all processes), data_wait (share of the time), tflops of this process's model work a
        second, mfu and mfu_padded (shares of the device's peak, where that is known), memory_gib (the most so far:
        CUDA's allocations, else of the process). Starts anew."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        found = {
            "samples_per_second": round(self._samples / seconds, 1),
            "data_wait": round(self._waited / seconds, 4),
            "tflops": self._true / seconds / 1e12,
        }
        if self._peak:
            found["mfu"] = self._true / seconds / self._peak
            found["mfu_padded"] = self._padded / seconds / self._peak
        found["memory_gib"] = round(memory(self._device) / 2**30, 3)
        self._start()
        return found

    def _start(self) -> None:
        self._began = time.monotonic()
        self._waited = self._true = self._padded = 0.0
        self._samples = 0


def memory(device: torch.device) -> int:
    """Bytes: the most that was allocated on a CUDA device, elsewhere the most that this process held."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
