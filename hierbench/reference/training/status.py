"""Where a training run stands, read from its folder alone: of one that trains, was killed, diverged or is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hierbench.errors import UsageError
from hierbench.files import locked
from hierbench.reference.training import state as checkpoints
from hierbench.reference.training.logs import clock, logged
from hierbench.yaml_files import read_yaml


@dataclass(frozen=True)
class Status:
    """What is known of a run."""

    name: str
    state: str  # training, done, diverged, stopped
    steps: int
    logged: dict[str, Any]  # the figures of the last logged step; empty before the first
    checkpoint: int | None  # steps of the newest training state
    evaluations: list[dict[str, Any]]

    @property
    def done(self) -> int:
        """Steps done, by the last logged one."""
        return self.logged["step"] + 1 if self.logged else 0


def read(folder: Path) -> Status:
    """The status of the run in `folder`. Raises UsageError where there is none."""
    recorded = folder / "config.yaml"
    if not recorded.is_file():
        raise UsageError(f"no training run in {folder}: it has no config.yaml")
    config = read_yaml(recorded, "config", UsageError)
    try:
        name, steps = str(config["name"]), int(config["train"]["steps"])
    except (LookupError, TypeError, ValueError):
        raise UsageError(
            f"{recorded} is not what a training run writes: it lacks name or train.steps"
        ) from None
    lines = logged(folder / "train.jsonl")
    last = lines[-1] if lines else {}
    if _held(folder / ".lock"):
        state = "training"
    elif "diverged" in last:
        state = "diverged"
    else:
        state = "done" if (folder / "model.safetensors").is_file() else "stopped"
    saved = checkpoints.saved(folder)
    newest = int(saved[-1].name.removeprefix("step-")) if saved else None
    return Status(name, state, steps, last, newest, logged(folder / "evaluations.jsonl"))


STATES = {
    "training": "a process trains here",
    "done": "done",
    "diverged": "diverged",
    "stopped": "stopped: no process trains here",
}


def told(status: Status, folder: Path) -> list[str]:
    """The lines that say it."""
    last = status.logged
    lines = [f"{status.name}: {STATES[status.state]}", f"step        {status.done} of {status.steps}"]
    losses = {name: value for name, value in last.items() if name.endswith("loss")}
    if losses:
        shown = (f"{name.removesuffix('_loss')} {value:.4g}" for name, value in losses.items())
        lines.append(f"loss        {'  '.join(shown)}".replace("  loss ", "  "))
    rate, batch = last.get("samples_per_second"), last.get("batch_size")
    if rate:
        shares = "".join(
            f"  {title} {last[key]:.1%}"
            for key, title in (("mfu", "MFU"), ("data_wait", "waiting for data"))
            if key in last
        )
        lines.append(f"speed       {rate:g} samples/s{shares}")
    if rate and batch and status.done < status.steps:
        left = (status.steps - status.done) * batch / rate
        lines.append(f"time left   {clock(left)}{'' if status.state == 'training' else ' once it goes on'}")
    at = "none yet" if status.checkpoint is None else f"of step {status.checkpoint}"
    lines.append(f"checkpoint  {at}")
    if status.evaluations:
        newest = status.evaluations[-1]
        figures = [f"{name} {value:.4g}" for name, value in newest["figures"].items()]
        lines.append(
            f"evaluation  of step {newest['step'] + 1}: {'; '.join(figures) or newest.get('failed')}"
        )
    if status.state == "diverged":
        lines.append(last["diverged"])
    elif status.state == "stopped":
        lines.append(f"go on: hierbench train {folder / 'config.yaml'} --resume")
    return lines


def _held(lock: Path) -> bool:
    """Whether a living process holds the folder. Looking changes nothing; a lock that cannot be opened is nobody's."""
    if not lock.is_file():
        return False
    busy = UsageError("held")
    try:
        with locked(lock, 0, busy):
            return False
    except UsageError:
        return True
    except OSError:
        return False
