"""Pairwise geometry at the size of COCO retrieval, as ratios measured in one run with two threads.

    python benchmarks/bench_geometry.py [--quick]

The Lorentzian similarity of 25,000 x 5,000 points of width 512 against one plain matrix product of the same size
(interleaved, medians), and the memory that the distances of 5,000 x 25,000 points need beyond their result.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

import torch

from hierbench.geometry import Lorentz


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    rows = 500 if parser.parse_args().quick else 5000
    torch.set_num_threads(2)
    draw, geometry = torch.Generator().manual_seed(0), Lorentz(0.5)
    image = geometry.lift(0.03 * torch.randn(rows, 512, generator=draw))
    text = geometry.lift(0.03 * torch.randn(25_000, 512, generator=draw))

    before = peak_mib()  # of the whole process, so this comes first
    took = seconds(lambda: geometry.distance(image, text))
    extra = peak_mib() - before - rows * len(text) * 4 / 2**20
    print(f"distance, {rows:,} x {len(text):,}: {took:.1f} s, {extra:,.0f} MiB above its result")

    times = {"product": [], "similarity": []}
    for _ in range(5):
        times["product"].append(seconds(lambda: text @ image.T))
        times["similarity"].append(seconds(lambda: geometry.similarity(text, image)))
    ratio = statistics.median(times["similarity"]) / statistics.median(times["product"])
    print(f"similarity, {len(text):,} x {rows:,}: {ratio:.2f} times a plain product")


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mib() -> float:
    """Highest resident memory so far (Linux counts it in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


if __name__ == "__main__":
    main()
