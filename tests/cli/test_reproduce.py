"""`hierbench reproduce`: what it refuses, tells, and leaves behind."""

import json

import pytest
from small_study import TINY


def test_the_studies_are_listed(hierbench):
    done = hierbench("reproduce", "--list")
    assert (done.status, done.err) == (0, "")
    assert {line.split()[0] for line in done.out.splitlines()[1:]} >= {
        "argent-table3",
        "argent-h",
        "uncha-ablations",
    }
    listed = {entry["study"]: entry for entry in json.loads(hierbench("reproduce", "--list", "--json").out)}
    assert listed["argent-table3"]["rows"] == 9


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "name a study: `hierbench reproduce --list`"),
        (["argent-table"], "no study 'argent-table': did you mean argent-table3"),
        (
            ["argent-table3", "--rows", "meru-end"],
            "no row of argent-table3 'meru-end': did you mean meru-ent",
        ),
        (["argent-table3", "--rows", ","], "--rows: name at least one row"),
        (["argent-table3", "--seeds", "0,x"], "--seeds 0,x: whole numbers with commas between them, not 'x'"),
        (["argent-table3", "--seeds", "0,,1"], "--seeds 0,,1: whole numbers with commas between them"),
        (["argent-table3", "--seeds", "0,0"], "--seeds: at least one, and each once"),
        (["argent-table3", "train.stepz=1"], "config train.stepz: unknown key"),
        (["mine.yaml"], "study mine.yaml cannot be read: No such file or directory"),
        (["argent-table3", "--steps", "0"], "--steps"),
    ],
)
def test_what_it_refuses_it_refuses_in_one_line(hierbench, tmp_path, words, line):
    done = hierbench("reproduce", *words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("hierbench: error: ")
    assert done.err.count("\n") == 1
    assert line in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_study_in_small(hierbench, tmp_path):
    """Trains two tiny models and measures them: some seconds."""
    words = [
        "reproduce",
        "argent-table3",
        *TINY,
        "--rows",
        "meru-ent,meru-adaent",
        "--seeds",
        "4",
        "--steps",
        "2",
    ]
    words += ["--limit", "8"]
    planned = hierbench(*words, "--out", "out", "--dry-run")
    assert planned.status == 0
    assert "meru-adaent" in planned.out
    assert "About 1 min of training" in planned.out
    assert list(tmp_path.iterdir()) == []
    done = hierbench(*words, "--out", "out")
    assert done.status == 0, done.err
    assert "MERU-S AdaEnt" in done.out
    assert "Of 5 claims 0 hold, 0 do not hold, 5 cannot be told." in done.out
    assert "Files: out/table.md, out/result.json, out/figure.svg" in done.err
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["command"] == " ".join(["hierbench", "reproduce", "argent-table3", *TINY]) + (
        " --steps 2 --seeds 4 --rows meru-ent,meru-adaent --limit 8"
    )
    again = hierbench(*words, "--out", "out", "--json")
    assert json.loads(again.out) == result
    assert "training" not in again.err
    assert hierbench(*words, "--out", "out", "--dry-run").out.startswith("all is done")
