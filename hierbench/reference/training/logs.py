"""What a training run says: JSONL and TensorBoard files, a live line on the terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hierbench.files import regular_file, replacing
from hierbench.reference.training.folder import writing

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
        with writing(f"{path}"):
            with replacing(path) as temporary:
                temporary.write_bytes(b"".join(_kept(path, start)))
            self._file = _Appended(path)
            self._board = _board(folder / "tensorboard", start)

    def write(self, step: int, figures: dict[str, Any], samples_per_second: float) -> None:
        """Record the figures of a step (0-based) and show them. Raises OutputError on a full disk."""
        figures = {"step": step, **figures, "samples_per_second": round(samples_per_second, 1)}
        with writing("the log of the run"):
            self._file.write(json.dumps(figures).encode() + b"\n")
            if self._board:
                self._board.add(step, figures)
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


class _Appended:
    """A file to which each write is added whole or not at all."""

    def __init__(self, path: Path):
        self._file = path.open("ab", buffering=0)

    def write(self, content: bytes) -> None:
        before = os.fstat(self._file.fileno()).st_size
        left = memoryview(content)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            with suppress(OSError):
                self._file.truncate(before)
            raise

    def close(self) -> None:
        self._file.close()


class _Board:
    """TensorBoard's event file, written in this thread: its own writer's dies of a full disk with a traceback."""

    def __init__(self, folder: Path, start: int):
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{start}"
        self._file = _Appended(folder / name)
        self._records = RecordWriter(self._file)
        self._put(file_version="brain.Event:2")
        self._put(
            step=start, session_log=SessionLog(status=SessionLog.START)
        )  # later steps of a killed run go

    def add(self, step: int, figures: dict[str, Any]) -> None:
        """The figures of a step as scalars, those of a list numbered."""
        scalars: list[tuple[str, Any]] = []
        for name, value in figures.items():
            many = isinstance(value, list)
            scalars += [(f"{name}/{n}", one) for n, one in enumerate(value)] if many else [(name, value)]
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in scalars
            if isinstance(value, float | int)
        ]
        self._put(step=step, summary=self._summary(value=values))

    def close(self) -> None:
        self._file.close()

    def _put(self, **fields: Any) -> None:
        self._records.write(self._event(wall_time=time.time(), **fields).SerializeToString())


def _kept(path: Path, start: int) -> list[bytes]:
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


def _board(folder: Path, start: int) -> _Board | None:
    try:
        return _Board(folder, start)
    except ImportError:  # the extra `train` brings tensorboard; the JSONL file holds the same figures
        return None


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
