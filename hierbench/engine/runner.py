"""Models x tasks -> results: isolates failures, keeps what is measured already, records where figures come from."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierbench import results
from hierbench.contracts import ModelCard, Task
from hierbench.engine import garbage, processes, remembering
from hierbench.engine.claims import Claims, leave_nothing
from hierbench.engine.recording import Recorder
from hierbench.engine.setup import Model, RunModel, Setup
from hierbench.errors import explained
from hierbench.results import Items, Record, Results

if (
    TYPE_CHECKING
):  # a run with nothing to do does not wait for torch: what needs it is imported where it is used
    from hierbench.engine.distributed import Team
    from hierbench.engine.encoding import Features, Job
    from hierbench.engine.session import Session

log = logging.getLogger(__name__)


def run(
    models: Model | Sequence[Model],
    tasks: Sequence[str | Task] | None = None,
    suite: str | None = None,
    data: Mapping[str, str | Path] | None = None,
    data_dir: str | Path | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    **options: Any,
) -> Results:
    """Measure models on tasks; returns the records in the order models x tasks.

    `models`: catalog names, checkpoint paths, "family:checkpoint", tuples (family, checkpoint) or (family,
    checkpoint, name), adapter objects. `tasks`: names or task objects; or a `suite` (default "argent"). `data`:
    paths by dataset name; `data_dir`: a folder with one folder a dataset. `out`: the folder for the records; what
    lies there already is kept and not repeated, where model, data and options are the same (None = nothing is
    written). `device`: auto, cpu, cuda, cuda:1, mps. Further options: see `hierbench.engine.setup.Options`.

    A model that cannot be loaded or a task that fails gives a record with an `error`, and the others go on; a task
    whose data is absent or that says nothing about the model's geometry is `skipped`. Under torchrun rank 0 returns
    the results, the other ranks none.

    Raises UsageError, UnknownNameError, DataError, OutputError before any work starts, and what loading raises where
    the model is the only one.
    """
    where = {"data": data, "data_dir": data_dir, "out": out, "device": device}
    arguments = {"models": models, "tasks": tasks, "suite": suite, **where, **options}
    if processes.world_size() == 1:
        return _run_all(Setup.of(**arguments, write=True), None)
    from hierbench.engine.distributed import Team

    team = Team()
    if processes.rank() > 0:
        team.serve(_Helper(arguments).encode)
        return Results()
    try:
        found = _run_all(Setup.of(**arguments, write=True), team)
    except processes.LostRankError:
        raise
    except Exception as error:
        team.end(explained(error))
        raise
    team.end()
    return found


# ------------------------------------------------------------------------------------------------- doing it


def _run_all(setup: Setup, team: Team | None) -> Results:
    recorder = Recorder(setup)
    try:
        with (
            setup.progress.bar("tasks", len(setup.models) * len(setup.tasks)) as advance,
            garbage.only_new(),
            Claims(setup.out) as claims,
            contextlib.closing(_measured(setup, team, claims)) as measured,
        ):
            for record, items in measured:
                recorder.add(record, items)
                advance(1)
    finally:
        if setup.out is not None and not recorder.begun:
            leave_nothing(setup.out)
    models, tasks = (
        {name: place for place, name in enumerate(names)}
        for names in ([m.name for m in setup.models], [t.spec.name for t in setup.tasks])
    )
    recorder.found.sort(key=lambda record: (models[record.model], tasks[record.task]))
    return recorder.found


def _measured(
    setup: Setup, team: Team | None, claims: Claims
) -> Generator[tuple[Record, Items | Path | None], None, None]:
    """Record and items of every model and task; what other processes are at comes last, from their records."""
    pending = {position: list(setup.tasks) for position in range(len(setup.models))}
    told: set[str] = set()
    while pending:
        before = sum(map(len, pending.values()))
        for position, waiting in list(pending.items()):
            model = setup.models[position]
            yield from _run_model(setup, position, model, team, _claimed(setup, claims, model, waiting))
            if not waiting:
                del pending[position]
        if pending and sum(map(len, pending.values())) == before:
            for position, waiting in pending.items():
                for holder in claims.holders(setup.models[position].name, waiting) - told:
                    log.info(f"waiting for {holder}, which measures into {setup.out} as well")
                    told.add(holder)
            claims.wait()


def _claimed(setup: Setup, claims: Claims, model: RunModel, waiting: list[Task]) -> Iterator[Task]:
    """The tasks that this process may measure now, out of `waiting`; others' records of them are known by then."""
    for task in claims.turn(model.name, waiting):
        if setup.out is not None:
            record = results.read_record(setup.out, model.name, task.spec.name)
            if record is not None:
                setup.previous[model.name, task.spec.name] = record
        yield task


def _run_model(
    setup: Setup, position: int, model: RunModel, team: Team | None, tasks: Iterable[Task]
) -> Iterator[tuple[Record, Items | Path | None]]:
    """Record and items of each task; None = both lie in the folder, a path = remembered from a run elsewhere.

    The model is loaded when the first task needs it, and its memory is free when the iterator ends.
    """
    card: ModelCard | None = None
    session: Session | None = None
    failure: Exception | None = None
    sha256 = model.sha256() if setup.out is not None else None
    for task in tasks:
        at_hand = session is None and model.adapter is not None  # then loading tells all, and costs nothing
        found = None if at_hand else remembering.known(setup, model, sha256, task, card)
        if found is None and session is None and failure is None:
            from hierbench.engine import measuring

            try:
                session = setup.session(model)
            except Exception as error:
                if len(setup.models) == 1:
                    raise
                failure = error
            else:
                if team is not None:
                    session = dataclasses.replace(session, share=partial(team.encode, position))
                card = session.card
                model.family, sha256 = card.family, card.sha256
                found = remembering.known(setup, model, sha256, task, card)  # family and hash are certain now
        if found is not None:
            yield found
        elif failure is not None:
            yield measuring.failed(setup, model, task, failure), {}
        else:
            assert session is not None, "a model that did not fail has loaded"
            yield measuring.measured(setup, model, session, task)
    if session is not None:
        del session
        garbage.collect()


# ------------------------------------------------------------------------------------------------- processes


class _Helper:
    """What a rank other than 0 does: encodes its part of a job, with the model and dataset that rank 0 names."""

    def __init__(self, arguments: Mapping[str, Any]):
        self.arguments = arguments
        self.setup: Setup | None = None
        self.loaded: int | None = None  # position of the model in the run's
        self.session: Session | None = None

    def encode(self, position: int, dataset: str, job: Job) -> Features:
        """Whatever is wrong is raised here, so that rank 0 hears of it."""
        if self.setup is None:
            self.setup = Setup.of(**self.arguments, write=False)
        if self.session is None or self.loaded != position:
            self.session = None
            garbage.collect()
            self.session, self.loaded = self.setup.session(self.setup.models[position]), position
        return self.session.encode(self.setup.datasets.open(dataset).dataset, job)
