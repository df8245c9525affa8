"""The result record: figures with intervals, how they were measured and where they came from; its JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hierbench.contracts import Estimate, MetricSpec

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 3
"""Version of the record. When it rises, a function from the older record's fields goes into `MIGRATIONS`."""

Items = Mapping[str, Mapping[str, Any]]  # table -> column -> one value an item

DEFAULT_PROMPTS = "default"

ROUNDING = 1e-6  # of a figure, relative: sums in another order


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one task said about one model. Exactly one of `metrics`, `error` and `skipped` is set."""

    schema: int = SCHEMA
    task: str
    task_version: int
    dataset: str
    protocol: str  # released or corrected
    variant: str = ""  # in which way the dataset's images are not those of the protocol; "" = they are
    prompts: str = DEFAULT_PROMPTS  # which prompts name the classes
    model: str
    family: str
    metrics: Mapping[str, Estimate] | None = None
    specs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # metric -> see `described`
    headline: str = ""  # the metric that stands for the task
    degenerate: Mapping[str, str] = field(default_factory=dict)  # metric -> why its figure says little
    definition: str = ""  # of entailment, where the figures rest on it: cone-angle, radial, …
    n: int | None = None  # number of items scored
    items_sha256: str | None = None  # over the per-item tables as written; None = none were kept
    limit: int | None = None  # items asked for at most; None = the whole dataset
    notes: tuple[str, ...] = ()
    error: str | None = None  # one line: why the task failed
    skipped: str | None = None  # one line: data absent, or the task says nothing about such models
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if sum(state is not None for state in (self.metrics, self.error, self.skipped)) != 1:
            raise ValueError("a record holds exactly one of metrics, error and skipped")

    @property
    def status(self) -> str:
        """ "measured", "failed" or "skipped"."""
        return "measured" if self.metrics is not None else "failed" if self.error is not None else "skipped"

    def refused(self, reason: str) -> Record:
        """The record without its figures, as one that was skipped for this reason."""
        nothing: dict[str, Any] = {
            "metrics": None,
            "error": None,
            "specs": {},
            "degenerate": {},
            "headline": "",
        }
        told = {**self.provenance, "inapplicable": True}
        return replace(
            self, **nothing, skipped=f"refused: {reason}", items_sha256=None, notes=(), provenance=told
        )

    @property
    def lacks_data(self) -> bool:
        """Whether the task was skipped because its dataset was not there, not because it says nothing of the model."""
        return self.skipped is not None and not self.provenance.get("inapplicable")

    @property
    def way(self) -> str:
        """The way of measuring for a reader: `released`, `corrected+photo`, `released+whole-set+photo`."""
        prompts = "" if self.prompts == DEFAULT_PROMPTS else self.prompts
        return "+".join(part for part in (self.protocol, self.variant, prompts) if part)

    def miscounted(self, scored: int) -> str:
        """Why its n is not the number of its items, as the task's statistics count them; empty where it is."""
        return "" if self.n == scored else f"n is {self.n}, its items are of {scored:,}"

    def to_json(self) -> str:
        """The record as strict JSON: figures that are not finite become null."""
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.metrics is not None:
            content["metrics"] = {
                name: {"value": figure.value, "low": figure.low, "high": figure.high}
                for name, figure in self.metrics.items()
            }
        return json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @cached_property
    def sha256(self) -> str:
        """The hash of the record as JSON, which holds those of its items and its model's weights."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str) -> Record:
        """The record that `to_json` wrote; null figures read as NaN. ValueError says what is wrong.

        Records of an older schema are migrated.
        """
        content = strict_json(text)
        if not isinstance(content, dict) or type(content.get("schema")) is not int:
            raise ValueError("it is not a result record")
        while (schema := content["schema"]) != SCHEMA:
            if schema not in MIGRATIONS:
                advice = "upgrade hierbench" if schema > SCHEMA else "run the task again"
                raise ValueError(f"it has record schema {schema}, this hierbench reads {SCHEMA}: {advice}")
            content = MIGRATIONS[schema](content)
        if odd := {f.name for f in fields(cls)} ^ content.keys():
            raise ValueError(f"missing or unknown entries: {', '.join(sorted(odd))}")
        _check_types(content)
        if content["metrics"] is not None:
            content["metrics"] = {
                name: _estimate(name, figure) for name, figure in content["metrics"].items()
            }
        record = cls(**{**content, "notes": tuple(content["notes"])})
        record.check()
        return record

    def check(self) -> None:
        """Raise ValueError for figures that cannot be: outside their limits, or a value outside its interval.

        Resampling is biased for some figures (classes that a resample lacks count as missed): a value outside its
        interval stands if a note says so, see `outside`.
        """
        if self.metrics is None:
            return
        if self.n is None or self.n < 1:
            raise ValueError(f"its number of items n is {self.n}, not positive")
        for name, figure in self.metrics.items():
            spec = self.specs.get(name, {})
            low, high = spec.get("minimum"), spec.get("maximum")
            for number in (figure.value, figure.low, figure.high):
                if number is None or math.isnan(number):
                    continue
                if (low is not None and number < low - ROUNDING * max(1.0, abs(low))) or (
                    high is not None and number > high + ROUNDING * max(1.0, abs(high))
                ):
                    raise ValueError(f"its figure {name} is {number:g}, outside {low} to {high}")
            if figure.low is not None and figure.high is not None and figure.low > figure.high:
                raise ValueError(f"the interval of its figure {name} is [{figure.low:g}, {figure.high:g}]")
            if outside(figure) and outside_note(name) not in self.notes:
                raise ValueError(
                    f"its figure {name} is {figure.value:g}, outside its interval "
                    f"[{figure.low}, {figure.high}]"
                )


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
        """Records of tasks that raised an error."""
        return [record for record in self if record.error is not None]

    @property
    def skipped(self) -> list[Record]:
        """Records of tasks without data, or that say nothing about the model."""
        return [record for record in self if record.skipped is not None]

    def _repr_html_(self) -> str:
        """For notebooks: a row a model, a column a task with its headline figure; below, what gave none, and why."""
        from html import escape

        def cell(record: Record | None) -> str:
            figure = (record.metrics or {}).get(record.headline) if record is not None else None
            if record is None or figure is None:
                return f"<td>{escape(record.status) if record is not None else ''}</td>"
            factor = 100 if record.specs.get(record.headline, {}).get("unit") == "fraction" else 1
            told = ""
            if figure.low is not None and figure.high is not None:
                told = f"{factor * figure.low:.4g} to {factor * figure.high:.4g}, n = {record.n}"
            return f'<td title="{told}">{factor * figure.value:.4g}</td>'

        models, tasks = (list(dict.fromkeys(getattr(r, kind) for r in self)) for kind in ("model", "task"))
        of = {(record.model, record.task): record for record in self}
        headline = {record.task: record.headline for record in self if record.headline}
        heads = [f"<th>{escape(task)}<br>{escape(headline.get(task, ''))}</th>" for task in tasks]
        rows = [
            f"<tr><th>{escape(model)}</th>{''.join(cell(of.get((model, task))) for task in tasks)}</tr>"
            for model in models
        ]
        said = [(r, r.error or r.skipped) for r in self if r.metrics is None]
        notes = [f"<li>{escape(f'{r.model}, {r.task}: {why}')}</li>" for r, why in said]
        table = f"<table><tr><th></th>{''.join(heads)}</tr>{''.join(rows)}</table>"
        return table + (f"<ul>{''.join(notes)}</ul>" if notes else "")

    def frame(self) -> pd.DataFrame:
        """One row a figure, with its model, task, protocol and so on beside it (`columns` below).

        Failed and skipped tasks have no figures, hence no rows: see `failed` and `skipped`.
        """
        import pandas as pd

        shared = ("model", "family", "task", "task_version", "dataset", "protocol", "variant", "prompts")
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


def described(metrics: Iterable[MetricSpec]) -> dict[str, dict[str, Any]]:
    """The `specs` of a record: metric -> title, unit, higher_is_better, minimum, maximum (None = no limit)."""
    found = {}
    for metric in metrics:
        low, high = metric.limits
        found[metric.name] = {
            "title": metric.title,
            "unit": metric.unit,
            "higher_is_better": metric.higher_is_better,
            "minimum": low,
            "maximum": high,
        }
    return found


def outside(figure: Estimate) -> bool:
    """Whether a figure lies outside its interval, by more than rounding."""
    slack = ROUNDING * max(1.0, abs(figure.value))
    return (figure.low is not None and figure.value < figure.low - slack) or (
        figure.high is not None and figure.value > figure.high + slack
    )


def outside_note(metric: str) -> str:
    """What a record's notes say of a figure that lies outside its interval."""
    return f"{metric} lies outside its interval: resampling is biased for it on so few items"


# ---------------------------------------------------------------------------------------------- older records


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 had protocol, variant and prompts in one string, and neither specs nor a hash of its items."""
    protocol, *rest = str(content.get("protocol")).split("+")
    prompts = rest.pop() if rest[-1:] == ["photo"] else DEFAULT_PROMPTS
    added: dict[str, Any] = {"specs": {}, "headline": "", "degenerate": {}, "items_sha256": None}
    way = {"protocol": protocol, "variant": "+".join(rest), "prompts": prompts}
    return {**added, **content, **way, "schema": 2}


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "schema": 3, "definition": ""}


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1, 2: _from_2}
"""Schema -> function from fields of that schema to fields of the next one."""


# ------------------------------------------------------------------------------------------- what JSON holds


def strict_json(text: str) -> Any:
    """JSON as the standard has it, of bounded depth, with text that can be printed. Raises ValueError."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number of JSON")

    try:
        content = json.loads(text, parse_constant=refuse)
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()  # lone surrogates, 1e999
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return content


def plain(value: Any) -> Any:
    """The value as JSON has it: numbers of numpy and torch unwrapped, what is not finite becomes None."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) or hasattr(value, "tolist"):
        return [plain(entry) for entry in value]
    return str(value)


_TEXTS = ("task", "dataset", "protocol", "variant", "prompts", "definition", "model", "family", "headline")
_PERHAPS = {"n": int, "limit": int, "items_sha256": str, "error": str, "skipped": str, "metrics": dict}
_KNOWN_FACTS = ("checkpoint_sha256", "dataset_fingerprint", "names_hash", "prompts_hash", "source", "device")
_SPEC = {"title": (str,), "unit": (str,), "higher_is_better": (bool, type(None))}
_LIMITS = (int, float, type(None))


def _check_types(content: Mapping[str, Any]) -> None:
    """Raise ValueError for an entry of another type than the record's."""
    for name in _TEXTS:
        if not isinstance(content[name], str):
            raise ValueError(f"its {name} is not text")
    if type(content["task_version"]) is not int:
        raise ValueError("its task_version is not a whole number")
    for name, kind in _PERHAPS.items():
        if content[name] is not None and type(content[name]) is not kind:
            kinds = {int: "a whole number", str: "text", dict: "a mapping"}
            raise ValueError(f"its {name} is not {kinds[kind]}")
    for name in ("specs", "degenerate", "provenance"):
        if not isinstance(content[name], dict):
            raise ValueError(f"its {name} is not a mapping")
    if not isinstance(content["notes"], list) or not all(isinstance(note, str) for note in content["notes"]):
        raise ValueError("its notes are not a list of texts")
    if not all(isinstance(reason, str) for reason in content["degenerate"].values()):
        raise ValueError("its degenerate is not a mapping of texts")
    for name in _KNOWN_FACTS:
        if not isinstance(content["provenance"].get(name), str | None):
            raise ValueError(f"its provenance has a {name} that is not text")
    for name, spec in content["specs"].items():
        proper = isinstance(spec, dict) and all(
            key in spec and type(spec[key]) in kinds for key, kinds in _SPEC.items()
        )
        if not proper or not all(type(spec.get(key)) in _LIMITS for key in ("minimum", "maximum")):
            raise ValueError(f"its specs of {name} are not title, unit, higher_is_better, minimum, maximum")


def _estimate(name: str, figure: Any) -> Estimate:
    """A figure as `to_json` writes it. Raises ValueError."""
    numbers = list(figure.values()) if isinstance(figure, dict) else []
    proper = all(number is None or type(number) in (int, float) for number in numbers)
    if not proper or not isinstance(figure, dict) or figure.keys() != {"value", "low", "high"}:
        raise ValueError(f"its figure {name} is not value, low and high")
    if any(isinstance(number, int) and abs(number) > 2**63 for number in numbers):
        raise ValueError(f"its figure {name} is beyond any sane size")
    return Estimate(math.nan if figure["value"] is None else figure["value"], figure["low"], figure["high"])
