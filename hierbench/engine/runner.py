"""Models x tasks -> results: isolates failures, keeps what is measured already, records where figures come from."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import logging
import time
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from hierbench import results
from hierbench.contracts import Dataset, ModelAdapter, ModelCard, Scores, Task
from hierbench.data.datasets import spread
from hierbench.engine import distributed, encoding, provenance
from hierbench.engine.claims import Claims, leave_nothing
from hierbench.engine.recording import Recorder
from hierbench.engine.session import Session
from hierbench.engine.setup import Model, RunModel, Setup
from hierbench.errors import MissingDataError, explained
from hierbench.progress import Quiet
from hierbench.results import Items, Record, Results
from hierbench.results.record import described, outside, outside_note

log = logging.getLogger(__name__)

PROBE_IMAGES, PROBE_TEXTS = 16, 128  # what a plan encodes to estimate the time


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
    arguments = (models, tasks, suite, data, data_dir, out, device, options)
    if distributed.world_size() == 1:
        return _run_all(Setup.of(*arguments, write=True), None)
    team = distributed.Team()
    if distributed.rank() > 0:
        team.serve(_Helper(arguments).encode)
        return Results()
    try:
        found = _run_all(Setup.of(*arguments, write=True), team)
    except distributed.LostRankError:
        raise
    except Exception as error:
        team.end(explained(error))
        raise
    team.end()
    return found


@dataclass(frozen=True)
class PlannedTask:
    """What a run would do for one model and task."""

    model: str
    family: str
    task: str
    dataset: str
    action: str  # "run", "keep" (measured already), "skip", "fail"
    reason: str | None = None  # why it is kept, skipped or bound to fail
    images: int = 0  # distinct contents that the task needs
    texts: int = 0
    new_images: int = 0  # of these, to encode: neither stored nor needed by an earlier task of the model
    new_texts: int = 0
    seconds: float | None = None  # estimate of the time to encode them; scoring comes on top


def plan(
    models: Model | Sequence[Model],
    tasks: Sequence[str | Task] | None = None,
    suite: str | None = None,
    data: Mapping[str, str | Path] | None = None,
    data_dir: str | Path | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    **options: Any,
) -> list[PlannedTask]:
    """What `run` with the same arguments would do. Loads the models, reads the data, writes nothing.

    The estimate goes by encoding a few of the missing images and texts, without worker processes.
    Raises as `run`.
    """
    setup = Setup.of(models, tasks, suite, data, data_dir, out, device, options, write=False)
    return [planned for model in setup.models for planned in _plan_model(setup, model)]


# ------------------------------------------------------------------------------------------------- doing it


def _run_all(setup: Setup, team: distributed.Team | None) -> Results:
    recorder = Recorder(setup)
    try:
        with (
            setup.progress.bar("tasks", len(setup.models) * len(setup.tasks)) as advance,
            _only_new_garbage(),
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
    setup: Setup, team: distributed.Team | None, claims: Claims
) -> Generator[tuple[Record, Items | None], None, None]:
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
    setup: Setup, position: int, model: RunModel, team: distributed.Team | None, tasks: Iterable[Task]
) -> Iterator[tuple[Record, Items | None]]:
    """Record and items of each task; items None = kept from an earlier run.

    The model is loaded when the first task needs it, and its memory is free when the iterator ends.
    """
    session: Session | None = None
    failure: Exception | None = None
    sha256 = model.sha256() if any(key[0] == model.name for key in setup.previous) else None
    for task in tasks:
        at_hand = session is None and model.adapter is not None  # then loading tells all, and costs nothing
        kept = None if at_hand else _kept(setup, model, sha256, task, session)
        if kept is None and session is None and failure is None:
            try:
                session = setup.session(model)
            except Exception as error:
                if len(setup.models) == 1:
                    raise
                failure = error
            else:
                if team is not None:
                    session = dataclasses.replace(session, share=partial(team.encode, position))
                model.family, sha256 = session.card.family, session.card.sha256
                kept = _kept(setup, model, sha256, task, session)  # now that family and hash are certain
        if kept is not None:
            yield kept, None
        elif failure is not None:
            yield _failed(setup, model, task, failure, {}), {}
        else:
            assert session is not None, "a model that did not fail has loaded"
            yield _run_task(setup, model, session, task)
    if session is not None:
        del session
        _free_memory()


def _run_task(setup: Setup, model: RunModel, session: Session, task: Task) -> tuple[Record, Items]:
    adapter = session.adapter
    facts, variant = _provenance(setup, model, adapter, task), ""
    try:
        if (reason := task.inapplicable(adapter.geometry)) is not None:
            return _record(setup, model, task, facts | {"inapplicable": True}, skipped=reason), {}
        begun = time.monotonic()
        opened = setup.datasets.open(task.spec.dataset)
        variant = opened.variant
        facts |= opened.facts
        requests = task.requests(opened.dataset)
        work = session.look_up(opened.dataset, requests, task.spec.fit, opened.contents)
        embeddings, encoded = session.finish(opened.dataset, work)
        between = time.monotonic()
        with torch.no_grad():
            scores = task.score(adapter.geometry, embeddings, opened.dataset)
        seconds = {"encode": round(between - begun, 3), "score": round(time.monotonic() - between, 3)}
        record = _record(
            setup,
            model,
            task,
            facts | {"encoded": encoded, "seconds": seconds},
            variant,
            limit=opened.limit,
            metrics=dict(scores.metrics),
            n=scores.n,
            notes=(*opened.notes, *scores.notes, *_outside(scores)),
            degenerate=dict(scores.degenerate),
            definition=scores.definition,
        )
        record.check()
        return record, scores.items
    except MissingDataError as error:
        return _record(setup, model, task, facts, skipped=explained(error)), {}
    except distributed.LostRankError:
        raise
    except Exception as error:
        return _failed(setup, model, task, error, facts, variant), {}


def _kept(
    setup: Setup, model: RunModel, sha256: str | None, task: Task, session: Session | None
) -> Record | None:
    """The record of an earlier run that this one would only repeat. `session`: the model's, if it is loaded."""
    record = setup.previous.get((model.name, task.spec.name))
    if record is None or setup.options.force or sha256 is None or record.error is not None:
        return None
    wanted: dict[str, Any] = {"checkpoint_sha256": sha256, "conditions": setup.conditions(model)}
    wanted |= _encoding(session.card) if session is not None else {}
    variant = ""
    try:
        opened = None if record.provenance.get("inapplicable") else setup.datasets.open(task.spec.dataset)
        if record.metrics is not None:
            if opened is None:
                return None  # figures of a task that does not apply: running it will say what is wrong
            wanted |= {**opened.facts, "limit": opened.limit}
            variant = opened.variant
        elif opened is not None:
            return None  # the data that was absent has come
    except MissingDataError as error:
        if record.skipped != explained(error):
            return None
    except Exception:
        return None  # running the task will say what is wrong
    known = {**record.provenance, "limit": record.limit}
    same = (
        record.task_version == task.spec.version
        and (record.protocol, record.variant, record.prompts)
        == (task.spec.protocol, variant, setup.options.prompts)
        and record.family == (model.family or record.family)
        and all(known.get(name) == value for name, value in wanted.items())
    )
    return record if same else None


# --------------------------------------------------------------------------------------------------- records


def _record(
    setup: Setup, model: RunModel, task: Task, facts: Mapping[str, Any], variant: str = "", **state: Any
) -> Record:
    """A record; `variant` is the dataset's, `state` holds metrics and n, error or skipped."""
    return Record(
        task=task.spec.name,
        task_version=task.spec.version,
        dataset=task.spec.dataset,
        protocol=task.spec.protocol,
        variant=variant,
        prompts=setup.options.prompts,
        model=model.name,
        family=model.family or "unknown",
        specs=described(task.spec.metrics),
        headline=task.spec.headline,
        provenance=facts,
        **({"limit": setup.options.limit} | state),
    )


def _outside(scores: Scores) -> Iterator[str]:
    """Notes on figures that lie outside their intervals."""
    return (outside_note(name) for name, figure in scores.metrics.items() if outside(figure))


def _failed(
    setup: Setup, model: RunModel, task: Task, error: Exception, facts: Mapping[str, Any], variant: str = ""
) -> Record:
    details = {**facts, "traceback": "".join(traceback.format_exception(error))}
    return _record(setup, model, task, details, variant, error=explained(error))


def _provenance(setup: Setup, model: RunModel, adapter: ModelAdapter, task: Task) -> dict[str, Any]:
    """Where a figure comes from, as far as it does not depend on the data."""
    card = adapter.card
    return {
        "checkpoint_sha256": card.sha256,
        "source": card.source,
        **_encoding(card),
        "fit": str(task.spec.fit),
        "dtype": card.dtype,
        "device": provenance.device_name(setup.device_of(model)),
        "geometry": adapter.geometry.describe(),
        "card": {
            "parameters": card.parameters,
            "embedding_dim": card.embedding_dim,
            "image_size": card.image_size,
            "licence": card.licence,
            "paper": card.paper,
        },
        "model_notes": dict(card.notes),
        "batch_size": setup.batch_size,
        "processes": distributed.world_size(),
        "conditions": setup.conditions(model),
        "versions": provenance.versions(),
        "revision": provenance.revision(),
        "recorded": provenance.now(),
    }


def _encoding(card: ModelCard) -> dict[str, str]:
    """How images and texts are brought to the model."""
    return {"preprocessing": card.preprocessing, "tokenizing": card.tokenizing}


# --------------------------------------------------------------------------------------------------- planning


def _plan_model(setup: Setup, model: RunModel) -> Iterator[PlannedTask]:
    session: Session | None = None
    failure: str | None = None
    try:
        session = setup.session(model)
    except Exception as error:
        if len(setup.models) == 1:
            raise
        failure = explained(error)
    else:
        model.family = session.card.family
    seen: set[Any] = set()  # what an earlier task will have encoded
    for task in setup.tasks:
        planned = PlannedTask(model.name, model.family or "unknown", task.spec.name, task.spec.dataset, "run")
        if session is None:
            yield dataclasses.replace(planned, action="fail", reason=failure)
        elif _kept(setup, model, session.card.sha256, task, session) is not None:
            yield dataclasses.replace(planned, action="keep", reason="measured already")
        elif (reason := task.inapplicable(session.geometry)) is not None:
            yield dataclasses.replace(planned, action="skip", reason=reason)
        else:
            try:
                yield dataclasses.replace(planned, **_amount(setup, session, task, seen))
            except MissingDataError as error:
                yield dataclasses.replace(planned, action="skip", reason=explained(error))
            except Exception as error:
                yield dataclasses.replace(planned, action="fail", reason=explained(error))


def _amount(setup: Setup, session: Session, task: Task, seen: set[Any]) -> dict[str, Any]:
    """How much a task has to encode and how long that takes, as fields of `PlannedTask`."""
    opened, fit = setup.datasets.open(task.spec.dataset), task.spec.fit
    work = session.look_up(opened.dataset, task.requests(opened.dataset), fit, opened.contents)
    images = [(image_id, key) for key, image_id in work.missing_images.items() if (fit, key) not in seen]
    texts = [text for text in work.missing_texts if text not in seen]
    seen.update(texts, ((fit, key) for _, key in images))
    probe = partial(_seconds, session, opened.dataset)
    seconds = len(images) * probe(encoding.Job(fit, (_sample(images, PROBE_IMAGES),), ())) if images else 0.0
    seconds += len(texts) * probe(encoding.Job(fit, (), (_sample(texts, PROBE_TEXTS),))) if texts else 0.0
    return {
        "images": len(set(work.image_contents)),
        "texts": len(set(work.text_contents)),
        "new_images": len(images),
        "new_texts": len(texts),
        "seconds": seconds,
    }


def _seconds(session: Session, dataset: Dataset, job: encoding.Job) -> float:
    """Time to encode one of the job's items, the second time round; nothing is kept."""
    probe = dataclasses.replace(session, store=None, workers=0, progress=Quiet())
    probe.encode(dataset, job)
    begun = time.monotonic()
    probe.encode(dataset, job)
    return (time.monotonic() - begun) / sum(map(len, job.images + job.texts))


def _sample(items: Sequence[Any], count: int) -> tuple[Any, ...]:
    return tuple(items[row] for row in spread(len(items), count))


# ------------------------------------------------------------------------------------------------- processes


class _Helper:
    """What a rank other than 0 does: encodes its part of a job, with the model and dataset that rank 0 names."""

    def __init__(self, arguments: tuple[Any, ...]):
        self.arguments = arguments
        self.setup: Setup | None = None
        self.loaded: int | None = None  # position of the model in the run's
        self.session: Session | None = None

    def encode(self, position: int, dataset: str, job: encoding.Job) -> encoding.Features:
        """Whatever is wrong is raised here, so that rank 0 hears of it."""
        if self.setup is None:
            self.setup = Setup.of(*self.arguments, write=False)
        if self.session is None or self.loaded != position:
            self.session = None
            _free_memory()
            self.session, self.loaded = self.setup.session(self.setup.models[position]), position
        return self.session.encode(self.setup.datasets.open(dataset).dataset, job)


@contextlib.contextmanager
def _only_new_garbage() -> Iterator[None]:
    """Within it, collecting garbage looks at what was made since: not each time at all that torch has imported."""
    if gc.get_freeze_count():  # the caller's own doing: leave it alone
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _free_memory() -> None:
    """Give the memory of a model that is gone back to the GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
