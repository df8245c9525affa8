"""The encoding pipeline: images prepared ahead against one after the other, batch sizes on the CPU, the store.

    python benchmarks/bench_pipeline.py [--images 128] [--rounds 3] [--encoder vit_tiny_patch16_224]

Images are made on the spot. All variants of a comparison take turns in one run; medians and their ratios are printed.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hierbench.contracts import EmbeddingRequests, Fit, ModelCard
from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.images import to_square
from hierbench.engine.contents import content_id, content_ids
from hierbench.engine.session import Session
from hierbench.engine.store import EmbeddingStore
from hierbench.geometry import Sphere


class Adapter:
    """Preprocessing as the lineage has it; `encode` is the encoder."""

    geometry = Sphere()

    def __init__(self, encode, dim):
        self.card = ModelCard("bench", "bench", "benchmark", dim, 224, 0, "crop to 224", sha256="00" * 32)
        self.encode_images = encode

    def preprocess(self, image, fit):
        return to_square(image, 224, fit)

    def encode_texts(self, texts):
        return torch.zeros(len(texts), self.card.embedding_dim)


def photographs(folder, count):
    """JPEG files of 500 x 375 pixels: smooth colours with grain, about 60 kB each."""
    rng = np.random.default_rng(0)
    for number in range(count):
        smooth = Image.fromarray(rng.integers(0, 256, (8, 11, 3), np.uint8)).resize((500, 375), Image.BICUBIC)
        grain = np.asarray(smooth, np.int16) + rng.integers(-12, 13, (375, 500, 3), np.int16)
        Image.fromarray(grain.clip(0, 255).astype(np.uint8)).save(folder / f"{number:05d}.jpg", quality=90)
    ids = tuple(f"{number:05d}.jpg" for number in range(count))
    labels = np.zeros(count, np.int64)
    return Classification("photographs", ImageFiles(folder, ids), labels, ("n",), ("thing",), ("a {}.",))


def compare(variants, rounds):
    """{name: function} -> {name: median seconds}; the variants take turns."""
    times = {name: [] for name in variants}
    for _ in range(rounds):
        for name, function in variants.items():
            begun = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(taken) for name, taken in times.items()}


def report(title, medians, count, base):
    print(f"\n{title}")
    for name, seconds in medians.items():
        print(f"  {name:<32} {1000 * seconds / count:8.3f} ms each   {medians[base] / seconds:5.2f} x")


def overlap(dataset, encoder, rounds):
    import timm

    count = len(dataset.images.ids)
    requests = EmbeddingRequests(dataset.images.ids, ())
    net = timm.create_model(encoder, num_classes=0).eval()
    adapter = Adapter(net, net.num_features)
    Session(adapter, workers=0).embed(dataset, requests, Fit.CROP)  # warms up
    medians = compare(
        {
            f"{workers} workers, batches of {size}": lambda workers=workers, size=size: Session(
                adapter, workers=workers, batch_size=size
            ).embed(dataset, requests, Fit.CROP)
            for workers in (0, 1, 2)
            for size in (16, 32)
        },
        rounds,
    )
    report(
        f"{encoder} on the CPU, images read, decoded, cropped, encoded",
        medians,
        count,
        "0 workers, batches of 16",
    )

    def waits(pixels):  # as a GPU that takes as long as one core needs for the images
        time.sleep(len(pixels) * each)
        return torch.zeros(len(pixels), 8)

    each = 0.0
    idle = Adapter(waits, 8)
    begun = time.perf_counter()
    Session(idle, workers=0, batch_size=4).embed(dataset, requests, Fit.CROP)
    each = (time.perf_counter() - begun) / count
    medians = compare(
        {
            f"{workers} workers": lambda workers=workers: Session(idle, workers=workers, batch_size=4).embed(
                dataset, requests, Fit.CROP
            )
            for workers in (0, 1, 2)
        },
        rounds,
    )
    report("an encoder beside the CPU that takes as long as preparing does", medians, count, "0 workers")


def batch_sizes(encoder, rounds):
    import timm

    net = timm.create_model(encoder, num_classes=0).eval()
    pixels = torch.rand(32, 3, 224, 224)
    with torch.inference_mode():
        medians = compare(
            {
                f"batches of {size}": lambda size=size: [net(part) for part in pixels.split(size)]
                for size in (1, 4, 8, 16, 32)
            },
            rounds,
        )
    report(f"{encoder} on the CPU by batch size", medians, len(pixels), "batches of 1")


def hashing(dataset, rounds):
    count = len(dataset.images.ids)
    medians = compare(
        {
            "one after the other": lambda: [content_id(dataset.images.read(i)) for i in dataset.images.ids],
            "in threads": lambda: content_ids(dataset, dataset.images.ids, {}),
        },
        rounds,
    )
    report("reading and hashing images, as a warm run does", medians, count, "one after the other")


def store(rounds, rows=50_000, dim=512):
    ids = [content_id(str(number)) for number in range(rows)]
    features = np.random.default_rng(0).standard_normal((rows, dim), np.float32)
    card = ModelCard("bench", "bench", "benchmark", dim, 224, 0, "crop to 224", sha256="00" * 32)
    with tempfile.TemporaryDirectory() as folder:

        def section():
            return EmbeddingStore(folder).section(card, "crop")

        begun = time.perf_counter()
        for start in range(0, rows, 2000):
            part = slice(start, start + 2000)
            section().put(ids[part], ["x"] * len(ids[part]), features[part])
        print(
            f"\nthe store, {rows:,} rows of {dim}: written in 25 shards in {time.perf_counter() - begun:.2f} s"
        )
        opened = section()
        opened.get(ids)
        medians = compare(
            {"first look-up": lambda: section().get(ids), "again": lambda: opened.get(ids)}, rounds
        )
    for name, seconds in medians.items():
        print(f"  {name:<32} {seconds:8.3f} s")


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--images", type=int, default=128)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--encoder", default="vit_tiny_patch16_224")
    options = options.parse_args()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        dataset = photographs(Path(folder), options.images)
        store(options.rounds)
        hashing(dataset, options.rounds)
        batch_sizes(options.encoder, options.rounds)
        overlap(dataset, options.encoder, options.rounds)


if __name__ == "__main__":
    main()
