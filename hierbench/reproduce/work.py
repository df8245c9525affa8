"""The work of a study: each row trained with each seed and measured, by one process or several, resumable anywhere.

An output folder holds `trainings/NAME` (what `hierbench train` leaves) and the records and items of a run. NAME is
FAMILY-DIGEST-sSEED, the digest that of the training's config: rows of several studies that are trained alike share it.
"""

from __future__ import annotations

import json
import logging
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hierbench import registry, results
from hierbench.engine.claims import Claims
from hierbench.errors import HierbenchError, OutputError, UsageError, one_line
from hierbench.names import lookup
from hierbench.reference.schema import ReferenceConfig
from hierbench.reproduce.study import MAX_SEED, Study, chosen, digest, read_study

log = logging.getLogger(__name__)

PROBE_STEPS = 3  # timed to tell how long a training takes; one before them warms up


@dataclass(frozen=True)
class Training:
    """One recipe with one seed; `rows` of the study are trained so."""

    name: str
    config: ReferenceConfig
    rows: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class Plan:
    """What is asked for: a study's rows and seeds, how long each is trained, and where all is kept."""

    name: str  # of the study, or its file
    out: Path
    rows: tuple[str, ...] | None = None  # None = all
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int | None = None  # None = the study's
    overrides: tuple[str, ...] = ()  # of every row's training config
    device: str = "auto"
    limit: int | None = None  # items of each dataset at most, for a trial

    @cached_property
    def study(self) -> Study:
        """The study. Raises as `read_study`."""
        return read_study(self.name)

    @property
    def trained_steps(self) -> int:
        return self.steps or self.study.steps

    @cached_property
    def trainings(self) -> list[Training]:
        """All trainings, seed by seed, so that a part of the work is a whole table already.

        Raises UsageError, UnknownNameError: wrong rows, seeds or configs, tasks that nobody knows.
        """
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise UsageError("--seeds: at least one, and each once")
        if wrong := [seed for seed in self.seeds if not 0 <= seed <= MAX_SEED]:
            raise UsageError(f"--seeds {wrong[0]}: from 0 to {MAX_SEED}")
        _check_metrics(self.study)
        alike: dict[str, tuple[ReferenceConfig, list[str]]] = {}
        for row in chosen(self.study, self.rows):
            config = self.study.config(row, self.trained_steps, self.overrides)
            alike.setdefault(f"{config.family}-{digest(config)}", (config, []))[1].append(row)
        return [
            Training(f"{name}-s{seed}", _seeded(config, seed), tuple(rows), seed)
            for seed in self.seeds
            for name, (config, rows) in alike.items()
        ]

    def folder(self, training: Training) -> Path:
        return self.out / "trainings" / training.name

    def measured(self, training: Training) -> bool:
        """Whether each task has a record of it, under the task's present version. Raises OutputError."""
        return all(self.record(training, task) is not None for task in self.study.tasks)

    def record(self, training: Training, task: str) -> results.Record | None:
        """The record of a training and a task; None where it is missing, failed, or of another version or limit."""
        record = results.read_record(self.out, training.name, task)
        if record is None or record.error or record.limit != self.limit:
            return None
        return record if record.task_version == registry.task(task).spec.version else None


def work(plan: Plan, *, quiet: bool = False, after: Callable[[Training], None] | None = None) -> list[str]:
    """Do all of a plan that no other process does, in order, and wait for what others do; `after` each training.

    Returns a line for each training that failed; the others go on. Raises OutputError where nothing can be written.
    """
    failures: list[str] = []
    waiting = list(plan.trainings)
    with Claims(plan.out) as claims:
        while waiting:
            training = next((t for t in waiting if _take(plan, claims, t)), None)
            if training is None:
                claims.wait()
                waiting = [t for t in waiting if not plan.measured(t)]
                continue
            waiting.remove(training)
            try:
                if not plan.measured(training):
                    _do(plan, training, quiet)
                    if after is not None:
                        after(training)
            except OutputError:
                raise
            except HierbenchError as error:
                failures.append(f"{training.rows[0]}, seed {training.seed}: {one_line(error)}")
                log.error(failures[-1])
            finally:
                claims.release()
    return failures


def estimate(plan: Plan) -> list[dict[str, Any]]:
    """The trainings that are not measured yet: rows, seed, training, steps_left, seconds for these.

    By finished trainings of the same recipe where there are some, else by trying a few steps. Writes nothing.
    """
    told, pace = [], {}
    for training in plan.trainings:
        if plan.measured(training):
            continue
        recipe = training.name.rpartition("-s")[0]
        if recipe not in pace:
            pace[recipe] = seconds_a_step(plan, training)
        left = steps_left(plan, training)
        told.append(
            {
                "rows": ", ".join(training.rows),
                "seed": training.seed,
                "training": training.name,
                "steps_left": left,
                "seconds": round(left * pace[recipe], 1),
            }
        )
    return told


def seconds_a_step(plan: Plan, training: Training) -> float:
    """How long a step takes: as finished trainings of the same recipe say, else by trying a few steps.

    The trial draws its samples by itself; a training draws them beside, so it errs towards the long side.
    """
    recipe = training.name.rpartition("-s")[0]
    rates = [rate for path in plan.out.glob(f"trainings/{recipe}-s*/train.jsonl") for rate in _rates(path)]
    if rates:
        return training.config.train.batch_size / statistics.median(rates)
    from hierbench.reference.training.batches import Batches
    from hierbench.reference.training.trainer import Trainer, pick_device

    config = training.config
    trainer = Trainer(config, pick_device(plan.device))
    batches = iter(
        Batches(config.data, image_size=config.model.image_size, rows=trainer.rows, seed=training.seed)
    )
    float(trainer.step(next(batches), 0)["loss"])
    begun = time.monotonic()
    for number in range(PROBE_STEPS):
        float(trainer.step(next(batches), number + 1)["loss"])
    return (time.monotonic() - begun) / PROBE_STEPS


def steps_left(plan: Plan, training: Training) -> int:
    """Steps that are still to be made, after the newest checkpoint."""
    from hierbench.reference.training.state import saved

    folder = plan.folder(training)
    if (folder / "model.safetensors").is_file():
        return 0
    found = saved(folder)
    return training.config.train.steps - (int(found[-1].name.removeprefix("step-")) if found else 0)


def _check_metrics(study: Study) -> None:
    """Raise UnknownNameError for a task or a metric that nobody knows."""
    for measure in study.measures.values():
        known = {metric.name: metric for metric in registry.task(measure.task).spec.metrics}
        for metric in measure.metrics:
            lookup(f"metric of {measure.task}", metric, known)


def _seeded(config: ReferenceConfig, seed: int) -> ReferenceConfig:
    return config.model_copy(update={"train": config.train.model_copy(update={"seed": seed})})


def _take(plan: Plan, claims: Claims, training: Training) -> bool:
    """Claim a training, unless it is measured already or somebody else's."""
    return plan.measured(training) or claims.take(training.name, "training")


def _do(plan: Plan, training: Training, quiet: bool) -> None:
    """Train and measure. Raises HierbenchError."""
    from hierbench.engine import runner
    from hierbench.reference.training.loop import train

    folder, begun = plan.folder(training), time.monotonic()
    weights = folder / "model.safetensors"
    what = f"{', '.join(training.rows)}, seed {training.seed}"
    if not weights.is_file():
        begins = "going on with" if (folder / "config.yaml").exists() else "training"
        log.info(f"{begins} {what}: {training.config.train.steps:,} steps")
        resume = (folder / "config.yaml").exists()
        train(training.config, folder, device=plan.device, resume=resume, quiet=quiet)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # the weights are whole
    found = runner.run(
        [(training.config.measured_as, str(weights), training.name)],
        plan.study.tasks,
        out=plan.out,
        device=plan.device,
        limit=plan.limit,
        progress=False,
    )
    if failed := next((record for record in found if record.error), None):
        raise HierbenchError(f"{failed.task}: {failed.error}")
    log.info(f"{what}: done in {time.monotonic() - begun:,.0f} s")


def _rates(path: Path) -> list[float]:
    """Samples a second that a training's log tells, without its first line, which includes the start."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()[1:]
        return [float(json.loads(line)["samples_per_second"]) for line in lines]
    except (OSError, ValueError, LookupError, TypeError):
        return []
