"""Kills, full disks, read-only places and races: after each, the same command must come to the uninterrupted result."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.faults import of_data, of_training
from benchmarks.faults.pool import SECONDS, Case, Told, outcome_of

AT_ONCE = 4
DISKS = (4, 16, 48, 128, 400, 1200)  # KiB
TRIES = 3  # kills in a row before a run is left to finish


@dataclass(frozen=True)
class Command:
    """A command that can be repeated: what it does into a folder, and what it must have made there in the end."""

    act: Callable[[Path, Path], None]  # (folder of inputs, output folder)
    result: Callable[[Path], Mapping[str, Any]]
    inputs: Callable[[Path], None] = lambda folder: None


def campaign(scratch: Path, kills: int) -> list[Told]:
    """Every fault for every command; `kills` of each of the two kinds of kill."""
    told = []
    for name, command in COMMANDS.items():
        for one in _of(name, command, scratch / f"command {name}", kills):
            print(
                f"{one.outcome}: {one.case.kind} {one.case.number} {one.text[-1200:]}",
                file=sys.stderr,
                flush=True,
            )
            told.append(one)
    return told


def _of(name: str, command: Command, folder: Path, kills: int) -> Iterator[Told]:
    inputs = folder / "inputs"
    inputs.mkdir(parents=True)
    command.inputs(inputs)
    os.environ["HIERBENCH_CACHE"] = str(folder / "cache")
    command.act(inputs, folder / "straight" / "out")  # here, so that the forked have all imported
    straight = command.result(folder / "straight" / "out")
    begun = time.monotonic()
    told = _Process(command, inputs, folder / "counted", stop_at=-1).end()
    assert told == ("used", ""), told
    seconds = time.monotonic() - begun
    count = int((folder / "counted" / "operations").read_text())

    def finished(kind: str, number: int, here: Path, before: str = "") -> Told:
        """The outcome of the command once more, undisturbed, compared with the straight one."""
        outcome, text = _Process(command, inputs, here).end()
        if outcome == "used":
            found = command.result(here / "out")
            wrong = sorted(
                key for key in straight.keys() | found.keys() if straight.get(key) != found.get(key)
            )
            left = sorted(str(path.relative_to(here)) for path in here.rglob(".*.tmp"))
            if wrong or left:
                outcome, text = "internal error", f"differs in {wrong[:5]}; left {left[:5]}"
        else:
            outcome = "internal error" if outcome == "refused" else outcome
        return Told(Case(f"{kind}: {name}", number), outcome, f"{before} {text}".strip())

    for number in range(kills):
        rng = Random(f"{name} {number}")
        here = folder / f"kill {number}"
        for _ in range(rng.randrange(1, TRIES + 1)):
            process = _Process(command, inputs, here)
            process.end(rng.uniform(0, 1.1 * seconds))
        yield finished("killed at random", number, here)
        here = folder / f"operation {number}"
        at = 1 + number * count // kills
        _Process(command, inputs, here, stop_at=at).end()
        yield finished("killed at a file operation", number, here, f"operation {at} of {count}")
    yield from _small_disks(name, command, inputs, folder, finished)
    here = folder / "at once"
    told = [process.end() for process in [_Process(command, inputs, here) for _ in range(AT_ONCE)]]
    bad = [text for outcome, text in told if outcome not in ("used", "refused")]
    if bad or all(outcome != "used" for outcome, _ in told):
        yield Told(
            Case(f"four at once: {name}", 0), "internal error", "\n".join([*bad, *(text for _, text in told)])
        )
    yield finished("four at once", 1, here)


def _small_disks(
    name: str, command: Command, inputs: Path, folder: Path, finished: Callable[..., Told]
) -> Iterator[Told]:
    """Disks of several sizes, which are enlarged afterwards, and one that cannot be written to at all."""
    for number, size in enumerate((*DISKS, 0)):
        here = folder / f"disk {number}"
        here.mkdir()
        with _disk(here, size) as mend:
            if mend is None:
                return
            kind = "full disk" if size else "read-only"
            process = _Process(command, inputs, here, logs=folder / f"log of disk {number}")
            outcome, text = process.end()
            if not size and (list(here.iterdir()) or outcome == "used"):
                outcome, text = "internal error", f"wrote to a read-only disk: {list(here.iterdir())}"
            if "Traceback" in (printed := process.printed()):
                outcome, text = "internal error", printed[-1500:]
            yield Told(Case(f"{kind}: {name}", number), outcome, text)
            mend()
            yield finished(f"{kind}, mended", number, here)


@contextmanager
def _disk(at: Path, kib: int) -> Iterator[Callable[[], None] | None]:
    """A file system of so many KiB (0: read-only) at a folder, and what mends it; None where none may be mounted."""
    options = f"size={kib}k" if kib else "ro,size=64m"
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at)], stderr=subprocess.DEVNULL
    ).returncode:
        print("no right to mount small disks: left out", file=sys.stderr)
        yield None
        return
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,rw,size=512m", str(at)], check=True) and None
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


class _Process:
    """A forked process that runs the command into HERE/out; `stop_at`: it dies before its Nth file operation."""

    def __init__(
        self, command: Command, inputs: Path, here: Path, stop_at: int | None = None, logs: Path | None = None
    ):
        self.logs = logs or here.with_name(f"log of {here.name}")
        self.logs.mkdir(parents=True, exist_ok=True)
        self.log = self.logs / f"{os.urandom(4).hex()}.txt"
        self.told = self.log.with_suffix(".json")
        if stop_at is not None:
            here.mkdir(parents=True, exist_ok=True)
        self.pid = os.fork()
        if self.pid == 0:
            self._serve(command, inputs, here, stop_at)

    def _serve(self, command: Command, inputs: Path, here: Path, stop_at: int | None) -> None:
        output = os.open(self.log, os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = sys.stderr = open(output, "w", buffering=1, closefd=False)  # noqa: SIM115 - as long as the process
        os.environ["HIERBENCH_CACHE"] = str(self.logs / "cache")
        counted = _counting(stop_at) if stop_at is not None else [0]
        told = outcome_of(lambda: command.act(inputs, here / "out"))
        if stop_at is not None:
            (here / "operations").write_text(str(counted[0]))
        self.told.write_text(json.dumps(told))
        os._exit(0)

    def end(self, kill_after: float | None = None) -> tuple[str, str]:
        """(outcome, text), killed after so many seconds; a process that does not end is a hang."""
        last = time.monotonic() + (SECONDS if kill_after is None else kill_after)
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > last:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return "hang", f"no end in {SECONDS:.0f} s"
            time.sleep(0.002)
        if not self.told.exists():
            return "died", "it said nothing"
        outcome, text = json.loads(self.told.read_text())
        return outcome, text

    def printed(self) -> str:
        """What the process wrote to stdout and stderr."""
        return self.log.read_text(errors="replace")


def _counting(stop_at: int) -> list[int]:
    """From now on this process counts what it does to names of files, and dies before operation `stop_at`."""
    seen = [0]

    def counted(function: Callable) -> Callable:
        def instead(*args: Any, **options: Any) -> Any:
            seen[0] += 1
            if seen[0] == stop_at:
                os._exit(9)
            return function(*args, **options)

        return instead

    for name in ("replace", "rename", "mkdir", "unlink", "rmdir", "fsync", "link"):
        setattr(os, name, counted(getattr(os, name)))
    return seen


# ------------------------------------------------------------------------------------------------ the commands


def _files(out: Path, *patterns: str) -> dict[str, str]:
    """Relative path -> SHA-256 of the files that match."""
    found = {path for pattern in patterns for path in out.glob(pattern) if path.is_file()}
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(found)
    }


def _measure(inputs: Path, out: Path) -> None:
    import hierbench

    tasks = ["zero-shot/miniature-colours", "hierarchy/miniature-things", "pep-v2/miniature"]
    for record in hierbench.run(["miniature-meru"], tasks=tasks, limit=6, out=out, workers=0):
        if record.error:  # a full disk, perhaps: the record says so
            raise hierbench.HierbenchError(record.error)


def _figures(out: Path) -> dict[str, Any]:
    from hierbench.results import read_results

    return {
        record.task: {name: estimate.value for name, estimate in (record.metrics or {}).items()}
        | {"items": record.items_sha256}
        for record in read_results(out)
    }


def _train(inputs: Path, out: Path) -> None:
    from hierbench.reference.configuration import resolve
    from hierbench.reference.training.launch import launch

    config = resolve("miniature/clip", [*of_training.TINY, "train.steps=6", "train.save_every=2"])
    launch(config, out, device="cpu", resume=(out / "config.yaml").is_file())


def _trained(out: Path) -> dict[str, Any]:
    steps = [json.loads(line)["step"] for line in (out / "train.jsonl").read_text().splitlines()]
    return _files(out, "model.safetensors", "checkpoints/*/model.safetensors") | {"steps": steps}


def _source(folder: Path) -> None:
    of_data.layouts().build("eurosat", folder / "source")


def _prepare(inputs: Path, out: Path) -> None:
    from hierbench.acquire.prepare import prepare

    prepare("eurosat", [inputs / "source"], out, workers=0, progress=False)


def _clean(inputs: Path, out: Path) -> None:
    from hierbench.cli import _run
    from hierbench.errors import HierbenchError

    printed = sys.stderr
    words = ["clean", "miniature", "--count", "20", "--negatives", "4", "-o", str(out)]
    status = _run(words, False)
    printed.flush()
    if status:
        line = Path(f"/proc/self/fd/{printed.fileno()}").read_text().splitlines()[-1]
        raise (RuntimeError if "internal error" in line else HierbenchError)(line)


def _grit(inputs: Path, out: Path) -> None:
    from hierbench.reference.training import grit

    grit.prepare([inputs / "00000.tar"], out)


COMMANDS = {
    "run": Command(_measure, _figures),
    "train": Command(_train, _trained),
    "data prepare": Command(_prepare, lambda out: _files(out, "**/*"), _source),
    "data grit-prepare": Command(_grit, lambda out: _files(out, "*.tar", "*.json"), of_training._raw_tar),
    "clean": Command(_clean, lambda out: _files(out, "*.csv", "*.parquet", "images/*")),
}
