"""A worker dies, torchrun starts all of them again, and the run goes on by itself to the weights that it would have."""

import json
from datetime import timedelta
from threading import Thread

import pytest
import torch
from processes import together
from safetensors.torch import load_file
from small_teams import losing_one_once
from small_training import tiny
from torch.distributed import HashStore

from hierbench.errors import HierbenchError, UsageError
from hierbench.reference.training import elastic, launch
from hierbench.reference.training.loop import train

STEPS = ["train.steps=3", "train.save_every=1"]


def test_a_worker_is_killed_once(tmp_path):
    out, straight = tmp_path / "run", tmp_path / "straight"
    together(losing_one_once, tiny("hycoclip", *STEPS), out, straight, 2, restarts=1)
    one, two = (load_file(run / "model.safetensors") for run in (out, straight))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    logged = [json.loads(line)["step"] for line in (out / "train.jsonl").read_text().splitlines()]
    assert logged == [0, 1, 2]
    assert f"restarted by torchrun: goes on with {out}" in (tmp_path / "said0").read_text()


def test_the_living_agree_on_a_name_whatever_the_dead_have_left():
    store = HashStore()
    store.set("asks/1", "dead")
    store.set("answered/1", "dead name")
    store.set("agrees/1", "name")
    store.set("agrees/2", "name")
    found = {}

    def ask(rank):
        found[rank] = elastic.agreed_name(store, rank, 3)

    threads = [Thread(target=ask, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(found) == {0, 1, 2}
    assert len(set(found.values())) == 1
    assert found[0] != "name"


def test_who_waits_for_nobody_is_told():
    with pytest.raises(HierbenchError, match="rank 1 has waited 0:00:00 for other processes of the run"):
        elastic.agreed_name(HashStore(), 1, 2, timedelta(0))


def test_a_launch_knows_its_own_runs_alone(tmp_path, monkeypatch, capsys):
    """Its id is torchrun's; where torchrun has none, that of the process that starts the workers."""
    out, short = tmp_path / "runs/train-1", tiny("clip", "train.steps=3")
    assert elastic.launch_id() is None
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a")
    train(short, out, device="cpu", quiet=True)
    assert "launch: a\n" in (out / "config.yaml").read_text()
    with pytest.raises(
        UsageError, match="holds a run already: add --resume"
    ):  # finished, and the id used again
        launch.launch(short, out, device="cpu")
    assert elastic.own_folder(tmp_path / "runs", "train-*") is None
    with monkeypatch.context() as killed:  # its last worker died when all was written
        killed.setenv("TORCHELASTIC_RESTART_COUNT", "1")
        assert elastic.own_run(out)
    (out / "model.safetensors").unlink()  # killed before it was written; the job is queued again
    assert elastic.own_folder(tmp_path / "runs", "train-*") == out
    assert launch.launch(short, out, device="cpu") == out / "model.safetensors"
    assert f"restarted by torchrun: goes on with {out}" in capsys.readouterr().err
    for other in ("b", "none", None):
        if other is None:
            monkeypatch.delenv("TORCHELASTIC_RUN_ID")
        else:
            monkeypatch.setenv("TORCHELASTIC_RUN_ID", other)
        assert elastic.own_folder(tmp_path / "runs", "train-*") is None
        with pytest.raises(UsageError, match="holds a run already: add --resume"):
            launch.launch(short, out, device="cpu")
    train(short, out, device="cpu", resume=True, quiet=True)  # another launch may, when it is told to


def test_a_launch_without_an_id_is_known_by_what_started_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    name = elastic.launch_id()
    assert name != "none"
    train(tiny("clip", "train.steps=3"), tmp_path / "run", device="cpu", quiet=True)
    (tmp_path / "run/model.safetensors").unlink()
    assert elastic.own_run(tmp_path / "run")
    monkeypatch.setattr(elastic.os, "getppid", lambda: 1)
    assert not elastic.own_run(tmp_path / "run")
