"""What a model's figures owe to its radii and to its curvature: the same embeddings read otherwise.

Each figure of a dataset's hierarchy, PEP or retrieval task is taken again with all radii set to their median (captions
to the captions', images to the images'), with radii shuffled, and with the tangent features compared as in flat space.
What is recorded are paired differences, reading minus model, on the same resamples. Nothing is encoded for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from hierbench.contracts import (
    EmbeddingRequests,
    Embeddings,
    Estimate,
    Geometry,
    MetricSpec,
    Scores,
    TaskSpec,
)
from hierbench.data.manifests import Manifest
from hierbench.errors import UsageError
from hierbench.metrics import bootstrap
from hierbench.tasks import hierarchy, pep, retrieval
from hierbench.tasks._readings import Items, Reading, applicable, items_of

MODEL = "model"  # tables of outcomes as the model is; the others begin with a reading's name

KINDS: dict[str, tuple[Mapping[str, Any], str]] = {
    "hierarchy": (hierarchy.PROTOCOLS, r".*"),
    "pep-v2": (pep.PROTOCOLS, r"(auc|ap)(_signed|_gain|_l\d_image)?|direction_auc"),
    "pep-uncleaned": (pep.PROTOCOLS, r"(auc|ap)(_signed|_gain|_l\d_image)?|direction_auc"),
    "retrieval": (retrieval.PROTOCOLS, r".*"),
}
"""Tasks that are read otherwise, each with which of its figures."""


@dataclass(frozen=True)
class Counterfactual:
    """A task's figures, and how much each changes in every reading."""

    inner: Any  # a task of KINDS
    kind: str
    protocol: str = "released"

    @classmethod
    def of(cls, manifest: Manifest) -> list[Self]:
        """The task of a dataset. Raises UsageError where its manifest names none that can be read otherwise."""
        kinds = [kind for kind in manifest.tasks if kind in KINDS]
        if len(kinds) != 1:
            raise UsageError(
                f"manifest {manifest.name}: counterfactual goes with one of {', '.join(KINDS)} in `tasks`"
            )
        make = KINDS[kinds[0]][0][kinds[0]]
        inner: Any = make(manifest)[0]
        if isinstance(inner, pep.Pep):  # the one for models with cones, and the headline's pairs alone
            inner = replace(inner, pairs=replace(inner.pairs, between=False))
        return [cls(inner, kinds[0])]

    @property
    def spec(self) -> TaskSpec:
        inner = self._inner.spec
        return TaskSpec(
            name=f"counterfactual/{inner.dataset}",
            title=f"{inner.title} without its geometry",
            version=inner.version * 100 + 1,  # its figures move when the inner task's do
            dataset=inner.dataset,
            metrics=(*self.figures, *(d for r in self.readings for d in self._differences(r))),
            headline=f"equalised_{inner.headline}",
            fit=inner.fit,
            protocol=self.protocol,
            source=f"hierbench; the figures: {inner.source}",
        )

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What the figures are compared with."""
        return tuple(applicable(self.kind))

    def inapplicable(self, geometry: Geometry) -> str | None:
        if not geometry.has_origin:
            return f"the geometry {geometry.name!r} has no origin, and so no radii to change"
        return self._inner.inapplicable(geometry)

    def items(self, dataset: Any) -> Items:
        """What has a radius to change, by level: see `items_of`."""
        return items_of(dataset)

    def requests(self, dataset: Any) -> EmbeddingRequests:
        return self._inner.requests(dataset)

    def statistics(self, items: Mapping[str, Any]) -> bootstrap.Statistics:
        found = {
            name: self._inner.statistics(_tables(items, name))
            for name in (MODEL, *(reading.name for reading in self.readings))
        }
        # A geometry without angles has no signed figures, which its flat reading would have.
        given = [bootstrap.value(part.statistic, len(part.units)).keys() for part in found.values()]
        names = [figure.name for figure in self.figures if all(figure.name in each for each in given)]

        def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
            values = {name: part.statistic(counts) for name, part in found.items()}
            figures = {name: values[MODEL][name] for name in names}
            differences = {
                f"{reading.name}_{name}": values[reading.name][name] - figures[name]
                for reading in self.readings
                for name in names
            }
            return figures | differences

        degenerate = {
            metric if name == MODEL else f"{name}_{metric}": why
            for name, part in found.items()
            for metric, why in part.degenerate.items()
            if metric in names
        }
        return bootstrap.Statistics(statistic, found[MODEL].units, degenerate=degenerate)

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: Any) -> Scores:
        inner, levelled = self._inner, items_of(dataset)
        whole = {MODEL: inner.outcomes(geometry, embeddings, dataset)}
        for reading in self.readings:
            whole[reading.name] = inner.outcomes(*reading.of(geometry, embeddings, levelled), dataset)
        items = {
            f"{name}-{table}": columns for name, found in whole.items() for table, columns in found.items()
        }
        statistics = self.statistics(items)
        metrics = statistics.estimates()
        notes = tuple(self.sentence(reading, metrics) for reading in self.readings)
        definition = geometry.entailment_definition if self.kind.startswith("pep") else ""
        return Scores(metrics, len(statistics.units), items, notes, statistics.degenerate, definition)

    def sentence(self, reading: Reading, metrics: Mapping[str, Estimate]) -> str:
        """What a reading does to the headline figure, and what its interval allows to say."""
        headline = self._inner.spec.headline
        metric = next(figure for figure in self.figures if figure.name == headline)
        return told(reading, metric, metrics[headline], metrics[f"{reading.name}_{headline}"])

    @property
    def _inner(self) -> Any:
        inner = self.inner
        return inner if inner.spec.protocol == self.protocol else replace(inner, protocol=self.protocol)

    @property
    def figures(self) -> tuple[MetricSpec, ...]:
        """The inner task's figures that every reading changes, under their own names."""
        wanted = KINDS[self.kind][1]
        return tuple(
            metric
            for metric in self.inner.spec.metrics
            if metric.higher_is_better is not None and re.fullmatch(wanted, metric.name)
        )

    def _differences(self, reading: Reading) -> tuple[MetricSpec, ...]:
        """The figures' differences: no direction is better, and they may be negative."""
        span = {"percent": 100.0, "fraction": 1.0}
        return tuple(
            replace(
                metric,
                name=f"{reading.name}_{metric.name}",
                title=f"{metric.title}, {reading.title}",
                higher_is_better=None,
                minimum=-2 * span[metric.unit] if metric.unit in span else None,
                maximum=2 * span[metric.unit] if metric.unit in span else None,
            )
            for metric in self.figures
        )


def told(reading: Reading, metric: MetricSpec, model: Estimate, difference: Estimate) -> str:
    """One reading of one figure in words that claim no more than the interval does."""
    scale, digits = (100, 1) if metric.unit == "fraction" else (1, 3 if metric.unit == "raw" else 1)

    def shown(value: float, sign: str = "") -> str:
        return f"{round(scale * value, digits) + 0.0:{sign}.{digits}f}"

    figures = f"{metric.title} {shown(model.value)} → {shown(model.value + difference.value)}"
    start = f"With {reading.told}: {figures}"
    if difference.low is None or difference.high is None:
        return f"{start}; too few items to say more."
    bounds = (
        f"({shown(difference.value, '+')}, 95 % {shown(difference.low, '+')} … {shown(difference.high, '+')})"
    )
    if difference.low == difference.high == 0:
        return f"{start}: nothing changes in this figure."
    if difference.low <= 0 <= difference.high:
        most = max(-difference.low, difference.high)
        return f"{start} {bounds}: no effect is shown, and one of more than {shown(most)} is unlikely."
    worse = (difference.value < 0) == bool(metric.higher_is_better)
    if reading.radii is not None:
        return f"{start} {bounds}: the radii as they are {'help' if worse else 'hurt'} this figure."
    return f"{start} {bounds}: the model's own space is {'better' if worse else 'worse'} for this figure."


def _tables(items: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The tables of one reading, under the names that the inner task knows."""
    return {
        table.removeprefix(f"{name}-"): columns
        for table, columns in items.items()
        if table.startswith(f"{name}-")
    }


PROTOCOLS = {"counterfactual": Counterfactual.of}
