"""Checkpoints of a training run: weights in the released layout, and what a resumed run needs besides.

Each is a folder `checkpoints/step-NNNNNNN` with `model.safetensors`, with train.ema `ema.safetensors`, and `state.pt`,
written under another name and renamed when whole: a full disk or a kill leaves the last good one in place.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
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


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    weights: dict[str, Tensor]
    average: dict[str, Tensor] | None  # of a run with train.ema
    state: dict[str, Any]


def save(
    run: Path, step: int, weights: Mapping[str, dict[str, Tensor]], state: dict[str, Any], *, keep: int
) -> Path:
    """Write checkpoint `step` (steps done) and drop all but the newest `keep`; `weights` by file name.

    Raises OutputError, one line.
    """
    folder = run / "checkpoints"
    final = folder / f"step-{step:07d}"
    temporary = folder / temporary_name(final.name)
    try:
        temporary.mkdir(parents=True)
        for name, tensors in weights.items():
            save_weights(temporary / name, tensors)
        content = (
            io.BytesIO()
        )  # torch's own writer tells of a full disk in words of its own ("unexpected pos")
        torch.save(state, content)
        (temporary / STATE).write_bytes(content.getbuffer())
        for written in (*temporary.iterdir(), temporary):
            sync(written)
        if final.exists():
            shutil.rmtree(final)
        temporary.rename(final)
        sync(folder)
    except OSError as error:
        raise OutputError(
            f"checkpoint {final} could not be written, earlier ones are whole: {error.strerror or error}; "
            "make room or mend it, then --resume goes on"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in saved(run)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


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
        return Saved(
            load_file(regular_file(folder / WEIGHTS)),
            load_file(regular_file(average)) if average.exists() else None,
            torch.load(regular_file(folder / STATE), weights_only=True),
        )
    except Exception as error:  # torch raises nearly anything
        raise OutputError(
            f"checkpoint {folder} cannot be read, remove it to resume from an older one: {one_line(error)}"
        ) from error
