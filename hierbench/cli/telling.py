"""What a command tells beside its table: `--quiet` leaves errors alone, `--log-file` keeps every line with its time."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

log = logging.getLogger("hierbench")

_hushed = False
_file: TextIO | None = None


def hushed() -> bool:
    """Whether stderr is for errors alone."""
    return _hushed


def note(text: str) -> None:
    """Lines for the log file, if there is one; empty ones are left out."""
    for line in text.splitlines() if _file is not None else ():
        if line.strip() and _file is not None:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), line.strip(), file=_file, flush=True)


@contextmanager
def telling(quiet: bool, path: Path | None) -> Iterator[None]:
    """Within it, stderr is quiet and lines go to the end of a file, where asked for.

    Under torchrun the first process alone writes the file. Raises OutputError where it cannot be written.
    """
    global _hushed, _file
    levels = [(handler, handler.level) for handler in log.handlers]
    keeper = _Keeper()
    try:
        _file = _opened(path) if path is not None and os.environ.get("RANK", "0") == "0" else None
        log.addHandler(keeper)
        if _hushed := quiet:
            for handler, _ in levels:
                handler.setLevel(logging.WARNING)
        yield
    except BaseException as error:
        note(f"ended early: {type(error).__name__}: {error}")
        raise
    finally:
        log.removeHandler(keeper)
        for handler, level in levels:
            handler.setLevel(level)
        if _file is not None:
            _file.close()
        _hushed, _file = False, None


class _Keeper(logging.Handler):
    """Log lines to the file."""

    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


def _opened(path: Path) -> TextIO:
    from hierbench.errors import OutputError

    try:
        path.expanduser().parent.mkdir(parents=True, exist_ok=True)
        return path.expanduser().open("a", encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"--log-file {path} cannot be written ({error.strerror or error}): give another"
        ) from error
