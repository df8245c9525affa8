"""Packing a run's results as a bundle to be sent: what is fit to be submitted, without a trace of the machine."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from hierbench import registry, results
from hierbench.errors import DataError, OutputError, UsageError, first_fault, one_line
from hierbench.files import replacing, safe_name, sha256
from hierbench.leaderboard.submissions import CARD, INDEX, SCHEMA, listed, place
from hierbench.leaderboard.verification import Verdict, check, refuse
from hierbench.names import lookup
from hierbench.results import Record
from hierbench.results.record import plain
from hierbench.yaml_files import read_yaml

IDENTIFYING = (
    "checkpoint_sha256",
    "source",
    "preprocessing",
    "tokenizing",
    "dtype",
    "geometry",
    "model_notes",
)
"""What a record's provenance tells of the model, for its card."""

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class About(BaseModel):
    """What a submitter tells of a model, by the fields of a YAML file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trained_on: Line | None = None
    licence: Line | None = None
    paper: Line | None = None
    homepage: Line | None = None
    contact: Line | None = None
    description: Line | None = None

    def told(self) -> dict[str, str]:
        """The fields that were filled in."""
        return self.model_dump(exclude_none=True)


@dataclass(frozen=True)
class Packed:
    """What `pack` made."""

    path: Path
    verdicts: Sequence[Verdict]  # on each submission; all are sound
    left_out: Sequence[tuple[str, str, str]]  # model, task, why


def pack(
    run: str | Path,
    out: str | Path,
    names: Sequence[str] = (),
    about: str | Path | None = None,
    board: str | Path | None = None,
) -> Packed:
    """Pack the measured tasks of a run's models, or of those named, into a folder `out`, or a file if it ends in .zip.

    Records of part of a dataset, of another version of a task, of a user's own task or without items are left out, as
    are failures and tasks without data. `about`: a YAML file with the fields of `About`, for a single model. `board`:
    submissions filed already, see `verification`. Raises UnknownNameError for a name, DataError for `about` and for
    what does not verify, OutputError where nothing is left of a model, where its records are of several checkpoints,
    or where `out` is there already; then nothing is written.
    """
    run, out = Path(run), Path(out)
    by_model: dict[str, list[Record]] = {}
    for record in results.read_results(run):
        by_model.setdefault(record.model, []).append(record)
    chosen = {name: lookup("model in these results", name, by_model) for name in names} or by_model
    if about is not None and len(chosen) > 1:
        raise UsageError(f"{about} tells of one model, but {len(chosen)} are to be packed: name one")
    told = _about(about).told() if about is not None else {}
    if out.exists():
        raise OutputError(f"{out} exists already: remove it or choose another --out")
    left_out: list[tuple[str, str, str]] = []
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory() as made:
        for model, records in chosen.items():
            unfit = [(model, record.task, why) for record in records if (why := _unfit(record))]
            kept = [_without_paths(record, told) for record in records if not _unfit(record)]
            if not any(record.metrics is not None for record in kept):
                raise OutputError(f"nothing of {model} in {run} can be submitted: {unfit[0][2]}")
            folder = Path(made) / "bundle" / safe_name(model)
            _write(folder, run, model, kept, told)
            verdicts.append(check(folder, board))
            left_out += unfit
        refuse(verdicts, run)
        _deliver(Path(made) / "bundle", out)
    return Packed(out, verdicts, left_out)


def _unfit(record: Record) -> str:
    """Why a record is not submitted; empty where it is."""
    known = registry.task_factories()
    if record.task not in known:
        return "no task of hierbench's own, so that others cannot verify it"
    if record.error is not None:
        return f"it failed: {one_line(RuntimeError(record.error), 120)}"
    if record.skipped is not None:
        return "its data was not there" if record.lacks_data else ""
    if record.limit is not None:
        return f"measured on at most {record.limit:,} items"
    if record.items_sha256 is None:
        return "no per-item outcomes were kept"
    version = known[record.task]().spec.version
    if record.task_version != version:
        return (
            f"measured with version {record.task_version} of the task, which is now {version}: run it again"
        )
    return ""


def _about(path: str | Path) -> About:
    try:
        return About.model_validate(read_yaml(path, "card"))
    except ValidationError as error:
        field, what = first_fault(error)
        if error.errors()[0]["type"] == "extra_forbidden":
            what = f"no such field, known: {', '.join(About.model_fields)}"
        raise DataError(f"card {path}: {field}: {what}") from error


def _without_paths(record: Record, told: Mapping[str, str]) -> Record:
    """The record without paths of this machine, with what the submitter tells in its card."""
    facts = {name: _nameless(value) for name, value in record.provenance.items()}
    if told:
        facts["card"] = {**(facts.get("card") or {}), **told}
    return replace(record, provenance=facts)


def _nameless(value: Any) -> Any:
    """Absolute paths become the names of their files."""
    if isinstance(value, str):
        kinds = (PurePosixPath(value), PureWindowsPath(value))
        return next((path.name for path in kinds if path.is_absolute()), value)
    if isinstance(value, Mapping):
        return {name: _nameless(entry) for name, entry in value.items()}
    return [_nameless(entry) for entry in value] if isinstance(value, list) else value


def _write(
    folder: Path,
    run: Path,
    model: str,
    records: Sequence[Record],
    told: Mapping[str, str],
) -> None:
    """One submission."""
    known = {(record.family, str(record.provenance.get("checkpoint_sha256"))) for record in records}
    if len(known) > 1:
        raise OutputError(
            f"{model} means several checkpoints in {run}: measure it anew into a folder of its own"
        )
    ((family, checkpoint),) = known
    for record in records:
        results.read_items(run, record)  # damaged ones, and those of another measurement, are refused
        items = results.items_path(run, model, record.task)
        if record.items_sha256 is not None:
            shutil.copytree(
                items, results.items_path(folder, model, record.task), ignore=shutil.ignore_patterns(".*")
            )
        path = results.record_path(folder, model, record.task)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record.to_json(), encoding="utf-8")
    facts = next(record.provenance for record in records if record.metrics is not None)
    card = {"model": model, "family": family, **{name: facts.get(name) for name in IDENTIFYING}}
    _write_json(folder / CARD, card | dict(facts.get("card") or {}) | dict(told))
    tasks = [record.task for record in records]
    _write_json(
        folder / "run.json",
        {
            "schema": results.SCHEMA,
            "models": [model],
            "tasks": tasks,
            "layout": results.read_run(run).get("layout"),
        },
    )
    files = {name: sha256(path) for name, path in sorted(listed(folder).items())}
    _write_json(
        folder / INDEX,
        {
            "schema": SCHEMA,
            "model": model,
            "family": family,
            "checkpoint_sha256": checkpoint,
            "tasks": tasks,
            "files": files,
        },
    )


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(plain(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _deliver(content: Path, out: Path) -> None:
    """Put a folder's content at `out`, whole or not at all."""
    try:
        if out.suffix.lower() == ".zip":
            with (
                replacing(out) as temporary,
                zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
            ):
                for name, path in sorted(listed(content).items()):
                    archive.write(path, name)
        else:
            place(content, out)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}: choose another --out") from error
