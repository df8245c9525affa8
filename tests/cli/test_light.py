"""Commands that have nothing to compute do not import torch: they answer at once, not after seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HEAVY = ("torch", "timm", "torchvision", "transformers", "open_clip", "sklearn")
CODE = f"""
import json, sys
from hierbench.cli import main
status = 0
try:
    main(sys.argv[1:])
except SystemExit as stop:
    status = stop.code
heavy = [name for name in {HEAVY} if name in sys.modules]
print(json.dumps({{"status": status, "heavy": heavy}}), file=sys.stderr)
"""


def run(*words, cwd):
    """A command in a process of its own: its stderr, its status and which heavy libraries it imported."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    *said, last = done.stderr.strip().splitlines()
    return "\n".join(said), json.loads(last)


LIGHT = {"status": 0, "heavy": []}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch alone knows which device auto is")
def test_a_run_with_nothing_to_do(hierbench, tmp_path):
    words = ["run", "miniature-meru", "--suite", "miniature", "--limit", "3", "--out", "here"]
    first = hierbench(*words, "--device", "cpu")
    assert first.status == 0
    said, ended = run(*words, "--device", "cpu", cwd=tmp_path)
    assert said.count(" kept, as model") == first.err.count(" n = ") > 0
    assert "entailment cones" in said  # that a task says nothing about the model stands as well
    assert ended == LIGHT
    said, ended = run("leaderboard", "show", "here", cwd=tmp_path)
    assert ended == LIGHT


@pytest.mark.parametrize(
    "words", ["--help", "run --help", "models", "tasks", "datasets", "errata", "data show pets"]
)
def test_listings(words, tmp_path):
    said, ended = run(*words.split(), cwd=tmp_path)
    assert ended == LIGHT, said
