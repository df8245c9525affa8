"""What cleaning does to PEP: the same models before and after, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hierbench import registry
from hierbench.cleaning.output import read_manifest
from hierbench.cleaning.sources import reopen
from hierbench.data.datasets import CaptionChains, subset
from hierbench.data.locate import Locations
from hierbench.data.readers import open_dataset
from hierbench.engine.session import Session

METRICS = ("auc", "ap")
CLEAN = "hierarcaps-clean"


def settings(out: Path, locations: Locations) -> list[tuple[str, str, CaptionChains]]:
    """(what is measured, task, dataset): as published, all samples with the new pool, the kept ones with it.

    Where faults were planted, also the samples without one: what a faultless cleaning would leave.
    Raises OutputError for a folder that no cleaning has finished, DataError for data that is not there.
    """
    source = reopen(read_manifest(out)["source"], lambda: locations)
    cleaned = open_dataset(CLEAN, Locations({CLEAN: Path(out)}))
    assert isinstance(cleaned, CaptionChains), "what this dataset's reader gives"
    pooled = replace(source.dataset, pool=cleaned.pool)
    found = [
        ("before: all samples, finest captions of 100 others", "pep-uncleaned", source.dataset),
        ("before: all samples, new pool", "pep-v2", pooled),
        ("after: kept samples, new pool", "pep-v2", cleaned),
    ]
    if source.faults is not None:
        rows = [row for row, fault in enumerate(source.faults) if fault is None]
        found.append(("truth: faultless samples, new pool", "pep-v2", _rows(pooled, rows)))
    return found


def pep(
    out: Path, sessions: Iterable[Session], locations: Locations, *, protocol: str = "released"
) -> list[dict[str, Any]]:
    """A row a model and setting: model, setting, task, samples, then AUC and AP (0 to 1) with 95 % bounds.

    `protocol`: of the tasks; the sessions' should be the same. Models to whom PEP does not apply are measured by the
    radial tasks. Raises as `settings`, and what encoding raises.
    """
    rows = []
    measured = settings(out, locations)
    for session in sessions:
        for setting, name, dataset in measured:
            task = registry.under(name, protocol)
            if task.inapplicable(session.geometry) is not None:
                task = registry.under(f"{name}-radial", protocol)
            embeddings = session.embed(dataset, task.requests(dataset), task.spec.fit)
            scores = task.score(session.geometry, embeddings, dataset)
            row: dict[str, Any] = {
                "model": session.card.name, "setting": setting, "task": name, "samples": scores.n,
            }  # fmt: skip
            for metric in METRICS:
                figure = scores.metrics[metric]
                row |= {metric: figure.value, f"{metric}_low": figure.low, f"{metric}_high": figure.high}
            rows.append(row)
    return rows


def shown(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as a person reads them: 0.912 [0.901, 0.923]."""
    return [
        {name: row[name] for name in ("model", "setting", "samples")}
        | {
            metric.upper(): _figure(*(row[f"{metric}{end}"] for end in ("", "_low", "_high")))
            for metric in METRICS
        }
        for row in rows
    ]


def _figure(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.3f}" if low is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _rows(dataset: CaptionChains, rows: Sequence[int]) -> CaptionChains:
    """Some samples; every image of the noisy chains has one sample, so images go with them."""
    return replace(
        dataset,
        images=subset(dataset.images, [int(dataset.owner[row]) for row in rows]),
        sample_ids=tuple(dataset.sample_ids[row] for row in rows),
        captions=tuple(dataset.captions[row] for row in rows),
        owner=np.arange(len(rows), dtype=np.int64),
    )
