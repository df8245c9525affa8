"""The training loop: one process or many, whole batches or cached gradients, resumable to the step.

Each step: encode the process's samples (whole images and parts in one pass), gather the features of all processes,
find this process's samples among them (terms that do not compare all with all go over all of them), step. Where a
share does not fit in memory, `micro_batch` cuts the encoding: features first without gradients, then the loss and its
gradient on the features, then each piece again with that gradient (the cached gradients of Gao et al., 2021), so the
contrastive batch stays whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hierbench.errors import UsageError
from hierbench.files import replacing
from hierbench.reference.configuration import build
from hierbench.reference.model import ReferenceModel
from hierbench.reference.objectives import Sharing
from hierbench.reference.schema import ReferenceConfig, TrainConfig
from hierbench.reference.training import boards, flops, folder
from hierbench.reference.training import state as checkpoints
from hierbench.reference.training.batches import Batches, TrainingBatch, loader
from hierbench.reference.training.gather import gather_rows
from hierbench.reference.training.logs import Logs
from hierbench.reference.training.meter import Meter
from hierbench.reference.training.midway import Midway
from hierbench.reference.training.optimiser import build_optimiser
from hierbench.reference.training.schedule import learning_rate_factor
from hierbench.reference.training.watch import ADVICE, DivergedError, Watch

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
        if train.batch_size % processes.world:
            raise UsageError(
                f"train.batch_size={train.batch_size} cannot be split over {processes.world} processes"
            )
        self.config, self.device, self.processes = config, device, processes
        self.rows = train.batch_size // processes.world
        self.sharing = Sharing(processes.rank, processes.world, gather_rows)
        self.model = build(config).to(device)
        self.optimiser = build_optimiser(self.model, train)
        self.scaler = torch.amp.GradScaler(device.type, enabled=train.precision == "float16")
        self.model.encoder.visual.set_grad_checkpointing(train.checkpoint_activations)
        self.model.encoder.textual.grad_checkpointing = train.checkpoint_activations
        encoders: nn.Module = Encoders(self.model)
        if train.compile:  # texts come in another shape each step; compiling them would never end
            self.model.encoder.visual.compile()
        if processes.world > 1:
            encoders = nn.parallel.DistributedDataParallel(encoders)
        self.encoders = encoders
        # The learned scalars stand outside the towers, and so outside DDP: see `_average_scalars`.
        towers = {id(parameter) for parameter in encoders.parameters()}
        self.scalars = [p for p in self.model.parameters() if p.requires_grad and id(p) not in towers]
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
        if train.micro_batch is None or train.micro_batch * self.slots >= len(pixels):
            with self._autocast():
                image, text = self.encoders(pixels, batch.texts[0])
            total, logged = self.model.objective(image, text, batch.part_valid, self.sharing)
            self.scaler.scale(total).backward()
        else:
            total, logged = self._cached_gradients(pixels, batch, train.micro_batch)
        self._average_scalars()
        norm = self._apply(train, number)
        return {"loss": total.detach(), **logged, "gradient_norm": norm}

    @property
    def slots(self) -> int:
        """Images a sample: the whole and its part slots."""
        return 1 + self.config.data.boxes

    def _cached_gradients(
        self, pixels: Tensor, batch: TrainingBatch, micro_batch: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        pieces = list(zip(pixels.split(micro_batch * self.slots), batch.texts, strict=True))
        with torch.no_grad(), self._autocast():
            encoded = [self.model.encode(*piece) for piece in pieces]
        image, text = (torch.cat(features).requires_grad_() for features in zip(*encoded, strict=True))
        total, logged = self.model.objective(image, text, batch.part_valid, self.sharing)
        self.scaler.scale(total).backward()
        start = 0
        for index, piece in enumerate(pieces):
            last = index == len(pieces) - 1
            wait: AbstractContextManager[Any] = nullcontext()
            if isinstance(self.encoders, nn.parallel.DistributedDataParallel) and not last:
                wait = self.encoders.no_sync()
            with wait:
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
        norm = torch.nn.utils.get_total_norm([_gradient(p) for p in parameters])
        if train.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, train.clip_norm, norm)
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


def train(
    config: ReferenceConfig,
    out: Path,
    *,
    device: str = "auto",
    resume: bool = False,
    processes: Processes | None = None,
    quiet: bool = False,
) -> Path:
    """Train as `config` says; returns the path of the final `model.safetensors` (released layout).

    `out` gets config.yaml, train.jsonl, evaluations.jsonl with train.evaluate, tensorboard/, checkpoints/ and
    model.safetensors. `resume` goes on from the newest checkpoint in `out` and gives the weights of an uninterrupted
    run.
    Raises UsageError (device, contradictory or changed config), DataError, OutputError, DivergedError.
    """
    processes = processes or Processes()
    where = pick_device(device)
    boards.require(config)
    with folder.held(out) if processes.rank == 0 else nullcontext():
        return _train(config, out, where, resume, processes, quiet)


def _train(
    config: ReferenceConfig, out: Path, where: torch.device, resume: bool, processes: Processes, quiet: bool
) -> Path:
    lead, settings = processes.rank == 0, config.train
    start, restored = 0, None
    if resume:
        start, restored = folder.restore(config, out, processes.world)
    elif lead:  # in another process it may be this run's
        folder.refuse_other_run(out)
    trainer = Trainer(config, where, processes)
    if trainer.model.needs_parts and not config.data.boxes:
        raise UsageError(
            "data.boxes=0, but the objective compares parts with wholes: set data.boxes=1 or more"
        )
    consumed: dict[int, int] = {}
    tally: Counter = Counter()
    watch = Watch(settings)
    if restored:
        weights, saved = restored
        trainer.model.encoder.load_state_dict(weights)
        trainer.optimiser.load_state_dict(saved["optimiser"])
        trainer.scaler.load_state_dict(saved["scaler"])
        trainer.bad_steps.fill_(saved["bad_steps"])
        consumed, tally = dict(saved["consumed"]), Counter(saved["skipped"])
        watch = Watch(settings, saved["losses"])
    batches = Batches(
        config.data,
        image_size=config.model.image_size,
        rows=trainer.rows,
        micro_batch=settings.micro_batch,
        rank=processes.rank,
        world=processes.world,
        seed=settings.seed,
        start=start,
        consumed=consumed,
    )
    if lead and not resume:  # nothing is left of a run that could not begin
        folder.record(config, out, processes.world)
    logs = Logs(config, out, start=start, quiet=quiet) if lead else None
    midway = None
    if logs and settings.evaluate:
        midway = Midway(settings.evaluate, config.measured_as, out, str(where), logs)
    try:
        _steps(trainer, batches, out, start, logs, midway, watch, tally)
        if midway:
            midway.collect(wait=True)
    finally:
        if midway:
            midway.close()
        if logs:
            logs.close()
    final = out / "model.safetensors"
    if lead:
        with folder.writing(str(final)), replacing(final) as temporary:
            checkpoints.save_weights(temporary, trainer.model.encoder.state_dict())
    return final


def _steps(
    trainer: Trainer,
    batches: Batches,
    out: Path,
    start: int,
    logs: Logs | None,
    midway: Midway | None,
    watch: Watch,
    tally: Counter,
) -> None:
    """All steps from `start` on, logged, measured and saved."""
    settings, consumed = trainer.config.train, dict(batches.consumed)
    encoder, device = trainer.model.encoder, trainer.device
    peak = flops.peak(device, settings.precision)
    meter = Meter(flops.Cost.of(encoder), device, peak)
    prepared = meter.timed(loader(batches, trainer.config.data.workers, device))
    if midway and midway.due(start):  # a run that was killed before the evaluation had ended
        midway.begin(start, encoder.state_dict())
    for number, batch in zip(range(start, settings.steps), prepared, strict=False):
        figures = trainer.step(batch, number)
        meter.count(batch, settings.batch_size)
        consumed[batch.reader] = batch.consumed
        tally.update(batch.skipped)
        done = number + 1
        last = done == settings.steps
        if done % settings.log_every == 0 or last:
            _log(trainer, number, figures, meter, watch, logs, sum(tally.values()))
        if midway and midway.due(done):
            midway.begin(done, encoder.state_dict())
        elif midway:
            midway.collect()
        if last or (done % settings.save_every == 0 and not watch.suspect):
            _save(trainer, out, done, consumed, tally, watch)


def _log(
    trainer: Trainer,
    number: int,
    figures: dict[str, Tensor],
    meter: Meter,
    watch: Watch,
    logs: Logs | None,
    skipped: int,
) -> None:
    """Read the figures of a step, which waits for the device, and log them. Raises DivergedError."""
    # a figure is a number, or a list (one of each factor of a product)
    values: dict[str, Any] = {name: value.tolist() for name, value in figures.items()}
    bad_steps = int(trainer.bad_steps)
    values["learning_rate"] = trainer.optimiser.param_groups[0]["lr"]
    values |= {"bad_steps": bad_steps, "skipped": skipped, "batch_size": trainer.config.train.batch_size}
    watch.see(values["loss"])
    fault = watch.fault(bad_steps)
    if fault:
        values["diverged"] = f"stopped after step {number + 1}: {fault}; {ADVICE}"
    if logs:
        logs.write(number, values | meter.figures())
    if fault:
        raise DivergedError(values["diverged"])


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one. Raises UsageError for CUDA where there is none."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"device {name}: no CUDA device here, use --device cpu (small models only)")
    return torch.device(name)


def _save(
    trainer: Trainer, out: Path, done: int, consumed: dict[int, int], tally: Counter, watch: Watch
) -> None:
    """Every process brings its readers' positions; the first one writes."""
    shares: Sequence[Any] = [(consumed, tally)]
    if trainer.processes.world > 1:
        shares = [None] * trainer.processes.world
        dist.all_gather_object(shares, (consumed, tally))
    if trainer.processes.rank:
        return
    state = {
        "step": done,
        "optimiser": trainer.optimiser.state_dict(),
        "scaler": trainer.scaler.state_dict(),
        "bad_steps": float(trainer.bad_steps),
        "consumed": {reader: count for part, _ in shares for reader, count in part.items()},
        "skipped": dict(sum((counts for _, counts in shares), Counter())),
        "losses": watch.state(),
    }
    checkpoints.save(
        out, done, trainer.model.encoder.state_dict(), state, keep=trainer.config.train.keep_states
    )


def _gradient(of: Tensor) -> Tensor:
    """The gradient of a tensor that has one."""
    assert of.grad is not None
    return of.grad
