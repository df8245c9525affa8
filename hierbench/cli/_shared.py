"""What the commands share: how apps are made, and how listings and JSON documents are printed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from hierbench.cli.telling import hushed, note

WIDTH = 120  # of text for a pipe or a file, where nobody can tell


class Interrupted(Exception):  # noqa: N818 - no error
    """Ctrl-C, with a line that says what is kept."""


class CommandGroup(TyperGroup):
    """A group of commands that does not import pydantic just to learn that nobody asked for its help."""

    def get_help_option(self, ctx):
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False  # typer converts a missing value, and loads pydantic for it (0.2 s)
        return option


class Command(TyperCommand):
    """A command whose help has headings: the `rich_help_panel` of each option."""

    def format_options(self, ctx, formatter):
        sections: dict[str, list] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                argument = param.param_type_name == "argument"
                if argument:
                    record = (record[0].partition(" <")[0], record[1])  # its Python type helps nobody
                heading = getattr(param, "rich_help_panel", None) or ("Arguments" if argument else "Options")
                sections.setdefault(heading, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def new_app(
    help_text: str, cls: type[CommandGroup] = CommandGroup, *, completion: bool = False
) -> typer.Typer:
    """A typer app in the project's style: plain help, which starts three times as fast as typer's boxes."""
    app = typer.Typer(
        help=help_text,
        cls=cls,
        rich_markup_mode=None,
        add_completion=completion,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.command = partial(app.command, cls=Command)  # type: ignore[method-assign]  # typer has no other way
    return app


def sub_app(help_text: str) -> typer.Typer:
    """As `new_app`, for a noun with verbs; without a verb it prints its help."""
    app = new_app(help_text)

    @app.callback(invoke_without_command=True)
    def alone(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())
            raise typer.Exit()

    return app


def print_json(document: Any) -> None:
    print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))


def say(text: str = "") -> None:
    """A line for the person at the terminal, silent under `--quiet`; stdout belongs to tables and documents."""
    if not hushed():
        print(text, file=sys.stderr, flush=True)
    note(text)


def complain(text: str) -> None:
    """A line on what went wrong, under `--quiet` too."""
    print(text, file=sys.stderr, flush=True)
    note(text)


def width() -> int:
    """Columns to print for: $COLUMNS, the terminal's, or `WIDTH` where stdout is none."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return max(40, shutil.get_terminal_size((WIDTH, 40)).columns)
    return WIDTH


def styled() -> bool:
    """Whether stdout understands bold and dim."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ


def print_text(text: str, label: str = "", indent: int = 2) -> None:
    """A paragraph as wide as the terminal, later lines indented; `label` stands before it, padded to the indent."""
    import textwrap

    first = label.ljust(indent) if label else ""
    print(
        textwrap.fill(
            text, width(), initial_indent=first, subsequent_indent=" " * indent, break_on_hyphens=False
        )
    )


def print_listing(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], empty: str = "nothing", gap: int = 2
) -> None:
    """Rows as an aligned table; long cells wrap. `columns` are keys of the rows, and the headings."""
    import io

    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    if not rows:
        print(empty)
        return
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        heading = column.replace("_", " ")
        table.add_column(heading[:1].upper() + heading[1:], overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    out = io.StringIO()
    Console(
        file=out,
        width=width(),
        force_terminal=styled(),
        color_system=None,
        highlight=False,
        markup=False,
        emoji=False,
    ).print(table)  # to a string first: a closed pipe is handled in one place, main()
    print("\n".join(line.rstrip() for line in out.getvalue().splitlines()))


def size(count: int | None) -> str:
    """Bytes for people: "12.3 MB"."""
    if count is None:
        return ""
    number, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{number:.0f} {units[0]}" if units[0] == "B" else f"{number:.1f} {units[0]}"


def folder_size(folder: Path) -> int:
    """Bytes of the files in a folder and below; links are not followed."""
    return sum(
        os.lstat(os.path.join(parent, name)).st_size for parent, _, names in os.walk(folder) for name in names
    )


def register(
    adapters: Iterable[Path] | None = None,
    manifests: Iterable[Path] | None = None,
    task_files: Iterable[Path] | None = None,
) -> None:
    """Make a user's own adapter, manifest and task files known to this process."""
    from hierbench import registry

    registry.register(adapters or (), manifests or (), task_files or ())


def data_paths(pairs: Iterable[str] | None) -> dict[str, Path]:
    """NAME=PATH options as a mapping; UsageError for another form, a missing path, a name given twice.

    Raises UnknownNameError, with the nearest names, for a dataset that nobody registered.
    """
    from hierbench.data.manifests import load_manifest
    from hierbench.errors import UsageError

    paths: dict[str, Path] = {}
    for pair in pairs or ():
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise UsageError(f"--data {pair}: write NAME=PATH, for example --data coco=/data/coco")
        load_manifest(name)
        if name in paths:
            raise UsageError(f"--data {name} is given twice: {paths[name]} and {path}")
        paths[name] = Path(path).expanduser()
        if not paths[name].exists():
            raise UsageError(f"--data {pair}: there is no {paths[name]}")
    return paths


def locations(pairs: Iterable[str] | None = None, data_dir: Path | None = None):
    """Where to look for datasets, from --data and --data-dir."""
    from hierbench.data.locate import Locations

    return Locations(data_paths(pairs), existing_folder("--data-dir", data_dir))


def existing_folder(option: str, path: Path | None) -> Path | None:
    """The folder of an option; UsageError where there is none."""
    from hierbench.errors import UsageError

    if path is not None and not path.expanduser().is_dir():
        raise UsageError(f"{option} {path}: there is no such folder")
    return path and path.expanduser()


def run_folder(out: Path | None, name: str = "{}") -> Path:
    """--out, or a new folder in runs/ that no other run has, called `name` with the time in place of {}.

    Under torchrun the first process makes it. Raises OutputError where it cannot be made.
    """
    from hierbench.errors import OutputError
    from hierbench.files import new_folder

    if out is not None:
        return out.expanduser()
    folder = Path("runs") / name.format(time.strftime("%Y-%m-%d-%H%M%S"))
    if os.environ.get("RANK", "0") != "0":
        return folder
    try:
        return new_folder(folder)
    except OSError as error:
        raise OutputError(f"cannot make {folder} ({error.strerror or error}): give --out DIR") from error


@contextmanager
def output_folder(out: Path | None, name: str = "{}") -> Iterator[Path]:
    """`run_folder` for the length of a block; folders that are new and empty go again when it ends early."""
    base = Path("runs") if out is None else out.expanduser()
    fresh = [folder for folder in (base, *base.parents) if not folder.exists()]
    folder = run_folder(out, name)
    try:
        yield folder
    except BaseException:
        for made in [*([folder] if out is None else []), *fresh]:
            with suppress(OSError):  # it is not empty, or not there
                made.rmdir()
        raise


def missing_data(records: Iterable[Any]) -> list[dict[str, Any]]:
    """Datasets that records were skipped for as they are not here: {"dataset", "tasks", "command" that gets it}.

    PATH in a command is a copy that a person has to fetch: there is nothing to download (`hierbench datasets` says
    what to fetch).
    """
    from hierbench.data.manifests import load_manifest

    def command(name: str) -> str:
        return f"hierbench data prepare {name}" + (" --from PATH" if load_manifest(name).by_hand else "")

    tasks: dict[str, dict[str, None]] = {}
    for record in records:
        if record.lacks_data:
            tasks.setdefault(record.dataset, {})[record.task] = None
    return [
        {"dataset": name, "tasks": list(waiting), "command": command(name)} for name, waiting in tasks.items()
    ]


def say_missing(records: Iterable[Any]) -> None:
    """List what was not measured for want of data, each dataset with the command that gets it."""
    missing = missing_data(records)
    if not missing:
        return
    say(
        f"\nNot measured, as {len(missing)} dataset{'s are' if len(missing) > 1 else ' is'} not on this machine:"
    )
    wide = max(len(entry["command"]) for entry in missing)
    for entry in missing:
        say(f"  {entry['command']:{wide}}  for {', '.join(entry['tasks'])}")
    say("  or say where one lies: --data NAME=PATH, --data-dir DIR")


# -------------------------------------------------------------------------------------------------------- tables


def print_table(
    table,
    form: str = "terminal",
    published: bool = False,
    baseline: str | None = None,
    columns: Sequence[str] = (),
) -> None:
    """Print a leaderboard table on stdout, with its papers' own figures where asked for.

    `columns` are patterns of those to print; a `baseline` is a row of the table or of a published one. Raises
    UsageError, UnknownNameError.
    """
    from hierbench.errors import UsageError
    from hierbench.leaderboard import papers, render, views

    if published and not table.published:
        raise UsageError(f"--published: no paper prints figures for the layout of {table.title!r}")
    shown = [table, *(papers.published(name) for name in table.published if published)]
    if columns:
        table = views.chosen(table, columns)
        shown = [table, *(views.cut(paper, columns) for paper in shown[1:])]
    if baseline is not None:
        shown = views.over_baseline(shown, baseline)
    print(render.text(form, [one for one in shown if one.columns or one.measured], width(), styled()), end="")


def save_tables(table, folder: Path, json: bool = False) -> list[Path]:
    """Write table.md and table.csv (and table.json) into a folder; OutputError where that fails."""
    from hierbench.errors import OutputError
    from hierbench.files import replacing
    from hierbench.leaderboard import render

    texts = {"table.md": render.markdown(table), "table.csv": render.csv(table)}
    if json:
        texts["table.json"] = render.json(table)
    try:
        for name, text in texts.items():
            with replacing(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"cannot write to {folder}: {error.strerror or error}: choose another folder"
        ) from error
    return [folder / name for name in texts]
