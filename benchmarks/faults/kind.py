"""What a kind of malformed input is, and reading one as a library or by typed commands."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hierbench.errors import HierbenchError

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Kind:
    """`make(folder)` writes a sound input, once; `change(folder, rng)` spoils a copy; `use(folder)` reads that.

    `typed(folder)`: the commands that a person would type for it, each its words after `hierbench`; None without any.
    """

    make: Callable[[Path], None]
    change: Callable[[Path, Random], None]
    use: Callable[[Path], None]
    typed: Callable[[Path], list[list[str]]] | None
    share: float = 1.0  # of the cases, beside the other kinds
    parts: bool = False  # each folder in the sound input is one of its own: a case takes one of them


def type_all(commands: list[list[str]]) -> None:
    """Run commands one after another, as the program does. Raises HierbenchError(line) where one ends with status 2.

    RuntimeError where an end is no good one: other statuses than 0, 1 and 2, "internal error", more than the one line.
    """
    from hierbench.cli import main

    for words in commands:
        out, err = io.StringIO(), io.StringIO()
        status: object = None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(words)
            except SystemExit as end:
                status = end.code
        lines = err.getvalue().splitlines()
        told = [line for line in lines if line.startswith(("hierbench: error: ", "hierbench: internal"))]
        if "Traceback" in err.getvalue() or "internal error" in err.getvalue() or status not in (0, 1, 2):
            raise RuntimeError(f"{words}: status {status}: {err.getvalue()[-3000:]}")
        if status == 2:
            if len(told) != 1 or lines[-1] != told[0]:
                raise RuntimeError(f"{words}: not one line at the end: {err.getvalue()[-3000:]}")
            raise HierbenchError(told[0].removeprefix("hierbench: error: "))
