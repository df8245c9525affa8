"""The command line. One file a noun, no logic: commands check what was typed, call the engine and print.

A new noun is a file here and a line in `NOUNS`. No file here imports torch, pandas or transformers at its top: help
must answer at once.
Exit status: 0 done, 1 a task failed, 2 wrong input, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from hierbench import __version__
from hierbench.cli._shared import CommandGroup, Interrupted, new_app
from hierbench.errors import HierbenchError

NOUNS = {
    "run": "Measure models on tasks and print the table.",
    "train": "Train a reference model.",
    "reproduce": "Train a paper's ablation in small and judge its claims.",
    "models": "Model families and known checkpoints.",
    "tasks": "Tasks and suites.",
    "datasets": "Datasets: which are at hand, and how to get the others.",
    "errata": "Errors known in the released evaluators.",
    "doctor": "What is installed, what is missing, what to type next.",
    "data": "Prepare, check, show and export datasets; make training data.",
    "clean": "Clean caption chains: the benchmark that PEP runs on.",
    "leaderboard": "Tables from the files that runs have left.",
    "analyze": "Look into a model's embeddings; writes CSV files and pictures.",
    "miniature": "The built-in world of drawn scenes.",
    "cache": "Stored embeddings and remembered measurements.",
}
"""Commands in the order of the help: each is a file here with a function of that name, or an `app` with verbs."""


class Root(CommandGroup):
    """The program: a noun's file is imported, and its options are read, only when that noun is typed."""

    def list_commands(self, ctx):
        return list(NOUNS)

    def get_command(self, ctx, cmd_name):
        if cmd_name not in NOUNS:
            return None
        module = import_module(f"hierbench.cli.{cmd_name}")
        noun = getattr(module, "app", None)
        if noun is None:
            noun = new_app("")
            noun.command(cmd_name)(getattr(module, cmd_name))
        return get_command(noun)

    def resolve_command(self, ctx, args):
        self.commands = dict.fromkeys(NOUNS)  # names for "did you mean"
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx, formatter):
        with formatter.section("Commands"):
            formatter.write_dl(list(NOUNS.items()))


COMPLETING = "_HIERBENCH_COMPLETE"  # set by the shell that asks what may come next

app = new_app(
    "Hierarchy-aware evaluation of hyperbolic and Euclidean vision-language models.\n\n"
    "`--install-completion` teaches your shell the commands and their options.",
    cls=Root,
    completion=COMPLETING in os.environ or any(word.endswith("-completion") for word in sys.argv[1:2]),
)  # typer's options for it load pydantic: not for each command that is typed


_OptionProblem: Any = typer.BadParameter.__base__
"""What typer raises for options it makes no sense of; it exports this subclass of it alone."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hierbench {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = ["--debug"] * debug + [
        word for word in words if word != "--debug"
    ]  # before the command, for typer
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we run
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without arrows prints a question mark
    with _log_to_stderr(debug):
        sys.exit(_run(words or ["--help"], debug))


def _run(words: Sequence[str], debug: bool) -> int:
    """Run one command; returns the exit status. Everything that goes wrong ends in one line on stderr."""
    if COMPLETING in os.environ or words[0] in ("--install-completion", "--show-completion"):
        app(words, prog_name="hierbench")  # typer's own, which ends the program itself
    try:
        status = app(words, prog_name="hierbench", standalone_mode=False)
        sys.stdout.flush()
        if status == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        return status if isinstance(status, int) else 0
    except (BrokenPipeError, SystemExit) as stop:
        if isinstance(stop, SystemExit) and not isinstance(stop.__context__, BrokenPipeError):
            return _fail(
                f"error: an adapter or a library ended the program (sys.exit({stop.code!r}))", 2, debug
            )
        if sys.__stdout__ is not None:  # or Python complains when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())
        return 141
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", 130, debug)
    except Interrupted as stop:
        return _fail(f"interrupted: {stop}", 130, debug)
    except _OptionProblem as problem:
        command = problem.ctx.command_path if problem.ctx else "hierbench"
        message = problem.format_message().replace("Value error, ", "")  # pydantic's word
        return _fail(f"error: {message} (see {command} --help)", 2, debug)
    except HierbenchError as error:
        return _fail(f"error: {error}", 2, debug)
    except Exception as error:  # a mistake of ours, not of the person at the terminal
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _fail(f"error: {error.strerror}: free some, or write to another disk", 2, debug)
        hint = "" if debug else "; --debug shows where, please report it"
        return _fail(f"internal error: {type(error).__name__}: {error}{hint}", 2, debug)


def _fail(line: str, status: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"hierbench: {' '.join(line.split())}", file=sys.stderr)
    return status


@contextmanager
def _log_to_stderr(debug: bool) -> Iterator[None]:
    log, handler = logging.getLogger("hierbench"), _Log()
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if debug else logging.INFO)
    log.propagate = False  # some libraries make the root logger print as well
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


class _Log(logging.Handler):
    """Log lines on whatever stderr is at the moment: progress bars replace it to keep lines and bars apart."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"hierbench: {self.format(record)}", file=sys.stderr, flush=True)
