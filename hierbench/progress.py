"""Progress bars on stderr; silence where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Something that shows how far long work is."""

    def bar(self, title: str, total: int):
        """A context manager that gives `advance(count)`."""


class Quiet:
    """Shows nothing."""

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        yield lambda count: None


class Bars:
    """Rich progress bars on stderr; a finished bar disappears."""

    def __init__(self):
        from rich.console import Console

        self._console = Console(stderr=True)
        self._display = None

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        from rich import progress as rich

        outermost = self._display is None
        if outermost:
            self._display = rich.Progress(
                rich.TextColumn("{task.description}", markup=False),
                rich.BarColumn(),
                rich.MofNCompleteColumn(),
                rich.TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._display.start()
        display, task = self._display, self._display.add_task(title, total=total)
        try:
            yield lambda count: display.advance(task, count)
        finally:
            display.remove_task(task)
            if outermost:
                display.stop()
                self._display = None


def choose(progress: Progress | bool | None = None) -> Progress:
    """The given one; True = bars, False = silence, None = bars where stderr is a terminal."""
    if progress is None:
        progress = sys.stderr.isatty()
    if isinstance(progress, bool):
        return Bars() if progress else Quiet()
    return progress
