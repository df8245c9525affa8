"""Who measures what, where several processes work into one output folder: one claims each measurement."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from hierbench.contracts import Task
from hierbench.errors import OutputError
from hierbench.files import alive, locked, regular_file, safe_name
from hierbench.results.folder import LOCK

FOLDER = ".claims"
BEAT_SECONDS = 5.0  # how often a living process shows that it is
STALE_SECONDS = 120.0  # a claim without a beat for so long is nobody's
POLL_SECONDS = 0.5


class Claims:
    """One process's claims on measurements in an output folder, a context manager; without a folder all is its own.

    A claim is a file, made under the folder's lock: who works (host, process), and as its time of change a heartbeat.
    It is taken over when its process is dead, or shows no heartbeat. A process that was taken over while it was
    suspended writes its record all the same: records are whole, and either is right.
    """

    def __init__(self, out: Path | None):
        self.out = out
        self._held: Path | None = None  # the claim file that this process holds
        self._stop = threading.Event()
        self._beating: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self.out is not None:
            self._beating = threading.Thread(target=self._beat, name="claims", daemon=True)
            self._beating.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.release()
        if self._beating is not None:
            self._beating.join()
        if self.out is not None:
            with contextlib.suppress(OSError):  # others may work on
                (self.out / FOLDER).rmdir()

    def turn(self, model: str, tasks: list[Task]) -> Iterator[Task]:
        """The model's tasks that no other process works on, each claimed until the next one is asked for.

        Takes them out of `tasks`; what stays there is claimed by others. Raises OutputError.
        """
        for task in list(tasks):
            if self.take(model, task.spec.name):
                tasks.remove(task)
                try:
                    yield task
                finally:
                    self.release()

    def take(self, model: str, task: str) -> bool:
        """Claim a measurement; whether it is this process's now. Raises OutputError for an unwritable folder."""
        if self.out is None:
            return True
        path = self._path(model, task)
        try:
            with locked(self.out / LOCK):
                if _owned(path):
                    return False
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
        except OSError as error:
            raise OutputError(
                f"cannot write {path}: {error.strerror or error}: free space or choose another --out"
            ) from error
        self._held = path
        return True

    def release(self) -> None:
        """Give up what is claimed, if anything."""
        held, self._held = self._held, None
        if held is not None:
            with contextlib.suppress(OSError):
                held.unlink()

    def wait(self) -> None:
        """Let others work on for a moment."""
        time.sleep(POLL_SECONDS)

    def holders(self, model: str, tasks: Sequence[Task]) -> set[str]:
        """Who works on these, for a reader: "process 12 on host"."""
        found = (_holder(self._path(model, task.spec.name)) for task in tasks)
        return {f"process {pid} on {host}" for host, pid in filter(None, found)}

    def _path(self, model: str, task: str) -> Path:
        assert self.out is not None
        return self.out / FOLDER / safe_name(f"{safe_name(model)}@{task}")

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            if (held := self._held) is not None:
                with contextlib.suppress(OSError):
                    os.utime(held)


def leave_nothing(out: Path) -> None:
    """Remove an output folder in which nobody has measured, or works."""
    with contextlib.suppress(OSError):
        if {path.name for path in out.iterdir()} <= {LOCK, FOLDER}:
            with contextlib.suppress(FileNotFoundError):
                (out / FOLDER).rmdir()
            (out / LOCK).unlink(missing_ok=True)
            out.rmdir()


def _holder(path: Path) -> tuple[str, int] | None:
    """Host and process of a claim; None where there is no proper one."""
    try:
        content = json.loads(regular_file(path, "claim").read_text())
        return str(content["host"]), int(content["pid"])
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _owned(path: Path) -> bool:
    """Whether a living process holds the claim; a damaged claim is nobody's."""
    holder = _holder(path)
    if holder is None:
        return False
    host, pid = holder
    if host == socket.gethostname() and (pid == os.getpid() or not alive(pid)):
        return False
    return time.time() - path.stat().st_mtime < STALE_SECONDS
