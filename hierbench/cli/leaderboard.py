"""`hierbench leaderboard`: tables from result files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hierbench.cli._shared import (
    print_json,
    print_listing,
    print_table,
    print_text,
    save_tables,
    say,
    sub_app,
)
from hierbench.cli.options import HOW, Json, Layout, Out, Published, form_option, option
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
    from hierbench.leaderboard import tables, views

    table = tables.read(folders, layout)
    return table if each_seed else views.together(table)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A model's name in the results.")],
    second: Annotated[
        str, typer.Argument(metavar="B", help="Another one, or with --against-published a row of the paper.")
    ],
    folders: Annotated[
        list[Path] | None,
        typer.Option("--in", metavar="DIR", help="Runs to look in; by default the newest in runs/."),
    ] = None,
    layout: Layout = None,
    against_published: Annotated[
        bool, typer.Option("--against-published", help="B is a row of the layout's published figures.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare two models item by item."""
    from hierbench.leaderboard import compare

    way = compare.against_published if against_published else compare.compare
    differences = way(first, second, folders or [newest_run()], layout)
    if as_json:
        print_json(
            {"first": first, "second": second, "differences": [_difference(entry) for entry in differences]}
        )
        return
    print_listing(
        [_row(entry) for entry in differences],
        ["column", "A", "B", "A - B", *([] if against_published else ["95 % interval", "p"]), "n", "note"],
        empty=f"no task has figures for both {first} and {second}",
    )
    print(
        f"\nA: {first}. B: {second}{' (PUBLISHED, not measured by hierbench)' if against_published else ''}."
    )
    if not against_published:
        print_text("Paired bootstrap over items; p: twice the share of resamples on the rarer side of 0.")


def _difference(entry) -> dict:
    return {
        "column": entry.column.key, "first": entry.first, "second": entry.second, "difference": entry.difference,
        "low": entry.low, "high": entry.high, "p": entry.p, "n": entry.n, "note": entry.note or None,
    }  # fmt: skip


def _row(entry) -> dict:
    from hierbench.leaderboard.render import heading
    from hierbench.leaderboard.tables import printed

    column = entry.column
    difference = printed(column, entry.difference)
    low, high = (None if bound is None else printed(column, bound) for bound in (entry.low, entry.high))
    return {
        "column": f"{column.group}: {heading(column)}",
        "A": printed(column, entry.first),
        "B": printed(column, entry.second),
        "A - B": f"+{difference}" if float(difference) > 0 else difference,
        "95 % interval": "" if low is None else f"[{low}, {high}]",
        "p": "" if entry.p is None else f"{entry.p:.3f}" if entry.p else "<0.002",  # of 1,000 resamples
        "n": "" if entry.n is None else f"{entry.n:,}",
        "note": entry.note,
    }


def newest_run() -> Path:
    """The run of the working folder that was written to last."""
    runs = [path.parent for path in Path("runs").glob("*/results")]
    if not runs:
        raise OutputError("no runs/ in this folder: give the folder that `hierbench run --out` wrote")
    return max(runs, key=lambda run: run.stat().st_mtime)
