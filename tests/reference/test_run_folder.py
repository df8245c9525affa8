"""The folder of a training run: one run at a time, nothing left of dead ones, full disks in one line."""

import json
import os
import resource
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_training import tiny
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from hierbench.errors import OutputError, UsageError
from hierbench.reference.training import folder
from hierbench.reference.training.logs import Logs
from hierbench.reference.training.loop import train

ROOT = Path(__file__).resolve().parents[2]
# so slow that no loss is suspect: then each checkpoint is written
STEPS = ["train.steps=4", "train.save_every=2", "train.learning_rate=1e-4"]


HOLDING = """
import sys
from pathlib import Path
from hierbench.reference.training.folder import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def largest_file(size):
    """A disk that is full once a file has `size` bytes (Python ignores the signal; writing fails with EFBIG)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_folder_in_use_is_refused_until_its_process_dies(tmp_path, monkeypatch):
    out = tmp_path / "run"
    train(tiny("clip", *STEPS), out, device="cpu", quiet=True)
    log = (out / "train.jsonl").read_bytes()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout.readline() == b"held\n"
        with monkeypatch.context() as patched:
            patched.setattr(folder, "WAIT_FOR_WORKERS", 0.0)
            with pytest.raises(UsageError, match=r"another process is training in .*run: wait for it"):
                train(tiny("clip", *STEPS), out, device="cpu", resume=True, quiet=True)
        assert (out / "train.jsonl").read_bytes() == log
    finally:
        process.kill()
        process.communicate()
    assert train(tiny("clip", *STEPS), out, device="cpu", resume=True, quiet=True).exists()


def test_what_dead_processes_left_goes_and_nothing_else(tmp_path):
    out = tmp_path / "run"
    train(tiny("clip", *STEPS), out, device="cpu", quiet=True)
    (out / "notes.tmp").write_text("the user's own")
    whole = sorted(path for path in out.rglob("*") if "events.out" not in path.name)
    left = out / "checkpoints/.step-0000003.4242.abcd0123.tmp"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    (out / ".model.safetensors.4242.abcd0123.tmp").write_bytes(b"half")
    train(tiny("clip", *STEPS), out, device="cpu", resume=True, quiet=True)
    assert sorted(path for path in out.rglob("*") if "events.out" not in path.name) == whole


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path):
    for name, config, resume in (
        ("a/b/run", tiny("clip"), True),
        ("a/run", tiny("argent", "data.boxes=0"), False),
    ):
        with pytest.raises(UsageError):
            train(config, tmp_path / name, device="cpu", resume=resume)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file could not be written: "):
        train(tiny("clip"), tmp_path / "file", device="cpu")
    assert (tmp_path / "file").read_text() == ""


def test_a_full_disk_ends_a_run_in_one_line_and_resumes(tmp_path, monkeypatch):
    fell = []
    monkeypatch.setattr(threading, "excepthook", fell.append)
    out = tmp_path / "run"
    with largest_file(4096), pytest.raises(OutputError) as caught:
        train(tiny("clip", *STEPS), out, device="cpu", quiet=True)
    assert "step-0000002 could not be written, earlier ones are whole: File too large" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert fell == []
    assert list((out / "checkpoints").iterdir()) == []
    assert not (out / "model.safetensors").exists()
    resumed = train(tiny("clip", *STEPS), out, device="cpu", resume=True, quiet=True)
    straight = train(tiny("clip", *STEPS), tmp_path / "straight", device="cpu", quiet=True)
    one, two = load_file(resumed), load_file(straight)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_log_on_a_full_disk_has_whole_lines(tmp_path):
    logs = Logs(tiny("clip"), tmp_path, start=0, quiet=True)

    def fill():
        for step in range(1000):
            logs.write(step, {"loss": 1.5})

    with largest_file(700), pytest.raises(OutputError, match="the log of the run could not be written"):
        fill()
    logs.close()
    text = (tmp_path / "train.jsonl").read_text()
    assert text.endswith("}\n")
    steps = [json.loads(line)["step"] for line in text.splitlines()]
    assert steps == list(range(len(steps)))
    assert 1 < len(steps) < 20


def test_tensorboard_reads_the_figures_of_a_resumed_run(tmp_path):
    for start, value in (
        (0, 1.0),
        (2, 5.0),
    ):  # the killed run had logged step 2 and 3, which its resumption repeats
        logs = Logs(tiny("clip"), tmp_path, start=start, quiet=True)
        for step in range(start, start + 4):
            logs.write(step, {"loss": value + step})
        logs.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    told = [(event.step, event.value) for event in events.Scalars("loss")]
    assert told == [(0, 1.0), (1, 2.0), (2, 7.0), (3, 8.0), (4, 9.0), (5, 10.0)]
    lines = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert [(line["step"], line["loss"]) for line in lines] == told
