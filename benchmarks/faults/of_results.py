"""Malformed results: folders of runs, table layouts, submissions, cleanings, stored embeddings, files of studies."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from random import Random

from benchmarks.faults import spoil
from benchmarks.faults.kind import ROOT, Kind, type_all
from benchmarks.faults.of_data import read_all


def _results(folder: Path) -> None:
    import hierbench

    chosen = ["zero-shot/miniature-colours", "hierarchy/miniature-things", "pep-v2/miniature"]
    hierbench.run(
        ["miniature-meru", "miniature-clip"],
        tasks=chosen,
        limit=6,
        out=folder / "run",
        workers=0,
        cache=False,
    )


def _show(folder: Path) -> None:
    from hierbench.leaderboard import compare, render, tables

    table = tables.read([folder / "run"])
    for form in (render.terminal, render.markdown, render.csv, render.json):
        assert isinstance(form(table), str)
    compare.compare("miniature-meru", "miniature-clip", [folder / "run"])


def _layout(folder: Path) -> None:
    for path in sorted((ROOT / "leaderboard" / "layouts").glob("*.yaml")):
        shutil.copy(path, folder)


def _use_layouts(folder: Path) -> None:
    from hierbench.leaderboard.columns import read_layout

    for path in sorted(folder.iterdir()):
        read_layout(path)


def _cleaning(folder: Path) -> None:
    """Clean the built-in world, or finish a cleaning that is there."""
    from hierbench.cli import _run

    words = ["clean", "miniature", "--count", "20", "--negatives", "4", "-o", str(folder / "out")]
    if _run(words, True) != 0:
        raise RuntimeError("hierbench clean ended with status 2")


def _read_clean(folder: Path) -> None:
    from hierbench.cleaning import report
    from hierbench.data.locate import Locations

    for _, _, dataset in report.settings(folder / "out", Locations()):
        read_all(dataset)


def _spoil_clean(folder: Path, rng: Random) -> None:
    shutil.rmtree(folder / "out" / "answers", ignore_errors=True)
    spoil.folder(folder / "out", rng)


def _embedded(folder: Path) -> None:
    """Measure with what is stored; a damaged store must give the same figures as none."""
    import hierbench

    os.environ["HIERBENCH_CACHE"] = str(folder / "cache")
    found = hierbench.run(["miniature-clip"], tasks=["zero-shot/miniature-colours"], limit=6, workers=0)
    (record,) = found
    assert record.metrics is not None, record.error
    figures = {name: estimate.value for name, estimate in record.metrics.items()}
    kept = folder / "figures.json"
    if not kept.exists():
        kept.write_text(json.dumps(figures))
        return
    assert figures == json.loads(kept.read_text()), "other figures than without damage"


def _spoil_store(folder: Path, rng: Random) -> None:
    spoil.folder(folder / "cache", rng)


def _typed_show(folder: Path) -> list[list[str]]:
    run, out = str(folder / "run"), folder.parent / "made"
    shown = [["leaderboard", "show", run, "--format", form] for form in ("terminal", "latex", "html", "csv")]
    return [
        *shown,
        ["leaderboard", "compare", "miniature-meru", "miniature-clip", "--in", run],
        ["leaderboard", "rank", run],
        ["leaderboard", "card", "miniature-clip", "--in", run],
        ["leaderboard", "build", run, "-o", str(out / "table")],
        ["leaderboard", "page", run, "-o", str(out / "site")],
    ]


def _bundle(folder: Path) -> None:
    for name in ("miniature-clip", "miniature-uncha"):
        shutil.copytree(ROOT / "leaderboard" / "results" / name, folder / "bundle" / name)


def _use_bundle(folder: Path) -> None:
    from hierbench.cli.leaderboard import app  # noqa: F401 - what the commands need is imported before forking

    type_all(_typed_bundle(folder))


def _typed_bundle(folder: Path) -> list[list[str]]:
    bundle, none = str(folder / "bundle"), str(folder / "none filed")
    return [
        ["leaderboard", "verify", bundle, "--against", none],
        ["leaderboard", "add", bundle, "-o", str(folder.parent / "filed")],
    ]


BUNDLED = ROOT / "hierbench" / "reference" / "bundled"
STUDY = """\
models: [miniature-clip]
checkpoints:
  ours: {family: hycoclip, seeds: {0: WEIGHTS, 1: WEIGHTS}}
task: [zero-shot/miniature-colours]
limit: 4
workers: 0
"""


def _study(folder: Path) -> None:
    """A file of `run --config`, and the page's one of `reproduce`."""
    (folder / "run.yaml").write_text(STUDY.replace("WEIGHTS", str(BUNDLED / "hycoclip.safetensors")))
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    (folder / "study.yaml").write_text(text.partition("```yaml\n")[2].partition("```")[0])


def _use_study(folder: Path) -> None:
    type_all(_typed_study(folder))


def _typed_study(folder: Path) -> list[list[str]]:
    return [
        ["run", "--config", str(folder / "run.yaml"), "--dry-run"],
        ["reproduce", str(folder / "study.yaml"), "--dry-run"],
    ]


def _typed_clean(folder: Path) -> list[list[str]]:
    words = [
        "miniature-clip",
        "--task",
        "pep-v2",
        "--limit",
        "6",
        "--workers",
        "0",
        "-o",
        str(folder.parent / "run"),
    ]
    return [["run", *words, "--data", f"hierarcaps-clean={folder / 'out'}"]]


def _typed_embedded(folder: Path) -> list[list[str]]:
    words = ["miniature-clip", "--task", "zero-shot/miniature-colours", "--limit", "6", "--workers", "0"]
    return [["run", *words, "-o", str(folder / "run")], ["cache", "stats"]]


KINDS: dict[str, Kind] = {
    "result folder": Kind(_results, spoil.folder, _show, _typed_show, 2.0),
    "submission": Kind(_bundle, spoil.folder, _use_bundle, _typed_bundle, 0.6),
    "table layout": Kind(_layout, spoil.one_yaml, _use_layouts, None),
    "study": Kind(_study, spoil.one_yaml, _use_study, _typed_study),
    "clean folder": Kind(_cleaning, _spoil_clean, _read_clean, _typed_clean, 1.0),
    "embedding store": Kind(_embedded, _spoil_store, _embedded, _typed_embedded, 0.6),
}
