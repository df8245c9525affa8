"""A training image from JPEG bytes to pixels: decoded whole, and at the size that its crop needs.

    python benchmarks/bench_decode.py [--size 500x375 1024x768 2048x1536 4000x3000] [--repeats 7] [--crop 0.5]

Prints medians of CPU time and their ratios, measured in one run: one thread, the two ways in turn, the augmentation of
the GRIT recipe (a random crop of at least `--crop` of the image, to 224 pixels) in both. Pictures are smooth colours
with grain, JPEG quality 90. bench_decode.txt holds a run.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from PIL import Image

from hierbench.data.images import decode
from hierbench.reference.schema import DataConfig
from hierbench.reference.training.augment import Augment


def photograph(width: int, height: int) -> bytes:
    """A JPEG of this size."""
    draw = np.random.default_rng(0)
    smooth = Image.fromarray(draw.integers(0, 256, (8, 11, 3), np.uint8)).resize(
        (width, height), Image.BICUBIC
    )
    grain = np.asarray(smooth, np.int16) + draw.integers(-12, 13, (height, width, 3), np.int16)
    out = io.BytesIO()
    Image.fromarray(grain.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=90)
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", nargs="+", default=["500x375", "1024x768", "2048x1536", "4000x3000"])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--crop", type=float, default=0.5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    augment = Augment(DataConfig(kind="pairs", shards="none", crop_scale=(options.crop, 1.0)), 224)
    print(f"{'stored':12}{'decoded':12}{'whole ms':>10}{'draft ms':>10}{'ratio':>8}")
    for size in options.size:
        width, height = map(int, size.split("x"))
        content = photograph(width, height)
        times: dict[bool, list[float]] = {True: [], False: []}
        for seed in range(options.repeats + 1):
            for draft, taken in times.items():
                begun = time.process_time()
                image = decode(content, size, augment.enough if draft else None)
                augment(image, seed)
                taken.append(time.process_time() - begun)
        whole, draft = (
            1000 * statistics.median(times[way][1:]) for way in (False, True)
        )  # the first warms up
        decoded = "x".join(map(str, decode(content, size, augment.enough).size))
        print(f"{size:12}{decoded:12}{whole:10.1f}{draft:10.1f}{whole / draft:7.2f}x", flush=True)


if __name__ == "__main__":
    main()
