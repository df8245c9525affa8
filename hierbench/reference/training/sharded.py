"""Checkpoints of a model that is cut over processes: each writes its share, and any number of processes reads it.

The tensors lie in `checkpoints/step-NNNNNNN/sharded` in the format of torch.distributed.checkpoint, by the names of
`Trainer.tensors`; `state.pt` beside them holds the rest. `consolidate` makes the files of whole weights of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from hierbench.errors import OutputError, UsageError, one_line
from hierbench.files import replacing
from hierbench.reference.training import state as checkpoints
from hierbench.reference.training.state import AVERAGE, SHARDED, WEIGHTS

PARTS = {WEIGHTS: "model/", AVERAGE: "ema/"}
"""Files of whole weights -> how the names of their tensors begin."""

FULL = "unexpected pos"
"""What torch's writer of tensors says where a write fell short; the error of the disk is lost on its way."""


def save(
    run: Path,
    step: int,
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    *,
    keep: int,
    temporary: str,
    lead: bool,
) -> None:
    """Write checkpoint `step` from every process at once; one of them leads. Raises OutputError in each.

    `temporary`: the name that the folder has until it is whole, the same in all processes.
    """
    folder = run / "checkpoints" / temporary
    placing = checkpoints.placed(run, step, temporary, keep=keep) if lead else nullcontext()
    with placing:
        try:
            dcp.save(tensors, storage_writer=dcp.FileSystemWriter(folder / SHARDED))
        except (dcp.api.CheckpointException, RuntimeError) as error:
            raise checkpoints.unwritten(checkpoints.place(run, step), _reason(error)) from error
        if lead:
            checkpoints.write_state(folder, state)


def entries(folder: Path) -> dict[str, Any]:
    """What a checkpoint folder says of its tensors, by name. Raises OutputError."""
    with _reading(folder):
        found = dcp.FileSystemReader(folder / SHARDED).read_metadata().state_dict_metadata
    return {name: entry for name, entry in found.items() if isinstance(entry, TensorStorageMetadata)}


def load(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Read tensors in place, whole ones or this process's shares; all processes take part. Raises OutputError."""
    with _reading(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a single process is one
        dcp.load(
            tensors,
            storage_reader=dcp.FileSystemReader(folder / SHARDED),
            no_dist=not dist.is_initialized(),
        )


def consolidate(folder: Path) -> Path:
    """Make `model.safetensors`, and `ema.safetensors` of a run with train.ema, of the sharded checkpoint in `folder`.

    One process does it, on the CPU, however many wrote the checkpoint. Returns the path of the weights, which a whole
    checkpoint has already. Raises UsageError for a folder that is no checkpoint, OutputError for one that is damaged.
    """
    if not (folder / checkpoints.STATE).is_file():
        raise UsageError(
            f"no checkpoint in {folder}: give a run that has one, or a folder such as RUN/checkpoints/step-0005000"
        )
    if not (folder / SHARDED).is_dir():
        return folder / WEIGHTS
    found = entries(folder)
    whole: dict[str, Tensor] = {}
    for file, prefix in PARTS.items():  # what is frozen has no average: it is the model's
        names = [name for name in found if name.startswith(prefix)]
        tensors = {name: torch.empty(found[name].size, dtype=found[name].properties.dtype) for name in names}
        load(folder, tensors)
        whole |= {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        if names:
            try:
                with replacing(folder / file) as temporary:
                    checkpoints.save_weights(temporary, whole)
            except OSError as error:
                raise OutputError(
                    f"{folder / file} could not be written: {error.strerror or error}"
                ) from error
    return folder / WEIGHTS


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    try:
        yield
    except (Exception, dcp.api.CheckpointException) as error:  # nearly anything; the latter is no Exception
        if isinstance(error, RuntimeError) and dist.is_initialized() and "peer" in str(error).lower():
            raise  # another process has ended
        raise OutputError(
            f"checkpoint {folder} cannot be read, remove it to resume from an older one: {_reason(error)}"
        ) from error


def _reason(error: BaseException) -> str:
    """What went wrong, of the first process where it did."""
    failures = getattr(error, "failures", {})
    first = next((found for found, _ in failures.values()), error)
    if isinstance(first, OSError) and first.strerror:
        return first.strerror
    if FULL in str(first):
        return "the disk took less than was written to it (it is full, or a quota is reached)"
    return one_line(first, 200) if str(first) else type(first).__name__
