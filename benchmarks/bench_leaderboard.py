"""How long a large leaderboard takes: 100 models x 40 tasks, from made-up records to each form of the table.

    python benchmarks/bench_leaderboard.py [--models 100] [--tasks 40]

Prints seconds, and each as a share of reading the folder.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from hierbench.contracts import Estimate
from hierbench.leaderboard import ranks, render, tables, views
from hierbench.results import Record, read_results, write_record

SPEC = {"unit": "percent", "higher_is_better": True, "minimum": 0.0, "maximum": 100.0}


def fill(folder: Path, models: int, count: int, rng: np.random.Generator) -> None:
    """Records of three metrics each, a tenth of them missing."""
    for model in range(models):
        for task in range(count):
            values = 50 + 0.2 * model + rng.normal(0, 3, 3)
            metrics = {
                f"m{number}": Estimate(value, value - 2, value + 2) for number, value in enumerate(values)
            }
            state = {"metrics": metrics, "n": 1000} if rng.random() > 0.1 else {"skipped": "no data"}
            record = Record(
                model=f"model-{model}", task=f"task-{task}/x", task_version=1, dataset=f"d{task}",
                protocol="released", family="random", headline="m0",
                specs={name: {"title": name, **SPEC} for name in metrics},
                provenance={"dataset_fingerprint": "f", "checkpoint_sha256": f"{model}"}, **state,
            )  # fmt: skip
            write_record(folder, record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=40)
    options = parser.parse_args()
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), options.models, options.tasks, np.random.default_rng(0))
        begun = time.process_time()
        records = read_results(folder)
        times["reading the records"] = time.process_time() - begun
        begun = time.process_time()
        table = views.together(tables.build(records))
        times["the table"] = time.process_time() - begun
        for form in render.FORMS:
            begun = time.process_time()
            render.text(form, [table])
            times[f"as {form}"] = time.process_time() - begun
    rng = np.random.default_rng(0)
    begun = time.process_time()
    drawn = rng.normal(size=(options.models, 1000)) + np.arange(options.models)[:, None]
    for _ in range(options.tasks):
        better = ranks.told_apart(drawn.mean(1), drawn, np.zeros(options.models))
        ranks.letter_groups(better, list(range(options.models)))
    times["ranking, figures on resamples given"] = time.process_time() - begun
    for name, taken in times.items():
        print(f"{name:38} {taken:7.2f} s   {taken / times['reading the records']:6.2f} of reading")
    print(f"{'all':38} {sum(times.values()):7.2f} s of one core")


if __name__ == "__main__":
    main()
