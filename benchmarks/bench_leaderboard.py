"""How long a large leaderboard takes: 100 models x 40 tasks, from made-up records to each form of the table.

    python benchmarks/bench_leaderboard.py [--models 100] [--tasks 40]
    python benchmarks/bench_leaderboard.py --page [--full] [--images 1000]

Prints seconds of processor time, and each as a share of reading the folder. `--page`: of the site, with per-item
outcomes beside every record, from an empty cache; with `--full` these are all read, and the site is made once more.
"""

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from hierbench import registry
from hierbench.contracts import Estimate
from hierbench.leaderboard import ranks, render, tables, views
from hierbench.leaderboard.page import build
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


TASK_FILE = """
from hierbench.tasks.zero_shot import ZeroShot
TASKS = {f"task-{k}/x": lambda k=k: ZeroShot(f"task-{k}/x", f"d{k}", f"Task {k}") for k in range(%d)}
"""


def fill_with_items(folder: Path, models: int, count: int, images: int, rng: np.random.Generator) -> None:
    """Records of zero-shot classification with their outcomes; every model meets the same images."""
    specs = {name: {"title": name, **SPEC} for name in ("top1", "mean_per_class")}
    for task in range(count):
        label, ease = rng.permutation(np.arange(images) % 20), rng.random(images)
        ids = [f"d{task}/{k:06}.jpg" for k in range(images)]
        for model in range(models):
            hit = ease + 0.2 * rng.normal(size=images) < 0.3 + 0.004 * model
            predicted = np.where(hit, label, (label + rng.integers(1, 20, images)) % 20)
            shares = [100 * hit[label == k].mean() for k in range(20)]
            figures = {"top1": 100 * float(hit.mean()), "mean_per_class": float(np.mean(shares))}
            record = Record(
                model=f"model-{model}", task=f"task-{task}/x", task_version=1, dataset=f"d{task}",
                protocol="released", family=f"family-{model % 6}", headline="top1", specs=specs, n=images,
                metrics={name: Estimate(value, value - 2, value + 2) for name, value in figures.items()},
                provenance={"dataset_fingerprint": f"{task:064}", "checkpoint_sha256": f"{model:064}"},
            )  # fmt: skip
            write_record(
                folder, record, {"images": {"image_id": ids, "label": label, "predicted": predicted}}
            )


def spent() -> float:
    """Seconds of processor time of this process and of those that it has waited for."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def page(options: argparse.Namespace) -> None:
    """The site: quickly; with `--full` everything, and again from what is remembered."""
    with tempfile.TemporaryDirectory() as place:
        os.environ["HIERBENCH_CACHE"] = f"{place}/cache"
        run, tasks = Path(place, "run"), Path(place, "tasks.py")
        tasks.write_text(TASK_FILE % options.tasks)
        registry.register(task_files=[tasks])
        fill_with_items(run, options.models, options.tasks, options.images, np.random.default_rng(0))
        for name, full in [
            ("the site, quickly", False),
            *[("all items read", True), ("once more", False)] * options.full,
        ]:
            begun, clock = spent(), time.monotonic()
            built = build([run], Path(place, "site"), full=full)
            print(f"{name:20} {spent() - begun:7.2f} s of processors, {time.monotonic() - clock:7.2f} s by the clock, "
                  f"{built.files} files, {built.bytes / 1e6:.1f} MB")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    if options.page:
        return page(options)
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
