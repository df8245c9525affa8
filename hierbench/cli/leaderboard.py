"""`hierbench leaderboard`: tables from result files."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hierbench.cli import _submissions
from hierbench.cli._shared import (
    locations,
    print_json,
    print_listing,
    print_table,
    print_text,
    save_tables,
    say,
    sub_app,
)
from hierbench.cli.options import HOW, Data, DataDir, Json, Layout, Out, Published, form_option, option
from hierbench.errors import OutputError

app = sub_app("Tables from the files that runs have left.")


class Format(StrEnum):
    """How a table is printed."""

    terminal = "terminal"
    markdown = "markdown"
    latex = "latex"
    html = "html"
    csv = "csv"
    json = "json"


Format_ = Annotated[Format, form_option("terminal, markdown, latex, html, csv, json")]

Baseline = Annotated[
    str | None,
    option(HOW, "Add every other row's gain over this one.", "--baseline", metavar="MODEL"),
]
Columns = Annotated[
    list[str] | None,
    option(
        HOW,
        "Only these: TASK:METRIC, a task or a group; * is a wildcard; repeatable.",
        "--column",
        metavar="NAME",
    ),
]
Folders = Annotated[
    list[Path] | None,
    typer.Option("--in", metavar="DIR", help="Runs to look in; by default the newest in runs/."),
]
EachSeed = Annotated[
    bool,
    option(HOW, "A row for each NAME@SEED (default: one for all, mean ± standard deviation).", "--each-seed"),
]


@app.command()
def show(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A run's folder; by default the newest in runs/.")
    ] = None,
    layout: Layout = None,
    format: Format_ = Format.terminal,
    published: Published = False,
    baseline: Baseline = None,
    columns: Columns = None,
    each_seed: EachSeed = False,
    as_json: Json = False,
) -> None:
    """Print a run's table again."""
    table = _read([folder or newest_run()], layout, each_seed)
    print_table(table, "json" if as_json else format.value, published, baseline, columns or ())


@app.command()
def build(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders of runs.")],
    out: Out,
    layout: Layout = None,
    published: Published = False,
    baseline: Baseline = None,
    columns: Columns = None,
    each_seed: EachSeed = False,
    as_json: Json = False,
) -> None:
    """Merge several runs into one table.

    It is printed, and written whole to FOLDER as table.md, table.csv and table.json.
    """
    table = _read(folders, layout, each_seed)
    files = save_tables(table, out, json=True)
    print_table(table, "json" if as_json else "terminal", published, baseline, columns or ())
    say(f"written: {', '.join(map(str, files))}")


def _read(folders: list[Path], layout: str | None, each_seed: bool):
    from hierbench.leaderboard import checks, views

    table = checks.read(folders, layout)
    return table if each_seed else views.together(table)


@app.command()
def page(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders of runs.")],
    out: Out,
    layout: Layout = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Read all per-item outcomes. Of more than 300 records they are left out; read once, they are "
            "remembered.",
        ),
    ] = False,
    models: Annotated[
        list[str] | None,
        typer.Option("--items-of", metavar="NAME", help="Read those of this model; repeatable."),
    ] = None,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures",
            help="Thumbnails of best and worst items, from --data: most datasets' images may not be passed on.",
        ),
    ] = False,
    data: Data = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Make a static site of results, which opens from disk and on any web host.

    A table to sort and filter, ranks with ties, charts, a page a model, a page a task. It needs no network.
    """
    from hierbench.cli._shared import size
    from hierbench.leaderboard.page import build

    where = locations(data, data_dir) if pictures else None
    built = build(folders, out, layout, full, models or (), pictures=where)
    if as_json:
        print_json({**asdict(built), "folder": str(built.folder)})
        return
    say(
        f"{built.models} models, {built.tasks} tasks: {built.files} files, {size(built.bytes)}. "
        f"Open {built.folder / 'index.html'}"
    )
    for line in [
        built.left_out,
        *(f"No pictures of {name}: {why}" for name, why in built.without_pictures.items()),
    ]:
        if line:
            say(line)


@app.command()
def card(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's name in the results.")],
    folders: Folders = None,
    layout: Layout = None,
    as_json: Json = False,
) -> None:
    """Print a model's results as a card: Markdown with Hugging Face's model-index; --json: that block alone."""
    from hierbench.leaderboard import cards

    if as_json:
        print_json(cards.index(model, folders or [newest_run()]))
        return
    print(cards.card(model, folders or [newest_run()], layout), end="")


@app.command()
def rank(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Folders of runs; by default the newest in runs/."),
    ] = None,
    layout: Layout = None,
    columns: Columns = None,
    each_seed: EachSeed = False,
    as_json: Json = False,
) -> None:
    """Rank models: an interval for each rank, and who cannot be told apart.

    The overall order (Borda's) is over the columns that concern every model, of the models that have them all.
    """
    from hierbench.leaderboard import ranks

    found = ranks.rank(folders or [newest_run()], layout, columns or (), each_seed)
    if as_json:
        told = {"voting": found.voting, "silent": found.silent, "overall": _ranking(found.overall)}
        print_json({**told, "columns": [_ranking(ranking) for ranking in found.columns]})
        return
    for ranking in [*found.columns, found.overall]:
        _print_ranking(ranking, found)
    print_text(
        "Rank: with the interval of all ranks of its list at 95 %. Models that share a letter cannot be told apart at "
        "the 5 % level (paired resamples of items, and seeds where there are several; Holm's correction over pairs).",
        indent=0,
    )


def _ranking(ranking) -> dict:
    from dataclasses import asdict

    places = [asdict(place) for place in ranking.places]
    column = ranking.column.key if ranking.column else None
    return {"column": column, "places": places, "unranked": dict(ranking.unranked)}


def _print_ranking(ranking, found) -> None:
    from hierbench.leaderboard.cells import heading
    from hierbench.leaderboard.tables import printed

    column = ranking.column
    title = "Overall" if column is None else f"{column.group}: {heading(column)}"
    rows = []
    for place in ranking.places:
        figure = printed(column, place.value) if column else f"{100 * place.value:.0f}"
        if place.sd is not None:
            figure += f" ±{printed(column, place.sd)}"
        if place.points:
            figure += f" [{100 * place.points[0]:.0f}, {100 * place.points[1]:.0f}]"
        interval = f"{place.low}–{place.high}" if place.low < place.high else f"{place.low}"
        own = {"model": place.model, "figure" if column else "points": figure}
        rows.append({**own, "rank": place.rank, "95 %": interval, "group": place.groups})
    print(title)
    print_listing(rows, list(rows[0]) if rows else [], empty="nobody is ranked")
    for model, why in ranking.unranked.items():
        print_text(f"Unranked: {model}: {why}")
    if column is None:
        print_text(f"Over {len(found.voting)} columns; points: the share of the other models that it beats.")
        for key, why in found.silent.items():
            print_text(f"Without {key}: {why}")
    print()


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A model's name in the results, or a recipe's.")],
    second: Annotated[
        str, typer.Argument(metavar="B", help="Another one, or with --against-published a row of the paper.")
    ],
    folders: Folders = None,
    layout: Layout = None,
    columns: Columns = None,
    every_metric: Annotated[
        bool, option(HOW, "Every metric of the tasks, not the layout's columns alone.", "--every-metric")
    ] = False,
    against_published: Annotated[
        bool, typer.Option("--against-published", help="B is a row of the layout's published figures.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare two models item by item, or two recipes by their seeds (NAME for all NAME@SEED).

    Choose the metrics before looking at them: the p of each is corrected for how many there are.
    """
    from hierbench.leaderboard import compare

    runs = folders or [newest_run()]
    if against_published:
        _print_against(first, second, compare.against_published(first, second, runs, layout), as_json)
        return
    found = compare.compare(first, second, runs, layout, columns or (), every_metric)
    if as_json:
        told = {"first": first, "second": second, "seeds": found.seeds, "left_out": found.left_out}
        entries = [_difference(entry) for entry in found.differences]
        print_json({**told, "differences": entries, "claim": found.claim})
        return
    heads = ["column", "A", "B", "A - B", "95 % interval", "p", "p (Holm)", "n", "note"]
    print_listing(
        [_row(entry) for entry in found.differences],
        heads if any(entry.note for entry in found.differences) else heads[:-1],
        empty=f"no task has figures for both {first} and {second}",
    )
    print(f"\nA: {first}{_seeds(found.seeds[0])}. B: {second}{_seeds(found.seeds[1])}.")
    for why in found.left_out:
        print_text(f"Not compared: {why}")
    if found.differences:
        print()
        print_text(found.claim, indent=0)


def _print_against(model: str, row: str, differences, as_json: bool) -> None:
    if as_json:
        print_json(
            {"first": model, "second": row, "differences": [_difference(entry) for entry in differences]}
        )
        return
    print_listing(
        [_row(entry) for entry in differences],
        ["column", "A", "B", "A - B", "n", "note"],
        empty=f"no task has figures for both {model} and {row}",
    )
    print(f"\nA: {model}. B: {row} (PUBLISHED, not measured by hierbench).")


def _seeds(count: int) -> str:
    return f" ({count} seeds, mean ± standard deviation)" if count > 1 else ""


def _difference(entry) -> dict:
    return {
        "column": entry.column.key, "first": entry.first, "second": entry.second, "difference": entry.difference,
        "low": entry.low, "high": entry.high, "p": entry.p, "p_holm": entry.adjusted, "n": entry.n,
        "spread": entry.spread, "better": entry.better or None, "note": entry.note or None,
    }  # fmt: skip


def _row(entry) -> dict:
    from hierbench.leaderboard.cells import heading
    from hierbench.leaderboard.tables import printed

    column = entry.column
    difference = printed(column, entry.difference)
    low, high = (None if bound is None else printed(column, bound) for bound in (entry.low, entry.high))
    a, b = (
        printed(column, value) + ("" if sd is None else f" ±{printed(column, sd)}")
        for value, sd in zip((entry.first, entry.second), entry.spread, strict=True)
    )
    return {
        "column": f"{column.group}: {heading(column)}",
        "A": a,
        "B": b,
        "A - B": f"+{difference}" if float(difference) > 0 else difference,
        "95 % interval": "" if low is None else f"[{low}, {high}]",
        "p": _p(entry.p),
        "p (Holm)": _p(entry.adjusted),
        "n": "" if entry.n is None else f"{entry.n:,}",
        "note": entry.note,
    }


def _p(value: float | None) -> str:
    return "" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


for _verb in (_submissions.submit, _submissions.verify, _submissions.add):
    app.command()(_verb)


def newest_run() -> Path:
    """The run of the working folder that was written to last."""
    runs = [path.parent for path in Path("runs").glob("*/results")]
    if not runs:
        raise OutputError("no runs/ in this folder: give the folder that `hierbench run --out` wrote")
    return max(runs, key=lambda run: run.stat().st_mtime)
