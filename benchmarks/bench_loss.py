"""A contrastive loss and its gradients against the batch size: in tiles, and on the whole matrix of pairs.

    python benchmarks/bench_loss.py [--batch 1024 2048 4096] [--dense 1024 2048] [--tile-mib 64] [--dim 64]

Random features of one process, image to text and back, in float64 as in training, one thread, every size once after a
warm-up. Memory is the most that tensors fill at any moment beyond the features, by the allocator's own events in a run
of its own. `--processes W` computes what one of W processes does. The product has factors of width 8.
bench_loss.txt holds a run.
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument(
        "--dense", type=int, nargs="*", default=[1024, 2048], help="sizes of the whole matrix"
    )
    parser.add_argument("--tile-mib", type=float, default=TILE_MIB)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"tiles of {options.tile_mib:g} MiB, {options.dim} components, one of {options.processes} processes"
    )
    print(f"{'space':10}{'batch':>8}{'way':>8}{'MiB':>10}{'s (CPU)':>10}   loss")
    for kind in SPACES:
        for batch in options.batch:
            ways = {"tiles": tiled} | ({"whole": dense} if batch in options.dense else {})
            for way, loss in ways.items():
                step(loss, kind, 256 * options.processes, options)()
                work = step(loss, kind, batch, options)
                began = time.process_time()
                value = work()
                seconds = time.process_time() - began
                memory = peak_mib(work)
                figures = f"{memory:10.1f}{seconds:10.2f}   {value:.12f}"
                print(f"{kind:10}{batch:8}{way:>8}{figures}", flush=True)


if __name__ == "__main__":
    main()
