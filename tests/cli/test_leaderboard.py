"""`hierbench leaderboard`: formats, merging, published figures, comparison, mistakes."""

import csv
import json
import re

import numpy as np
import pytest

from hierbench.contracts import Estimate
from hierbench.results import Record, write_record, write_run


@pytest.fixture
def run_folder(tmp_path):
    """A folder with two models and per-item outcomes."""
    label = np.arange(30) % 3
    for model, predicted in (("first", label), ("second", (label + (np.arange(30) % 2)) % 3)):
        hits = 100.0 * np.mean(predicted == label)
        record = Record(
            task="zero-shot/imagenet", task_version=1, dataset="imagenet", protocol="released", model=model,
            family="meru", n=30, metrics={"top1": Estimate(hits, hits - 5, hits + 5), "mean_per_class": Estimate(hits)},
            provenance={"dataset_fingerprint": "f", "checkpoint_sha256": model},
        )  # fmt: skip
        items = {"images": {"image_id": [f"i{k}" for k in range(30)], "label": label, "predicted": predicted}}
        write_record(tmp_path / "x", record, items)
    write_run(
        tmp_path / "x", {"models": ["second", "first"], "tasks": ["zero-shot/imagenet"], "layout": "argent"}
    )
    return tmp_path / "x"


def test_formats(hierbench, run_folder):
    text = hierbench("leaderboard", "show", run_folder).out
    assert text.index("\nsecond ") < text.index("\nfirst ")  # the order of the run
    markdown = hierbench("leaderboard", "show", run_folder, "--format", "markdown").out
    assert "| first | **100.0** ±5.0 |" in markdown
    rows = list(
        csv.DictReader(hierbench("leaderboard", "show", run_folder, "--format", "csv").out.splitlines())
    )
    assert [float(row["zero-shot/imagenet:top1"]) for row in rows] == [50.0, 100.0]
    for words in (["--format", "json"], ["--json"]):
        document = json.loads(hierbench("leaderboard", "show", run_folder, *words).out)
        assert [row["model"] for row in document["rows"]] == ["second", "first"]


@pytest.mark.parametrize("columns", ["40", "80", "160"])
def test_the_table_fits_the_terminal(hierbench, run_folder, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    done = hierbench("leaderboard", "show", run_folder, "--published")
    assert max(map(len, done.out.splitlines())) <= int(columns)


def test_published_figures_stand_apart_and_are_marked(hierbench, run_folder):
    plain = hierbench("leaderboard", "show", run_folder).out
    assert "ARGENT-S" not in plain
    both = hierbench("leaderboard", "show", run_folder, "--published").out
    assert both.startswith(plain)
    assert "PUBLISHED, not measured by hierbench" in both[len(plain) :]
    assert "arXiv:2603.23311v1" in both
    document = json.loads(hierbench("leaderboard", "show", run_folder, "--published", "--json").out)
    assert document["source"] == "measured"
    assert [table["source"] for table in document["published"]] == ["published"] * 3
    assert document["published"][0]["paper"].endswith("arXiv:2603.23311v1, Table 2")
    assert {row["model"] for row in document["rows"]} == {"first", "second"}


def test_page_says_what_was_made_and_refuses_a_folder_of_others(hierbench, run_folder, tmp_path):
    done = hierbench("leaderboard", "page", run_folder, "-o", "site")
    assert done.status == 0
    assert re.match(r"2 models, 1 tasks: \d+ files, 1\.\d MB. Open site/index.html", done.err + done.out)
    assert hierbench("leaderboard", "page", run_folder, "-o", "site").status == 0
    refused = hierbench("leaderboard", "page", run_folder, "-o", tmp_path / "x")
    assert refused.status == 2
    assert "is no site of hierbench's" in refused.err
    assert len(refused.err.splitlines()) == 1
    refused = hierbench("leaderboard", "page", "nowhere", "-o", "other")
    assert (refused.status, "no results in nowhere" in refused.err) == (2, True)
    assert not (tmp_path / "other").exists()


def test_build_merges_runs_and_writes_files(hierbench, run_folder, tmp_path):
    other = Record(
        task="pep-v2", task_version=1, dataset="d", protocol="released", model="third", family="meru", n=5,
        metrics={"auc": Estimate(0.9), "ap": Estimate(0.8)}, provenance={},
    )  # fmt: skip
    write_record(tmp_path / "y", other)
    done = hierbench("leaderboard", "build", run_folder, tmp_path / "y", "-o", tmp_path / "board")
    assert done.status == 0
    for name in ("first", "second", "third"):
        assert f"\n{name} " in done.out
    assert sorted(path.name for path in (tmp_path / "board").iterdir()) == [
        "table.csv",
        "table.json",
        "table.md",
    ]
    assert json.loads((tmp_path / "board/table.json").read_text())["rows"][2]["model"] == "third"


def test_compare(hierbench, run_folder):
    done = hierbench("leaderboard", "compare", "first", "second", "--in", run_folder)
    assert done.status == 0, done.err
    assert "+50.0" in done.out
    document = json.loads(
        hierbench("leaderboard", "compare", "first", "second", "--in", run_folder, "--json").out
    )
    difference = document["differences"][0]
    assert difference["difference"] == 50.0
    assert 0 < difference["low"] < 50 < difference["high"]
    published = hierbench(
        "leaderboard", "compare", "first", "ARGENT-S", "--against-published", "--in", run_folder
    ).out
    assert "PUBLISHED, not measured by hierbench" in published
    assert "+61.2" in published


def test_rank(hierbench, run_folder):
    done = hierbench("leaderboard", "rank", run_folder)
    assert done.status == 0, done.err
    assert "Classification: INet ↑" in done.out
    assert done.out.index("first ") < done.out.index("second ")
    assert "Overall" in done.out
    document = json.loads(hierbench("leaderboard", "rank", run_folder, "--json").out)
    (column,) = document["columns"]
    assert [(place["model"], place["rank"]) for place in column["places"]] == [("first", 1), ("second", 2)]
    assert document["voting"] == ["zero-shot/imagenet:top1"]


def test_other_forms_gains_and_columns(hierbench, run_folder):
    show = ["leaderboard", "show", run_folder, "--column", "zero-shot/*", "--baseline", "second"]
    assert "+50.0" in hierbench(*show).out
    assert r"\toprule" in hierbench(*show, "--format", "latex").out
    assert "<b>100.0</b>" in hierbench(*show, "--format", "html").out
    assert "| Δ first | +50.0 |" in hierbench(*show, "--format", "markdown").out
    rows = list(csv.DictReader(hierbench(*show, "--format", "csv", "--published").out.splitlines()))
    gains = {row["model"]: row["zero-shot/imagenet:top1 gain"] for row in rows[:2]}
    assert gains == {"second": "", "first": "50.0"}
    assert all("arXiv" in row["source"] for row in rows[2:])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("show", "no runs/ in this folder"),
        ("show gone", "no results in gone"),
        ("show x --layout argnt", "no table layout 'argnt': did you mean argent"),
        ("show x --format yaml", "'--format'"),
        ("show x --baseline frist", "no row in this table 'frist': did you mean first"),
        ("show x --column zero-shot/imagenet:top2", "did you mean zero-shot/imagenet:top1"),
        ("show x --published --layout miniature", "no paper prints figures"),
        ("build x -o x/run.json", "cannot write to x/run.json"),
        ("compare first secnd --in x", "did you mean second"),
        ("compare first ARGENT-X --in x --against-published", "no published row 'ARGENT-X'"),
    ],
)
def test_mistakes(hierbench, run_folder, words, line):
    done = hierbench("leaderboard", *words.split())
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("hierbench: error: ")
    assert done.err.count("\n") == 1
    assert line in done.err


def test_a_damaged_result_is_named(hierbench, run_folder):
    path = run_folder / "results" / "first" / "zero-shot__imagenet.json"
    path.write_text(path.read_text()[:40])
    done = hierbench("leaderboard", "show", run_folder)
    assert (done.status, done.out) == (2, "")
    assert str(path) in done.err
