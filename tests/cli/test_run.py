"""`hierbench run`: what it asks the engine for, what it prints and writes, and every mistake a person can type."""

import json
import sys

import pytest

from hierbench import results
from hierbench.contracts import Estimate
from hierbench.results import Record, Results


def record(model, task, **fields):
    defaults = {
        "task_version": 1, "dataset": "imagenet", "protocol": "released", "family": "random",
        "provenance": {"dataset_fingerprint": "f" * 64, "checkpoint_sha256": model * 8},
    }  # fmt: skip
    if not fields.keys() & {"error", "skipped"}:
        fields = {"metrics": {"top1": Estimate(41.25, 40.0, 42.5)}, "n": 1000} | fields
    return Record(model=model, task=task, **{**defaults, **fields})


MEASURED = record("tiny", "zero-shot/imagenet")
SKIPPED = record("tiny", "pep-v2", skipped="no data: give --data hierarcaps-clean=PATH")
FAILED = record("tiny", "retrieval/coco", error="image x.jpg is empty")


@pytest.fixture
def engine(monkeypatch):
    """engine(records...) makes runner.run write and return them; the keywords it was called with lie in .asked."""

    class Engine:
        asked = None

        def __call__(self, *records):
            def run(**asked):
                self.asked = asked
                for one in records:
                    results.write_record(asked["out"], one)
                results.write_run(asked["out"], {"models": ["tiny"], "tasks": [r.task for r in records]})
                return Results(records)

            monkeypatch.setattr("hierbench.engine.runner.run", run)

    return Engine()


def test_a_run_prints_the_table_and_leaves_files(hierbench, engine, tmp_path):
    engine(MEASURED, SKIPPED)
    done = hierbench("run", "random", "--out", "here")
    assert done.status == 0
    assert "ARGENT, Table 2" in done.out
    assert "41.2" in done.out
    assert "±1.2" in done.out
    assert "Skipped, as their data was not there: pep-v2" in done.out
    assert "here/table.md" in done.err
    assert "here/results" in done.err
    assert "| tiny | 41.2 ±1.2 |" in (tmp_path / "here/table.md").read_text()
    assert "tiny,random,measured,41.25,40.0,42.5,1000," in (tmp_path / "here/table.csv").read_text()


def test_show_prints_the_runs_table_again_from_the_files(hierbench, engine):
    engine(MEASURED, SKIPPED, FAILED)
    ran = hierbench("run", "random", "--out", "runs/x")
    for words in (["runs/x"], []):  # without a folder: the newest
        assert hierbench("leaderboard", "show", *words) == (0, ran.out, "")


def test_a_failed_task_makes_status_1_and_is_named(hierbench, engine):
    engine(MEASURED, FAILED)
    done = hierbench("run", "random")
    assert done.status == 1
    assert "FAILED tiny: retrieval/coco: image x.jpg is empty" in done.err
    assert "retrieval/coco: failed: image x.jpg is empty" in done.out  # the footnote


def test_json_is_one_document(hierbench, engine):
    engine(MEASURED, FAILED)
    done = hierbench("run", "random", "--out", "here", "--json")
    document = json.loads(done.out)
    assert done.status == document["status"] == 1
    assert document["out"] == "here"
    assert [r["task"] for r in document["results"]] == ["zero-shot/imagenet", "retrieval/coco"]
    assert document["table"]["rows"][0]["cells"]["zero-shot/imagenet:top1"]["value"] == 41.25


def test_what_adapters_print_does_not_mix_with_results(hierbench, monkeypatch):
    def chatty(**asked):
        print("loading weights …")
        results.write_record(asked["out"], MEASURED)
        return Results([MEASURED])

    monkeypatch.setattr("hierbench.engine.runner.run", chatty)
    done = hierbench("run", "random", "--json")
    assert json.loads(done.out)["status"] == 0
    assert "loading weights …" in done.err
    monkeypatch.setattr("hierbench.engine.planning.plan", lambda **asked: print("loading weights …") or [])
    done = hierbench("run", "random", "--json", "--dry-run")
    assert json.loads(done.out)["plan"] == []
    assert "loading weights …" in done.err


def test_an_adapter_that_ends_the_program_is_told(hierbench, monkeypatch):
    monkeypatch.setattr("hierbench.engine.runner.run", lambda **asked: sys.exit(3))
    done = hierbench("run", "random")
    assert (done.status, done.out) == (2, "")
    assert "error: an adapter or a library ended the program (sys.exit(3))" in done.err


def test_without_arguments_the_built_in_models_run_on_the_built_in_world(hierbench, engine):
    from hierbench.models.catalog import list_models

    engine(MEASURED)
    done = hierbench("run")
    builtin = [entry.name for entry in list_models() if entry.builtin]
    assert engine.asked["models"] == (builtin or ["random"])
    assert (engine.asked["suite"], engine.asked["tasks"]) == ("miniature", None)
    assert engine.asked["out"].parts[0] == "runs"
    assert "--family hycoclip --checkpoint FILE" in done.err  # what to type next


def test_retraining_goes_on_where_it_was_stopped(hierbench, engine, monkeypatch, tmp_path):
    """What is trained is kept, what was begun is resumed, and the fresh weights are what is measured."""
    asked = []

    def launch(config, folder, *, device, resume):
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append((config.family, resume))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").touch()
        (folder / "model.safetensors").touch()

    monkeypatch.setattr("hierbench.reference.training.launch.launch", launch)
    begun = tmp_path / "out" / "training" / "meru"
    begun.mkdir(parents=True)
    (begun / "config.yaml").touch()
    stopped = hierbench("run", "--retrain", "--out", "out")
    assert stopped.status != 0
    assert "the same command with --out out goes on from there" in stopped.err
    assert asked == [("clip", False), ("meru", True)]
    asked.clear()
    asked += [("kept", True)] * 3
    engine(MEASURED)
    assert hierbench("run", "--retrain", "--out", "out").status == 0
    assert asked[3:] == [("hycoclip", False), ("uncha", False), ("argent", False), ("phyclip", False)]
    names = [name for _, _, name in engine.asked["models"]]
    assert names == [f"{f} (retrained)" for f in ("clip", "meru", "hycoclip", "uncha", "argent", "phyclip")]
    assert engine.asked["models"][0][1].endswith("out/training/clip/model.safetensors")


def test_options_reach_the_engine(hierbench, engine, tmp_path):
    engine(MEASURED)
    (tmp_path / "d").mkdir()
    words = "a b --family meru --checkpoint c.pth --name n --task pep-v2 --task hierarcaps --data coco=d --data-dir d "
    words += "--out o --device cpu --batch-size 3 --dtype bfloat16 --limit 7 --workers 0 --no-cache --offline --force "
    words += "--protocol corrected --prompts photo --compile"
    done = hierbench("run", *words.split())
    assert done.status == 0, done.err
    from pathlib import Path

    assert engine.asked == {
        "models": ["a", "b", ("meru", "c.pth", "n")], "tasks": ["pep-v2", "hierarcaps"], "suite": None,
        "data": {"coco": Path("d")}, "data_dir": Path("d"), "out": Path("o"), "device": "cpu", "batch_size": 3,
        "dtype": "bfloat16", "limit": 7, "workers": 0, "cache": False, "offline": True, "force": True,
        "protocol": "corrected", "prompts": "photo", "compile": True, "progress": None,
    }  # fmt: skip
    assert "--family" not in done.err  # no first steps for someone who is past them


def test_ways_to_name_one_model(hierbench, engine, tiny_checkpoint):
    for words, models in (
        (["random"], ["random"]),
        (["--family", "random"], [("random",)]),
        (["--family", "meru", "--checkpoint", "x"], [("meru", "x", None)]),
        (["--checkpoint", "x.pth"], [(None, "x.pth", None)]),
        (
            [
                "random",
                "--family",
                "meru",
                "--checkpoint",
                "a",
                "--checkpoint",
                "b",
                "--name",
                "one",
                "--name",
                "two",
            ],
            ["random", ("meru", "a", "one"), ("meru", "b", "two")],
        ),
        (
            ["--family", "meru", "--checkpoint", "a", "--family", "clip", "--checkpoint", "b"],
            [("meru", "a", None), ("clip", "b", None)],
        ),
        (
            ["--checkpoint", tiny_checkpoint("clip"), "--name", "n"],
            [(None, str(tiny_checkpoint("clip")), "n")],
        ),
    ):
        engine(MEASURED)
        done = hierbench("run", *words)
        assert done.status == 0, done.err
        assert engine.asked["models"] == models
        assert engine.asked["suite"] == "argent"


def test_ctrl_c_says_what_is_kept(hierbench, monkeypatch):
    finished = []

    def interrupted(**asked):
        for one in finished:
            results.write_record(asked["out"], one)
        raise KeyboardInterrupt

    monkeypatch.setattr("hierbench.engine.runner.run", interrupted)
    for kept in ("no task had finished", "finished tasks lie in here"):
        done = hierbench("run", "random", "--out", "here")
        assert (done.status, done.out) == (130, "")
        last = f"hierbench: interrupted: {kept}; the same command with --out here goes on from there"
        assert done.err.splitlines()[-1] == last
        finished.append(MEASURED)


def test_other_ranks_print_nothing(hierbench, engine, monkeypatch):
    engine()
    monkeypatch.setenv("RANK", "1")
    done = hierbench("run", "random", "--out", "here")
    assert (done.status, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--suite argent --task pep-v2", "--suite and --task are both given"),
        ("random --data coco", "--data coco: write NAME=PATH"),
        ("random --data =x", "--data =x: write NAME=PATH"),
        ("random --data coco=", "--data coco=: write NAME=PATH"),
        ("random --data coco=/no/such", "--data coco=/no/such: there is no /no/such"),
        ("random --data cooc=.", "no dataset 'cooc': did you mean coco"),
        ("random --data coco=. --data coco=/", "--data coco is given twice"),
        ("random --data-dir /no/such", "--data-dir /no/such: there is no such folder"),
        ("--name x", "--name names the model of --checkpoint"),
        ("--checkpoint a --checkpoint b --name x", "1 --name for 2 --checkpoint: give one for each"),
        ("--family meru --family clip --checkpoint a", "2 --family for 1 --checkpoint: give one for all"),
        ("--family hycoclip", "family hycoclip needs a checkpoint"),
        ("--family hycolcip --checkpoint x.pth", "no model family 'hycolcip': did you mean hycoclip"),
        ("hycoclip-vit-bb", "no model 'hycoclip-vit-bb': did you mean hycoclip-vit-b"),
        ("--family meru --checkpoint gone.pth", "gone.pth"),
        ("gone.pth", "no checkpoint file gone.pth: check the path"),
        ("--checkpoint gone.pth --name x", "gone.pth"),
        ("--family meru --checkpoint text.pth", "text.pth"),
        ("text.pth", "text.pth"),
        ("random --task pep-v3", "no task 'pep-v3': did you mean pep-v2"),
        ("random --task pep-v1", "no task 'pep-v1': pep-v1 was another reading of PEP's pairs"),
        ("random --suite argnt", "no suite 'argnt': did you mean argent"),
        ("random --adapter gone.py", "gone.py: give the path of a Python file"),
        ("random --adapter text.pth", "text"),
        ("random --manifest gone.yaml", "gone.yaml"),
        ("random --manifest text.pth", "text.pth"),
        ("random --device tpu", "no device 'tpu'"),
        ("random --device cpu:x", "no device 'cpu:x'"),
        ("random --out text.pth", "text.pth"),
        ("random --out text.pth/deeper", "text.pth/deeper"),
        ("random:moebius", "random takes 'lorentz' or 'sphere'"),
    ],
)
def test_mistakes_end_with_one_line_and_status_2(hierbench, tmp_path, words, line):
    (tmp_path / "text.pth").write_text("this is no checkpoint")
    done = hierbench("run", *words.split())
    assert done.status == 2, done
    assert done.out == ""
    errors = [text for text in done.err.splitlines() if text.startswith("hierbench: error: ")]
    assert len(errors) == 1, done.err
    assert line in errors[0]
    assert "Traceback" not in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["text.pth"]  # nothing half-done is left


def test_a_real_run_and_its_plan(hierbench, tmp_path):
    words = [
        "run",
        "random",
        "--task",
        "zero-shot/miniature-colours",
        "--limit",
        "12",
        "--workers",
        "0",
        "--out",
        "here",
    ]
    plan = hierbench(*words, "--dry-run")
    assert plan.status == 0, plan.err
    assert "zero-shot/miniature-colours" in plan.out
    assert "Nothing was written" in plan.out
    assert not (tmp_path / "here").exists()
    planned = json.loads(hierbench(*words, "--dry-run", "--json").out)["plan"]
    assert [(p["action"], p["new_images"]) for p in planned] == [("run", 12)]

    ran = hierbench(*words)
    assert ran.status == 0, ran.err
    assert "Colours ↑" in ran.out
    assert "at most 12 items a dataset: not a full measurement" in ran.out
    assert hierbench("leaderboard", "show", "here").out == ran.out
    again = json.loads(hierbench(*words, "--json").out)
    assert (
        again["results"][0]["metrics"] == json.loads(hierbench(*words, "--json").out)["results"][0]["metrics"]
    )


def test_an_adapter_and_a_manifest_of_ones_own(hierbench, tmp_path):
    (tmp_path / "ours.py").write_text(
        '"""Ours."""\nfrom hierbench.model_adapters import random\n'
        "def load(checkpoint=None, *, name=None, device='cpu', dtype='float32'):\n"
        "    return random.load('sphere', name=name or 'ours')\n"
    )
    (tmp_path / "mine.yaml").write_text(
        "title: Mine\nreader: coco-captions\ntasks: [retrieval]\nfit: squeeze\nlayout: {table: [c.json], images: [i]}\n"
    )
    words = [
        "--adapter",
        tmp_path / "ours.py",
        "--manifest",
        tmp_path / "mine.yaml",
        "--limit",
        "5",
        "--workers",
        "0",
    ]
    done = hierbench(
        "run", "ours", *words, "--task", "zero-shot/miniature-things", "--data", f"mine={tmp_path}"
    )
    assert done.status == 0, done.err
    assert "\nours " in done.out


def test_a_suite_runs_what_is_there_and_lists_the_rest(hierbench, tmp_path):
    """One dataset of two suites is present: it is measured, the others are named with the command, status 0."""
    for row, wnid in enumerate(("n03773504", "n01440764")):
        from PIL import Image

        (tmp_path / "data/imagenet" / wnid).mkdir(parents=True)
        Image.new("RGB", (20, 20), (40, 80 * row, 200)).save(tmp_path / "data/imagenet" / wnid / "a.png")
    words = ["run", "random", "--suite", "all", "--data-dir", "data", "--workers", "0", "--out", "here"]
    done = hierbench(*words)
    assert done.status == 0, done.err
    assert "All tasks" in done.out
    assert "Avg." not in done.out  # of one dataset
    for name in ("food101", "flickr30k", "voc2007", "hierarcaps-clean"):
        assert f"  hierbench data prepare {name}" in done.err
    assert "hierbench data prepare imagenet" not in done.err
    assert "for pep-v2-radial" not in done.err  # not for want of data: the model has cones
    assert "--data NAME=PATH" in done.err
    document = json.loads(hierbench(*words, "--json").out)
    missing = {entry["dataset"]: entry for entry in document["missing"]}
    assert missing["coco-objects"] == {
        "dataset": "coco-objects", "tasks": ["multilabel/coco"], "command": "hierbench data prepare coco-objects",
    }  # fmt: skip
    assert "average" not in document["table"]["rows"][0]["cells"]


def test_runs_of_the_same_second_have_a_folder_each(hierbench, engine, monkeypatch, tmp_path):
    monkeypatch.setattr("time.strftime", lambda form, *moment: "now")
    engine(MEASURED)
    folders = []
    for _ in range(2):
        assert hierbench("run", "random").status == 0
        folders.append(engine.asked["out"].name)
    assert folders == ["now", "now-2"]
    assert all((tmp_path / "runs" / name / "table.md").is_file() for name in folders)
