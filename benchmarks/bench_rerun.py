"""The same `hierbench run` four times: cold, from stored embeddings (--force), into another folder, with nothing to do.

    python benchmarks/bench_rerun.py [--suite miniature] [--models miniature-argent …] [--limit N]

Each is a command of its own with a cache of its own, so that starting Python and loading models count. Prints seconds,
and each as a ratio to the cold one.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(words: list[str], cache: Path) -> float:
    begun = time.perf_counter()
    environment = os.environ | {"HIERBENCH_CACHE": str(cache)}
    subprocess.run(
        [sys.executable, "-m", "hierbench", *words], env=environment, check=True, capture_output=True
    )
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", default="miniature")
    parser.add_argument("--models", nargs="*", default=[], help="default: the built-in ones")
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache, out = Path(folder) / "cache", Path(folder) / "out"
        words = ["run", *options.models, "--suite", options.suite, "--device", "cpu"]
        words += ["--limit", str(options.limit)] if options.limit else []
        words, elsewhere = [*words, "--out", str(out)], [*words, "--out", str(Path(folder) / "other")]
        times = {
            "cold": seconds(words, cache),
            "from stored embeddings": seconds([*words, "--force"], cache),
            "into another folder": seconds(elsewhere, cache),
            "nothing to do": seconds(words, cache),
        }
    for name, taken in times.items():
        print(f"{name:24} {taken:7.1f} s   1 / {times['cold'] / taken:.1f} of the cold run")


if __name__ == "__main__":
    main()
