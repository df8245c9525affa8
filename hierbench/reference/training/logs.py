"""What a training run says: JSONL and TensorBoard files, a live line on the terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

LINE_EVERY = 10.0  # seconds between plain lines where there is no terminal


class Logs:
    """Writes each logged step to `train.jsonl` and TensorBoard, and keeps a progress line on stderr.

    A resumed run appends; steps after the resumed one that the killed run had logged are dropped first.
    """

    def __init__(self, folder: Path, *, steps: int, start: int, quiet: bool = False):
        self.steps, self.quiet = steps, quiet
        self._began, self._begun_at = time.monotonic(), start
        self._said = 0.0
        path = folder / "train.jsonl"
        kept = [line for line in _lines(path) if _step(line) < start]
        path.write_text("".join(kept), encoding="utf-8")
        self._file = path.open("a", encoding="utf-8")
        self._board = _tensorboard(folder, start)

    def write(self, step: int, figures: dict[str, Any], samples_per_second: float) -> None:
        """Record the figures of a step (0-based) and show them."""
        figures = {"step": step, **figures, "samples_per_second": round(samples_per_second, 1)}
        self._file.write(json.dumps(figures) + "\n")
        self._file.flush()
        if self._board:
            for name, value in figures.items():
                if isinstance(value, float | int):
                    self._board.add_scalar(name, value, step)
        self._show(step, figures)

    def close(self) -> None:
        self._file.close()
        if self._board:
            self._board.close()
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
            if isinstance(value, float) and name not in ("seconds",)
        ]
        line = f"step {step + 1}/{self.steps}  {'  '.join(shown)}  left {_clock(left)}"
        sys.stderr.write(f"\r\x1b[2K{line}" if terminal else f"{line}\n")
        sys.stderr.flush()


def _lines(path: Path) -> list[str]:
    """Complete lines of a log; a line that a kill cut short is dropped."""
    if not path.exists():
        return []
    return [
        line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("}\n")
    ]


def _step(line: str) -> int:
    return json.loads(line)["step"]


def _tensorboard(folder: Path, start: int):
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # the extra `train` brings tensorboard; the JSONL file holds the same figures
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=start)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
