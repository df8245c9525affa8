"""Evaluation of a run while it trains: a suite on the weights of every so many steps, in a process of its own.

Training goes on meanwhile and knows nothing of it: no random state, no module and no device memory is shared, so the
run is the one that it would be without. The process is given the run's device; on a CPU the two share its cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from hierbench.errors import one_line
from hierbench.reference.schema import EvaluateConfig
from hierbench.reference.training.folder import writing
from hierbench.reference.training.logs import Logs, logged
from hierbench.reference.training.state import AVERAGE, WEIGHTS, save_weights

ROOT = Path(__file__).resolve().parents[3]  # where the package lies, for a process that does not look there
LAUNCHER = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""What torchrun sets: an evaluation that saw it would wait for other processes."""


FILES = {"model": WEIGHTS, "ema": AVERAGE}
"""train.evaluate.weights -> their file."""


class Midway:
    """At most one evaluation at a time; what it finds goes to the logs. One that fails is told and costs nothing."""

    def __init__(self, config: EvaluateConfig, family: str, out: Path, device: str, logs: Logs):
        self._config, self._family, self._device, self._logs = config, family, device, logs
        self._out = out / "evaluations"
        self._recorded = {line["step"] for line in logged(out / "evaluations.jsonl")}
        self._running: tuple[int, subprocess.Popen] | None = None

    def due(self, done: int) -> bool:
        """Whether the weights after `done` steps are to be measured and have not been."""
        return done > 0 and done % self._config.every == 0 and done - 1 not in self._recorded

    def begin(self, done: int, weights: Mapping[str, dict[str, Tensor]]) -> None:
        """Measure the weights after `done` steps, when the evaluation before has ended; `weights` as
        `Trainer.weights` has them. Raises OutputError.
        """
        self.collect(wait=True)
        folder = self._out / f"step-{done:07d}"
        with writing(str(folder)):
            folder.mkdir(parents=True, exist_ok=True)
            save_weights(folder / "model.safetensors", weights[FILES[self._config.weights]])
            with (folder / "figures.json").open("wb") as said, (folder / "said.txt").open("wb") as told:
                process = subprocess.Popen(
                    [sys.executable, "-m", "hierbench", *self._words(folder)],
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=told,
                )
        self._running = (done, process)

    def collect(self, wait: bool = False) -> None:
        """Log what an evaluation has found that has ended; `wait`: or ends now. Raises OutputError."""
        if self._running is None or (not wait and self._running[1].poll() is None):
            return
        done, process = self._running
        process.wait()
        self._running = None
        folder = self._out / f"step-{done:07d}"
        (folder / "model.safetensors").unlink(missing_ok=True)
        figures, failed = _found(folder)
        more: dict[str, Any] = {"suite": self._config.suite, "weights": self._config.weights}
        more |= {"failed": failed} if failed else {}
        self._recorded.add(done - 1)
        self._logs.evaluated(done - 1, figures, **more)
        shown = "  ".join(f"{name} {value:.3g}" for name, value in list(figures.items())[:4])
        self._logs.say(f"evaluation of step {done}: {shown}{'  failed: ' if failed else ''}{failed}")

    def close(self) -> None:
        """End an evaluation that runs, for a run that ends early."""
        if self._running is not None:
            self._running[1].kill()
            self._running[1].wait()
            self._running = None

    def _words(self, folder: Path) -> list[str]:
        return [
            *("run", "--family", self._family, "--checkpoint", str(folder / "model.safetensors")),
            *("--name", folder.name, "--suite", self._config.suite, "--out", str(folder)),
            *("--device", self._device, "--no-cache", "--json"),
        ]


def _environment() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    paths = [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    return environment | {"PYTHONPATH": os.pathsep.join(paths)}


def _found(folder: Path) -> tuple[dict[str, float], str]:
    """Figures by "task metric" of an evaluation that has ended, and what failed of it ('' where nothing did)."""
    try:
        results = json.loads((folder / "figures.json").read_text(encoding="utf-8"))["results"]
    except (OSError, ValueError, LookupError):
        said = (folder / "said.txt").read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line for line in reversed(said) if line.strip()), "it said nothing")
        return {}, one_line(last.removeprefix("hierbench: error: "), 200)
    figures = {
        f"{record['task']} {metric}": estimate["value"]
        for record in results
        for metric, estimate in (record.get("metrics") or {}).items()
    }
    failed = [f"{record['task']}: {record['error']}" for record in results if record.get("error")]
    return figures, one_line("; ".join(failed), 200)
