"""`hierbench clean`: what is printed, which options go together, bad input in one line."""

import csv
import json
import os
import socket

import pytest

from hierbench.cleaning import adapter_roles
from hierbench.cli import main

SMALL = ("clean", "miniature", "--count", 30, "--negatives", 10, "-o", "out")


def test_the_miniature_with_an_oracle(hierbench, tmp_path):
    done = hierbench(*SMALL)
    assert done.status == 0
    assert "precision of dropped  1.000" in done.out
    assert "recall of planted     1.000" in done.out
    assert "--data hierarcaps-clean=out" in done.err
    document = json.loads(hierbench(*SMALL, "--no-probe", "--json").out)
    assert document["counts"]["samples"] == 30
    assert document["probes"]["verifier"].startswith("exempt")
    assert document["warnings"] == []
    assert document["counts"]["dropped"] == 9
    assert (tmp_path / "out" / "audit.html").is_file()


def test_a_dry_run_asks_nothing_and_then_knows(hierbench, tmp_path):
    done = hierbench(*SMALL, "--dry-run")
    assert done.status == 0
    assert "at most" in done.out
    assert "No pace is known yet" in done.err
    assert not (tmp_path / "out").exists()
    assert "In all about" in hierbench(*SMALL, "--dry-run", "--probe", 2).err
    hierbench(*SMALL)
    left = json.loads(hierbench(*SMALL, "--dry-run", "--json").out)["stages"]
    assert [stage["missing"] for stage in left] == [0] * 6


def test_a_dry_run_downloads_no_model(hierbench, folder, monkeypatch):
    from hierbench.errors import CheckpointError
    from hierbench.models import checkpoints

    def snapshot(repo, revision=None, offline=False):
        assert offline
        raise CheckpointError("not in the cache")

    monkeypatch.setattr(checkpoints, "hub_snapshot", snapshot)
    done = hierbench(*folder(ROW), "--dry-run", "--json")
    assert done.status == 0, done.err
    assert "Not on this machine yet" in done.err
    assert "Qwen/Qwen3-VL-Embedding-8B" in done.err
    stages = json.loads(done.out)["stages"]
    assert [stage["missing"] for stage in stages[:4]] == [4, 3, 1, 4]


def test_shards_and_merge(hierbench, tmp_path):
    for number in (0, 1):
        done = hierbench(*SMALL[:-1], f"part{number}", "--shard", f"{number}/2")
        assert done.status == 0
        assert "run this again when they are there" in done.err
    done = hierbench("clean", "merge", "part0", "part1", "-o", "whole")
    assert done.status == 0
    assert "now run the `clean` command with -o whole" in done.err
    assert hierbench(*SMALL[:-1], "whole").status == 0
    hierbench(*SMALL)
    assert (tmp_path / "whole" / "manifest.json").read_bytes() == (
        tmp_path / "out" / "manifest.json"
    ).read_bytes()


def test_torchrun_shares_the_work(hierbench, tmp_path):
    hierbench(*SMALL)
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            os.environ |= {
                "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "MASTER_ADDR": "localhost",
                "MASTER_PORT": str(port),
            }  # fmt: skip
            try:
                main([str(word) for word in (*SMALL[:-1], "together")])
            except SystemExit as stop:
                os._exit(stop.code)
            finally:
                os._exit(70)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    for name in ("manifest.json", "split.csv", "rerank.parquet", "audit.html"):
        assert (tmp_path / "together" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    writers = {path.name.split("-")[1] for path in (tmp_path / "together" / "answers").glob("*/*.answers")}
    assert len(writers) == 2


def test_an_adapter_in_all_roles_and_pep_before_and_after(hierbench, tmp_path, monkeypatch):
    few = adapter_roles.labelled_miniature(20)
    monkeypatch.setattr(adapter_roles, "labelled_miniature", lambda: few)
    done = hierbench(
        *SMALL, "--backend", "adapter", "--verifier", "random", "--keep", 20, "--max-negative", 1,
        "--top-captions", 5, "--top-images", 1, "--json",
    )  # fmt: skip
    assert done.status == 0, done.err
    document = json.loads(done.out)
    assert document["counts"]["kept"] == 20
    assert document["roles"]["reranker"]["backend"] == "adapter"
    done = hierbench("clean", "report", "out", "random")
    assert done.status == 0, done.err
    with open(tmp_path / "out" / "pep.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["samples"]) for row in rows] == [30, 30, 20, 21]
    assert all(0 <= float(row["auc_low"]) <= float(row["auc"]) <= float(row["auc_high"]) <= 1 for row in rows)
    assert [row["setting"].partition(":")[0] for row in rows] == ["before", "before", "after", "truth"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--keep", 20, "--min-verify", 0.5), "--keep and --min-verify are both given"),
        (("--keep", 31), "--keep 31: there are only 30 samples"),
        (("--min-verify", 1.5), "--min-verify 1.5: choose a number from 0 to 1"),
        (("--shard", "2/2"), "--shard 2/2: write I/N"),
        (("--probe", 3), "--probe goes with --dry-run"),
        (("--backend", "adapter"), "--backend adapter: name a model"),
        (("--backend", "adapter", "--verifier", "nonesuch"), "nonesuch"),
        (("--backend", "oracle", "--verifier", "x"), "plays all roles itself: leave out --verifier"),
        (("--share", 0.9), "choose 0 to 0.5"),
        (("--negatives", 4000), "--negatives 4000: only"),
        (("--backend", "server", "--base-url", "a", "--base-url", "b"), "--base-url: give one URL"),
    ],
)
def test_bad_options(hierbench, words, says):
    done = hierbench(*SMALL, *words)
    assert done.status == 2
    assert says in done.err
    assert len(done.err.splitlines()) == 1


ROW = "1,a => b => c => d,http://x/1.jpg\n"


@pytest.fixture
def folder(tmp_path):
    def make(rows, images=("1.jpg",)):
        (tmp_path / "hc" / "test_imgs").mkdir(parents=True)
        (tmp_path / "hc" / "hierarcaps_test.csv").write_text("id,captions,image_url\n" + rows)
        for name in images:
            (tmp_path / "hc" / "test_imgs" / name).write_bytes(b"not an image")
        return "clean", "hierarcaps", "--data", f"hierarcaps={tmp_path / 'hc'}", "-o", "out"

    return make


@pytest.mark.parametrize(
    ("rows", "images", "says"),
    [
        ("1,a => b => c,http://x/1.jpg\n", ("1.jpg",), "row 1: 3 caption levels where 4"),
        (ROW + ROW, ("1.jpg",), "row 2: the id '1' stands in row 1 already"),
        (ROW, (), "1 of 1 images are missing"),
        ("", (), "has no rows"),
    ],
)
def test_bad_rows(hierbench, folder, rows, images, says):
    done = hierbench(*folder(rows, images))
    assert done.status == 2
    assert says in done.err
    assert len(done.err.splitlines()) == 1


def test_a_damaged_image_is_named_before_anyone_is_asked(hierbench, folder, tmp_path):
    words = folder(ROW + "2,a => b => e => f,http://x/2.jpg\n", ("1.jpg", "2.jpg"))
    done = hierbench(*words, "--backend", "adapter", "--verifier", "random")
    assert done.status == 2
    assert ".jpg of hierarcaps is not a readable" in done.err  # both are the same bytes: either is named
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_one_row_is_too_few_for_an_adapter(hierbench, folder):
    done = hierbench(*folder(ROW), "--backend", "adapter", "--verifier", "random")
    assert done.status == 2
    assert "take more rows" in done.err


def test_photographs_have_no_oracle(hierbench, folder):
    done = hierbench(*folder(ROW), "--backend", "oracle")
    assert done.status == 2
    assert "nobody knows the truth of photographs" in done.err


def test_a_missing_dataset_says_how_to_get_it(hierbench):
    done = hierbench("clean", "hierarcaps", "-o", "out")
    assert done.status == 2
    assert "hierarcaps" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_folder_that_was_not_cleaned_has_no_report(hierbench, tmp_path):
    done = hierbench("clean", "report", tmp_path, "nonesuch")  # no model is looked for
    assert done.status == 2
    assert "come to its end" in done.err
