"""Checkpoints of a training run: weights in the released layout, and what a resumed run needs besides.

Each is a folder `checkpoints/step-NNNNNNN` with `model.safetensors`, with train.ema `ema.safetensors`, and `state.pt`
(`sharded` has what a model cut over processes writes instead), written under another name and renamed when whole: a
full disk or a kill leaves the last good one in place.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from safetensors.torch import save as save_tensors
from torch import Tensor

from hierbench.errors import OutputError, one_line
from hierbench.files import regular_file, sync, temporary_name

WEIGHTS, AVERAGE, STATE = "model.safetensors", "ema.safetensors", "state.pt"
"""Files of a checkpoint; the first two are those of a finished run, too."""
SHARDED = "sharded"
"""The folder in a checkpoint that holds in their place what several processes wrote."""


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    folder: Path
    state: dict[str, Any]
    weights: dict[str, Tensor] | None = None  # of a sharded one None: `sharded.load` reads them
    average: dict[str, Tensor] | None = None  # of a run with train.ema


def place(run: Path, step: int) -> Path:
    """The folder of a run's checkpoint after `step` steps."""
    return run / "checkpoints" / f"step-{step:07d}"


def unwritten(checkpoint: Path, reason: object) -> OutputError:
    """The error of a checkpoint that could not be written."""
    return OutputError(
        f"checkpoint {checkpoint} could not be written, earlier ones are whole: {reason}; "
        "make room or mend it, then --resume goes on"
    )


@contextmanager
def placed(run: Path, step: int, temporary: str, *, keep: int) -> Iterator[Path]:
    """The folder, called `temporary`, to write checkpoint `step` (steps done) into; it gets its name when whole.

    Then all but the newest `keep` go. Raises OutputError, one line.
    """
    final = place(run, step)
    folder, written = final.parent, final.with_name(temporary)
    try:
        written.mkdir(parents=True)
        yield written
        for path in (*written.rglob("*"), written):
            sync(path)
        if final.exists():
            shutil.rmtree(final)
        written.rename(final)
        sync(folder)
    except OSError as error:
        raise unwritten(final, error.strerror or error) from error
    finally:
        shutil.rmtree(written, ignore_errors=True)
    for old in saved(run)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def save(
    run: Path, step: int, weights: Mapping[str, dict[str, Tensor]], state: dict[str, Any], *, keep: int
) -> None:
    """Write checkpoint `step`; `weights` by file name. Raises OutputError, one line."""
    with placed(run, step, temporary_name(place(run, step).name), keep=keep) as folder:
        for name, tensors in weights.items():
            save_weights(folder / name, tensors)
        write_state(folder, state)


def write_state(folder: Path, state: dict[str, Any]) -> None:
    """Write `state.pt`. Raises OSError."""
    content = io.BytesIO()  # torch's own writer tells of a full disk in words of its own ("unexpected pos")
    torch.save(state, content)
    (folder / STATE).write_bytes(content.getbuffer())


def save_weights(path: Path, weights: dict[str, Tensor]) -> None:
    """Weights as safetensors, on the CPU and contiguous. Whoever renames the file syncs it."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    # not safetensors' own save_file: it makes files that only their owner can read
    path.write_bytes(save_tensors(tensors))


def saved(run: Path) -> list[Path]:
    """Checkpoint folders of a run, oldest first."""
    return sorted(path for path in (run / "checkpoints").glob("step-*") if (path / STATE).is_file())


def load(folder: Path) -> Saved:
    """What a checkpoint folder holds. Raises OutputError for a damaged one."""
    average = folder / AVERAGE
    try:
        state = torch.load(regular_file(folder / STATE), weights_only=True)
        if (folder / SHARDED).is_dir():
            return Saved(folder, state)
        return Saved(
            folder,
            state,
            load_file(regular_file(folder / WEIGHTS)),
            load_file(regular_file(average)) if average.exists() else None,
        )
    except Exception as error:  # torch raises nearly anything
        raise OutputError(
            f"checkpoint {folder} cannot be read, remove it to resume from an older one: {one_line(error)}"
        ) from error


def to_go_on_from(folder: Path) -> Saved:
    """What a checkpoint folder holds, with all that a run needs to go on. Raises OutputError."""
    found = load(folder)
    if missing := sorted({"step", "scaler", "bad_steps", "consumed", "skipped"} - found.state.keys()):
        raise OutputError(
            f"checkpoint {folder} is of another version, its {STATE} has no {missing[0]}: "
            "remove it to resume from an older one"
        )
    return found
