"""A contrastive loss and its gradients against the batch size: in tiles, and on the whole matrix of pairs.

    python benchmarks/bench_loss.py [--space cosine lorentz product] [--batch 1024 2048 4096] [--dense-gib 4]

Random features of one process, image to text and back, in float64 as in training, one thread, every size once after a
warm-up. The whole matrix is left out where it would fill more than `--dense-gib`. Memory is the most that tensors fill
at any moment beyond the features, by the allocator's own events in a run of its own; above 8,192, where those events
would fill the machine, what the process grows by at most (Linux). `--processes W` computes what one of W processes
does. The product has factors of width 8. bench_loss.txt holds a run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from hierbench.contracts import Geometry
from hierbench.geometry import Lorentz, Product, Sphere
from hierbench.reference.objectives.tiles import TILE_MIB, row_losses

SPACES = ("cosine", "lorentz", "product")
FIRST_GUESS = {"cosine": 48, "lorentz": 316, "product": 2163}
"""Bytes a pair of the whole matrix, at 64 components."""
SEPARATE = 8192
"""Up to this batch time and memory are measured in runs of their own."""


def space(kind: str, curvature: Tensor, dim: int) -> Geometry:
    """A geometry of learned curvature."""
    if kind == "cosine":
        return Sphere()
    return Lorentz(curvature) if kind == "lorentz" else Product((Lorentz(curvature),) * (dim // 8))


def tiled(geometry: Geometry, a: Tensor, b: Tensor, scale: Tensor, own: Tensor, tile_mib: float) -> Tensor:
    """As training has it."""
    return row_losses(geometry, a, b, scale, own, None, tile_mib).mean()


def dense(geometry: Geometry, a: Tensor, b: Tensor, scale: Tensor, own: Tensor, tile_mib: float) -> Tensor:
    """The whole matrix, with its graph."""
    closeness = -geometry.distance(a, b) if geometry.has_cones else geometry.similarity(a, b)
    return cross_entropy(scale * closeness, own)


def step(
    loss: Callable[..., Tensor], kind: str, batch: int, options: argparse.Namespace
) -> Callable[[], float]:
    """A loss and its gradients on features of its own; calling it returns the loss."""
    draw = torch.Generator().manual_seed(0)
    curvature = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(14.0, dtype=torch.float64, requires_grad=True)
    geometry = space(kind, curvature, options.dim)
    image, text = (
        geometry.lift(torch.randn(batch, options.dim, generator=draw, dtype=torch.float64) / options.dim**0.5)
        .detach()
        .requires_grad_()
        for _ in range(2)
    )
    own = torch.arange(batch // options.processes)

    def run() -> float:
        there = loss(geometry, image[: len(own)], text, scale, own, options.tile_mib)
        back = loss(geometry, text[: len(own)], image, scale, own, options.tile_mib)
        total = (there + back) / 2
        torch.autograd.grad(total, [image, text, scale, *([curvature] if geometry.has_cones else [])])
        return total.item()

    return run


def peak_mib(work: Callable[[], float]) -> float:
    """The most that tensors fill at any moment of `work`, in MiB."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        work()
    assert seen.profiler
    assert seen.profiler.kineto_results
    events = [each for each in seen.profiler.kineto_results.events() if each.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most / 2**20


def growth_mib(work: Callable[[], float]) -> float:
    """The most by which this process's resident memory grows during `work`, in MiB."""

    def resident(kind: str) -> int:
        (line,) = [
            each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(kind)
        ]
        return int(line.split()[1])

    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    work()
    return (resident("VmHWM") - before) / 2**10


def measured(
    loss: Callable[..., Tensor], kind: str, batch: int, options: argparse.Namespace
) -> tuple[float, float, float]:
    """MiB, seconds of CPU time, and the loss."""
    step(loss, kind, 256 * options.processes, options)()
    work = step(loss, kind, batch, options)
    found = []

    def timed() -> float:
        began = time.process_time()
        value = work()
        found.append((time.process_time() - began, value))
        return value

    if batch > SEPARATE:
        return growth_mib(timed), *found[0]
    timed()
    return peak_mib(work), *found[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--space", nargs="+", choices=SPACES, default=SPACES)
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--dense-gib", type=float, default=4.0)
    parser.add_argument("--tile-mib", type=float, default=TILE_MIB)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"tiles of {options.tile_mib:g} MiB, {options.dim} components, one of {options.processes} processes"
    )
    print(f"{'space':10}{'batch':>8}{'way':>8}{'MiB':>10}{'s (CPU)':>10}   loss")
    for kind in options.space:
        per_pair = 0.0  # MiB of the whole matrix
        for batch in options.batch:
            for way, loss in {"tiles": tiled, "whole": dense}.items():
                guess = per_pair * batch**2 if per_pair else FIRST_GUESS[kind] * batch**2 / 2**20
                if way == "whole" and guess > 1024 * options.dense_gib:
                    continue
                memory, seconds, value = measured(loss, kind, batch, options)
                if way == "whole":
                    per_pair = memory / batch**2
                print(f"{kind:10}{batch:8}{way:>8}{memory:10.1f}{seconds:10.2f}   {value:.12f}", flush=True)


if __name__ == "__main__":
    main()
