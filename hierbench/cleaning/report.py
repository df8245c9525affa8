"""What cleaning does to PEP: the same models before and after, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hierbench import registry
from hierbench.cleaning.output import read_manifest
from hierbench.cleaning.sources import reopen
from hierbench.contracts import Fit, ModelAdapter
from hierbench.data.datasets import CaptionChains
from hierbench.data.locate import Locations
from hierbench.data.readers import open_dataset
from hierbench.engine import encoding
from hierbench.engine.store import EmbeddingStore, MemoryStore
from hierbench.progress import Progress

METRICS = ("auc", "ap")
CLEAN = "hierarcaps-clean"


def settings(out: Path, locations: Locations) -> list[tuple[str, str, CaptionChains]]:
    """(what is measured, task, dataset): as published, all samples with the new pool, the kept ones with it.

    Where faults were planted, also the samples without one: what a faultless cleaning would leave.
    Raises OutputError for a folder that no cleaning has finished, DataError for data that is not there.
    """
    source = reopen(read_manifest(out)["source"], lambda: locations)
    cleaned = open_dataset(CLEAN, Locations({CLEAN: Path(out)}))
    pooled = replace(source.dataset, pool=cleaned.pool)
    found = [
        ("before: all samples, finest captions of 100 others", "pep-uncleaned", source.dataset),
        ("before: all samples, new pool", "pep-v1", pooled),
        ("after: kept samples, new pool", "pep-v1", cleaned),
    ]
    if source.faults is not None:
        rows = [row for row, fault in enumerate(source.faults) if fault is None]
        found.append(("truth: faultless samples, new pool", "pep-v1", _rows(pooled, rows)))
    return found


def pep(
    out: Path,
    adapters: Sequence[ModelAdapter],
    locations: Locations,
    *,
    progress: Progress | None = None,
    device: str = "cpu",
) -> list[dict[str, Any]]:
    """A row a model and setting: model, setting, task, samples, then AUC and AP (0 to 1) with 95 % bounds.

    Models without entailment cones are measured by the radial tasks. Raises as `settings`, and what encoding raises.
    """
    rows = []
    for adapter in adapters:
        store = EmbeddingStore() if adapter.card.sha256 else MemoryStore()
        for setting, name, dataset in settings(out, locations):
            task = registry.task(name if adapter.geometry.has_cones else f"{name}-radial")
            embeddings = encoding.embed(
                adapter, dataset, task.requests(dataset), Fit(task.spec.fit),
                store=store, progress=progress, device=device,
            )  # fmt: skip
            scores = task.score(adapter.geometry, embeddings, dataset)
            row = {"model": adapter.card.name, "setting": setting, "task": name, "samples": scores.n}
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
    from hierbench.data.datasets import subset

    return replace(
        dataset,
        images=subset(dataset.images, [int(dataset.owner[row]) for row in rows]),
        sample_ids=tuple(dataset.sample_ids[row] for row in rows),
        captions=tuple(dataset.captions[row] for row in rows),
        owner=np.arange(len(rows), dtype=np.int64),
    )
