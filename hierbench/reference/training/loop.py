"""A training run from its first step to its weights: data, steps, logs, evaluations, checkpoints, resumption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from hierbench.errors import UsageError
from hierbench.files import replacing, temporary_name
from hierbench.reference.encoders import pack_step
from hierbench.reference.schema import ReferenceConfig
from hierbench.reference.training import boards, elastic, flops, folder, parallel, sharded
from hierbench.reference.training import state as checkpoints
from hierbench.reference.training.batches import Batches, loader
from hierbench.reference.training.logs import Logs
from hierbench.reference.training.meter import Meter
from hierbench.reference.training.midway import Midway
from hierbench.reference.training.trainer import Processes, Trainer, pick_device
from hierbench.reference.training.watch import ADVICE, DivergedError, Watch


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

    `out` gets config.yaml, train.jsonl, evaluations.jsonl with train.evaluate, tensorboard/, checkpoints/,
    model.safetensors and, with train.ema, ema.safetensors. `resume` goes on from the newest checkpoint in `out` and
    gives the weights of an uninterrupted run.
    Raises UsageError (device, contradictory or changed config), DataError, OutputError, DivergedError.
    """
    processes = processes or Processes()
    where = pick_device(device)
    boards.require(config)
    with folder.held(out) if processes.rank == 0 else nullcontext():
        begun = folder.as_begun(config, out) if resume else config
        return _train(begun, out, where, resume, processes, quiet)


def _train(
    config: ReferenceConfig, out: Path, where: torch.device, resume: bool, processes: Processes, quiet: bool
) -> Path:
    lead, settings = processes.rank == 0, config.train
    restored, shares = None, processes.world
    if resume:
        restored, shares = folder.restore(config, out, processes.world)
    elif lead:  # in another process it may be this run's
        folder.refuse_other_run(out)
    trainer = Trainer(config, where, processes)
    if trainer.model.needs_parts and not config.data.boxes:
        raise UsageError(
            "data.boxes=0, but the objective compares parts with wholes: set data.boxes=1 or more"
        )
    start, consumed = 0, {}
    tally: Counter = Counter()
    watch = Watch(settings)
    if restored:
        trainer.load(restored)
        saved = restored.state
        start, consumed = saved["step"], dict(saved["consumed"])
        tally = Counter(saved["skipped"] if lead else ())  # of all processes
        watch = Watch(settings, saved.get("losses"))
    batches = Batches(
        config.data,
        image_size=config.model.image_size,
        rows=trainer.rows,
        micro_batch=settings.micro_batch,
        pack_step=pack_step(where),
        rank=processes.rank,
        world=processes.world,
        shares=shares,
        seed=settings.seed,
        start=start,
        consumed=consumed,
    )
    if lead and not resume:  # nothing is left of a run that could not begin
        folder.record(config, out, processes.world, elastic.launch_id())
    if trainer.sharded:
        dist.barrier()
        folder.require_shared(out)
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
    for name, weights in trainer.weights().items():
        if lead:
            with folder.writing(str(out / name)), replacing(out / name) as temporary:
                checkpoints.save_weights(temporary, weights)
    return out / checkpoints.WEIGHTS


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
    device = trainer.device
    peak = flops.peak(device, settings.precision)
    meter = Meter(flops.Cost.of(trainer.model.encoder), device, peak)
    prepared = meter.timed(loader(batches, trainer.config.data.workers, device))
    _evaluate(trainer, midway, start)  # of a run that was killed before the evaluation had ended
    for number, batch in zip(range(start, settings.steps), prepared, strict=False):
        figures = trainer.step(batch, number)
        meter.count(batch, settings.batch_size)
        consumed |= batch.consumed
        tally.update(batch.skipped)
        done = number + 1
        last = done == settings.steps
        if done % settings.log_every == 0 or last:
            skipped = parallel.added_up(sum(tally.values()), device, trainer.processes.world)
            _log(trainer, number, figures, meter, watch, logs, skipped)
        _evaluate(trainer, midway, done)
        if midway:
            midway.collect()
        if last or (done % settings.save_every == 0 and not watch.suspect):
            _save(trainer, out, done, consumed, tally, watch)


def _evaluate(trainer: Trainer, midway: Midway | None, done: int) -> None:
    """Begin the evaluation that is due after so many steps; the weights of a sharded model lie on all processes."""
    asked = trainer.config.train.evaluate
    if asked is None or done % asked.every or not (trainer.sharded or midway):
        return
    weights = trainer.weights()
    if midway and midway.due(done):
        midway.begin(done, weights)


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


def _save(
    trainer: Trainer, out: Path, done: int, consumed: dict[int, int], tally: Counter, watch: Watch
) -> None:
    """Every process brings its readers' positions; the first one writes, of a sharded model all do."""
    lead, keep = trainer.processes.rank == 0, trainer.config.train.keep_states
    name = temporary_name(checkpoints.place(out, done).name)
    shares: Sequence[Any] = [(consumed, tally, name)]
    if trainer.processes.world > 1:
        shares = [None] * trainer.processes.world
        dist.all_gather_object(shares, (consumed, tally, name))
    reached: dict[int, int] = {}
    for part, _, _ in shares:  # who did not read with a reader knows where it stood when the run went on
        reached |= {reader: max(count, reached.get(reader, 0)) for reader, count in part.items()}
    state = {
        "step": done,
        "scaler": trainer.scaler.state_dict(),
        "bad_steps": float(trainer.bad_steps),
        "consumed": reached,
        "skipped": dict(sum((counts for _, counts, _ in shares), Counter())),
        "losses": watch.state(),
    }
    if trainer.sharded:
        name = shares[0][2]  # the same folder for all
        sharded.save(out, done, trainer.tensors(), state, keep=keep, temporary=name, lead=lead)
    elif lead:
        state["optimiser"] = trainer.optimiser.state_dict()
        checkpoints.save(out, done, trainer.weights(), state, keep=keep)
