"""What a training run says: its JSONL files, its boards, a live line on the terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from hierbench.files import regular_file, replacing
from hierbench.reference.schema import ReferenceConfig
from hierbench.reference.training.boards import Appended, open_boards
from hierbench.reference.training.folder import writing

LINE_EVERY = 10.0  # seconds between plain lines where there is no terminal

SHOWN = ("logit_scale", "curv", "gradient_norm", "learning_rate", "samples_per_second", "mfu")
"""Figures of the progress line, besides the losses; the files hold all."""


class Logs:
    """Writes each logged step to `train.jsonl` and the boards, and keeps a progress line on stderr.

    Figures of a suite on the weights of a step go to `evaluations.jsonl`. A resumed run appends; steps after the
    resumed one that the killed run had logged are dropped first. Raises OutputError, and what a board raises.
    """

    def __init__(self, config: ReferenceConfig, folder: Path, *, start: int, quiet: bool = False):
        self.steps, self.quiet = config.train.steps, quiet
        self._began, self._begun_at = time.monotonic(), start
        self._said = 0.0
        with writing(f"{folder / 'train.jsonl'}"):
            self._file = _continued(folder / "train.jsonl", start)
            evaluated = config.train.evaluate is not None
            self._evaluations = _continued(folder / "evaluations.jsonl", start) if evaluated else None
            self._boards, reason = open_boards(config, folder, start)
        if reason:
            self.say(f"no TensorBoard files: {reason}")

    def write(self, step: int, figures: dict[str, Any]) -> None:
        """Record the figures of a step (0-based) and show them. Raises OutputError on a full disk."""
        figures = {"step": step, **figures}
        with writing("the log of the run"):
            self._file.write(json.dumps(figures).encode() + b"\n")
            for board in self._boards:
                board.add(step, figures)
        self._show(step, figures)

    def evaluated(self, step: int, figures: dict[str, float], **more: Any) -> None:
        """Record what the weights after a step (0-based) reach, figures by "task metric". Raises OutputError."""
        assert self._evaluations is not None, "the config says train.evaluate"
        shown = {"evaluation/step": step} | {f"evaluation/{name}": value for name, value in figures.items()}
        with writing("the log of the run"):
            self._evaluations.write(json.dumps({"step": step, "figures": figures, **more}).encode() + b"\n")
            for board in self._boards:
                board.add(step, shown)

    def say(self, line: str) -> None:
        """A line on stderr that stays."""
        if not self.quiet:
            sys.stderr.write(f"\r\x1b[2K{line}\n" if sys.stderr.isatty() else f"{line}\n")
            sys.stderr.flush()

    def close(self) -> None:
        """All files are whole."""
        for each in (self._file, self._evaluations, *self._boards):
            if each is not None:
                each.close()
        if sys.stderr.isatty() and not self.quiet:
            sys.stderr.write("\n")

    def _show(self, step: int, figures: dict[str, Any]) -> None:
        terminal, now = sys.stderr.isatty(), time.monotonic()
        if self.quiet or (not terminal and now - self._said < LINE_EVERY and step + 1 < self.steps):
            return
        self._said = now
        done = step + 1 - self._begun_at
        left = (now - self._began) / max(1, done) * (self.steps - step - 1)
        shown = [
            f"{name.replace('_loss', '')} {value:.3g}"
            for name, value in figures.items()
            if isinstance(value, float) and (name in SHOWN or name.endswith("loss"))
        ]
        line = f"step {step + 1}/{self.steps}  {'  '.join(shown)}  left {clock(left)}"
        if terminal:  # a line that wraps could not be written over
            line = line[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r\x1b[2K{line}" if terminal else f"{line}\n")
        sys.stderr.flush()


def logged(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a run's JSONL file, oldest first; none where there is no such file."""
    return [json.loads(line) for line in _kept(path)]


def clock(seconds: float) -> str:
    """H:MM:SS"""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def _continued(path: Path, start: int) -> Appended:
    """A JSONL file to append to, of steps before `start` alone; a file that is missing is made."""
    with replacing(path) as temporary:
        temporary.write_bytes(b"".join(_kept(path, start)))
    return Appended(path)


def _kept(path: Path, start: float = math.inf) -> list[bytes]:
    """Lines of a log of the steps before `start`; a line that a kill cut short is dropped."""
    if not path.exists():
        return []
    return [
        line
        for line in regular_file(path, "log").read_bytes().splitlines(keepends=True)
        if -1 < _step(line) < start
    ]


def _step(line: bytes) -> int:
    """The step of a line of a log, -1 where it is not whole."""
    try:
        step = json.loads(line)["step"] if line.endswith(b"}\n") else -1
    except (ValueError, LookupError, TypeError):
        return -1
    return step if isinstance(step, int) else -1
