"""A model with its optimiser, and what one batch does to it: one process or many, whole batches or cached gradients.

Each step: encode the process's samples (whole images and parts in one pass), gather the features of all processes,
find this process's samples among them (terms that do not compare all with all go over all of them), step. Where a
share does not fit in memory, `micro_batch` cuts the encoding: features first without gradients, then the loss and its
gradient on the features, then each piece again with that gradient (the cached gradients of Gao et al., 2021), so the
contrastive batch stays whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hierbench.errors import OutputError, UsageError, one_line
from hierbench.reference.configuration import build
from hierbench.reference.model import ReferenceModel
from hierbench.reference.objectives import Sharing
from hierbench.reference.schema import ReferenceConfig, TrainConfig
from hierbench.reference.training import parallel, sharded
from hierbench.reference.training.average import Average
from hierbench.reference.training.batches import TrainingBatch
from hierbench.reference.training.compiling import compile_towers
from hierbench.reference.training.gather import gather_rows
from hierbench.reference.training.optimiser import build_optimiser, by_name, moments, names
from hierbench.reference.training.schedule import learning_rate_factor
from hierbench.reference.training.state import AVERAGE, WEIGHTS, Saved

AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Processes:
    """This process among those of a run."""

    rank: int = 0
    world: int = 1


class Encoders(nn.Module):
    """Both towers behind one forward pass, which is what DistributedDataParallel can wrap."""

    def __init__(self, model: ReferenceModel):
        super().__init__()
        encoder = model.encoder
        self._model = (model,)  # in a tuple, so that its learned scalars are no parameters of this module
        self.towers = nn.ModuleList(
            [encoder.visual, encoder.visual_proj, encoder.textual, encoder.textual_proj]
        )

    def forward(self, pixels: Tensor, texts: Any) -> tuple[Tensor, Tensor]:
        return self._model[0].encode(pixels, texts)


class Trainer:
    """A model with its optimiser on one device; `step` is everything that happens to one batch."""

    def __init__(self, config: ReferenceConfig, device: torch.device, processes: Processes = Processes()):
        train = config.train
        parallel.check_processes(train, processes.world)
        self.config, self.device, self.processes = config, device, processes
        self.rows = train.batch_size // processes.world
        self.sharing = Sharing(processes.rank, processes.world, gather_rows)
        self.model = build(config).to(device)
        self.sharded = train.sharding == "full"
        self.scaler = torch.amp.GradScaler(device.type, enabled=train.precision == "float16")
        self.model.encoder.visual.set_grad_checkpointing(train.checkpoint_activations)
        self.model.encoder.textual.grad_checkpointing = train.checkpoint_activations
        if train.compile:
            compile_towers(self.model.encoder)
        encoder = self.model.encoder
        self.encoders = parallel.over_processes(Encoders(self.model), encoder, train, processes.world)
        self.optimiser = build_optimiser(self.model, train)
        # The learned scalars stand outside the towers, and so outside DDP and FSDP: see `_average_scalars`.
        towers = {id(parameter) for parameter in self.encoders.parameters()}
        self.scalars = [p for p in self.model.parameters() if p.requires_grad and id(p) not in towers]
        self.average = Average(self.model.encoder, train.ema) if train.ema else None
        self.bad_steps = torch.zeros((), device=device)

    def step(self, batch: TrainingBatch, number: int) -> dict[str, Tensor]:
        """One optimisation step (0-based `number`). Returns figures as tensors on the device; nothing waits for it.

        A step whose gradient is not finite changes nothing but `bad_steps`.
        """
        train = self.config.train
        batch = batch.to(self.device)
        self.model.encoder.clamp_scalars()
        self.optimiser.zero_grad(set_to_none=True)
        pixels = batch.pixels.float() / 255
        if len(batch.texts) == 1:
            with self._autocast():
                image, text = self.encoders(pixels, batch.texts[0])
            total, logged = self._objective(image, text, batch)
            self.scaler.scale(total).backward()
        else:
            total, logged = self._cached_gradients(pixels, batch)
        self._average_scalars()
        norm = self._apply(train, number)
        if self.average:
            self.average.update()
        return {"loss": total.detach(), **logged, "gradient_norm": norm}

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """What there is of weights in the released layout, by the names of files: the model's, their average.

        Of a sharded model all processes have to call it, and the first one gets them.
        """
        found = {WEIGHTS: self.model.encoder.state_dict()}
        found |= {AVERAGE: self.average.state_dict()} if self.average else {}
        return {name: parallel.gathered(entries, self.processes.rank == 0) for name, entries in found.items()}

    def tensors(self, made: Iterable[str] = ()) -> dict[str, Tensor]:
        """All tensors that a resumed run needs, by name, as they lie here; `made`: names of parameters whose moments
        are made where there are none yet.
        """
        average = self.average.tensors if self.average else {}
        return (
            {f"model/{name}": tensor for name, tensor in self.model.encoder.state_dict().items()}
            | {f"ema/{name}": tensor for name, tensor in average.items()}
            | {
                f"optimiser/{name}": tensor
                for name, tensor in moments(self.model, self.optimiser, made).items()
            }
        )

    def load(self, saved: Saved) -> None:
        """Stand where a checkpoint was saved, by whatever number of processes. Raises OutputError for one that does
        not fit.
        """
        try:
            if saved.weights is None:
                found = sharded.entries(saved.folder)
                sharded.load(saved.folder, self._places(found))
            else:
                found = self._told(saved, saved.weights)
                for name, place in self._places(found).items():
                    parallel.put(place, found[name])
            self.scaler.load_state_dict(saved.state["scaler"])
            self.bad_steps.fill_(saved.state["bad_steps"])
        except (IndexError, KeyError, ValueError) as error:
            raise OutputError(
                f"the checkpoint of step {saved.state.get('step')} does not fit its run, remove it to resume from "
                f"an older one: {one_line(error)}"
            ) from error

    def _told(self, saved: Saved, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a checkpoint that is not sharded, by the names of `tensors`."""
        kept = by_name(saved.state["optimiser"], names(self.model, self.config.train))
        average = saved.average or {}
        learned = self.average.tensors if self.average else {}
        return (
            {f"model/{name}": tensor for name, tensor in weights.items()}
            | {f"ema/{name}": average[name] for name in learned}
            | {f"optimiser/{name}": tensor for name, tensor in kept.items()}
        )

    def _places(self, found: Iterable[str]) -> dict[str, Tensor]:
        """Where the tensors of these names lie here. Raises KeyError where they are not those of this run."""
        found = set(found)
        trained = {name.split("/")[1] for name in found if name.startswith("optimiser/")}
        places = self.tensors(trained)
        if strange := sorted(places.keys() ^ found):
            raise KeyError(f"{strange[0]} is in one of them alone")
        return places

    def _objective(
        self, image: Tensor, text: Tensor, batch: TrainingBatch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        rows = batch.spread(image), batch.spread(text)
        return self.model.objective(*rows, batch.part_valid, self.sharing)

    def _cached_gradients(self, pixels: Tensor, batch: TrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
        pieces = list(zip(pixels.tensor_split(len(batch.texts)), batch.texts, strict=True))
        encode = self.encoders if self.sharded else self.model.encode
        with torch.no_grad(), self._autocast():
            encoded = [encode(*piece) for piece in pieces]
        image, text = (torch.cat(features).requires_grad_() for features in zip(*encoded, strict=True))
        total, logged = self._objective(image, text, batch)
        self.scaler.scale(total).backward()
        start = 0
        for index, piece in enumerate(pieces):
            with parallel.accumulating(self.encoders, last=index == len(pieces) - 1):
                with self._autocast():
                    features = self.encoders(*piece)
                rows = slice(start, start + len(piece[0]))
                torch.autograd.backward(features, [_gradient(image)[rows], _gradient(text)[rows]])
            start = rows.stop
        return total, logged

    def _average_scalars(self) -> None:
        if self.processes.world == 1:
            return
        used = [parameter for parameter in self.scalars if parameter.grad is not None]
        flat = torch.stack([_gradient(parameter) for parameter in used])
        dist.all_reduce(flat)
        for parameter, gradient in zip(used, flat / self.processes.world, strict=True):
            _gradient(parameter).copy_(gradient)

    def _apply(self, train: TrainConfig, number: int) -> Tensor:
        factor = learning_rate_factor(number, steps=train.steps, warmup_steps=train.warmup_steps)
        for group in self.optimiser.param_groups:
            group["lr"] = train.learning_rate * factor
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        self.scaler.unscale_(self.optimiser)
        norm = parallel.gradient_norm(parameters)
        if train.clip_norm is not None:
            parallel.clip(parameters, train.clip_norm, norm)
        if self.scaler.is_enabled():
            self.scaler.step(self.optimiser)
            self.scaler.update()
        else:
            # The fused step skips itself where `found_inf` is set: no look at the value, no wait for the device.
            vars(self.optimiser).update(grad_scale=None, found_inf=(~norm.isfinite()).float())
            self.optimiser.step()
        self.bad_steps += ~norm.isfinite()
        return norm

    def _autocast(self) -> AbstractContextManager[Any]:
        precision = AUTOCAST.get(self.config.train.precision)
        return torch.autocast(self.device.type, precision) if precision else nullcontext()


def _gradient(of: Tensor) -> Tensor:
    """The gradient of a tensor that has one."""
    assert of.grad is not None
    return of.grad


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one. Raises UsageError for CUDA where there is none."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"device {name}: no CUDA device here, use --device cpu (small models only)")
    return torch.device(name)
