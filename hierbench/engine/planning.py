"""What a run would do, told beforehand: what is kept, what there is to encode, and about how long that takes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hierbench.contracts import Dataset, Task
from hierbench.data.datasets import spread
from hierbench.engine import remembering
from hierbench.engine.encoding import Job
from hierbench.engine.session import Session
from hierbench.engine.setup import RunModel, Setup
from hierbench.errors import MissingDataError, explained
from hierbench.progress import Quiet

PROBE_IMAGES, PROBE_TEXTS = 16, 128  # what is encoded to estimate the time


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


def plan(*arguments: Any, **options: Any) -> list[PlannedTask]:
    """What `runner.run` with the same arguments would do. Loads the models, reads the data, writes nothing.

    The estimate goes by encoding a few of the missing images and texts, without worker processes.
    Raises as `run`.
    """
    setup = Setup.of(*arguments, **options, write=False)
    return [planned for model in setup.models for planned in _plan_model(setup, model)]


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
        elif remembering.known(setup, model, session.card.sha256, task, session.card) is not None:
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
    seconds = len(images) * probe(Job(fit, (_sample(images, PROBE_IMAGES),), ())) if images else 0.0
    seconds += len(texts) * probe(Job(fit, (), (_sample(texts, PROBE_TEXTS),))) if texts else 0.0
    return {
        "images": len(set(work.image_contents)),
        "texts": len(set(work.text_contents)),
        "new_images": len(images),
        "new_texts": len(texts),
        "seconds": seconds,
    }


def _seconds(session: Session, dataset: Dataset, job: Job) -> float:
    """Time to encode one of the job's items, the second time round; nothing is kept."""
    probe = dataclasses.replace(session, store=None, workers=0, progress=Quiet())
    probe.encode(dataset, job)
    begun = time.monotonic()
    probe.encode(dataset, job)
    return (time.monotonic() - begun) / sum(map(len, job.images + job.texts))


def _sample(items: Sequence[Any], count: int) -> tuple[Any, ...]:
    return tuple(items[row] for row in spread(len(items), count))
