"""What became of a study's claims: each row's figures over seeds, and paired differences with both sources of variance.

Two rows with the same seed see the same samples in the same order and are measured on the same items: their difference
is taken seed by seed, and on the same resamples of the items. The interval of its mean (`hierbench.metrics.seeds`) has
the variance over seeds, with Student's t for so few, and the variance over items. Redrawing seeds and items and taking
percentiles is the usual choice; with three seeds it is less than half as wide as it has to be (√⅔ · 1.96 standard
errors in place of t = 4.30).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import hierbench
from hierbench import registry, results
from hierbench.errors import OutputError
from hierbench.metrics import seeds
from hierbench.reproduce.study import Claim, Measure
from hierbench.reproduce.work import Plan

SCHEMA = 1
HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot be told"


@dataclass(frozen=True)
class Figure:
    """A measure of one training, in percent where it is a share: on the items, and on their resamples (R,)."""

    value: float
    drawn: np.ndarray
    note: str = ""  # why it says little


Figures = Mapping[tuple[str, str, int], Figure]  # (row, measure, seed)


def tell(plan: Plan, command: str) -> dict[str, Any]:
    """All that is known so far, as a JSON document: rows, the paper's lines, claims with their verdicts.

    Raises OutputError for damaged records.
    """
    study, figures = plan.study, _figures(plan)
    rows = dict.fromkeys(row for training in plan.trainings for row in training.rows)
    return {
        "schema": SCHEMA,
        "study": study.name,
        "title": study.title,
        "source": study.source,
        "setting": study.setting,
        "notes": list(study.notes),
        "command": command,
        "hierbench": hierbench.__version__,
        "steps": plan.trained_steps,
        "seeds": list(plan.seeds),
        "limit": plan.limit,
        "trainings": {"done": sum(map(plan.measured, plan.trainings)), "of": len(plan.trainings)},
        "measures": {name: _described(measure) for name, measure in study.measures.items()},
        "rows": {row: _row(plan, row, figures) for row in rows},
        "lines": [
            {
                "group": group.group,
                "lines": [
                    {"label": line.label, "row": line.row, "paper": _named(study.measures, line.paper)}
                    for line in group.lines
                ],
            }
            for group in study.lines
        ],
        "claims": [
            _judged(plan, claim, measure, figures)
            for claim in study.claims
            if claim.better in rows and claim.than in rows
            for measure in claim.by
        ],
    }


def verdict(advantages: Sequence[float] | np.ndarray, drawn: np.ndarray) -> dict[str, Any]:
    """Of a row's advantages over another, (S,) by seed and (S, R) on resamples: the mean, its 95 % bounds, the verdict.

    `holds` where the whole interval is above 0, `does not hold` where it is below; one seed says nothing of others.
    """
    spread = seeds.mean(advantages, drawn)
    told = UNKNOWN
    if spread.seeds > 1:
        told = HOLDS if spread.low > 0 else FAILS if spread.high < 0 else UNKNOWN
    bounds = {"advantage": spread.mean, "low": spread.low, "high": spread.high}
    return {name: _rounded(value) for name, value in bounds.items()} | {
        "by_seed": [_rounded(value) for value in advantages],
        "verdict": told,
    }


def _figures(plan: Plan) -> Figures:
    """Every figure that is measured."""
    found: dict[tuple[str, str, int], Figure] = {}
    for training in plan.trainings:
        if not plan.measured(training):
            continue
        for task in plan.study.tasks:
            record = plan.record(training, task)
            if record is None or record.metrics is None:
                continue
            items = results.read_items(plan.out, record)
            statistics = registry.under(task, record.protocol).statistics(items)
            if why := record.miscounted(statistics.n):
                path = results.record_path(plan.out, record.model, task)
                raise OutputError(f"result {path} does not fit its items ({why}): delete it and run again")
            drawn = statistics.drawn()
            for name, measure in plan.study.measures.items():
                if measure.task == task and set(measure.metrics) <= record.metrics.keys():
                    scale = 100.0 if _described(measure)["unit"] == "fraction" else 1.0
                    value = scale * np.mean([record.metrics[metric].value for metric in measure.metrics])
                    on_resamples = scale * np.mean([drawn[metric] for metric in measure.metrics], axis=0)
                    note = next((record.degenerate[m] for m in measure.metrics if m in record.degenerate), "")
                    for row in training.rows:
                        found[row, name, training.seed] = Figure(float(value), on_resamples, note)
    return found


def _row(plan: Plan, row: str, figures: Figures) -> dict[str, Any]:
    asked = [training for training in plan.trainings if row in training.rows]
    config = asked[0].config.model_dump(mode="json", exclude={"name": True, "processes": True})
    del config["train"]["seed"]
    told: dict[str, Any] = {}
    notes: dict[str, str] = {}
    for measure in plan.study.measures:
        known = {seed: figures[row, measure, seed] for seed in plan.seeds if (row, measure, seed) in figures}
        if known:
            values = [figure.value for figure in known.values()]
            spread = seeds.mean(values, np.stack([figure.drawn for figure in known.values()]))
            told[measure] = {
                "mean": _rounded(spread.mean),
                "sd": _rounded(spread.sd),
                "low": _rounded(spread.low),
                "high": _rounded(spread.high),
                "by_seed": {str(seed): _rounded(figure.value) for seed, figure in known.items()},
            }
            if note := next((figure.note for figure in known.values() if figure.note), ""):
                notes[measure] = note
    return {
        "trainings": {str(t.seed): t.name for t in asked},
        "config": config,
        "figures": told,
        "degenerate": notes,
    }


def _judged(plan: Plan, claim: Claim, measure: str, figures: Figures) -> dict[str, Any]:
    sign = 1.0 if _described(plan.study.measures[measure])["better"] == "higher" else -1.0
    paired = [
        (figures[claim.better, measure, seed], figures[claim.than, measure, seed])
        for seed in plan.seeds
        if (claim.better, measure, seed) in figures and (claim.than, measure, seed) in figures
    ]
    printed = [plan.study.printed(row).get(measure) for row in (claim.better, claim.than)]
    told: dict[str, Any] = {"verdict": UNKNOWN, "by_seed": []}
    if paired:
        advantages = [sign * (one.value - other.value) for one, other in paired]
        told = verdict(advantages, np.stack([sign * (one.drawn - other.drawn) for one, other in paired]))
    return {
        "says": claim.says,
        "better": claim.better,
        "than": claim.than,
        "measure": measure,
        "paper": None if None in printed else printed,
        **told,
    }


def _described(measure: Measure) -> dict[str, Any]:
    """The measure with its unit and direction, as its task's metrics tell."""
    specs = {metric.name: metric for metric in registry.task(measure.task).spec.metrics}
    spec = specs[measure.metrics[0]]
    better = "higher" if spec.higher_is_better else "lower"
    return measure.model_dump() | {"unit": spec.unit, "better": better}


def _named(measures: Mapping[str, Measure], printed: Sequence[float | None]) -> dict[str, float]:
    return {name: figure for name, figure in zip(measures, printed, strict=False) if figure is not None}


def _rounded(value: float) -> float | None:
    """Six digits: what is beyond differs from machine to machine."""
    return None if not math.isfinite(value) else float(f"{value:.6g}")
