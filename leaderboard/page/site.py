"""The site's files: made in a folder of their own, then put in place one by one; only files of ours are replaced."""

from __future__ import annotations

import contextlib
import inspect
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import hierbench
from hierbench.errata import errata
from hierbench.errors import HierbenchError, OutputError
from hierbench.files import temporary_name
from hierbench.json_files import read_json
from hierbench.leaderboard import cells, render
from hierbench.leaderboard.page import content
from hierbench.leaderboard.page.content import Board
from hierbench.leaderboard.page.panels import panels
from hierbench.leaderboard.page.pictures import Pictures
from hierbench.names import lookup
from hierbench.progress import Progress

if TYPE_CHECKING:
    from hierbench.data.locate import Locations

MARKER = ".hierbench-site.json"  # lists the files that are ours; without it a folder is not ours
ASSETS = ("site.css", "common.js", "board.js", "charts.js", "ranks.js", "detail.js", "panels.js")


@dataclass(frozen=True)
class Built:
    """What was written."""

    folder: Path
    files: int
    bytes: int
    models: int
    tasks: int
    left_out: str = ""  # one line: what was not read
    pictures: int = 0
    without_pictures: Mapping[str, str] = field(default_factory=dict)  # dataset -> why there are none of it


def build(
    folders: Sequence[str | Path],
    out: str | Path,
    layout: str | None = None,
    full: bool = False,
    models: Sequence[str] = (),
    progress: Progress | bool | None = None,
    pictures: Locations | None = None,
) -> Built:
    """Write the site of some output folders to `out`, which is new, empty or an earlier site.

    Of more than `ahead.FEW` records whose per-item outcomes were never read, these are read with `full` alone, and
    those of the `models` named. With `pictures`, where datasets lie, items have thumbnails (most datasets' images may
    not be passed on). An earlier site's files are replaced, those that are no longer
    needed deleted; whatever else lies there stays.
    Nothing is touched before all files are made. Raises OutputError: `out` holds files of others and no site, a file of
    somebody else's has the name of one of ours, the disk is full; and what reading the folders raises.
    """
    out = Path(out)
    ours = _ours(out)
    board = content.board(folders, layout, full, progress)
    for model in models:
        lookup("model in these results", model, dict.fromkeys(board.models))
    with _workshop(out) as made:
        shown = None if pictures is None else Pictures(pictures)
        for name, text in _pages(board, frozenset(models), shown):
            _write(made / name, text)
        for name, jpeg in (shown.files if shown else {}).items():
            _write(made / "pictures" / name, jpeg)
        for name in ASSETS:
            _write(made / "assets" / name, _asset(name))
        vendored = resources.files("hierbench.leaderboard.page") / "assets" / "vendor"
        for file in vendored.iterdir():
            _write(made / "assets" / "vendor" / file.name, file.read_bytes())
        files = sorted(path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file())
        size = sum((made / name).stat().st_size for name in files)
        _place(made, out, files, ours)
    pictured = (len(shown.files), shown.missing) if shown else (0, {})
    return Built(out, len(files), size, len(board.models), len(board.tasks), board.left_out, *pictured)


# ------------------------------------------------------------------------------------------------------- the pages


def _pages(board: Board, asked: frozenset[str], pictures: Pictures | None) -> Iterator[tuple[str, str]]:
    """(name, text) of every file that depends on the results."""
    shared = {"title": board.plain.title, "version": hierbench.__version__}
    yield "data.js", content.script("HIERBENCH", content.data(board))
    yield "table.csv", render.csv(board.plain)
    yield "index.html", _rendered("index.html.j2", root="", **shared, **_overview(board))
    for row, (model, page) in enumerate(board.pages.items()):
        facts = content.about(board.places[model])
        about = {**_card(board.places[model]), **facts}
        shown = panels(board.places[model], fresh=board.fresh or model in asked)
        shown = shown if pictures is None else pictures.shown(shown)
        yield f"models/{page}.js", content.script("HIERBENCH_PANELS", shown)
        yield (
            f"models/{page}.html",
            _rendered(
                "model.html.j2", root="../", **shared, model=model, row=row, about=about, page=_link(page)
            ),
        )
    for number, (task, page) in enumerate(board.tasks.items()):
        yield (
            f"tasks/{page}.html",
            _rendered("task.html.j2", root="../", **shared, task=task, number=number, **_task(board, task)),
        )


def _overview(board: Board) -> dict[str, Any]:
    """What the first page holds as text: the table as it is without scripts, links to all pages."""
    table = board.plain
    rows = [
        {
            "name": row.model,
            "page": _link(f"models/{board.pages[row.model]}.html"),
            "cells": [
                {
                    "text": cells.figure(column, cell),
                    "best": cell.best,
                    "notes": [note + 1 for note in cell.notes],
                }
                for column, cell in zip(table.columns, row.cells, strict=True)
            ],
        }
        for row in table.rows
    ]
    return {
        "heads": [f"{column.group}: {cells.heading(column)}" for column in table.columns],
        "rows": rows,
        "remarks": [*filter(None, [board.left_out]), *table.remarks],
        "footnotes": table.footnotes,
        "tasks": [
            {"name": task, "page": _link(f"tasks/{page}.html")} | _task_title(task)
            for task, page in board.tasks.items()
        ],
    }


def _card(places: Sequence[content.Place]) -> dict[str, Any]:
    """A model's card as far as its records hold it."""
    found: dict[str, Any] = {}
    for place in places:
        provenance = place.record.provenance
        card, notes = provenance.get("card"), provenance.get("model_notes")
        geometry = provenance.get("geometry")
        found |= {
            "card": dict(card) if isinstance(card, Mapping) else found.get("card", {}),
            "notes": dict(notes) if isinstance(notes, Mapping) else found.get("notes", {}),
            "described": dict(geometry) if isinstance(geometry, Mapping) else found.get("described", {}),
        }
        for name in ("checkpoint_sha256", "source", "preprocessing", "tokenizing"):
            found[name] = content.public(provenance.get(name)) or found.get(name)
    found["notes"] = {key: value for key, value in found["notes"].items() if key not in found["described"]}
    return found


def _task(board: Board, task: str) -> dict[str, Any]:
    """What a task measures, its version, its dataset and the errata that move its figures."""
    records = board.records(task)
    measured = [record for record in records if record.metrics]
    specs = next((record.specs for record in measured if record.specs), {})
    headline = next((record.headline for record in measured if record.headline), "")
    return {
        **_task_title(task),
        "versions": sorted({record.task_version for record in measured}),
        "dataset": next((record.dataset for record in records), ""),
        "ways": sorted({record.way for record in measured}),
        "facts": _dataset(next((record.dataset for record in records), "")),
        "errata": [erratum for erratum in errata() if task in erratum.tasks],
        "metrics": [
            {"name": name, **spec, "headline": name == headline, "limits": _limits(spec)}
            for name, spec in specs.items()
        ],
        "notes": sorted({note for record in measured for note in record.notes}),
        "gaps": [
            (record.model, record.error or record.skipped) for record in records if record.metrics is None
        ],
    }


def _limits(spec: Mapping[str, Any]) -> str:
    low, high = (None if spec[name] is None else f"{spec[name]:g}" for name in ("minimum", "maximum"))
    return "any" if low is None and high is None else f"{low or '…'} to {high or '…'}"


def _task_title(task: str) -> dict[str, Any]:
    """Title, source and description of a registered task; of another its name alone."""
    from hierbench import registry

    try:
        found = registry.task(task)
    except HierbenchError:  # measured with a task file that is not here
        return {"title_of_task": task, "source": "", "says": []}
    text = inspect.getdoc(type(found)) or ""
    paragraphs = [" ".join(part.split()).replace("`", "") for part in text.split("\n\n")]
    return {"title_of_task": found.spec.title or task, "source": found.spec.source, "says": paragraphs}


def _dataset(name: str) -> dict[str, Any]:
    """What a manifest says of a dataset; empty for one that is not registered."""
    from hierbench.data.manifests import load_manifest

    try:
        manifest = load_manifest(name)
    except HierbenchError:
        return {}
    counts = {key: value for key, value in manifest.counts.model_dump().items() if value}
    return {
        "title": manifest.title,
        "split": manifest.split,
        "licence": manifest.licence,
        "citation": manifest.citation,
        "homepage": manifest.homepage,
        "counts": ", ".join(f"{value:,} {key}" for key, value in counts.items()),
    }


# --------------------------------------------------------------------------------------------------------- files


def _rendered(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader

    folder = str(resources.files("hierbench.leaderboard.page") / "templates")
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:.6g}" if isinstance(value, float) else value
    environment.filters["web"] = lambda text: text if str(text).startswith(("https://", "http://")) else ""
    return environment


def _link(path: str) -> str:
    return quote(path, safe="/")


def _asset(name: str) -> bytes:
    return (resources.files("hierbench.leaderboard.page") / "assets" / name).read_bytes()


def _ours(out: Path) -> frozenset[str] | None:
    """The files of the site in a folder; None where there is none and nothing else either. Raises OutputError."""
    marker = out / MARKER
    try:
        if not out.exists() and not out.is_symlink():
            return None
        if not out.is_dir():
            raise OutputError(f"{out} is a file: choose another folder with -o")
        if not marker.exists():
            if any(out.iterdir()):
                raise OutputError(
                    f"{out} holds files and is no site of hierbench's: choose an empty or a new folder with -o"
                )
            return None
        listed = read_json(marker, "list of the site's files", OutputError, "choose another folder with -o")[
            "files"
        ]
        if not all(isinstance(name, str) and _inside(name) for name in listed):
            raise ValueError("a name in it leaves the folder")
        return frozenset(listed)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(f"{marker} cannot be used ({error}): choose another folder with -o") from error


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts


@contextlib.contextmanager
def _workshop(out: Path) -> Iterator[Path]:
    """A hidden folder beside `out`, on the same disk, that is gone afterwards. Raises OutputError."""
    made = out.absolute().parent / temporary_name(out.name)
    try:
        made.mkdir(parents=True)
        yield made
    except OSError as error:
        raise OutputError(
            f"cannot write the site {out}: {error.strerror or error}: choose another folder with -o"
        ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def _place(made: Path, out: Path, files: Sequence[str], ours: frozenset[str] | None) -> None:
    """Put the files in place, the first page last, and delete those of an earlier site that are not among them."""
    before = ours or frozenset()
    if foreign := next((name for name in files if name not in before and (out / name).exists()), None):
        raise OutputError(
            f"{out / foreign} is not from hierbench and would be overwritten: move it or choose another folder"
        )
    _write(made / MARKER, _marker(sorted(before | set(files))))  # until all is done, both are ours
    for name in (MARKER, *(name for name in files if name != "index.html"), "index.html"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).replace(out / name)
    for name in sorted(before - set(files)):
        (out / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (out / name).parent.rmdir()  # where it is empty
    _write(made / MARKER, _marker(files))
    (made / MARKER).replace(out / MARKER)


def _marker(files: Sequence[str]) -> str:
    return json.dumps({"made_by": "hierbench leaderboard page", "files": list(files)}, indent=0) + "\n"
