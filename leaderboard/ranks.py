"""Rankings with their uncertainty: an interval for each rank, models that cannot be told apart, an overall order.

Within a column, all pairs of models are tested on the same items, with Holm's correction over the pairs. A model's rank
lies between 1 + the number of models that are surely better and the number of models less those that are surely worse;
all these intervals hold together with 95 % (Mogstad, Romano, Shaikh and Wilhelm, 2024). The overall order is Borda's:
in each column a model gets the share of the others that it beats, a tie counting half; columns of one task share one
vote.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import stats

from hierbench import results
from hierbench.errors import OutputError
from hierbench.leaderboard import compare, resampling, tables, views
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.resampling import Measured
from hierbench.leaderboard.tables import Cell, Row, Table
from hierbench.metrics import bootstrap, seeds, significance


@dataclass(frozen=True)
class Place:
    """One model in a column or overall."""

    model: str
    value: float  # the figure, of several seeds their mean; overall: points, 0 to 1
    rank: int  # equal figures share the best rank
    low: int  # 95 % bounds of the rank
    high: int
    groups: str = ""  # letters: models that share one cannot be told apart
    points: tuple[float, float] | None = None  # overall: 95 % bounds of the points
    sd: float | None = None  # over seeds


@dataclass(frozen=True)
class Ranking:
    """A column's or the overall order, best first, and who is not in it with the reason."""

    column: Column | None  # None: overall
    places: tuple[Place, ...]
    unranked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rankings:
    """All columns of a table, and the order over those that every ranked model has."""

    columns: tuple[Ranking, ...]
    overall: Ranking
    voting: tuple[str, ...]  # keys of the columns that the overall order is over
    silent: Mapping[str, str]  # key -> why a column has no vote


def rank(
    folders: Sequence[str | Path],
    layout: str | None = None,
    patterns: Sequence[str] = (),
    each_seed: bool = False,
) -> Rankings:
    """Rankings of all models in some output folders; seeds of a recipe together, unless `each_seed`.

    Raises OutputError, UnknownNameError as `tables.read` and `views.chosen`.
    """
    found = compare.found_in(folders)
    records = [record for tasks in found.values() for _, record in tasks.values()]
    asked = results.read_run(folders[0]).get("layout")
    table = tables.build(records, layout or asked or tables.DEFAULT_LAYOUT)
    table = views.chosen(table, patterns) if patterns else table
    entrants = _entrants(table, found, each_seed)
    if len(entrants) < 2:
        raise OutputError("a ranking needs two models: give further folders")
    return _Board(table, entrants, found).rankings()


@dataclass(frozen=True)
class _Entrant:
    """A model or a recipe of several seeds: its rows in the table."""

    name: str
    rows: tuple[Row, ...]


def _entrants(table: Table, found: resampling.Found, each_seed: bool) -> list[_Entrant]:
    rows = {row.model: row for row in table.rows}
    recipes = {} if each_seed else compare.recipes(found)
    groups = {name: models for name, models in recipes.items() if len(models) > 1}
    taken = {model for models in groups.values() for model in models}
    single = [_Entrant(name, (row,)) for name, row in rows.items() if name not in taken]
    return [*single, *(_Entrant(name, tuple(rows[m] for m in models)) for name, models in groups.items())]


@dataclass(frozen=True)
class _Contest:
    """The sound figures of a column: values (M,), their resamples (M, R), variances over seeds (M,), seeds (M,)."""

    column: Column
    names: tuple[str, ...]
    values: np.ndarray
    drawn: np.ndarray
    seed_variance: np.ndarray  # of the mean over seeds
    seeds: np.ndarray
    sd: tuple[float | None, ...]
    unranked: Mapping[str, str]
    outcasts: Mapping[
        str, str
    ]  # those of `unranked` to whom the task does not apply, or whose figure is degenerate


class _Board:
    def __init__(self, table: Table, entrants: Sequence[_Entrant], found: resampling.Found):
        self.table, self.entrants, self.found = table, entrants, found
        self.readings = resampling.Readings(found)

    def _drawn(self, model: str, task: str) -> dict[str, np.ndarray]:
        seed = f"{bootstrap.SEED}:{self.found[model][task][1].dataset}"  # other data, other draws
        return self.readings.drawn(model, task, seed)

    def rankings(self) -> Rankings:
        contests, ranked = [], []
        for key, places in _variants(self.table).items():
            main = _main(self.table, places)
            contest = self._contest(key, main, [place for place in places if place != main])
            if contest is not None:
                contests.append(contest)
                ranked.append(_ranking(contest))
        return Rankings(tuple(ranked), *_overall(contests, [entrant.name for entrant in self.entrants]))

    def _contest(self, key: str, place: int, others: Sequence[int]) -> _Contest | None:
        """None for a column without a direction, or an average, whose tasks have columns of their own."""
        column = self.table.columns[place]
        if not column.better or not column.task:
            return None
        most = max((row.cells[place].n or 0 for row in self.table.rows), default=0)
        reference: list[Measured] = []
        values, drawn, variance, counts, sds, names = [], [], [], [], [], []
        unranked, outcasts = {}, {}
        for entrant in sorted(
            self.entrants, key=lambda entrant: entrant.rows[0].cells[place].estimate is None
        ):
            cells = [row.cells[place] for row in entrant.rows]
            why = self._unfit(entrant, column, place, others, most, reference)
            if why:
                unranked[entrant.name] = why
                if self._outcast(entrant, column, cells, reference):
                    outcasts[entrant.name] = why
                continue
            figures = np.array([cell.estimate.value for cell in cells if cell.estimate])
            own = np.stack([self._drawn(row.model, column.task)[column.metric] for row in entrant.rows])
            names.append(entrant.name)
            values.append(figures.mean())
            drawn.append(own.mean(0) if len(figures) == 1 else seeds.replicates(figures, own, entrant.name))
            sds.append(float(figures.std(ddof=1)) if len(figures) > 1 else None)
            variance.append(float(figures.var(ddof=1)) / len(figures) if len(figures) > 1 else 0.0)
            counts.append(len(figures))
        stacked = np.stack(drawn) if drawn else np.empty((0, 0))
        return _Contest(
            column, tuple(names), np.array(values), stacked, np.array(variance), np.array(counts),
            tuple(sds), unranked, outcasts,
        )  # fmt: skip

    def _outcast(
        self, entrant: _Entrant, column: Column, cells: Sequence[Cell], reference: Sequence[Measured]
    ) -> bool:
        """Whether the column says nothing of the entrant: not its task, degenerate, entailment defined otherwise."""
        entries = [self.found[row.model].get(column.task) for row in entrant.rows]
        records = [entry[1] for entry in entries if entry]
        defined = {record.definition for record in records if record.metrics is not None}
        other = bool(reference) and bool(defined - {reference[0].record.definition})
        inapplicable = any(record.provenance.get("inapplicable") for record in records)
        return inapplicable or other or any(cell.degenerate for cell in cells)

    def _unfit(
        self,
        entrant: _Entrant,
        column: Column,
        place: int,
        others: Sequence[int],
        most: int,
        reference: list[Measured],
    ) -> str:
        """Why an entrant has no rank in a column; empty where it has. `reference`: the first that had."""
        for row in entrant.rows:
            cell = row.cells[place]
            whose = "" if len(entrant.rows) == 1 else f" ({row.model})"
            if cell.estimate is None:
                elsewhere = [
                    self.table.columns[other].variant for other in others if row.cells[other].estimate
                ]
                notes = "; ".join(self.table.footnotes[note] for note in cell.notes)
                return (
                    f"measured otherwise: {elsewhere[0]}" if elsewhere else notes or "not measured"
                ) + whose
            if not math.isfinite(cell.estimate.value):
                return "the recorded figure is not a number" + whose
            if not cell.comparable:
                return "measured on other images or labels" + whose
            if cell.degenerate:
                return "; ".join(self.table.footnotes[note] for note in cell.notes) + whose
            if (cell.n or 0) < most:
                return f"measured on {cell.n or 0:,} of {most:,} items" + whose
            measured = self.readings.of(row.model, column.task)
            if isinstance(measured, str):
                return measured + whose
            if column.metric not in self._drawn(row.model, column.task):
                return "resampling says nothing about this metric"
            if why := measured.disagreement(column.metric):
                return why
            if reference and (why := resampling.differing(reference[0], measured)):
                return why + whose
            if not reference:
                reference.append(measured)
        return ""


def _variants(table: Table) -> dict[str, list[int]]:
    """Columns that differ in how they were measured alone, by task and metric."""
    found: dict[str, list[int]] = {}
    for place, column in enumerate(table.columns):
        found.setdefault(f"{column.task}:{column.metric}", []).append(place)
    return found


def _main(table: Table, places: Sequence[int]) -> int:
    """The variant that is ranked: whole datasets before parts of them, then that of most models, then the plainest."""

    def order(place: int) -> tuple:
        part = "limit" in table.columns[place].variant.replace("all items", "")
        return (part, -sum(row.cells[place].estimate is not None for row in table.rows))

    return min(places, key=order)


# ------------------------------------------------------------------------------------------------- within one column


def _ranking(contest: _Contest) -> Ranking:
    better = _surely_better(contest)
    signed = contest.values if contest.column.better == "higher" else -contest.values
    order = sorted(range(len(signed)), key=lambda k: (-signed[k], contest.names[k]))
    letters = letter_groups(better, order)
    places = [
        Place(
            contest.names[k], float(contest.values[k]), 1 + int((signed > signed[k]).sum()),
            1 + int(better[:, k].sum()), len(signed) - int(better[k].sum()), letters[k], sd=contest.sd[k],
        )
        for k in order
    ]  # fmt: skip
    return Ranking(contest.column, tuple(places), contest.unranked)


def _surely_better(contest: _Contest) -> np.ndarray:
    """(M, M) bool: whether a model is better than another at 5 %, all pairs of the column together.

    The standard error of a difference is that of the paired resamples; of recipes it has the variance over seeds
    within it (`seeds.replicates`), with Satterthwaite's degrees of freedom.
    """
    share = np.where(contest.seeds > 1, contest.seed_variance**2 / np.maximum(contest.seeds - 1, 1), 0.0)
    signed = contest.values if contest.column.better == "higher" else -contest.values
    return told_apart(signed, contest.drawn, share)


def told_apart(values: np.ndarray, drawn: np.ndarray, share: np.ndarray) -> np.ndarray:
    """(M, M) bool: whose value (M,), the larger the better, is surely larger than whose, by resamples (M, R).

    `share` (M,): the squared variance over seeds by its degrees of freedom, 0 where there are no seeds.
    """
    count = len(values)
    finite = drawn[:, np.isfinite(drawn).all(0)] if count > 1 else drawn
    if count < 2 or finite.shape[1] < 2:
        return np.zeros((count, count), bool)
    gap = values[:, None] - values[None]
    covariance = np.cov(finite)
    own = np.diag(covariance)
    variance = np.maximum(own[:, None] + own[None] - 2 * covariance, 0.0)
    variance[variance < 1e-12 * own.max()] = 0.0  # what rounding leaves of none
    sums = share[:, None] + share[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(sums > 0, variance**2 / sums, np.inf)
        ratio = np.where(variance > 0, np.abs(gap) / np.sqrt(variance), np.where(gap == 0, 0.0, np.inf))
    p = 2 * stats.t.sf(ratio, np.maximum(freedom, 1.0))
    first, second = np.triu_indices(count, 1)
    significant = np.zeros((count, count), bool)
    significant[first, second] = significance.holm(p[first, second]) <= significance.ALPHA
    return (significant | significant.T) & (gap > 0)


def letter_groups(better: np.ndarray, order: Sequence[int]) -> list[str]:
    """A compact letter display (Piepho, 2004): two models share a letter if and only if neither is surely better.

    `better` (M, M); `order`: models best first. A letter is a largest set of models of which no two can be told apart.
    """
    alike = ~(better | better.T)
    neighbours = [set(np.flatnonzero(alike[model]).tolist()) - {model} for model in range(len(order))]
    groups = list(_cliques(set(), set(order), set(), neighbours))
    position = {model: place for place, model in enumerate(order)}
    groups.sort(key=lambda group: sorted(position[model] for model in group))
    return [
        "".join(_letter(number) for number, group in enumerate(groups) if model in group)
        for model in range(len(order))
    ]


def _cliques(
    own: set[int], candidates: set[int], done: set[int], neighbours: Sequence[set[int]]
) -> Iterator[set[int]]:
    """Every largest set of mutual neighbours (Bron and Kerbosch, 1973, with pivots)."""
    if not candidates and not done:
        yield own
        return
    pivot = max(candidates | done, key=lambda model: len(neighbours[model] & candidates))
    for model in candidates - neighbours[pivot]:
        near = neighbours[model]
        yield from _cliques(own | {model}, candidates & near, done & near, neighbours)
        candidates = candidates - {model}
        done = done | {model}


def _letter(number: int) -> str:
    """a … z, then with a number: a1, b1, …"""
    return chr(ord("a") + number % 26) + (str(number // 26) if number >= 26 else "")


# ------------------------------------------------------------------------------------------------------------ overall


def _overall(
    contests: Sequence[_Contest], entrants: Sequence[str]
) -> tuple[Ranking, tuple[str, ...], dict[str, str]]:
    """Borda's order over the columns that concern every model, of the models that have a figure in each of them."""
    silent = {}
    voting = []
    for contest in contests:
        if contest.outcasts:
            name, why = next(iter(contest.outcasts.items()))
            silent[contest.column.key] = f"it does not concern {name}: {why}"
        elif len(contest.names) < 2:
            silent[contest.column.key] = "fewer than two models have a figure that can be ranked"
        else:
            voting.append(contest)
    unranked = {}
    for name in entrants:
        lacking = [contest for contest in voting if name in contest.unranked]
        if lacking:
            more = f", and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            unranked[name] = f"{lacking[0].column.key}: {lacking[0].unranked[name]}{more}"
    names = [name for name in entrants if name not in unranked]
    keys = tuple(contest.column.key for contest in voting)
    if len(names) < 2 or not voting:
        return Ranking(None, (), unranked), keys, silent
    votes = Counter(contest.column.task for contest in voting)
    weights = np.array([1 / votes[contest.column.task] for contest in voting])
    rows = [[contest.names.index(name) for name in names] for contest in voting]
    pairs = list(zip(voting, rows, strict=True))
    points = _average([_points(c, c.values[own][:, None]) for c, own in pairs], weights)[:, 0]
    drawn = _average([_points(c, c.drawn[own]) for c, own in pairs], weights)
    return _borda(names, points, drawn, unranked), keys, silent


def _average(parts: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    return np.tensordot(weights / weights.sum(), np.stack(parts), axes=1)


def _points(contest: _Contest, values: np.ndarray) -> np.ndarray:
    """(M, R) figures -> (M, R) the share of the other models that each beats; a tie counts half."""
    signed = values if contest.column.better == "higher" else -values
    ranks = stats.rankdata(signed, axis=0)  # 1 for the worst; equal ones share the mean
    return (ranks - 1) / (len(values) - 1)


def _borda(
    names: Sequence[str], points: np.ndarray, drawn: np.ndarray, unranked: Mapping[str, str]
) -> Ranking:
    """Points with percentile intervals; intervals of the rank from differences of points on the same resamples."""
    better = told_apart(points, drawn, np.zeros(len(names)))
    low, high = np.quantile(drawn, [(1 - bootstrap.LEVEL) / 2, (1 + bootstrap.LEVEL) / 2], axis=1)
    order = sorted(range(len(names)), key=lambda k: (-points[k], names[k]))
    letters = letter_groups(better, order)
    places = [
        Place(
            names[k], float(points[k]), 1 + int((points > points[k] + 1e-12).sum()), 1 + int(better[:, k].sum()),
            len(names) - int(better[k].sum()), letters[k], (float(low[k]), float(high[k])),
        )
        for k in order
    ]  # fmt: skip
    return Ranking(None, tuple(places), unranked)
