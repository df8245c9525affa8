"""How long `hierbench --help` and its siblings take, against importing typer and rich. Target: at most twice as long.

Every round starts all of them once, one after the other, so that what else the machine does hits all alike; printed
are medians and their ratios.

    python benchmarks/bench_cli.py [--rounds 15]
"""

import argparse
import statistics
import subprocess
import sys
import time

BASE = ["-c", "import typer, rich"]
COMMANDS = {
    "hierbench --help": ["-m", "hierbench", "--help"],
    "hierbench run --help": ["-m", "hierbench", "run", "--help"],
    "hierbench leaderboard show --help": ["-m", "hierbench", "leaderboard", "show", "--help"],
    "hierbench --version": ["-m", "hierbench", "--version"],
}


def seconds(words: list[str]) -> float:
    """Wall time of one Python process."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in ("import typer, rich", *COMMANDS)}
    for number in range(rounds + 1):
        for name, words in {"import typer, rich": BASE, **COMMANDS}.items():
            took = seconds(words)
            if number:  # the first round fills the caches
                times[name].append(took)
    base = statistics.median(times["import typer, rich"])
    for name, taken in times.items():
        middle = statistics.median(taken)
        print(f"{name:36} {1000 * middle:7.0f} ms   x {middle / base:.2f}")


if __name__ == "__main__":
    main()
