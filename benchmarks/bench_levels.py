"""Scoring of `levels/imagenet` on 50,000 images of random embeddings: seconds, and memory above that at the start.

    python benchmarks/bench_levels.py [--images 50000]

The whole task with the intervals of its figures; the answers alone (similarities to all nodes, 39 questions), as a
ratio to the one question of `zero-shot/imagenet`. With two threads.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from bench_metrics import PeakMemory, timed

from hierbench import taxonomy
from hierbench.contracts import Embeddings
from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.manifests import load_manifest
from hierbench.geometry import Lorentz, Sphere
from hierbench.metrics.classification import nearest
from hierbench.metrics.levels import ask
from hierbench.registry import task

WIDTH = 512


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=50_000)
    count = parser.parse_args().images
    torch.set_num_threads(2)
    manifest = load_manifest("imagenet")
    ids = tuple(f"{number}.jpg" for number in range(count))
    data = Classification(
        "imagenet", ImageFiles(Path("nowhere"), ids), np.arange(count) % 1000, manifest.class_ids,
        manifest.class_names(), manifest.prompts(), manifest.taxonomy,
    )  # fmt: skip
    levels = taxonomy.Levels(manifest.tree())
    asked = task("levels/imagenet")
    requests = asked.requests(data)
    generator = torch.Generator().manual_seed(0)
    tangents = [torch.randn(n, WIDTH, generator=generator) * 0.05 for n in (count, len(requests.texts))]
    embeddings = Embeddings(requests, *tangents)
    nodes = torch.randn(len(levels.nodes), WIDTH, generator=generator) * 0.05
    questions = [np.unique(answer) for answer in (*levels.answers, *levels.cuts())]
    for geometry in (Sphere(), Lorentz(0.5)):
        with PeakMemory() as memory:
            whole = timed(lambda geometry=geometry: asked.score(geometry, embeddings, data))
        images, points = geometry.lift(embeddings.image_features), geometry.lift(nodes)
        answers = timed(
            lambda geometry=geometry, images=images, points=points: ask(
                geometry, images, points[:1000], points[1000:], questions
            )
        )
        single = timed(
            lambda geometry=geometry, images=images, points=points: nearest(geometry, images, points[:1000])
        )
        print(
            f"levels of {count:,} images, {len(requests.texts):,} prompts, {geometry.name}: {whole:.1f} s with "
            f"intervals, answers {answers:.1f} s, {answers / single:.1f} times one question's; extra memory "
            f"{memory.extra / 2**20:,.0f} MiB"
        )


if __name__ == "__main__":
    main()
