"""Preparing small JPEGs against copying them; reading the prepared form against torchvision's ImageFolder.

    python benchmarks/bench_prepare.py [--images 10000] [--read 1500] [--rounds 3] [--size 160 120]

Images are made on the spot, in a folder of ten classes. The variants of a comparison take turns in one run; medians
and their ratios are printed, and the most memory that preparing took. Files are in the page cache: what is compared
is the work, not the disk.
"""

import argparse
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from hierbench.acquire.prepare import prepare
from hierbench.contracts import Fit, ModelCard
from hierbench.data.images import to_square
from hierbench.data.locate import Locations
from hierbench.data.manifests import register_manifest
from hierbench.data.readers import open_dataset
from hierbench.engine.encoding import Job, _pixels
from hierbench.geometry import Sphere

CLASSES = 10
DISTINCT = 200  # pictures; every file has bytes of its own all the same
WORKERS = 2
BATCH = 32
SIDE = 224


class Adapter:
    """Preprocessing as the lineage has it."""

    geometry = Sphere()
    card = ModelCard("bench", "bench", "benchmark", 8, SIDE, 0, "crop to 224", sha256="00" * 32)

    def preprocess(self, image, fit):
        return to_square(image, SIDE, fit)


def write_images(folder, count, size):
    """JPEGs of smooth colours with grain. Returns the mean size in bytes."""
    rng = np.random.default_rng(0)
    pictures = []
    for _ in range(min(count, DISTINCT)):
        smooth = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize(size, Image.BICUBIC)
        grain = np.asarray(smooth, np.int16) + rng.integers(-12, 13, (size[1], size[0], 3), np.int16)
        path = folder / "x.jpg"
        Image.fromarray(grain.clip(0, 255).astype(np.uint8)).save(path, quality=90)
        pictures.append(path.read_bytes())
        path.unlink()
    for number in range(CLASSES):
        (folder / f"class{number}").mkdir()
    total = 0
    for number in range(count):
        content = pictures[number % len(pictures)] + f"{number:06d}".encode()
        (folder / f"class{number % CLASSES}" / f"{number:06d}.jpg").write_bytes(content)
        total += len(content)
    return total / count


def register(folder):
    classes = ", ".join(f"class{n}: thing {n}" for n in range(CLASSES))
    path = folder / "benchmark-images.yaml"
    path.write_text(
        f"title: t\nreader: imagefolder\ntasks: [zero-shot]\nfit: crop\ntemplates: ['a {{}}']\nclasses: {{{classes}}}\n"
    )
    return register_manifest(path).name


def compare(variants, rounds):
    """{name: function} -> {name: (median seconds, median CPU seconds)}; the variants take turns.

    CPU seconds are those of this process and its ended workers: on a machine that others use they tell more.
    """
    taken = {name: [] for name in variants}
    for _ in range(rounds):
        for name, function in variants.items():
            begun, used = time.perf_counter(), cpu_seconds()
            function()
            taken[name].append((time.perf_counter() - begun, cpu_seconds() - used))
    return {name: tuple(map(statistics.median, zip(*pairs, strict=True))) for name, pairs in taken.items()}


def cpu_seconds():
    usages = [resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def report(title, medians, count, base):
    print(f"\n{title}")
    for name, (seconds, cpu) in medians.items():
        print(
            f"  {name:<36} {count / seconds:8.0f} images/s {medians[base][0] / seconds:5.2f} x"
            f"   CPU {1000 * cpu / count:7.3f} ms each {medians[base][1] / cpu:5.2f} x"
        )


def preparing(name, images, work, count, rounds):
    def make(workers):
        shutil.rmtree(work / "prepared", ignore_errors=True)
        prepare(name, [images], work / "prepared", workers=workers, progress=False)

    def copy():
        shutil.rmtree(work / "copy", ignore_errors=True)
        shutil.copytree(images, work / "copy")

    medians = compare(
        {
            "copying the files (one process)": copy,
            "preparing, one process": lambda: make(1),
            f"preparing, {WORKERS} processes": lambda: make(WORKERS),
        },
        rounds,
    )
    report(f"{count:,} images prepared", medians, count, "copying the files (one process)")
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    most = [resource.getrusage(kind).ru_maxrss / 1024 for kind in kinds]
    print(f"  most memory: {most[0]:.0f} MiB in this process (with torch), {most[1]:.0f} MiB in a worker")


def reading(name, images, work, count, rounds):
    transform = transforms.Compose([
        transforms.Resize(SIDE, transforms.InterpolationMode.BICUBIC),
        transforms.CenterCrop(SIDE),
        transforms.ToTensor(),
    ])  # fmt: skip

    def torchvision():
        loader = DataLoader(ImageFolder(images, transform), batch_size=BATCH, num_workers=WORKERS)
        assert sum(len(pixels) for pixels, _ in loader) == count

    def ours(folder):
        data = open_dataset(name, Locations({name: folder}))
        ids = [(image_id, b"") for image_id in data.images.ids]
        batches = tuple(tuple(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH))
        job = Job(Fit.CROP, batches, ())
        assert sum(len(pixels) for pixels in _pixels(Adapter(), data, job, "cpu", WORKERS)) == count

    prepare(name, [images], work / "read", workers=WORKERS, progress=False)
    medians = compare(
        {
            "torchvision ImageFolder, DataLoader": torchvision,
            "hierbench, the same folder": lambda: ours(images),
            "hierbench, prepared": lambda: ours(work / "read"),
        },
        rounds,
    )
    title = (
        f"{count:,} images read, decoded, cropped to {SIDE}, in batches of {BATCH}; {WORKERS} workers each"
    )
    report(title, medians, count, "torchvision ImageFolder, DataLoader")


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--images", type=int, default=10_000)
    options.add_argument("--read", type=int, default=1_500)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--size", type=int, nargs=2, default=(160, 120), help="of the small images")
    options = options.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        name = register(work)
        for kind, count, size, measure in (
            ("small", options.images, tuple(options.size), preparing),
            ("large", options.read, (500, 375), reading),
        ):
            images = work / kind
            images.mkdir()
            mean = write_images(images, count, size)
            print(f"\n{count:,} JPEGs of {size[0]} x {size[1]} pixels, {mean / 1000:.1f} kB each")
            measure(name, images, work, count, options.rounds)


if __name__ == "__main__":
    main()
