"""How much each mended error of the released evaluators moves a model's figures: both protocols on the same items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hierbench import registry
from hierbench.contracts import ModelAdapter, ProtocolAware
from hierbench.errata import Erratum, errata
from hierbench.leaderboard import compare
from hierbench.metrics import bootstrap
from hierbench.metrics.classification import accuracy

if TYPE_CHECKING:
    from hierbench.results import Items, Record, Results


@dataclass(frozen=True)
class Effect:
    """One erratum and one metric of a task it touches: figures as recorded, or a note that says why there are none."""

    erratum: str  # its id
    task: str
    metric: str = ""
    unit: str = ""  # percent, fraction, raw
    released: float | None = None
    corrected: float | None = None
    difference: float | None = None  # corrected minus released
    low: float | None = None  # 95 % paired bootstrap bounds of the difference
    high: float | None = None
    n: int | None = None
    status: str = ""  # "skipped" or "failed": then the note is the reason
    note: str = ""


def measure(adapter: ModelAdapter, **options: Any) -> tuple[list[Effect], list[Record]]:
    """Run the tasks that mended errors touch under both protocols; also returns the records under `corrected`.

    `options` are those of `hierbench.run`, without models, tasks and protocol. Embeddings of images are computed once.
    A task whose data is absent has a note in place of figures. Raises as `hierbench.run`.
    """
    from hierbench.engine import runner  # takes seconds to import

    concerned = [erratum for erratum in errata() if erratum.mended and _has(adapter, erratum)]
    tasks = list(dict.fromkeys(task for erratum in concerned for task in erratum.tasks))
    released, corrected = (
        runner.run(adapter, tasks, protocol=protocol, **options) for protocol in ("released", "corrected")
    )
    spared = [
        Effect(erratum.id, task, note="the model's family does not make this mistake")
        for erratum in errata()
        if erratum not in concerned
        for task in erratum.tasks
    ]
    return [*spared, *effects(concerned, released, corrected)], list(corrected)


def effects(concerned: Iterable[Erratum], released: Results, corrected: Results) -> list[Effect]:
    """The effects of the errata on the tasks of two runs of one model that differ in the protocol alone.

    Where several errata move a task, its difference is that of all of them together, and notes say so.
    """
    concerned = list(concerned)
    after = {record.task: record for record in corrected}
    return [
        effect
        for erratum in concerned
        for record in released
        if record.task in erratum.tasks
        for effect in _effects(erratum, record, after[record.task], released, corrected)
        for effect in (
            _together(effect, [e.id for e in concerned if e != erratum and record.task in e.tasks]),
        )
    ]


def _together(effect: Effect, others: list[str]) -> Effect:
    if not others or not effect.metric:
        return effect
    told = f"together with {', '.join(others)}"
    return replace(effect, note=f"{effect.note}; {told}" if effect.note else told)


def _has(adapter: ModelAdapter, erratum: Erratum) -> bool:
    """Whether a model makes the mistake: one of encoding or ranking shows in what `under` answers."""
    if not (erratum.encoding or erratum.ranking):
        return True
    if not isinstance(adapter, ProtocolAware):
        return False
    released, corrected = (adapter.under(protocol) for protocol in ("released", "corrected"))
    if erratum.ranking:
        return released.geometry.describe() != corrected.geometry.describe()
    return any(
        getattr(released.card, name) != getattr(corrected.card, name)
        for name in ("tokenizing", "preprocessing")
    )


def _effects(
    erratum: Erratum, before: Record, after: Record, released: Results, corrected: Results
) -> list[Effect]:
    for record in (before, after):
        if record.metrics is None:
            return [
                Effect(
                    erratum.id, record.task, status=record.status, note=record.error or record.skipped or ""
                )
            ]
    items = [_frames(found.items[r.model, r.task]) for found, r in ((released, before), (corrected, after))]
    drawn = compare.differences(items[1], items[0], after, before)
    units = {metric.name: metric.unit for metric in registry.task(before.task).spec.metrics}
    found, ahead = [], after.metrics or {}
    for metric, figure in (before.metrics or {}).items():
        other = ahead[metric].value
        low, high = None, None
        if not isinstance(drawn, str) and metric in drawn:
            low, high = bootstrap.interval(drawn[metric])
        found.append(
            Effect(
                erratum.id, before.task, metric, units[metric], figure.value, other, other - figure.value, low, high,
                n=before.n, note=_mean_note(metric, items[1], other),
            )
        )  # fmt: skip
    return found


def _mean_note(metric: str, items: dict, corrected: float) -> str:
    """`corrected` also averages over the classes that occur alone: that part of the difference is not the erratum's."""
    if metric != "mean_per_class":
        return ""
    label, predicted = (items["images"][name].to_numpy(copy=True) for name in ("label", "predicted"))
    classes = int(max(label.max(), predicted.max())) + 1
    share = corrected - accuracy(predicted, label, classes, "released")["mean_per_class"]
    return f"{share:+.2f} of it from averaging over the classes that occur" if abs(share) > 5e-3 else ""


def _frames(items: Items) -> dict:
    import pandas as pd

    return {
        table: pd.DataFrame({name: list(column) for name, column in columns.items()})
        for table, columns in items.items()
    }
