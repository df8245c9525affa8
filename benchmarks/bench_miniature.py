"""Speed of the miniature: one scene on one core, and training samples from two processes.

Run: python benchmarks/bench_miniature.py. Targets: a scene under 2 ms on one core; 1,000 samples a second from two.
"""

import io
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from PIL import Image

from hierbench.miniature import backdrops, captions, datasets, render, scene, shapes, training_sample

COUNT = 500


def milliseconds(work, rounds=5):
    """Median over rounds of CPU and wall time a scene."""
    cpu, wall = [], []
    for number in range(rounds):
        begun, clock = time.process_time(), time.perf_counter()
        for index in range(number * COUNT, (number + 1) * COUNT):
            work(index)
        cpu.append((time.process_time() - begun) / COUNT * 1e3)
        wall.append((time.perf_counter() - clock) / COUNT * 1e3)
    return statistics.median(cpu), statistics.median(wall)


def draw_anew(index):
    """A scene as it would cost without drawn things and backgrounds being kept."""
    shapes.sprite.cache_clear()
    backdrops.backdrop.cache_clear()
    render(scene("train", index))


def samples(indices):
    for index in indices:
        training_sample(index)


def main():
    begun = time.process_time()
    for index in range(2000):
        render(scene("train", index))
    print(f"first 2,000 scenes of a process: {(time.process_time() - begun) / 2:.2f} ms of CPU each")
    source = datasets.MiniatureImages(tuple(f"train-{index:05d}" for index in range(5 * COUNT)))
    rows = {
        "scene, kept sprites": milliseconds(lambda i: render(scene("train", i))),
        "scene, drawn anew": milliseconds(draw_anew, rounds=1),
        "16 captions": milliseconds(lambda i: captions(scene("train", i))),
        "PNG written": milliseconds(lambda i: source.read(source.ids[i])),
        "PNG written and decoded": milliseconds(
            lambda i: Image.open(io.BytesIO(source.read(source.ids[i]))).load()
        ),
        "training sample": milliseconds(training_sample),
    }
    for name, (cpu, wall) in rows.items():
        print(f"{name:24} {cpu:6.2f} ms CPU {wall:6.2f} ms wall")
    print(
        f"keeping sprites saves a factor of {rows['scene, drawn anew'][0] / rows['scene, kept sprites'][0]:.1f}"
    )

    with ProcessPoolExecutor(2) as pool:
        list(pool.map(samples, [range(0, 2000), range(2000, 4000)]))  # start the processes, draw the sprites
        begun = time.perf_counter()
        list(pool.map(samples, [range(4000, 6000), range(6000, 8000)]))
        print(f"training samples from two processes: {4000 / (time.perf_counter() - begun):,.0f} a second")


if __name__ == "__main__":
    main()
