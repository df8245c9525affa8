"""`--quiet`, `--log-file` and completion: what is told where."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

RUN = [
    "run",
    "random",
    "--task",
    "zero-shot/miniature-colours",
    "--limit",
    "2",
    "--workers",
    "0",
    "-o",
    "here",
]


def test_quiet_prints_the_table_alone(hierbench):
    done = hierbench(*RUN, "--quiet")
    assert done.status == 0
    assert "random" in done.out
    assert done.err == ""


def test_quiet_still_tells_what_fails(hierbench, tmp_path):
    broken = tmp_path / "broken.pth"
    broken.write_bytes(b"no checkpoint")
    done = hierbench(*RUN, "--checkpoint", broken, "--family", "clip", "-q")
    assert done.status == 1
    assert done.err.startswith("FAILED broken: zero-shot/miniature-colours: ")
    assert done.err.count("\n") == 1


def test_a_log_file_gathers_runs_with_their_times(hierbench, tmp_path):
    assert hierbench(*RUN, "--log-file", "logs/run.log").err != ""
    assert hierbench(*RUN, "-q", "--log-file", "logs/run.log").status == 0
    lines = (tmp_path / "logs/run.log").read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S", line) for line in lines)
    told = [line.split(" ", 2)[2] for line in lines]
    assert sum("zero-shot/miniature-colours: mean_per_class" in line for line in told) == 2
    assert any(
        line.endswith("kept, as model, data and options are the same (force repeats it)") for line in told
    )
    assert any(line.startswith("Files: ") for line in told)
    assert hierbench("run", "nosuch", "--log-file", "logs/run.log").status == 2
    assert "no model 'nosuch'" in (tmp_path / "logs/run.log").read_text().splitlines()[-1]


def test_a_log_file_that_cannot_be_written(hierbench, tmp_path):
    (tmp_path / "file").write_text("")
    done = hierbench(*RUN, "--log-file", "file/run.log")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "--log-file file/run.log cannot be written" in done.err
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("hierbench lea", ["leaderboard"]),
        ("hierbench run --log", ["--log-file"]),
        ("hierbench cache pr", ["prune"]),
    ],
)
def test_the_shell_is_told_what_may_come_next(typed, offered):
    asking = {
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
        "_HIERBENCH_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        [sys.executable, "-m", "hierbench"], env=os.environ | asking, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == offered


def test_installing_completion(tmp_path):
    typed = f"{shlex.quote(sys.executable)} -m hierbench --install-completion bash; exit $?"
    done = subprocess.run(
        ["bash", "-c", typed],  # the shell is found among the parents, which a job in the background may lack
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "_HIERBENCH_COMPLETE" in (tmp_path / ".bash_completions/hierbench.sh").read_text()


def test_a_document_stays_one_document(hierbench):
    done = hierbench(*RUN, "--json", "-q")
    assert json.loads(done.out)["status"] == 0
    assert done.err == ""
