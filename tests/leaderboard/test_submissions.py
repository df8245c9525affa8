"""Submissions: what is packed, what verification finds when something was changed, what is filed."""

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from submitted import COUNT, LABEL, TASK, colour_items, colour_record, run_of

from hierbench.contracts import Estimate
from hierbench.errors import DataError, OutputError, UnknownNameError, UsageError
from hierbench.files import sha256
from hierbench.leaderboard import submissions, tables
from hierbench.leaderboard.packing import pack
from hierbench.leaderboard.verification import check, verify
from hierbench.results import Record, read_results, record_path, write_record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A bundle of two models: one gets 800 of 1,000 images right, one 400."""
    place = tmp_path_factory.mktemp("packed")
    return pack(run_of(place / "run", {"good": 800, "poor": 400}), place / "bundle").path


@pytest.fixture
def bundle(packed, tmp_path):
    """A copy of it, to be changed."""
    return Path(shutil.copytree(packed, tmp_path / "bundle"))


def seal(folder):
    """Write the hashes of a submission anew, as someone would who changed a file on purpose."""
    path = folder / submissions.INDEX
    index = json.loads(path.read_text())
    index["files"] = {name: sha256(file) for name, file in submissions.listed(folder).items()}
    path.write_text(json.dumps(index))


def edit(folder, change):
    """Change a submission's record and seal it again; returns what verification says."""
    path = record_path(folder, folder.name, TASK)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    seal(folder)
    return check(folder).problems


# ----------------------------------------------------------------------------------------------------------- packing


def test_a_bundle_is_sound_and_reads_like_a_run(bundle):
    good, poor = verify(bundle)
    assert (good.model, good.sound, good.tasks, good.figures) == ("good", True, 1, 2)
    assert poor.sound
    table = tables.read([bundle / "good", bundle / "poor"])
    top1 = [
        record.metrics["top1"].value
        for folder in ("good", "poor")
        for record in read_results(bundle / folder)
    ]
    assert top1 == [80.0, 40.0]
    assert [row.model for row in table.rows] == ["good", "poor"]


def test_nothing_of_the_machine_is_packed(bundle):
    for path in bundle.rglob("*.json"):
        assert "/home" not in path.read_text()
    card = json.loads((bundle / "good" / submissions.CARD).read_text())
    assert card["source"] == "weights.pth"
    assert card["model_notes"] == {"temperature": 0.07}


def test_what_a_submitter_tells_is_in_the_card_and_in_the_records(tmp_path):
    (tmp_path / "card.yaml").write_text("trained_on: GRIT\nlicence: MIT\n")
    run = run_of(tmp_path / "run", {"good": 800, "poor": 400})
    made = pack(run, tmp_path / "b.zip", ["good"], tmp_path / "card.yaml")
    with submissions.opened(made.path) as (folder,):
        assert json.loads((folder / submissions.CARD).read_text())["licence"] == "MIT"
        (record,) = read_results(folder)
        assert record.provenance["card"] == {"trained_on": "GRIT", "licence": "MIT"}
    assert [verdict.sound for verdict in verify(made.path)] == [True]


def test_what_cannot_be_verified_is_left_out_and_named(tmp_path):
    run = run_of(tmp_path / "run", {"good": 800})
    shared = {"model": "good", "family": "clip", "protocol": "released", "dataset": "d", "task_version": 1}
    figures = {"metrics": {"top1": Estimate(1.0)}, "n": 4}
    for task, state in (
        ("zero-shot/cars", {**figures, "limit": 4}),
        ("zero-shot/pets", {**figures, "task_version": 0, "items_sha256": "x"}),
        ("zero-shot/mine", figures),
        ("zero-shot/dtd", {"error": "out of memory"}),
        ("zero-shot/stl10", {"skipped": "not here: see /data"}),
    ):
        write_record(
            run, Record(task=task, **shared | state), {"t": {"a": [1]}} if "items_sha256" in state else None
        )
    made = pack(run, tmp_path / "bundle")
    reasons = {task: why for _, task, why in made.left_out}
    assert "at most 4 items" in reasons["zero-shot/cars"]
    assert "version 0" in reasons["zero-shot/pets"]
    assert "no task of hierbench's own" in reasons["zero-shot/mine"]
    assert "out of memory" in reasons["zero-shot/dtd"]
    assert "data was not there" in reasons["zero-shot/stl10"]
    assert [record.task for record in read_results(tmp_path / "bundle" / "good")] == [TASK]


@pytest.mark.parametrize(
    ("change", "error", "what"),
    [
        ({"limit": 4}, OutputError, "nothing of good .* at most 4 items"),
        ({"n": 900}, DataError, "n is 900, its items are of 1,000"),
        ({"facts": {"names_hash": "0"}}, DataError, "other names"),
        ({"facts": {"checkpoint_sha256": None}}, DataError, "which weights"),
    ],
)
def test_a_run_that_does_not_verify_is_not_packed(tmp_path, change, error, what):
    run = run_of(tmp_path / "run", {"good": 800}, **change)
    with pytest.raises(error, match=what):
        pack(run, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_mistakes_in_packing(tmp_path):
    run = run_of(tmp_path / "run", {"good": 800, "poor": 400})
    (tmp_path / "card.yaml").write_text("trained: GRIT\n")
    with pytest.raises(UnknownNameError, match="did you mean good"):
        pack(run, tmp_path / "b", ["godo"])
    with pytest.raises(UsageError, match="tells of one model, but 2"):
        pack(run, tmp_path / "b", (), tmp_path / "card.yaml")
    with pytest.raises(DataError, match="trained: no such field, known: trained_on"):
        pack(run, tmp_path / "b", ["good"], tmp_path / "card.yaml")
    with pytest.raises(OutputError, match="exists already"):
        pack(run, run)


# ------------------------------------------------------------------------------------------------------- verification


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda r: r["metrics"]["top1"].update(value=80.2), "top1 is 80.2, its items give 80"),
        (lambda r: r["metrics"]["top1"].update(low=79.9), "the interval of top1 is [79.9, "),
        (lambda r: r["metrics"]["top1"].update(low=None, high=None), "the interval of top1 is none"),
        (
            lambda r: r["metrics"]["top1"].update(value=None, low=None, high=None),
            "top1 is nan, its items give 80",
        ),
        (lambda r: r["metrics"].pop("top1"), "it lacks top1"),
        (lambda r: r["metrics"].update(map=r["metrics"]["top1"]), "its items give no map"),
        (lambda r: r["metrics"]["top1"].update(value=180.0), "outside 0.0 to 100.0"),
        (lambda r: r.update(n=2000), "n is 2000"),
        (lambda r: r.update(schema=99), "record schema 99"),
        (lambda r: r.update(task_version=7), "measured with version 7"),
        (lambda r: r.update(limit=1000), "at most 1,000 items"),
        (lambda r: r.update(protocol="mine"), "no protocol 'mine'"),
        (lambda r: r.update(dataset="cars"), "measured on cars"),
        (lambda r: r.update(task="zero-shot/cars"), "is the record of zero-shot/cars"),
        (lambda r: r.update(model="other"), "of other, not of"),
        (lambda r: r.update(family="meru"), "measured with family meru"),
        (lambda r: r.update(items_sha256=None), "no hash of them"),
        (lambda r: r.update(items_sha256="0" * 64), "the items of another measurement"),
        (lambda r: r.update(metrics=None, error="no memory"), "it failed"),
        (lambda r: r["specs"]["top1"].update(higher_is_better=False), "otherwise than the task does"),
        (
            lambda r: r.update(definition="cone-angle"),
            "its entailment is cone-angle, that of its geometry radial",
        ),
        (lambda r: r["provenance"].update(checkpoint_sha256="0" * 64), "other weights"),
        (lambda r: r["provenance"].update(prompts_hash="0"), "other prompts"),
        (lambda r: r["provenance"].pop("dataset_fingerprint"), "which data"),
    ],
)
def test_an_edited_record_is_found(bundle, change, what):
    problems = edit(bundle / "good", change)
    assert any(what in problem for problem in problems), problems
    assert not any("\n" in problem for problem in problems)


def test_a_title_may_change(bundle):
    assert edit(bundle / "good", lambda r: r["specs"]["top1"].update(title="Accuracy")) == ()


@pytest.mark.parametrize(
    ("items", "what"),
    [
        ({"images": {"image_id": ["a"], "label": [0]}}, "no column predicted"),
        ({"images": {"image_id": ["a"], "label": [0], "predicted": [2**40]}}, "predicted outside 0"),
        ({"images": {"image_id": ["a"], "label": ["red"], "predicted": [0]}}, "cannot be scored"),
        ({"images": {"image_id": [], "label": [], "predicted": []}}, "cannot be scored"),
    ],
)
def test_items_of_a_strangers_making_are_found(bundle, items, what):
    folder = bundle / "good"
    write_record(folder, colour_record("good", colour_items(800)), items)
    seal(folder)
    assert any(what in problem for problem in check(folder).problems), check(folder).problems


def test_a_figure_that_says_little_has_to_say_so(tmp_path):
    """A model that gives every image the first class; whoever strikes that out of the record is found."""
    items = colour_items(800)
    items["images"]["predicted"] = np.zeros(COUNT, int)
    run = tmp_path / "run"
    why = "every image is given the same class"
    write_record(run, colour_record("flat", items, degenerate={"top1": why, "mean_per_class": why}), items)
    folder = pack(run, tmp_path / "bundle").path / "flat"
    struck = edit(folder, lambda r: r["degenerate"].pop("top1"))
    assert struck == (f"{TASK}: it does not say of top1 that {why}",)


def test_part_of_the_data_is_found(bundle):
    folder = bundle / "good"
    few = {"images": {name: list(column)[:900] for name, column in colour_items(800)["images"].items()}}
    write_record(folder, colour_record("good", few, n=900), few)
    seal(folder)
    assert check(folder).problems == (f"{TASK}: measured on 900 of the split's {COUNT:,} images",)


def test_labels_that_were_made_to_fit_are_found_by_what_is_filed(tmp_path, bundle):
    """Labels put equal to the predictions give 100 % by every count; the labels of another model tell."""
    board = tmp_path / "board"
    with submissions.opened(bundle) as folders:
        submissions.add(folders, board)
    items = colour_items(400)
    items["images"]["label"] = items["images"]["predicted"]
    items["images"]["correct"] = np.ones(COUNT, bool)
    cheat = tmp_path / "cheat"
    write_record(cheat, colour_record("cheat", items), items)
    with pytest.raises(DataError, match="have another label than those of good on the same data"):
        pack(cheat, tmp_path / "b", board=board)
    alone = verify(pack(cheat, tmp_path / "b").path)[0]
    assert alone.sound  # its figures do follow from its items,
    assert any(
        "nobody else was measured" in note for note in alone.notes
    )  # and it says what was not compared
    other = run_of(
        tmp_path / "other", {"other": 500}, LABEL[::-1].copy(), facts={"dataset_fingerprint": "0" * 64}
    )
    (verdict,) = pack(other, tmp_path / "c", board=board).verdicts
    assert any("other images or labels than what is filed" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda f: (f / "weights.pth").write_text("x"), "weights.pth is not listed"),
        (lambda f: (f / "run.json").unlink(), "run.json is missing"),
        (lambda f: (f / "run.json").write_text("{}"), "run.json was changed"),
        (lambda f: (f / "link").symlink_to("/etc/hostname"), "link is a link"),
        (lambda f: (f / submissions.INDEX).write_text("{"), "is damaged"),
        (lambda f: (f / submissions.INDEX).write_text("[]"), "not a mapping"),
        (lambda f: (f / submissions.INDEX).write_text('{"schema": 9}'), "schema 9"),
        (lambda f: (f / submissions.INDEX).write_text('{"schema": 1}'), "it has no model"),
        (lambda f: index(f, files={"../x": "0"}), "names the file '../x', which leaves the submission"),
        (lambda f: index(f, files={"/etc/x": "0"}), "which leaves the submission"),
        (lambda f: index(f, tasks=[]), "it has no task"),
        (lambda f: index(f, tasks=[TASK, TASK]), "listed twice"),
        (lambda f: index(f, tasks=[TASK, "retrieval/coco"]), "retrieval/coco: its record is missing"),
        (lambda f: index(f, family="meru"), "card.json says family 'clip'"),
        (lambda f: [(f / "weights.pth").write_text("x"), seal(f)], "weights.pth belongs to no task"),
        (lambda f: [(f / "card.json").write_text("{"), seal(f)], "card.json is damaged"),
    ],
)
def test_files_that_were_changed_are_found(bundle, change, what):
    change(bundle / "good")
    problems = check(bundle / "good").problems
    assert any(what in problem for problem in problems), problems


def index(folder, **changes):
    path = folder / submissions.INDEX
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_is_no_bundle(tmp_path, bundle):
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "out.zip", "w") as archive:
        archive.writestr("../escaped.txt", "x")
    (tmp_path / "text.zip").write_text("no archive")
    (bundle / "notes").mkdir()
    for name, what in (
        ("gone", "there is no bundle"),
        ("empty", "holds no submission"),
        ("out.zip", "escaped.txt"),
        ("text.zip", "text.zip is damaged"),
        ("bundle", "notes is no submission"),
    ):
        with pytest.raises(DataError, match=what):
            verify(tmp_path / name)
    assert not (tmp_path / "escaped.txt").exists()


# ------------------------------------------------------------------------------------------------------------- filing


def test_filing_replaces_only_where_asked(tmp_path, bundle):
    board = tmp_path / "board"
    with submissions.opened(bundle) as folders:
        assert submissions.add(folders[:1], board) == [board / "good"]
        with pytest.raises(OutputError, match="--replace"):
            submissions.add(folders, board)
        assert not (board / "poor").exists()  # all or none
        newer = pack(run_of(tmp_path / "again", {"good": 900}), tmp_path / "newer").path
        submissions.add([newer / "good"], board, again=True)
    (record,) = read_results(board / "good")
    assert record.metrics["top1"].value == 90.0
    assert [verdict.sound for verdict in verify(board, board)] == [True]
    assert sorted(path.name for path in board.iterdir()) == ["good"]
    (board / "poor").mkdir()
    with pytest.raises(OutputError, match="it is no submission"):
        submissions.add([bundle / "poor"], board, again=True)


# ----------------------------------------------------------------------------------------------------- the workflow


@pytest.fixture
def pull_request(tmp_path, bundle):
    """A repository whose second commit files a model: run(step) -> the finished process of the workflow's step.

    The program is a stand-in that prints its words.
    """
    program = tmp_path / "bin" / "hierbench"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    there = tmp_path / "submitted"
    (tmp_path / "trusted" / "leaderboard" / "results").mkdir(parents=True)
    there.mkdir()
    (there / "README.md").write_text("x")

    def git(*words):
        return subprocess.run(["git", "-C", there, *words], check=True, capture_output=True, text=True).stdout

    def commit():
        git("add", "-A")
        git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")
        return git("rev-parse", "HEAD").strip()

    git("init", "-q")
    base = commit()
    with submissions.opened(bundle) as folders:
        submissions.add(folders, there / "leaderboard" / "results")
    steps = yaml.safe_load((ROOT / ".github/workflows/submissions.yml").read_text())["jobs"]["verify"][
        "steps"
    ]
    named = {step["name"]: step for step in steps if "name" in step}
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "BASE": base}

    def run(step):
        commit()
        command = ["bash", "-e", "-c", named[step]["run"]]
        return subprocess.run(
            command, cwd=there, env=environment, capture_output=True, text=True, check=False
        )

    return there, run


def test_the_workflow_verifies_each_model_that_a_pull_request_touches(pull_request):
    there, run = pull_request
    (there / "leaderboard/results/--help").mkdir()
    (there / "leaderboard/results/--help/x").write_text("x")
    done = run("Every figure follows from its items")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "leaderboard", "verify", "--against", "../trusted/leaderboard/results", "--",
        *(f"leaderboard/results/{name}" for name in ("--help", "good", "poor")),
    ]  # fmt: skip


def test_the_workflow_takes_results_alone(pull_request):
    there, run = pull_request
    assert run("Results alone are submitted").returncode == 0
    (there / "tasks.py").write_text("x")
    mixed = run("Results alone are submitted")
    assert mixed.returncode == 1
    assert "tasks.py" in mixed.stdout
