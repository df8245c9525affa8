"""Metrics against plain versions of themselves, as ratios measured in one run with two threads.

    python benchmarks/bench_metrics.py [--quick]

Recall of 5,000 x 25,000 embeddings of width 512 against full sorting (and its extra memory), the hierarchy of 50,000
predictions, PEP scores of 522 samples x 100, and 1,000 bootstrap resamples of AUC + AP over 104,000 pairs against
scikit-learn called once per resample (timed on a few, scaled up).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from hierbench import taxonomy
from hierbench.geometry import Lorentz, Sphere
from hierbench.metrics import bootstrap, hierarchy, retrieval
from hierbench.metrics.entailment import auc_ap_statistic

THREADS = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the retrieval case")
    quick = parser.parse_args().quick
    torch.set_num_threads(THREADS)
    bench_retrieval(500 if quick else 5000)
    bench_hierarchy(50_000)
    bench_pep(samples=522, pool=100)
    bench_bootstrap(samples=1000, negatives=100)


def bench_retrieval(images: int, captions_each: int = 5, width: int = 512):
    """Ranks by counting against an argsort of every row in both directions (without its recall, which costs little)."""
    generator = torch.Generator().manual_seed(0)
    owner = np.repeat(np.arange(images), captions_each)
    image = torch.randn(images, width, generator=generator) * 0.05
    caption = 0.6 * image[owner] + 0.05 * torch.randn(len(owner), width, generator=generator)
    for geometry in (Sphere(), Lorentz(0.5)):
        with PeakMemory() as memory:
            counted = timed(lambda geometry=geometry: retrieval(geometry, image, caption, owner))
        sorting = timed(lambda geometry=geometry: retrieval_by_sorting(geometry, image, caption, owner))
        print(
            f"recall, {geometry.name}, {images:,} x {len(owner):,}: {counted:.1f} s, full sorting {sorting:.1f} s, "
            f"ratio {sorting / counted:.1f}, extra memory {memory.extra / 2**20:,.0f} MiB"
        )


def retrieval_by_sorting(geometry, image, caption, owner):
    """Both directions by sorting whole rows, in chunks of rows so that the case fits in memory."""
    image, caption = geometry.lift(image), geometry.lift(caption)
    owner = torch.from_numpy(owner)
    found = []
    for part, owners in zip(caption.split(1000), owner.split(1000), strict=True):
        order = geometry.similarity(part, image).argsort(1, descending=True)
        found.append((order == owners[:, None]).int().argmax(1))
    for start, part in enumerate(image.split(1000)):
        order = geometry.similarity(part, caption).argsort(1, descending=True)
        mine = torch.arange(len(part))[:, None] + 1000 * start
        found.append((owner[order] == mine).int().argmax(1))
    return found


def bench_hierarchy(images: int):
    tree = taxonomy.imagenet1k()
    hierarchy([0], [0], tree)  # builds the matrices
    generator = np.random.default_rng(0)
    predicted, true = generator.integers(0, 1000, (2, images))
    print(
        f"hierarchy of {images:,} predictions: {1000 * median(lambda: hierarchy(predicted, true, tree)):.1f} ms"
    )


def bench_pep(samples: int, pool: int, width: int = 512):
    """The whole task on random embeddings: scores alone, then with all its groups' intervals."""
    from hierbench.contracts import Embeddings
    from hierbench.data.datasets import CaptionChains, ImageFiles
    from hierbench.registry import task

    ids = tuple(f"{i}.jpg" for i in range(samples))
    captions = tuple(tuple(f"{i} level {level}" for level in range(4)) for i in range(samples))
    negatives = tuple(f"pool {i}" for i in range(pool))
    images = ImageFiles(Path("nowhere"), ids)
    data = CaptionChains("bench", images, ids, captions, np.arange(samples), negatives)
    pep = task("pep-v2")
    requests = pep.requests(data)
    generator = torch.Generator().manual_seed(0)
    embeddings = Embeddings(
        requests,
        *(
            torch.randn(len(part), width, generator=generator) * 0.05
            for part in (requests.images, requests.texts)
        ),
    )
    geometry = Lorentz(0.5)
    scoring = median(lambda: pep.pair_scores(geometry, embeddings, data))
    whole = timed(lambda: pep.score(geometry, embeddings, data))
    print(f"PEP of {samples} x {pool}: scores {scoring:.2f} s; with intervals of every figure {whole:.1f} s")


def bench_bootstrap(samples: int, negatives: int):
    generator = np.random.default_rng(0)
    positive, negative = generator.normal(1, 1, samples * 4), generator.normal(0, 1, samples * negatives)
    unit, other = np.repeat(np.arange(samples), 4), np.repeat(np.arange(samples), negatives)
    vectorised = timed(
        lambda: bootstrap.estimates(auc_ap_statistic(positive, unit, negative, other, samples), samples)
    )
    scores, labels = np.concatenate([positive, negative]), np.repeat([1, 0], [len(positive), len(negative)])

    def plain():
        drawn = generator.integers(0, len(scores), len(scores))
        roc_auc_score(labels[drawn], scores[drawn])
        average_precision_score(labels[drawn], scores[drawn])

    naive = bootstrap.RESAMPLES * median(plain)
    print(
        f"1,000 resamples of AUC + AP over {len(scores):,} pairs: {vectorised:.1f} s, one by one {naive:.0f} s, "
        f"ratio {naive / vectorised:.0f}"
    )


class PeakMemory:
    """Resident memory above that at the start, sampled every 5 ms from /proc (Linux)."""

    def __enter__(self):
        self.start = self.peak = resident()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    @property
    def extra(self) -> int:
        return self.peak - self.start

    def _watch(self):
        while not self.done.wait(0.005):
            self.peak = max(self.peak, resident())


def resident() -> int:
    """Resident memory of this process in bytes; 0 where /proc is missing."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * 4096


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median(work, times: int = 5) -> float:
    return statistics.median(timed(work) for _ in range(times))


if __name__ == "__main__":
    main()
