"""What a study says, checked: rows to train, measures, the paper's figures, its claims; and the configs of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hierbench.errors import HierbenchError, UsageError, first_fault, one_line
from hierbench.names import lookup
from hierbench.plugins import package_files
from hierbench.reference.configuration import resolve
from hierbench.reference.schema import ReferenceConfig
from hierbench.yaml_files import read_yaml

Text = Annotated[str, Field(min_length=1, max_length=400)]
Name = Annotated[str, Field(max_length=40, pattern=r"^[a-z0-9][a-z0-9-]*$")]
MAX_SEED = (1 << 32) - 1


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Measure(_Strict):
    """A column of the paper, and what stands for it on the miniature: the mean of a task's metrics."""

    paper: Text
    title: Text
    task: Text
    metrics: list[Text] = Field(min_length=1, max_length=8)


class Line(_Strict):
    """A line of the paper's table; without `row` nothing here stands for it, without `paper` it has no figures."""

    label: Text
    row: Name | None = None
    paper: list[float | None] = Field(default_factory=list, max_length=20)  # in the order of the measures


class TablePart(_Strict):
    """A part of the paper's table."""

    group: Text
    lines: list[Line] = Field(min_length=1, max_length=100)


class Claim(_Strict):
    """What the paper says: the first row is better than the second in each of the measures."""

    says: Text
    better: Name
    than: Name
    by: list[Name] = Field(min_length=1, max_length=20)


class Study(_Strict):
    """A paper's ablation as data; `rows` are training configs."""

    name: str
    title: Text
    source: Text
    setting: Text
    steps: Annotated[int, Field(ge=1, le=10_000_000)]
    overrides: list[Text] = Field(default_factory=list, max_length=50)  # of every row's config
    measures: dict[Name, Measure] = Field(min_length=1, max_length=20)
    rows: dict[Name, dict[str, Any]] = Field(min_length=1, max_length=100)
    lines: list[TablePart] = Field(min_length=1, max_length=50)
    claims: list[Claim] = Field(default_factory=list, max_length=200)
    notes: list[Text] = Field(default_factory=list, max_length=20)

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        titles = [measure.title for measure in self.measures.values()]
        if twice := next((title for title in titles if titles.count(title) > 1), None):
            raise ValueError(f"two measures have the title {twice}")
        for line in self.all_lines():
            if line.row is not None and line.row not in self.rows:
                raise ValueError(f"line {line.label}: no row {line.row}")
            if len(line.paper) > len(self.measures):
                raise ValueError(f"line {line.label}: more figures than measures")
        for claim in self.claims:
            if missing := {claim.better, claim.than} - self.rows.keys():
                raise ValueError(f"claim {claim.says}: no row {min(missing)}")
            if unknown := set(claim.by) - self.measures.keys():
                raise ValueError(f"claim {claim.says}: no measure {min(unknown)}")
        return self

    def all_lines(self) -> list[Line]:
        """The lines of all groups."""
        return [line for group in self.lines for line in group.lines]

    def printed(self, row: str) -> dict[str, float]:
        """The paper's figures of a row by measure, those of its first line."""
        line = next((line for line in self.all_lines() if line.row == row and line.paper), None)
        named = zip(self.measures, line.paper if line else (), strict=False)
        return {name: figure for name, figure in named if figure is not None}

    @property
    def tasks(self) -> list[str]:
        """The tasks that the measures need."""
        return list(dict.fromkeys(measure.task for measure in self.measures.values()))

    def config(self, row: str, steps: int, overrides: Sequence[str] = ()) -> ReferenceConfig:
        """The training config of a row, without its seed: warm-up, curriculum and saving shortened as the steps are.

        Raises UsageError, UnknownNameError for a config that cannot be.
        """
        try:
            given = [*self.overrides, *overrides]
            whole = resolve(self.rows[row], given)
            share = min(1.0, steps / whole.train.steps)
            short = [
                f"train.steps={steps}",
                f"train.warmup_steps={min(whole.train.warmup_steps, steps // 6)}",
                f"train.save_every={min(whole.train.save_every, max(1, steps // 3))}",
                f"data.full_caption_steps={round(whole.data.full_caption_steps * share)}",
                "train.keep_states=1",
            ]
            return resolve(self.rows[row], [*given, *short])
        except HierbenchError as error:
            raise type(error)(f"study {self.name}, row {row}: {error}") from error


def studies() -> dict[str, Path]:
    """The packaged studies by name."""
    return {path.stem: path for path in package_files("hierbench.reproduce.studies", ".yaml")}


def read_study(name: str) -> Study:
    """A packaged study, or one of a user's own (a .yaml file). Raises UnknownNameError, UsageError with the place."""
    own = Path(name).suffix in (".yaml", ".yml")
    path = Path(name) if own else lookup("study", name, studies())
    content = read_yaml(path, "study", UsageError)
    try:
        return Study(**{**content, "name": path.stem})
    except ValidationError as error:
        place, message = first_fault(error)
        raise UsageError(one_line(UsageError(f"study {path}, {place or 'as a whole'}: {message}"))) from None
    except TypeError as error:
        raise UsageError(f"study {path}: {one_line(error)}") from None


def digest(config: ReferenceConfig) -> str:
    """Ten hex digits that stand for a config but for its seed: rows that are trained alike share their trainings."""
    content = config.model_dump_json(exclude={"train": {"seed"}, "name": True, "processes": True})
    return hashlib.sha256(content.encode()).hexdigest()[:10]


def chosen(study: Study, rows: Sequence[str] | None) -> Mapping[str, dict[str, Any]]:
    """The study's rows, or those named. Raises UsageError, UnknownNameError."""
    if rows is None:
        return study.rows
    if not rows:
        raise UsageError("--rows: name at least one row")
    return {name: lookup(f"row of {study.name}", name, study.rows) for name in dict.fromkeys(rows)}
