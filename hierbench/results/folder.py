"""A run's output folder: writing and reading its records, per-item outcomes and run.json.

Layout: `run.json` (what was asked for), `results/<model>/<task>.json` (one record each, written whole or not at all)
and `items/<model>/<task>/<table>.parquet` (per-item outcomes).
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierbench.errors import HierbenchError, OutputError, one_line
from hierbench.files import locked, regular_file, replacing, safe_name
from hierbench.results.record import Items, Record, Results, plain, strict_json
from hierbench.retired import why_retired

if TYPE_CHECKING:
    import pandas as pd

LOCK = ".lock"  # of an output folder, for the moments in which processes agree on something


def record_path(folder: str | Path, model: str, task: str) -> Path:
    """Where a model's record of a task lies in an output folder."""
    return Path(folder) / "results" / safe_name(model) / f"{_task_name(task)}.json"


def items_path(folder: str | Path, model: str, task: str) -> Path:
    """The folder of a task's per-item outcomes, one parquet file a table."""
    return Path(folder) / "items" / safe_name(model) / _task_name(task)


def write_record(folder: str | Path, record: Record, items: Items | None = None) -> Record:
    """Write a record, and its per-item outcomes before it; returns the record as written, with the items' hash.

    Raises OutputError where the folder cannot be written (a full disk, say); an older record stays as it was.
    """
    path = record_path(folder, record.model, record.task)
    with _written(path):
        sha256 = _write_items(items_path(folder, record.model, record.task), items or {})
        record = replace(record, items_sha256=sha256)
        with replacing(path) as temporary:
            temporary.write_text(record.to_json(), encoding="utf-8")
    return record


def take_over(folder: str | Path, record: Record, items: Path) -> None:
    """Write a record whose items lie in another folder, `items_path` there, which are copied.

    Raises OutputError where the folder cannot be written, and where the items are not the record's.
    """
    path, to = (at(folder, record.model, record.task) for at in (record_path, items_path))
    with _written(path):
        copies = {table: to / source.name for table, source in _tables(items).items()}
        for copy in copies.values():
            with replacing(copy) as temporary:
                shutil.copyfile(items / copy.name, temporary)
        _only(to, copies)
        if (_items_sha256(copies) if copies else None) != record.items_sha256:
            raise OutputError(
                f"{items} holds the items of another measurement than the record: run with --force"
            )
        with replacing(path) as temporary:
            temporary.write_text(record.to_json(), encoding="utf-8")


def read_results(folder: str | Path) -> Results:
    """All records of an output folder, in the order of its run.json (models, then tasks).

    Per-item outcomes are not read: see `read_items`. Raises OutputError for a folder without results, and for
    a record that is damaged or of another schema, naming the file.
    """
    folder = Path(folder)
    if not (folder / "results").is_dir():
        raise OutputError(f"no results in {folder}: give the folder that `hierbench run --out` wrote")
    records: list[Record] = []
    taken: dict[tuple[str, str], Path] = {}
    for path in sorted((folder / "results").glob("*/*.json")):
        if not path.name.startswith("."):
            record = _read_record(path)
            if other := taken.get((record.model, record.task)):
                raise OutputError(
                    f"{path} holds {record.task} of {record.model} a second time, after {other.name}: delete one"
                )
            taken[record.model, record.task] = path
            records.append(record)
    asked = read_run(folder)
    models, tasks = (
        {name: place for place, name in enumerate(asked.get(kind, ()))} for kind in ("models", "tasks")
    )
    last = len(models) + len(tasks) + len(records)
    records.sort(key=lambda r: (models.get(r.model, last), r.model, tasks.get(r.task, last), r.task))
    return Results(records)


def read_record(folder: str | Path, model: str, task: str) -> Record | None:
    """The record of one model and task, None where there is none. Raises OutputError where it is damaged."""
    path = record_path(folder, model, task)
    return _read_record(path) if path.exists() else None


def read_items(folder: str | Path, record: Record) -> dict[str, pd.DataFrame]:
    """Per-item outcomes of a record by table; empty where none were kept.

    Raises OutputError for damaged ones and for those that are not the record's own: a run that was killed between
    the two leaves new items beside an old record.
    """
    import pandas as pd

    again = f"run {record.task} of {record.model} again with --force"
    at = items_path(folder, record.model, record.task)
    try:
        tables = _tables(at)
        if record.items_sha256 is None and tables:
            raise OutputError(f"{at} holds items whose record has no hash of them: {again}")
        if record.items_sha256 is not None and _items_sha256(tables) != record.items_sha256:
            raise OutputError(f"{at} holds the items of another measurement than the record: {again}")
        return {table: pd.read_parquet(path) for table, path in tables.items()}
    except OutputError:
        raise
    except Exception as error:  # a damaged table makes the reader raise whatever it likes
        raise OutputError(f"{at} is damaged ({one_line(error)}): {again}") from error


def items_sha256(folder: str | Path, record: Record) -> tuple[str, int] | None:
    """The hash of the items that lie beside a record, as `Record.items_sha256` has it, and their bytes.

    None where none lie there. Raises OSError, DataError.
    """
    tables = _tables(items_path(folder, record.model, record.task))
    return (_items_sha256(tables), sum(path.stat().st_size for path in tables.values())) if tables else None


def write_run(folder: str | Path, asked: Mapping[str, Any]) -> None:
    """Write run.json: models, tasks, suite, layout, command, versions. Raises OutputError.

    Models and tasks that earlier runs, or others at this moment, asked for in the folder stay listed before its own.
    """
    folder = Path(folder)
    path = folder / "run.json"
    try:
        with locked(folder / LOCK):
            before = read_run(folder)
            lists = {
                kind: list(dict.fromkeys([*before.get(kind, ()), *asked.get(kind, ())]))
                for kind in ("models", "tasks")
            }
            text = json.dumps(plain({**asked, **lists}), indent=1, ensure_ascii=False)
            with replacing(path) as temporary:
                temporary.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}: choose another --out") from error


def read_run(folder: str | Path) -> dict[str, Any]:
    """What run.json says; empty where there is none. Raises OutputError where it is damaged."""
    path = Path(folder) / "run.json"
    try:
        content = strict_json(regular_file(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, HierbenchError) as error:
        raise OutputError(f"{path} is damaged ({one_line(error)}): delete it") from error
    if not isinstance(content, dict):
        raise OutputError(f"{path} is damaged (not a mapping): delete it")
    for name in ("models", "tasks"):
        names = content.get(name, [])
        if not isinstance(names, list) or not all(isinstance(entry, str) for entry in names):
            raise OutputError(f"{path} is damaged ({name} is not a list of names): delete it")
    if not isinstance(content.get("layout"), str | None):
        raise OutputError(f"{path} is damaged (layout is not a name): delete it")
    return content


def _read_record(path: Path) -> Record:
    try:
        record = Record.from_json(regular_file(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, HierbenchError) as error:
        raise OutputError(
            f"result {path} cannot be used: {one_line(error)}; delete it and run again"
        ) from error
    reason = why_retired(record.task)
    return record if reason is None else record.refused(reason)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """For the length of a block that writes a record and its items: what keeps it from doing so is an OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}: free space or choose another --out"
        ) from error


def _write_items(folder: Path, items: Items) -> str | None:
    """Write the tables, remove those of an earlier version of the task; their hash, None for no tables."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = {safe_name(table): folder / f"{safe_name(table)}.parquet" for table in items}
    for path, columns in zip(written.values(), items.values(), strict=True):
        content = pa.table({name: pa.array(_listed(values)) for name, values in columns.items()})
        with replacing(path) as temporary:
            pq.write_table(content, temporary)
    _only(folder, written)
    return _items_sha256(written) if written else None


def _only(folder: Path, tables: Mapping[str, Path]) -> None:
    """Remove the tables of an earlier version of the task."""
    for old in set(folder.glob("*.parquet")) - set(tables.values()):
        old.unlink()


def _tables(folder: Path) -> dict[str, Path]:
    """The files of per-item outcomes in a task's folder, by table."""
    return {path.stem: path for path in sorted(folder.glob("*.parquet")) if not path.name.startswith(".")}


def _items_sha256(tables: Mapping[str, Path]) -> str:
    """SHA-256 over the names of the tables and their files. Raises OSError, DataError."""
    digest = hashlib.sha256()
    for table, path in sorted(tables.items()):
        content = regular_file(path).read_bytes()
        digest.update(f"{table}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _listed(values: Any) -> Any:
    """Arrow reads one-dimensional arrays as they are and wants lists for the others."""
    if hasattr(values, "numpy"):  # a tensor
        values = values.detach().cpu().numpy()
    return list(values) if getattr(values, "ndim", 1) != 1 else values


def _task_name(task: str) -> str:
    """A task's file name: "retrieval/coco" -> "retrieval__coco"; names that hold "__" get a hash."""
    return safe_name(task + "/") if "__" in task else safe_name(task.replace("/", "__"))
