"""Which records of earlier runs stand: those that this run would only repeat. Nothing here needs torch."""

from __future__ import annotations

from typing import Any

from hierbench.contracts import ModelCard, Task
from hierbench.engine.setup import RunModel, Setup
from hierbench.errors import MissingDataError, explained
from hierbench.results import Record
from hierbench.results.record import described


def kept(
    setup: Setup, model: RunModel, sha256: str | None, task: Task, card: ModelCard | None
) -> Record | None:
    """The record in the run's folder that this run would only repeat. `card`: the model's, where it is loaded."""
    record = setup.previous.get((model.name, task.spec.name))
    if record is None or setup.options.force or sha256 is None or record.error is not None:
        return None
    return record if same(setup, model, sha256, task, card, record) else None


def same(
    setup: Setup, model: RunModel, sha256: str, task: Task, card: ModelCard | None, record: Record
) -> bool:
    """Whether measuring the task would give the record again: model, data, task and options are what they were."""
    wanted: dict[str, Any] = {"checkpoint_sha256": sha256, "conditions": setup.conditions(model)}
    wanted |= {"fit": str(task.spec.fit)}
    wanted |= encoding_facts(card) if card is not None else {}
    variant = ""
    try:
        opened = None if record.provenance.get("inapplicable") else setup.datasets.open(task.spec.dataset)
        if record.metrics is not None:
            if opened is None:
                return False  # figures of a task that does not apply: running it will say what is wrong
            wanted |= {**opened.facts, "limit": opened.limit}
            variant = opened.variant
        elif opened is not None:
            return False  # the data that was absent has come
    except MissingDataError as error:
        if record.skipped != explained(error):
            return False
    except Exception:
        return False  # running the task will say what is wrong
    known = {**record.provenance, "limit": record.limit}
    return (
        record.task_version == task.spec.version
        and (record.specs, record.headline) == (described(task.spec.metrics), task.spec.headline)
        and (record.protocol, record.variant, record.prompts)
        == (task.spec.protocol, variant, setup.options.prompts)
        and record.family == (model.family or record.family)
        and all(known.get(name) == value for name, value in wanted.items())
    )


def encoding_facts(card: ModelCard) -> dict[str, str]:
    """What a record says of how images and texts are brought to the model."""
    return {"preprocessing": card.preprocessing, "tokenizing": card.tokenizing}
