"""Images on the CPU in batches of several sizes, against one by one.

    python benchmarks/bench_encoding.py [--images 32] [--repeats 5] [--models vit_tiny_patch16_224 …]

Prints ratios measured in one run: two threads, the variants interleaved, medians. Random weights and pixels. This is
where `IMAGES_AT_ONCE` of the lineage's adapters comes from.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from hierbench.model_adapters._lineage import IMAGES_AT_ONCE
from hierbench.reference.encoders import vision_tower

SIZES = (1, 2, 4, 8, 16, 32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=["vit_tiny_patch16_224", "vit_small_patch16_224"])
    options = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    pixels = torch.rand(options.images, 3, 224, 224)
    for name in options.models:
        tower = vision_tower(name).eval()
        seconds: dict[int, list[float]] = {size: [] for size in SIZES}
        with torch.inference_mode():
            tower(pixels[:2])  # warm up
            for _ in range(options.repeats):
                for size in SIZES:
                    start = time.perf_counter()
                    for part in pixels.split(size):
                        tower(part)
                    seconds[size].append(time.perf_counter() - start)
        print(f"{name}, {options.images} images")
        for size, times in seconds.items():
            median = statistics.median(times)
            used = "   (used)" if size == IMAGES_AT_ONCE["cpu"] else ""
            ratio = statistics.median(seconds[1]) / median
            print(
                f"  {size:3} at a time {options.images / median:8.1f} images/s   {ratio:5.2f} times as fast{used}"
            )


if __name__ == "__main__":
    main()
