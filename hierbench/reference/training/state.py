"""Checkpoints of a training run: weights in the released layout, and what a resumed run needs besides.

Each is a folder `checkpoints/step-NNNNNNN` with `model.safetensors` and `state.pt`, written under another name and
renamed when whole: a full disk or a kill leaves the last good one in place.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from safetensors.torch import save as save_tensors
from torch import Tensor

from hierbench.errors import OutputError, one_line
from hierbench.files import regular_file, sync, temporary_name


def save(run: Path, step: int, weights: dict[str, Tensor], state: dict[str, Any], *, keep: int) -> Path:
    """Write checkpoint `step` (steps done) and drop all but the newest `keep`. Raises OutputError, one line."""
    folder = run / "checkpoints"
    final = folder / f"step-{step:07d}"
    temporary = folder / temporary_name(final.name)
    try:
        temporary.mkdir(parents=True)
        save_weights(temporary / "model.safetensors", weights)
        content = (
            io.BytesIO()
        )  # torch's own writer tells of a full disk in words of its own ("unexpected pos")
        torch.save(state, content)
        (temporary / "state.pt").write_bytes(content.getbuffer())
        for written in (temporary / "model.safetensors", temporary / "state.pt", temporary):
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
    return sorted(path for path in (run / "checkpoints").glob("step-*") if (path / "state.pt").is_file())


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights and state of a checkpoint folder. Raises OutputError for a damaged one."""
    weights, state = folder / "model.safetensors", folder / "state.pt"
    try:
        return load_file(regular_file(weights)), torch.load(regular_file(state), weights_only=True)
    except Exception as error:  # torch raises nearly anything
        raise OutputError(
            f"checkpoint {folder} cannot be read, remove it to resume from an older one: {one_line(error)}"
        ) from error
