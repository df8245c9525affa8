"""One task for one loaded model: embeddings, scores, and the record of them with where they come from."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from hierbench.contracts import ModelAdapter, Scores, Task
from hierbench.engine import processes, provenance
from hierbench.engine.keeping import encoding_facts
from hierbench.engine.session import Session
from hierbench.engine.setup import RunModel, Setup
from hierbench.errors import MissingDataError, explained
from hierbench.results import Items, Record
from hierbench.results.record import described, outside, outside_note


def measured(setup: Setup, model: RunModel, session: Session, task: Task) -> tuple[Record, Items]:
    """Record and per-item outcomes of a task; a failure gives a record that says so. Raises LostRankError."""
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
    except processes.LostRankError:
        raise
    except Exception as error:
        return failed(setup, model, task, error, facts, variant), {}


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


def failed(
    setup: Setup,
    model: RunModel,
    task: Task,
    error: Exception,
    facts: Mapping[str, Any] | None = None,
    variant: str = "",
) -> Record:
    """The record of a task that did not come to figures."""
    details = {**(facts or {}), "traceback": "".join(traceback.format_exception(error))}
    return _record(setup, model, task, details, variant, error=explained(error))


def _provenance(setup: Setup, model: RunModel, adapter: ModelAdapter, task: Task) -> dict[str, Any]:
    """Where a figure comes from, as far as it does not depend on the data."""
    card = adapter.card
    return {
        "checkpoint_sha256": card.sha256,
        "source": card.source,
        **encoding_facts(card),
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
        "processes": processes.world_size(),
        "conditions": setup.conditions(model),
        "versions": provenance.versions(),
        "revision": provenance.revision(),
        "recorded": provenance.now(),
    }
