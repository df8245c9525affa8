"""benchmarks/gpu_check.py on a CPU with tiny models: what a GPU will run, and what becomes of checks that fail."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def command(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # or importing it would set it for good
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    from benchmarks import gpu_check

    return gpu_check


@pytest.fixture
def checks(monkeypatch, command):
    """checks({name: function}): what the command runs in place of its own."""

    def replace(found):
        monkeypatch.setattr(command, "checks", lambda setting: {n: (f, 60) for n, f in found.items()})

    return replace


def test_all_kinds_of_checks_run_on_a_cpu(command, tmp_path, capsys):
    kinds = ["golden bfloat16", "waits", "resume", "evaluation", "meru/vit-b", "uncha/vit-s"]
    asked = ["--device", "cpu", "--tiny", "--same-process", "--out", str(tmp_path / "found.json")]
    assert command.main([*asked, *(word for kind in kinds for word in ("--only", kind))]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["checks"].keys() == set(kinds)
    assert {one["state"] for one in found["checks"].values()} == {"done"}
    (resumed,) = found["checks"]["resume"]["findings"]
    assert resumed["more"]["off"] == 0
    (speed,) = found["checks"]["uncha/vit-s"]["findings"]
    assert speed["more"]["samples_per_second"] > 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("CPU, ")
    assert [line.split("  ")[0] for line in lines[4:-2]] == [
        finding["what"] for one in found["checks"].values() for finding in one["findings"]
    ]
    assert max(map(len, lines[2:-1])) <= 82


def test_every_family_and_size_has_a_check(command):
    from benchmarks.gpu_checks import Setting, checks

    names = checks(Setting("cuda"))
    assert {f"{family}/vit-{size}" for family in ("clip", "meru", "hycoclip", "uncha", "argent", "phyclip")
            for size in "sbl"} <= names.keys()  # fmt: skip
    assert [name for name in names if name.endswith("compiled")] == [
        "clip/vit-b compiled", "hycoclip/vit-b compiled", "clip/vit-l compiled", "hycoclip/vit-l compiled",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("samples", "share", "passed"),
    [(3300, 0.1, True), (3100, 0.41, True), (3100, 0.39, False)],
)
def test_bars_are_of_either_figure(command, monkeypatch, samples, share, passed):
    """ViT-B/16 CLIP: 3,200 pairs a second or 40 % of the peak."""
    from benchmarks import gpu_checks

    rate = {"samples_per_second": samples, "mfu": share, "memory_gib": 60.0}
    monkeypatch.setattr(gpu_checks, "_measured", lambda *asked: rate)
    monkeypatch.setattr(gpu_checks.Setting, "barred", lambda self: True)
    (found,) = gpu_checks.throughput(gpu_checks.Setting("cuda"), "clip", "b", compiled=True)
    assert found.passed is passed
    assert found.bar == "≥ 3,200/s or ≥ 40 %"
    (eager,) = gpu_checks.throughput(gpu_checks.Setting("cuda"), "clip", "b")
    assert (eager.bar, eager.passed) == ("", None)


def test_a_check_that_fails_dies_or_hangs_leaves_the_others(command, checks, tmp_path, capfd):
    from benchmarks.gpu_checks import Finding

    out = tmp_path / "found.json"
    good, bad = Finding("good", "1"), Finding("bad", "2", "≤ 1", False)

    def fails(setting):
        raise ValueError("no\nsuch thing")

    checks(
        {
            "fails": fails,
            "dies": lambda setting: os.kill(os.getpid(), signal.SIGKILL),
            "good": lambda setting: [good],
            "bad": lambda setting: [bad],
        }
    )
    asked = ["--device", "cpu", "--tiny", "--out", str(out)]
    assert command.main(asked) == 1
    found = json.loads(out.read_text())["checks"]
    assert {name: one["state"] for name, one in found.items()} == {
        "fails": "failed", "dies": "failed", "good": "done", "bad": "done",
    }  # fmt: skip
    printed = capfd.readouterr().out
    assert "FAILED: ValueError: no such thing" in printed
    assert "FAILED: its process ended with status -9" in printed
    assert [line.split()[-1] for line in printed.splitlines() if line.startswith("bad")] == ["FAIL"]

    checks({"fails": lambda setting: [good], "dies": lambda setting: [good], "good": fails})
    assert command.main(asked) == 0  # what was done is kept, what failed is tried again
    assert command.main([*asked, "--force"]) == 1


def test_a_check_that_hangs_is_ended(command):
    from benchmarks.gpu_checks import Setting

    begun = time.monotonic()
    outcome = command._apart(lambda setting: time.sleep(600), Setting("cpu", True), 0.3)
    assert outcome == {"state": "out of time", "error": "ended after 0.3 s"}
    assert time.monotonic() - begun < 300


def test_no_check_begins_when_time_is_over(command, checks, tmp_path, capsys):
    checks({"one": lambda setting: []})
    out = tmp_path / "found.json"
    assert command.main(["--device", "cpu", "--tiny", "--minutes", "0", "--out", str(out)]) == 1
    assert "OUT OF TIME: not begun within 0 minutes" in capsys.readouterr().out
    assert json.loads(out.read_text())["checks"]["one"]["state"] == "out of time"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--device", "cpu"], "add --tiny"),
        (["--device", "cpu", "--tiny", "--out", "nowhere/x.json"], "there is no folder nowhere"),
    ],
)
def test_bad_options_are_told_in_a_line(command, words, told, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(words)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err.splitlines()[-1]


def test_a_file_of_another_kind_is_not_written_over(command, tmp_path):
    out = tmp_path / "found.json"
    out.write_text("[]")
    with pytest.raises(SystemExit, match="not a file of this command"):
        command.main(["--device", "cpu", "--tiny", "--out", str(out)])
    assert out.read_text() == "[]"
