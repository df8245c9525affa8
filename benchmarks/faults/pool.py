"""Cases run in forked processes: each with a bound of time and memory; what hangs or dies is counted and replaced."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from hierbench.errors import HierbenchError

OUTCOMES = ("refused", "used", "internal error", "hang", "died")
"""One line says what is wrong; read and used to the end; any other exception; no end in time; ended by a signal."""

SECONDS = 60.0  # of the wall, for inputs that take milliseconds: no load makes an answer a hang
MEMORY = 6 << 30  # bytes that a case may take beyond what the process has at its start
LONGEST_LINE = 2000


@dataclass(frozen=True)
class Case:
    """One malformed input."""

    kind: str
    number: int


@dataclass(frozen=True)
class Told:
    """What became of a case; `text`: the refusal's line, or a traceback."""

    case: Case
    outcome: str
    text: str = ""


def run_cases(
    work: Callable[[Case, Path], None],
    cases: Sequence[Case],
    processes: int,
    scratch: Path,
    seconds: float = SECONDS,
) -> Iterator[Told]:
    """The outcome of `work(case, empty folder)` for each case, in any order. Processes are forked from this one."""
    todo, hands = list(reversed(cases)), {}

    def hire() -> None:
        here, there = multiprocessing.Pipe()
        pid = os.fork()
        if pid == 0:
            here.close()
            _serve(work, there, scratch)
        there.close()
        hands[here] = [pid, None, 0.0]

    for _ in range(min(processes, len(todo))):
        hire()
    while hands:
        for hand, state in hands.items():
            if state[1] is None and todo:
                state[1], state[2] = todo.pop(), time.monotonic()
                hand.send(state[1])
        for hand in [hand for hand, state in hands.items() if state[1] is None]:
            _dismiss(hand, hands.pop(hand)[0])
        for hand in wait(list(hands), timeout=0.5):
            assert isinstance(hand, Connection)
            case = hands[hand][1]
            try:
                yield Told(case, *hand.recv())
                hands[hand][1] = None
            except EOFError:
                status = _dismiss(hand, hands.pop(hand)[0])
                yield Told(case, "died", f"status {status}")
                if todo:
                    hire()
        for hand, (_, case, begun) in list(hands.items()):
            if case is not None and time.monotonic() - begun > seconds:
                _dismiss(hand, hands.pop(hand)[0])
                yield Told(case, "hang", f"no end in {seconds:.0f} s")
                if todo:
                    hire()


def outcome_of(work: Callable[[], None]) -> tuple[str, str]:
    """(outcome, text) of a piece of work in this process."""
    try:
        work()
        return "used", ""
    except HierbenchError as error:
        line = str(error)
        if "\n" in line or not line or len(line) > LONGEST_LINE:
            return "internal error", f"not one line: {line[:LONGEST_LINE]}"
        return "refused", line
    except BaseException:
        return "internal error", traceback.format_exc()


def apart(work: Callable[[], None]) -> None:
    """Do a piece of work in a process of its own, which leaves nothing registered or remembered in this one.

    Raises HierbenchError as the work does, and RuntimeError with the traceback of anything else.
    """
    here, there = multiprocessing.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        there.send(outcome_of(work))
        os._exit(0)
    there.close()
    try:
        outcome, text = here.recv()
    except EOFError:
        raise RuntimeError(f"the process ended by itself, status {os.waitpid(pid, 0)[1]}") from None
    os.waitpid(pid, 0)
    if outcome == "refused":
        raise HierbenchError(text)
    if outcome != "used":
        raise RuntimeError(text)


def _dismiss(hand: Connection, pid: int) -> int:
    hand.close()
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _serve(work: Callable[[Case, Path], None], hand: Connection, scratch: Path) -> None:
    """A forked process: answers cases until it is dismissed."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    while True:
        case = hand.recv()
        folder = Path(tempfile.mkdtemp(dir=scratch))
        told = outcome_of(lambda case=case, folder=folder: work(case, folder))  # type: ignore[misc]
        shutil.rmtree(folder, ignore_errors=True)
        hand.send(told)
