"""The documentation's geometry of one's own, with its model, measured as any other: nothing in hierbench knows it."""

import csv
import json
import re
import runpy
from pathlib import Path

import pytest

from hierbench.models.conformance import check_adapter

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "examples" / "order.py"
PAGE = (ROOT / "docs" / "geometry.md").read_text(encoding="utf-8")
SHOWN = {
    "pep-v2/miniature auc": 94.4,
    "pep-v2/miniature auc_similarity": 76.3,
    "hierarcaps/miniature d_corr": 87.9,
}


def test_it_keeps_the_contracts():
    assert check_adapter(runpy.run_path(str(FILE))["load"]()) == []


def test_the_page_shows_parts_of_the_file_as_they_are():
    example = PAGE.partition("## An example")[2]
    parts = re.findall(r"^```python excerpt\n(.*?)^```", example, re.S | re.M)
    assert len(parts) == 3
    assert [part for part in parts if part not in FILE.read_text(encoding="utf-8")] == []


def test_it_is_measured_and_has_a_column_of_its_own(hierbench):
    tasks = [
        "--task",
        "pep-v2/miniature",
        "--task",
        "pep-v2-radial/miniature",
        "--task",
        "hierarcaps/miniature",
    ]
    done = hierbench(
        "run",
        "miniature-hycoclip",
        "--adapter",
        FILE,
        "--family",
        "order",
        *tasks,
        "--workers",
        0,
        "-o",
        "out",
    )
    assert done.status == 0, done.err
    found = {path.stem: json.loads(path.read_text()) for path in Path("out/results/order").glob("*.json")}
    records = {record["task"]: record for record in found.values()}
    assert records["pep-v2/miniature"]["definition"] == "order"
    assert records["pep-v2/miniature"]["provenance"]["geometry"] == {"name": "order"}
    figures = {
        f"{task} {name}": 100 * metric["value"]
        for task, record in records.items()
        for name, metric in (record["metrics"] or {}).items()
    }
    assert {name: figures[name] for name in SHOWN} == pytest.approx(SHOWN, abs=0.06)
    assert figures["pep-v2/miniature direction_auc"] > 99.9
    assert "pep-v2/miniature auc_signed" not in figures
    for said in SHOWN.values():
        assert str(said) in PAGE
    table = hierbench("leaderboard", "show", "out", "--layout", "miniature").out
    assert "(cone-angle)" in table
    rows = list(csv.DictReader(Path("out/table.csv").read_text().splitlines()))
    columns = [f"pep-v2/miniature:auc ({definition})" for definition in ("cone-angle", "order")]
    filled = {row["model"]: [bool(row[column]) for column in columns] for row in rows}
    assert filled == {"miniature-hycoclip": [True, False], "order": [False, True]}


def test_what_has_no_angles_says_so_or_leaves_figures_out(hierbench):
    own = ("--adapter", FILE, "--limit", 12, "--workers", 0)
    done = hierbench("analyze", "traversal", "order", *own, "-o", "way")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "the geometry 'order' has no angles, by which cones are told: use --all-captions" in done.err
    assert hierbench("analyze", "traversal", "order", *own, "--all-captions", "-o", "way").status == 0
    for kind in ("norms", "uncertainty", "ambiguity"):
        assert hierbench("analyze", kind, "order", *own, "-o", kind).status == 0
    done = hierbench("run", "order", *own, "--task", "counterfactual/miniature-chains", "-o", "read")
    assert done.status == 0, done.err
    (record,) = Path("read/results/order").glob("*.json")
    metrics = json.loads(record.read_text())["metrics"]
    assert {"auc", "equalised_auc"} <= metrics.keys()
    assert not [name for name in metrics if "signed" in name]
