"""Where a run's figures can be looked at besides its JSONL file: TensorBoard's event files, and Weights & Biases."""

from __future__ import annotations

import os
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from hierbench.errors import HierbenchError, UsageError, one_line
from hierbench.files import replacing
from hierbench.reference.schema import ReferenceConfig


class Board(Protocol):
    """Something that shows figures over steps."""

    def add(self, step: int, figures: dict[str, Any]) -> None:
        """The figures of a step (0-based); numbers and lists of numbers are shown, the rest is not."""

    def close(self) -> None:
        """The last word."""


class Appended:
    """A file to which each write is added whole or not at all."""

    def __init__(self, path: Path):
        self._file = path.open("ab", buffering=0)

    def write(self, content: bytes) -> None:
        """Add `content`. Raises OSError, with nothing added."""
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
        """Nothing more is added."""
        self._file.close()


class TensorBoard:
    """TensorBoard's event file, written in this thread: its own writer's dies of a full disk with a traceback.

    Raises ImportError without the package tensorboard, OSError.
    """

    def __init__(self, folder: Path, start: int):
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{start}"
        self._file = Appended(folder / name)
        self._records = RecordWriter(self._file)
        self._put(file_version="brain.Event:2")
        self._put(
            step=start, session_log=SessionLog(status=SessionLog.START)
        )  # later steps of a killed run go

    def add(self, step: int, figures: dict[str, Any]) -> None:
        """The figures of a step as scalars, those of a list numbered."""
        values = [
            self._summary.Value(tag=name, simple_value=value) for name, value in _scalars(figures).items()
        ]
        self._put(step=step, summary=self._summary(value=values))

    def close(self) -> None:
        """The file holds all that was added."""
        self._file.close()

    def _put(self, **fields: Any) -> None:
        self._records.write(self._event(wall_time=time.time(), **fields).SerializeToString())


class Wandb:
    """A run of Weights & Biases in `project`; a resumed run goes on with the same one.

    Where and how it is sent is the library's own affair (`wandb login`, WANDB_MODE=offline).
    Raises HierbenchError where it cannot begin.
    """

    def __init__(self, project: str, config: ReferenceConfig, out: Path):
        import wandb

        self._last = 0
        named = out / "wandb.id"
        if not named.exists():
            with replacing(named) as temporary:
                temporary.write_text(secrets.token_hex(6))
        try:
            self._run = wandb.init(
                project=project,
                id=named.read_text().strip(),
                name=config.name or out.resolve().name,
                resume="allow",
                dir=str(out),
                config=config.model_dump(mode="json"),
            )
        except Exception as error:  # its own kinds: no login, no network, no such entity
            raise HierbenchError(
                f"train.wandb={project}: Weights & Biases did not begin ({one_line(error, 200)}): log in, set "
                "WANDB_MODE=offline, or leave train.wandb out"
            ) from error

    def add(self, step: int, figures: dict[str, Any]) -> None:
        """The figures of a step, those of a list numbered; of one that is past they stand at the last one."""
        self._last = max(step, self._last)
        self._run.log(_scalars(figures), step=self._last)

    def close(self) -> None:
        """Waits until what was added is sent."""
        self._run.finish()


def require(config: ReferenceConfig) -> None:
    """Raise UsageError where the config asks for Weights & Biases and its library is not installed."""
    if config.train.wandb is None:
        return
    try:
        import wandb  # noqa: F401
    except ImportError:
        raise UsageError(
            f"train.wandb={config.train.wandb} needs the package wandb: pip install wandb, or leave train.wandb out"
        ) from None


def open_boards(config: ReferenceConfig, out: Path, start: int) -> tuple[list[Board], str | None]:
    """The boards of a run, and why TensorBoard's files are not written (None where they are).

    Raises OSError, HierbenchError.
    """
    boards: list[Board] = []
    reason = None
    try:
        boards.append(TensorBoard(out / "tensorboard", start))
    except ImportError:
        reason = "the package tensorboard is not installed (pip install 'hierbench[train]')"
    if config.train.wandb is not None:
        boards.append(Wandb(config.train.wandb, config, out))
    return boards, reason


def _scalars(figures: dict[str, Any]) -> dict[str, float]:
    """Numbers alone, those of a list under numbered names."""
    named: dict[str, Any] = {}
    for name, value in figures.items():
        many = isinstance(value, list)
        named |= {f"{name}/{place}": one for place, one in enumerate(value)} if many else {name: value}
    return {name: value for name, value in named.items() if isinstance(value, float | int)}
