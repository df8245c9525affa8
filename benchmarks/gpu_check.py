"""What a GPU does with the training stack, in ten minutes: parity, resumption, waits, compilation, speed.

    python benchmarks/gpu_check.py [--device cuda] [--minutes 10] [--out gpu_check.json]
    python benchmarks/gpu_check.py --device cpu --tiny       # all of it in seconds, speeds meaning nothing

In a checkout with the extra `train` installed. Prints a table and writes JSON after every check: golden losses and
gradients in float32 and bfloat16, steps that wait for the device, exact resumption, `train.compile` on and off,
evaluation of 2,000 JPEG files, training steps of six families at ViT-S, B and L on prepared batches of 768 samples (or
768 halved until they fit). Bars, where the device is an H100 or H200: samples a second, or the share of the peak of
the model's operations with the texts' own tokens.

Each check has a process of its own, so that one that fails or hangs is told and the others go on. The same command
goes on after a kill: finished checks of the same commit and device are kept, failed ones tried again; --force begins
anew. Ends with status 1 where a check failed or a bar was missed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Before torch looks at the device: a process that has begun to use CUDA cannot be forked; equal sums of equal runs.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks.gpu_checks import Check, Finding, Setting, checks, preload
from hierbench.errors import one_line
from hierbench.files import replacing

ROOT = Path(__file__).resolve().parent.parent
DONE, FAILED, LATE = "done", "failed", "out of time"
LEAST = 5.0
"""Seconds without which no check is begun."""


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    options = _options(arguments)
    setting = Setting(options.device, options.tiny)
    ends = time.monotonic() + 60 * options.minutes
    state = _kept(options, setting)
    wanted = {
        name: check
        for name, check in checks(setting).items()
        if options.only is None or any(part in name for part in options.only)
    }
    preload()
    run = _here if options.same_process else partial(_apart, way="fork")
    state["device"] = run(_device, setting, 60).get("device", {})
    if not state["device"] and not options.same_process:  # something here has begun to use CUDA
        run = partial(_apart, way="spawn")
        state["device"] = run(_device, setting, 60).get("device", {})
    for name, (check, most) in wanted.items():
        if state["checks"].get(name, {}).get("state") == DONE:
            continue
        left = ends - time.monotonic()
        if left < LEAST:
            state["checks"][name] = {"state": LATE, "error": f"not begun within {options.minutes:g} minutes"}
            continue
        print(f"{name} ...", end="", file=sys.stderr, flush=True)
        begun = time.monotonic()
        outcome = run(check, setting, min(left, most if setting.cuda else left))
        outcome["seconds"] = round(time.monotonic() - begun, 1)
        print(f"\r\x1b[2K{name}: {outcome['state']}, {outcome['seconds']} s", file=sys.stderr, flush=True)
        state["checks"][name] = outcome
        _write(options.out, state)
    _write(options.out, state)
    print(table(state, wanted))
    return status(state, wanted)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="models that take no time")
    parser.add_argument("--minutes", type=float, default=10, help="end after so long")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    parser.add_argument(
        "--only", action="append", metavar="PART", help="checks whose names have this in them"
    )
    parser.add_argument("--force", action="store_true", help="keep nothing of an earlier run")
    parser.add_argument(
        "--same-process", action="store_true", help="for a debugger: nothing is ended in time"
    )
    options = parser.parse_args(arguments)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("no CUDA device here: --device cpu --tiny tries the checks themselves")
    if options.device == "cpu" and not options.tiny:
        parser.error("models of these sizes take hours on a CPU: add --tiny")
    if not options.out.parent.is_dir():
        parser.error(f"--out {options.out}: there is no folder {options.out.parent}")
    return options


# -------------------------------------------------------------------------------------------------- what was done


def _kept(options: argparse.Namespace, setting: Setting) -> dict[str, Any]:
    """The state of an earlier run of the same checks, or an empty one."""
    asked = {"device": setting.device, "tiny": setting.tiny, "commit": _commit(), "torch": torch.__version__}
    empty: dict[str, Any] = {"asked": asked, "device": {}, "checks": {}}
    if options.force or not options.out.exists():
        return empty
    try:
        before = json.loads(options.out.read_text(encoding="utf-8"))
        same = before["asked"] == asked
        checks_before = dict(before["checks"])
    except (OSError, ValueError, LookupError, TypeError):
        sys.exit(f"gpu_check: {options.out} is not a file of this command: choose another --out, or --force")
    if not same:
        print(f"{options.out} is of another commit, torch or device: beginning anew", file=sys.stderr)
        return empty
    return empty | {"checks": checks_before}


def _commit() -> str:
    """The checkout's commit, with a + where files differ from it."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=12"]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _write(path: Path, state: dict[str, Any]) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")


def _device(setting: Setting) -> dict[str, Any]:
    """What the figures are of."""
    name = torch.cuda.get_device_name(setting.where) if setting.cuda else "CPU"
    return {"name": name, "cores": os.cpu_count(), "cuda": torch.version.cuda if setting.cuda else None}


# ------------------------------------------------------------------------------------------------------ one check


def _here(check: Callable[[Setting], Any], setting: Setting, seconds: float) -> dict[str, Any]:
    """A check's outcome, computed in this process."""
    try:
        return _outcome(check(setting))
    except Exception as error:
        return {"state": FAILED, "error": f"{type(error).__name__}: {one_line(error, 300)}"}


def _apart(
    check: Callable[[Setting], Any], setting: Setting, seconds: float, way: str = "fork"
) -> dict[str, Any]:
    """A check's outcome, computed in a process that is ended after so many seconds."""
    context: Any = multiprocessing.get_context(way)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(check, setting, theirs))
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            return {"state": LATE, "error": f"ended after {seconds:.3g} s"}
        outcome = ours.recv()
        process.join(LEAST)
        return outcome
    except EOFError:
        process.join()
        return {"state": FAILED, "error": f"its process ended with status {process.exitcode}"}
    finally:
        if process.is_alive() and process.pid:
            os.killpg(process.pid, signal.SIGKILL)  # with its data workers
        process.join()


def _child(check: Callable[[Setting], Any], setting: Setting, told: Connection) -> None:
    os.setsid()
    if not setting.cuda:
        torch.set_num_threads(1)
    told.send(_here(check, setting, 0))


def _outcome(found: Any) -> dict[str, Any]:
    if isinstance(found, dict):
        return {"state": DONE, "device": found}
    return {"state": DONE, "findings": [asdict(finding) for finding in found]}


# ------------------------------------------------------------------------------------------------------- the table


def table(state: dict[str, Any], wanted: dict[str, tuple[Check, float]]) -> str:
    """All findings with their bars, in columns."""
    device, asked = state["device"], state["asked"]
    lines = [
        f"{device.get('name', asked['device'])}, {device.get('cores')} cores, torch {asked['torch']}, "
        f"commit {asked['commit']}" + ", tiny models" * asked["tiny"],
        "",
        f"{'check':30} {'found':22} {'bar':20} verdict",
        "─" * 81,
    ]
    for name in wanted:
        outcome = state["checks"][name]
        for finding in outcome.get("findings", []):
            verdict = {True: "pass", False: "FAIL", None: ""}[finding["passed"]]
            lines.append(f"{finding['what']:30} {finding['shown']:22} {finding['bar']:20} {verdict}".rstrip())
        if outcome["state"] != DONE:
            lines.append(f"{name:30} {outcome['state'].upper()}: {outcome['error']}")
    took = sum(outcome.get("seconds", 0) for outcome in state["checks"].values())
    return "\n".join([*lines, "", f"{took / 60:.1f} minutes; after the speed: share of the peak, memory"])


def status(state: dict[str, Any], wanted: dict[str, tuple[Check, float]]) -> int:
    """1 where a check did not end well or a bar was missed."""
    outcomes = [state["checks"][name] for name in wanted]
    missed = [
        finding for one in outcomes for finding in one.get("findings", []) if finding["passed"] is False
    ]
    return 1 if missed or any(one["state"] != DONE for one in outcomes) else 0


__all__ = ["Finding", "main", "status", "table"]

if __name__ == "__main__":
    sys.exit(main())
