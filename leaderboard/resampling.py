"""Figures on resamples of a record's items, and of two models' items exchanged: what certainty rests on.

A task says how its figures follow from the per-item outcomes that runs keep (`Task.statistics`); nothing here knows any
metric. Every model sees the same resamples, so what makes an item hard for all cancels out of differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from hierbench import registry, results
from hierbench.errors import HierbenchError, UnknownNameError, one_line
from hierbench.metrics import bootstrap, significance
from hierbench.results.record import ROUNDING

if TYPE_CHECKING:
    import pandas as pd

    from hierbench.results import Record

IDENTITY = {"image_id", "sample_id", "caption", "captions", "general", "specific", "relation", "label"}
"""Columns that say which item a row is about; the others are what a model made of it."""

NO_ITEMS = "a run kept no per-item outcomes"

Items = Mapping[str, "pd.DataFrame"]


@dataclass(frozen=True)
class Measured:
    """A record with its per-item outcomes and what they say."""

    record: Record
    items: Items
    statistics: bootstrap.Statistics

    @cached_property
    def figures(self) -> dict[str, float]:
        """Every metric as the items give it."""
        return bootstrap.value(self.statistics.statistic, len(self.statistics.units))

    def disagreement(self, metric: str) -> str:
        """Why a recorded figure is not that of its items, for one that somebody edited; empty where it is."""
        return disagreement(self.record, metric, self.figures)


def disagreement(record: Record, metric: str, figures: Mapping[str, float]) -> str:
    """Why a record's figure is not that of its items, which give `figures`; empty where it is."""
    recorded = (record.metrics or {})[metric].value
    own = figures.get(metric)
    if (
        own is None
        or (np.isnan(own) and np.isnan(recorded))
        or abs(own - recorded) <= 10 * ROUNDING * max(1.0, abs(own))
    ):
        return ""
    return f"the recorded {recorded:.6g} of {record.model} is not the {own:.6g} of its items: run it again"


Found = Mapping[str, Mapping[str, "tuple[Path, Record]"]]
"""Model -> task -> the folder and the record."""


class Readings:
    """Items of records, and their figures on resamples, each read and computed once."""

    def __init__(self, found: Found):
        self.found = found
        self.of = cache(self._of)
        self.drawn = cache(self._drawn)

    def _of(self, model: str, task: str) -> Measured | str:
        """The record with its items, or why they say nothing."""
        return read(*self.found[model][task])

    def _drawn(self, model: str, task: str, seed: str = bootstrap.SEED) -> dict[str, np.ndarray]:
        """Each metric on every resample (R,); none where items say nothing."""
        measured = self.of(model, task)
        return {} if isinstance(measured, str) else measured.statistics.drawn(seed)


def read(folder: str | Path, record: Record) -> Measured | str:
    """A record with its items, or why they say nothing. Raises OutputError for damaged files."""
    items = results.read_items(folder, record)
    return measured(record, items) if items else NO_ITEMS


def measured(record: Record, items: Items) -> Measured | str:
    """As `read`, of items at hand."""
    found = _scored(record, items)
    if isinstance(found, Measured) and (why := record.miscounted(found.statistics.n)):
        return f"the record of {record.model} does not fit its items ({why}): run it again"
    return found


def _scored(record: Record, items: Items) -> Measured | str:
    try:
        task = registry.under(record.task, record.protocol)
        if record.task_version != task.spec.version:
            return f"measured with version {record.task_version} of the task: run it again"
        return Measured(record, items, task.statistics(items))
    except UnknownNameError:
        return "the task is not known here: add its file with --task-file"
    except (HierbenchError, KeyError) as error:
        return one_line(error)


def differing(first: Measured, second: Measured) -> str:
    """Why two records cannot be paired; empty if they can."""
    if first.items.keys() != second.items.keys():
        return "the runs kept different per-item outcomes"
    for table in first.items:
        a, b = first.items[table], second.items[table]
        shared = [name for name in a.columns if name in IDENTITY and name in b.columns]
        if len(a) != len(b) or not all(
            np.array_equal(a[name].to_numpy(), b[name].to_numpy()) for name in shared
        ):
            return "measured on different items"
    return "" if first.statistics.units == second.statistics.units else "measured on different items"


def exchanged(first: Measured, second: Measured, permutations: int) -> dict[str, np.ndarray]:
    """Differences, first minus second, after exchanging the two models' outcomes of random items: metric -> (P,).

    If the models did equally well on every kind of item, it would not matter whose outcome is whose. Both models' items
    go into one set of tables with two units for each item; a model's figure after an exchange counts one of the two.
    Metrics that depend on the order of scores alone (AUC, AP) exchange ranks within a model rather than scores, whose
    scale is each model's own (Venkatraman and Begg, 1996). Metrics for which that fails are left out.
    """
    n = len(first.statistics.units)
    found: dict[str, np.ndarray] = {}
    own = [bootstrap.value(one.statistics.statistic, n) for one in (first, second)]
    for tables in ([_ranked(one.items) for one in (first, second)], [first.items, second.items]):
        try:
            joint = _scored(first.record, _joined(*tables))
        except (TypeError, ValueError):
            continue
        if isinstance(joint, str) or len(joint.statistics.units) != 2 * n:
            continue
        statistic = joint.statistics.statistic
        sides = np.kron(np.eye(2), np.ones((1, n)))
        whole = {name: values for name, values in statistic(sides).items() if name not in found}
        good = {
            name
            for name, values in whole.items()
            if np.allclose(values, [side.get(name, np.nan) for side in own], rtol=1e-9, atol=1e-12)
        }
        if not good:
            continue
        drawn = bootstrap.collected(
            {name: values for name, values in _after(statistic, mask).items() if name in good}
            for mask in significance.exchanges(n, permutations)
        )
        found |= drawn
        if found.keys() >= own[0].keys():
            break
    return found


def _after(statistic: bootstrap.Statistic, mask: np.ndarray) -> dict[str, np.ndarray]:
    """Differences after exchanging the items of each row of a mask (rows, n)."""
    own, other = mask.astype(np.float64), (~mask).astype(np.float64)
    a, b = statistic(np.hstack([own, other])), statistic(np.hstack([other, own]))
    return {name: a[name] - b[name] for name in a}


def _joined(first: Items, second: Items) -> dict[str, pd.DataFrame]:
    """Both models' tables, one below the other; the second's items are items of their own."""
    import pandas as pd

    ids = {
        name
        for table in second.values()
        for column in ("image_id", "sample_id")
        if column in table
        for name in table[column]
    } - {""}

    def twin(value):
        return f"{value}\0" if isinstance(value, str) and value in ids else value

    joined = {}
    for name, table in second.items():
        texts = [str(column) for column in table if pd.api.types.is_string_dtype(table[column])]
        renamed = table.assign(**{column: table[column].map(twin) for column in texts})
        joined[name] = pd.concat([first[name], renamed], ignore_index=True)
    return joined


def _ranked(items: Items) -> dict[str, pd.DataFrame]:
    """The tables with midranks in place of real numbers, over all tables that have a column of the name."""
    reals = dict.fromkeys(
        column for table in items.values() for column in table.columns if _real(table[column])
    )
    ranked = {name: table.copy() for name, table in items.items()}
    for column in reals:
        own = [name for name, table in items.items() if column in table and _real(table[column])]
        stacked = [np.stack(list(items[name][column])) for name in own]
        values = np.concatenate([part.reshape(len(part), -1) for part in stacked])
        ranks = rankdata(values, axis=0) / len(values)
        for name, part in zip(
            own, np.split(ranks, np.cumsum([len(part) for part in stacked])[:-1]), strict=True
        ):
            ranked[name][column] = list(part) if stacked[0].ndim > 1 else part[:, 0]
    return ranked


def _real(values) -> bool:
    if len(values) == 0:
        return False
    first = values.iloc[0]
    return bool(np.issubdtype(np.asarray(first).dtype, np.floating))
