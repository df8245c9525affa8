"""The result record: figures with intervals and where they came from; writing and reading a run's folder.

Layout of an output folder: `run.json` (what was asked for), `results/<model>/<task>.json` (one record each,
written whole or not at all) and `items/<model>/<task>/<table>.parquet` (per-item outcomes).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierbench.contracts import Estimate
from hierbench.errors import OutputError
from hierbench.files import replacing, safe_name

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
"""Version of the record. When it rises, a function from the older record's fields goes into `MIGRATIONS`."""

MIGRATIONS: dict[int, Any] = {}  # schema -> function(fields of that schema) -> fields of the next one

Items = Mapping[str, Mapping[str, Any]]  # table -> column -> one value an item

DEFAULT_PROMPTS, OTHER_PROMPTS = "default", ("photo",)


def protocol_name(protocol: str, variant: str = "", prompts: str = DEFAULT_PROMPTS) -> str:
    """What a record calls the way of measuring: `released`, `corrected+photo`, `released+whole-set+photo`.

    `variant` says that the dataset's images are not those of the protocol, and in which way.
    """
    parts = [protocol, variant.replace("+", "-"), "" if prompts == DEFAULT_PROMPTS else prompts]
    return "+".join(part for part in parts if part)


def protocol_parts(name: str) -> tuple[str, str, str]:
    """Protocol, variant and prompts of what `protocol_name` made."""
    protocol, *rest = name.split("+")
    prompts = rest.pop() if rest and rest[-1] in OTHER_PROMPTS else DEFAULT_PROMPTS
    return protocol, "+".join(rest), prompts


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one task said about one model. Exactly one of `metrics`, `error` and `skipped` is set."""

    schema: int = SCHEMA
    task: str
    task_version: int
    dataset: str
    protocol: str  # see `protocol_name`
    model: str
    family: str
    metrics: Mapping[str, Estimate] | None = None
    n: int | None = None  # number of items scored
    limit: int | None = None  # items asked for at most; None = the whole dataset
    notes: tuple[str, ...] = ()
    error: str | None = None  # one line: why the task failed
    skipped: str | None = None  # one line: data absent, or the task says nothing about such models
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if sum(state is not None for state in (self.metrics, self.error, self.skipped)) != 1:
            raise ValueError("a record holds exactly one of metrics, error and skipped")

    @property
    def status(self) -> str:
        """ "measured", "failed" or "skipped"."""
        return "measured" if self.metrics is not None else "failed" if self.error is not None else "skipped"

    @property
    def lacks_data(self) -> bool:
        """Whether the task was skipped because its dataset was not there, not because it says nothing of the model."""
        return self.skipped is not None and not self.provenance.get("inapplicable")

    def to_json(self) -> str:
        """The record as strict JSON: figures that are not finite become null."""
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.metrics is not None:
            content["metrics"] = {
                name: {"value": figure.value, "low": figure.low, "high": figure.high}
                for name, figure in self.metrics.items()
            }
        return json.dumps(_plain(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """The record that `to_json` wrote; null figures read as NaN. ValueError says what is wrong."""
        content = json.loads(text)
        if not isinstance(content, dict) or not isinstance(content.get("schema"), int):
            raise ValueError("it is not a result record")
        while (schema := content["schema"]) != SCHEMA:
            if schema not in MIGRATIONS:
                advice = "upgrade hierbench" if schema > SCHEMA else "run the task again"
                raise ValueError(f"it has record schema {schema}, this hierbench reads {SCHEMA}: {advice}")
            content = MIGRATIONS[schema](content)
        if odd := {f.name for f in fields(cls)} ^ content.keys():
            raise ValueError(f"missing or unknown entries: {', '.join(sorted(odd))}")
        if content["metrics"] is not None:
            content["metrics"] = {
                name: _estimate(name, figure) for name, figure in content["metrics"].items()
            }
        for name in ("task", "dataset", "protocol", "model", "family"):
            if not isinstance(content[name], str):
                raise ValueError(f"its {name} is not text")
        if not isinstance(content["provenance"], dict):
            raise ValueError("its provenance is not a mapping")
        return cls(**{**content, "notes": tuple(content["notes"])})


class Results(list[Record]):
    """Records in the order models x tasks. `items[model, task]`: per-item outcomes of what was scored."""

    def __init__(self, records: Iterable[Record] = (), items: Mapping[tuple[str, str], Items] | None = None):
        super().__init__(records)
        self.items: dict[tuple[str, str], Items] = dict(items or {})

    def get(self, model: str, task: str) -> Record | None:
        """The record of one model and task, or None."""
        return next((record for record in self if (record.model, record.task) == (model, task)), None)

    @property
    def failed(self) -> list[Record]:
        return [record for record in self if record.error is not None]

    @property
    def skipped(self) -> list[Record]:
        return [record for record in self if record.skipped is not None]

    def frame(self) -> pd.DataFrame:
        """One row a figure, with its model, task, protocol and so on beside it (`columns` below).

        Failed and skipped tasks have no figures, hence no rows: see `failed` and `skipped`.
        """
        import pandas as pd

        shared = ("model", "family", "task", "task_version", "dataset", "protocol")
        rows = [
            {name: getattr(record, name) for name in shared}
            | {"metric": name, "value": figure.value, "low": figure.low, "high": figure.high}
            | {"n": record.n, "limit": record.limit}
            for record in self
            for name, figure in (record.metrics or {}).items()
        ]
        columns = [*shared, "metric", "value", "low", "high", "n", "limit"]
        return pd.DataFrame(rows, columns=columns).astype(
            {"low": float, "high": float, "n": "Int64", "limit": "Int64"}
        )


# ------------------------------------------------------------------------------------------------ a folder


def record_path(folder: str | Path, model: str, task: str) -> Path:
    """Where a model's record of a task lies in an output folder."""
    return Path(folder) / "results" / safe_name(model) / f"{_task_name(task)}.json"


def items_path(folder: str | Path, model: str, task: str) -> Path:
    """The folder of a task's per-item outcomes, one parquet file a table."""
    return Path(folder) / "items" / safe_name(model) / _task_name(task)


def write_record(folder: str | Path, record: Record, items: Items | None = None) -> Path:
    """Write a record, and its per-item outcomes before it; returns the record's path.

    Raises OutputError where the folder cannot be written (a full disk, say); an older record stays as it was.
    """
    path = record_path(folder, record.model, record.task)
    try:
        _write_items(items_path(folder, record.model, record.task), items or {})
        with replacing(path) as temporary:
            temporary.write_text(record.to_json(), encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}: free space or choose another --out"
        ) from error
    return path


def read_results(folder: str | Path) -> Results:
    """All records of an output folder, in the order of its run.json (models, then tasks).

    Per-item outcomes are not read: see `read_items`. Raises OutputError for a folder without results, and for
    a record that is damaged or of another schema, naming the file.
    """
    folder = Path(folder)
    if not (folder / "results").is_dir():
        raise OutputError(f"no results in {folder}: give the folder that `hierbench run --out` wrote")
    records = []
    for path in sorted((folder / "results").glob("*/*.json")):
        if not path.name.startswith("."):
            records.append(_read_record(path))
    asked = read_run(folder)
    models, tasks = (
        {name: place for place, name in enumerate(asked.get(kind, ()))} for kind in ("models", "tasks")
    )
    last = len(models) + len(tasks) + len(records)
    records.sort(key=lambda r: (models.get(r.model, last), r.model, tasks.get(r.task, last), r.task))
    return Results(records)


def read_items(folder: str | Path, model: str, task: str) -> dict[str, pd.DataFrame]:
    """Per-item outcomes of a task by table; empty where none were kept. Raises OutputError for damaged ones."""
    import pandas as pd

    found = {}
    for path in sorted(items_path(folder, model, task).glob("*.parquet")):
        try:
            found[path.stem] = pd.read_parquet(path)
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
            raise OutputError(
                f"{path} is damaged ({_first_line(error)}): run the task again with --force"
            ) from error
    return found


def write_run(folder: str | Path, asked: Mapping[str, Any]) -> None:
    """Write run.json: models, tasks, suite, layout, command, versions. Raises OutputError."""
    path = Path(folder) / "run.json"
    try:
        with replacing(path) as temporary:
            temporary.write_text(
                json.dumps(_plain(asked), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}: choose another --out") from error


def read_run(folder: str | Path) -> dict[str, Any]:
    """What run.json says; empty where there is none. Raises OutputError where it is damaged."""
    path = Path(folder) / "run.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} is damaged ({_first_line(error)}): delete it") from error
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
        return Record.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise OutputError(
            f"result {path} cannot be used: {_first_line(error)}; delete it and run again"
        ) from error


def _write_items(folder: Path, items: Items) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for table, columns in items.items():
        content = pa.table({name: pa.array(_listed(values)) for name, values in columns.items()})
        with replacing(folder / f"{safe_name(table)}.parquet") as temporary:
            pq.write_table(content, temporary)
    for old in set(folder.glob("*.parquet")) - {folder / f"{safe_name(table)}.parquet" for table in items}:
        old.unlink()  # of an earlier version of the task


def _listed(values: Any) -> Any:
    """Arrow reads one-dimensional arrays as they are and wants lists for the others."""
    if hasattr(values, "numpy"):  # a tensor
        values = values.detach().cpu().numpy()
    return list(values) if getattr(values, "ndim", 1) != 1 else values


def _task_name(task: str) -> str:
    """A task's file name: "retrieval/coco" -> "retrieval__coco"; names that hold "__" get a hash."""
    return safe_name(task + "/") if "__" in task else safe_name(task.replace("/", "__"))


def _estimate(name: str, figure: Any) -> Estimate:
    """A figure as `to_json` writes it. Raises ValueError."""
    numbers = list(figure.values()) if isinstance(figure, dict) else []
    proper = all(number is None or type(number) in (int, float) for number in numbers)
    if not proper or not isinstance(figure, dict) or figure.keys() != {"value", "low", "high"}:
        raise ValueError(f"its figure {name} is not value, low and high")
    return Estimate(math.nan if figure["value"] is None else figure["value"], figure["low"], figure["high"])


def _plain(value: Any) -> Any:
    """The value as JSON has it: numbers of numpy and torch unwrapped, what is not finite becomes None."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) or hasattr(value, "tolist"):
        return [_plain(entry) for entry in value]
    return str(value)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
