"""Rankings with their uncertainty: an interval for each rank, models that cannot be told apart, an overall order.

Within a column, all pairs of models are tested on the same items, with Holm's correction over the pairs. A model's rank
lies between 1 + the number of models that are surely better and the number of models less those that are surely worse;
all these intervals hold together with 95 % (Mogstad, Romano, Shaikh and Wilhelm, 2024). The overall order is Borda's:
in each column a model gets the share of the others that it beats, a tie counting half; columns of one task share one
vote.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from hierbench.errors import OutputError
from hierbench.json_files import known_json, write_json
from hierbench.leaderboard import checks, contests, remembered, tables, views
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.contests import Contest
from hierbench.leaderboard.tables import Table
from hierbench.metrics import bootstrap, significance

if TYPE_CHECKING:
    from hierbench.results import Record


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


_FIELDS = tuple(entry.name for entry in fields(Place))


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

    Models are the rows of the table of these folders (`tables.row_names`); figures that are not those of their items
    are unranked. Raises OutputError, UnknownNameError as `tables.read` and `views.chosen`.
    """
    found = tables.gathered(folders)
    records = checks.checked(found)
    table = tables.build(records, layout or tables.layout_of(folders))
    table = views.chosen(table, patterns) if patterns else table
    places: dict[str, list[tuple[Record, Path]]] = {}
    for row, record, (_, folder) in zip(tables.row_names(records), records, found, strict=True):
        places.setdefault(row, []).append((record, folder))
    return ranked(table, places, each_seed)


def ranked(
    table: Table,
    places: contests.Places,
    each_seed: bool = False,
    voting: Container[str] | None = None,
) -> Rankings:
    """The rankings of a table's columns; `places` holds the records of each row.

    Only the columns whose keys are in `voting`, by default all, count for the overall order. Remembered in the cache by
    the hash of the records. Raises OutputError for fewer than two models, and for damaged items.
    """
    entering = contests.entrants(table, each_seed)
    if len(entering) < 2:
        raise OutputError("a ranking needs two models: give further folders")
    found = known(table, places, each_seed, voting)
    if found is None:
        found = _computed(contests.Board(table, entering, places), _voting(table, voting))
        with suppress(OSError):  # a cache that cannot be written: computed again next time
            write_json(_remembered(table, places, each_seed, voting), _plain(found), durable=False)
    return found


def known(
    table: Table, places: contests.Places, each_seed: bool = False, voting: Container[str] | None = None
) -> Rankings | None:
    """The rankings as `ranked` has them, if they are remembered."""
    document = known_json(_remembered(table, places, each_seed, voting))
    return None if document is None else _from_plain(document, table)


def _remembered(
    table: Table, places: contests.Places, each_seed: bool, voting: Container[str] | None
) -> Path:
    about = json.dumps([each_seed, [column.key for column in table.columns], _voting(table, voting)])
    listed = [record for row in table.rows for record, _ in places[row.model]]
    return remembered.place("ranks", *listed, about=about, suffix=".json")


def _voting(table: Table, voting: Container[str] | None) -> list[str]:
    return [column.key for column in table.columns if voting is None or column.key in voting]


def _computed(board: contests.Board, voting: Container[str]) -> Rankings:
    ranked, votes = [], []
    for contest in board.contests():
        ranked.append(_ranking(contest))
        if contest.column.key in voting:
            votes.append(contest)
    return Rankings(tuple(ranked), *_overall(votes, [entrant.name for entrant in board.entrants]))


def _plain(found: Rankings) -> dict[str, Any]:
    """Rankings as JSON holds them."""

    def plain(ranking: Ranking) -> dict[str, Any]:
        places = [[getattr(place, name) for name in _FIELDS] for place in ranking.places]
        key = ranking.column.key if ranking.column else None
        return {"column": key, "places": places, "unranked": dict(ranking.unranked)}

    columns = [plain(ranking) for ranking in found.columns]
    told = {"voting": list(found.voting), "silent": dict(found.silent)}
    return {"columns": columns, "overall": plain(found.overall), **told}


def _from_plain(document: Mapping[str, Any], table: Table) -> Rankings | None:
    """What `_plain` made; None for a document that is not one of these, and it is made again."""
    columns = {column.key: column for column in table.columns}

    def ranking(told: Mapping[str, Any], column: Column | None) -> Ranking:
        places = [Place(**dict(zip(_FIELDS, place, strict=True))) for place in told["places"]]
        bounded = [
            replace(place, points=(place.points[0], place.points[1])) if place.points else place
            for place in places
        ]
        return Ranking(column, tuple(bounded), told["unranked"])

    try:
        found = tuple(ranking(told, columns[told["column"]]) for told in document["columns"])
        overall = ranking(document["overall"], None)
        return Rankings(found, overall, tuple(document["voting"]), document["silent"])
    except (KeyError, TypeError, ValueError):
        return None


# ------------------------------------------------------------------------------------------------- within one column


def _ranking(contest: Contest) -> Ranking:
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


def _surely_better(contest: Contest) -> np.ndarray:
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
    contests: Sequence[Contest], entrants: Sequence[str]
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


def _points(contest: Contest, values: np.ndarray) -> np.ndarray:
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
