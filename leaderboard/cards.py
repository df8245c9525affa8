"""A model's results as a card: Markdown with the `model-index` block that Hugging Face reads, figures as recorded.

The block is YAML between two lines of dashes, as huggingface_hub's `EvalResult` has it: a result a task, with the
dataset, and of every figure its interval and number of items. Of the machine that measured only versions are told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import yaml

from hierbench.errors import OutputError
from hierbench.leaderboard import checks, compare, render, tables
from hierbench.names import lookup
from hierbench.results import Record

TASK_TYPES = {
    "retrieval": "image-text-retrieval",
    "hierarcaps": "image-text-retrieval",
    "pep": "image-text-entailment",
}
"""By what a task's name begins with; the others classify."""

OTHERS = "zero-shot-image-classification"


def card(model: str, folders: Sequence[str | Path], layout: str | None = None) -> str:
    """The card of a model that was measured in some output folders; figures that are not their items' are marked.

    Raises UnknownNameError for a model that they do not have, OutputError where it has no figures.
    """
    records = _records(model, folders)
    measured = [record for record in records if record.metrics]
    asked = compare.results.read_run(folders[0]).get("layout")
    table = tables.build(records, layout or asked or tables.DEFAULT_LAYOUT)
    head = yaml.safe_dump(_index(model, measured), sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{head}---\n\n# {render.escape(model)}\n\n{_about(measured)}\n\n{render.markdown(table)}"


def index(model: str, folders: Sequence[str | Path]) -> dict[str, Any]:
    """The card's block alone, as plain lists and mappings. Raises as `card`."""
    return _index(model, [record for record in _records(model, folders) if record.metrics])


def _records(model: str, folders: Sequence[str | Path]) -> list[Record]:
    found = compare.found_in(folders)
    of_model = lookup("model in these results", model, found)
    records = checks.checked((record, folder) for folder, record in of_model.values())
    if not any(record.metrics for record in records):
        raise OutputError(
            f"{model} has no figures in {', '.join(map(str, folders))}: nothing to put on a card"
        )
    return records


def _index(model: str, records: Sequence[Record]) -> dict[str, Any]:
    results = [entry for record in records if (entry := _result(record))["metrics"]]
    return {"tags": ["hierbench"], "model-index": [{"name": model, "results": results}]}


def _result(record: Record) -> dict[str, Any]:
    kind = next((name for name in TASK_TYPES if record.task.startswith(name)), None)
    config = {"config": record.way} if record.way != "released" else {}
    return {
        "task": {"type": TASK_TYPES.get(kind or "", OTHERS), "name": record.task},
        "dataset": {"type": record.dataset, "name": record.dataset, **config},
        "metrics": [
            {
                "type": name,
                "value": figure.value,
                "name": record.specs.get(name, {}).get("title", name),
                "args": _args(record, name),
            }
            for name, figure in (record.metrics or {}).items()
            if math.isfinite(figure.value)
        ],
    }


def _args(record: Record, name: str) -> dict[str, Any]:
    """What a figure is worth: its interval, the number of items, whether it is a part or degenerate."""
    figure = (record.metrics or {})[name]
    bounds = [figure.low, figure.high] if figure.low is not None and figure.high is not None else None
    told = {
        "unit": record.specs.get(name, {}).get("unit"),
        "interval_95": bounds,
        "n": record.n,
        "limit": record.limit,
        "task_version": record.task_version,
        "degenerate": str(reason) if (reason := record.degenerate.get(name)) else None,  # plain, for YAML
        "measured_by": f"hierbench {_versions(record).get('hierbench', '')}".strip(),
    }
    return {key: value for key, value in told.items() if value is not None}


def _versions(record: Record) -> Mapping[str, Any]:
    versions = record.provenance.get("versions")
    return versions if isinstance(versions, dict) else {}


def _about(records: Sequence[Record]) -> str:
    first = max(records, key=lambda record: str(record.provenance.get("recorded") or ""))
    facts = first.provenance
    source = facts.get("source")
    geometry = facts.get("geometry")
    space = geometry if isinstance(geometry, dict) else {}
    told = {
        "Family": first.family,
        "Weights": None if source is None else source if "://" in source else PurePath(source).name,
        "SHA-256 of the weights": facts.get("checkpoint_sha256"),
        "Geometry": ", ".join(
            f"{value}" if key == "name" else f"{key} {value}"
            for key, value in space.items()
            if not isinstance(value, list | dict)
        ),
        "Images": facts.get("preprocessing"),
        "Texts": facts.get("tokenizing"),
        "Measured": f"{facts.get('recorded')}, hierbench {_versions(first).get('hierbench')}",
    }
    return "\n".join(f"- {name}: {render.escape(str(value))}" for name, value in told.items() if value)
