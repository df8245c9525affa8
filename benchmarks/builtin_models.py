"""Train, measure and bundle the built-in models: each family over several seeds, by its packaged config.

    python benchmarks/builtin_models.py train    [--out runs/builtin] [--seeds 0 1 2] [--families …] [--processes 2]
    python benchmarks/builtin_models.py measure  [--out runs/builtin]     figures of what is trained, by seed
    python benchmarks/builtin_models.py table                             their table, as docs/training.md has it
    python benchmarks/builtin_models.py bundle   [--out runs/builtin]     seed 0 becomes hierbench/reference/bundled

`train` goes seed by seed and may be killed: started again it goes on where it stood. `measure` writes
`leaderboard/reproductions/builtin.json`: family -> seed -> "task metric" -> value.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from scipy import stats

import hierbench
from hierbench.reference.bundle import bundle

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ("clip", "meru", "hycoclip", "uncha", "argent", "phyclip")
FIGURES = ROOT / "leaderboard" / "reproductions" / "builtin.json"
CONDITIONS = "one thread of two cores, another training and tests beside it; alone it takes less"


def train(out: Path, family: str, seed: int) -> None:
    """Train one model in a process of its own, or go on with it."""
    folder = out / f"{family}-{seed}"
    if (folder / "model.safetensors").is_file():
        return
    words = [f"miniature/{family}", f"train.seed={seed}", "--out", str(folder), "--device", "cpu"]
    if (folder / "config.yaml").is_file():
        words.append("--resume")
    with (out / f"{family}-{seed}.log").open("a") as log:
        subprocess.run(
            [sys.executable, "-m", "hierbench", "train", *words], stderr=log, stdout=log, check=True
        )


def trained(out: Path) -> list[tuple[str, int, Path]]:
    """(family, seed, folder) of every finished training."""
    folders = [file.parent for file in sorted(out.glob("*-*/model.safetensors"))]
    return [(*_parts(folder.name), folder) for folder in folders]


def _parts(name: str) -> tuple[str, int]:
    family, _, seed = name.rpartition("-")
    return family, int(seed)


def measure(out: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Every figure of the suite `miniature` of every finished training."""
    models = [(family, str(folder / "model.safetensors"), folder.name) for family, _, folder in trained(out)]
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for record in hierbench.run(models, suite="miniature", out=out / "results"):
        family, seed = _parts(record.model)
        row = figures.setdefault(family, {}).setdefault(str(seed), {})
        row.update(
            (f"{record.task} {metric}", round(found.value, 4))
            for metric, found in (record.metrics or {}).items()
        )
    return figures


COLUMNS = {  # title, unit -> "task metric" of the figures
    ("PEP AUC", 100): "pep-v2/miniature auc",
    ("PEP AP", 100): "pep-v2/miniature ap",
    ("things %", 1): "zero-shot/miniature-things mean_per_class",
    ("backgrounds %", 1): "zero-shot/miniature-backgrounds mean_per_class",
    ("text → image R@1 %", 1): "retrieval/miniature t2i_r1",
    ("TIE", 1): "hierarchy/miniature-things tie",
}


def table(figures: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Mean ± standard deviation over seeds, and the 95 % interval of the mean by Student's t, in Markdown."""
    lines = [f"| model | seeds | {' | '.join(title for title, _ in COLUMNS)} |"]
    lines.append("|---" * (len(COLUMNS) + 2) + "|")
    for family in (name for name in FAMILIES if name in figures):
        cells = []
        for (_, scale), name in COLUMNS.items():
            values = [scale * seed[name] for seed in figures[family].values() if name in seed]
            cells.append(_spread(values))
        lines.append(f"| {family} | {len(figures[family])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.1f}" if values else "–"
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    reach = float(stats.t.ppf(0.975, len(values) - 1)) * deviation / len(values) ** 0.5
    return f"{mean:.1f} ± {deviation:.1f} [{mean - reach:.1f}, {mean + reach:.1f}]"


def seconds(folder: Path) -> float:
    """How long a training took: its steps by the rate that it logged, waits between sittings left out."""
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    steps = [row["step"] + 1 for row in rows]
    batch = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))["train"]["batch_size"]
    return sum(
        (step - before) * batch / row["samples_per_second"]
        for row, step, before in zip(rows, steps, [0, *steps], strict=False)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("train", "measure", "table", "bundle"))
    parser.add_argument("--out", type=Path, default=Path("runs/builtin"))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--families", nargs="*", default=FAMILIES)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.what == "table":
        print(table(json.loads(FIGURES.read_text(encoding="utf-8"))))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    if options.what == "train":
        jobs = [(options.out, family, seed) for seed in options.seeds for family in options.families]
        with ThreadPoolExecutor(options.processes) as pool:
            list(pool.map(lambda job: train(*job), jobs))
        return
    figures = measure(options.out)
    if options.what == "measure":
        FIGURES.parent.mkdir(exist_ok=True)
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        print(f"{FIGURES}: {sum(len(seeds) for seeds in figures.values())} models")
        return
    for family, seed, folder in trained(options.out):
        if seed == 0:
            command = f"hierbench train miniature/{family}"
            facts = {"seconds": seconds(folder), "figures": figures[family]["0"], "conditions": CONDITIONS}
            print(bundle(folder, ROOT / "hierbench" / "reference" / "bundled", command=command, **facts))


if __name__ == "__main__":
    main()
