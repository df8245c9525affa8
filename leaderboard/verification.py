"""Whether a submission says what its items say: every figure and interval is computed anew from per-item outcomes.

What this shows is that the figures follow from the items, that the items are of the tasks' own data where others have
been measured on it, and that nothing was cut short or exchanged. That the items are what the model answered is shown
by measuring it again alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hierbench import registry, results
from hierbench.contracts import Estimate, Task
from hierbench.data.manifests import PROTOCOLS, Manifest, load_manifest, names_hash
from hierbench.errors import DataError, HierbenchError, UnknownNameError, one_line
from hierbench.files import sha256
from hierbench.geometry import Lorentz, Product, Sphere
from hierbench.leaderboard.resampling import IDENTITY
from hierbench.leaderboard.submissions import CARD, INDEX, Index, listed, opened, read_index
from hierbench.results import Record
from hierbench.results.record import ROUNDING, described, strict_json

if TYPE_CHECKING:
    import pandas as pd

TRUTH = IDENTITY | {"present", "ignored", "class_id", "name", "images"}
"""Columns that the data decides and no model: equal in every submission of a task."""

OF_THE_TREE = ("hierarchy", "levels")  # these leave out the classes that a dataset's tree does not hold
MOST_CLASSES = 1_000_000  # a label beyond it would cost memory, not tell anything


@dataclass(frozen=True)
class Verdict:
    """What was found of one submission. It is sound without `problems`; `notes` are for whoever decides."""

    model: str
    tasks: int = 0  # records read
    figures: int = 0  # computed anew and found equal
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.problems


def verify(bundle: str | Path, board: str | Path | None = None) -> list[Verdict]:
    """Verify every submission of a bundle (a folder, a zip, one submission); `board`: a folder of those filed already,
    whose items of the same data must be of the same images and labels. Raises DataError for what is no bundle.
    """
    with opened(bundle) as folders:
        return [check(folder, board) for folder in folders]


def refuse(verdicts: Iterable[Verdict], bundle: str | Path) -> None:
    """Raise DataError with the first problem, where there is one."""
    problems = [f"{verdict.model}: {problem}" for verdict in verdicts for problem in verdict.problems]
    if problems:
        more = f" (and {len(problems) - 1} more: `hierbench leaderboard verify`)" if len(problems) > 1 else ""
        raise DataError(f"{bundle} does not verify: {problems[0]}{more}")


def check(folder: Path, board: str | Path | None = None) -> Verdict:
    """The verdict on one submission's folder."""
    try:
        index = read_index(folder)
        whole = _whole(folder, index)
    except DataError as error:
        return Verdict(folder.name, problems=(one_line(error),))
    if whole:
        return Verdict(index.model, problems=tuple(whole))
    records, problems = _records(folder, index)
    problems += [*_strays(folder, index), *_one_model(index, records), *_card(folder, index)]
    said: dict[str, list[str]] = {}  # what should be known -> the tasks that it is known of
    figures = 0
    filed = _filed(board, folder, index.model)
    for record in records:
        if record.metrics is None:
            continue
        wrong, equal, note = _check_record(folder, record, filed)
        problems += [f"{record.task}: {what}" for what in wrong]
        figures += equal
        if note:
            said.setdefault(note, []).append(record.task)
    notes = [*_notes(records), *(f"{note}: {', '.join(tasks)}" for note, tasks in said.items())]
    return Verdict(index.model, len(records), figures, tuple(problems), (_coverage(records), *notes))


# ------------------------------------------------------------------------------------------------- the files, the model


def _whole(folder: Path, index: Index) -> list[str]:
    """What is wrong with the files: before their content is read."""
    here = listed(folder)
    wrong = [f"{name} is missing" for name in sorted(index.files.keys() - here.keys())]
    wrong += [f"{name} is not listed in {INDEX}" for name in sorted(here.keys() - index.files.keys())]
    changed = [
        name for name in sorted(here.keys() & index.files.keys()) if sha256(here[name]) != index.files[name]
    ]
    return wrong + [f"{name} was changed after it was packed (its hash differs)" for name in changed]


def _records(folder: Path, index: Index) -> tuple[list[Record], list[str]]:
    """The records of the listed tasks, and what is wrong with them as a set."""
    records, wrong = [], []
    if not index.tasks:
        wrong.append("it has no task")
    wanted = {results.record_path(folder, index.model, task): task for task in index.tasks}
    if len(wanted) < len(index.tasks):
        wrong.append("a task is listed twice")
    for path, task in wanted.items():
        try:
            record = results.read_record(folder, index.model, task)
        except HierbenchError as error:
            wrong.append(f"{task}: {one_line(error)}")
            continue
        if record is None:
            wrong.append(f"{task}: its record is missing")
        elif (record.model, record.task) != (index.model, task):
            wrong.append(f"{path.name} is the record of {record.task} of {record.model}, not of {task}")
        elif record.error is not None or record.lacks_data:
            wrong.append(f"{task}: it {record.status}, so there is nothing to submit")
        else:
            records.append(record)
    return records, wrong


def _strays(folder: Path, index: Index) -> list[str]:
    """Files that are neither records nor items of the listed tasks: images or weights, say."""
    own = {folder / CARD, folder / "run.json"}
    own |= {results.record_path(folder, index.model, task) for task in index.tasks}
    places = {results.items_path(folder, index.model, task) for task in index.tasks}
    return [
        f"{name} belongs to no task of it"
        for name in sorted(index.files)
        if (path := folder / name) not in own and not (path.parent in places and path.suffix == ".parquet")
    ]


def _one_model(index: Index, records: Sequence[Record]) -> list[str]:
    """That all records are of the one model that the submission names."""
    wrong = []
    for record in records:
        if record.family != index.family:
            wrong.append(f"{record.task}: measured with family {record.family}, not {index.family}")
        checkpoint = record.provenance.get("checkpoint_sha256")
        if checkpoint is None:
            wrong.append(f"{record.task}: it does not say which weights were measured (no checkpoint_sha256)")
        elif checkpoint != index.checkpoint_sha256:
            wrong.append(
                f"{record.task}: measured with other weights ({checkpoint[:12]}) than the submission names"
            )
    return wrong


def _card(folder: Path, index: Index) -> list[str]:
    try:
        card = strict_json((folder / CARD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [f"{CARD} is missing"]
    except (OSError, ValueError) as error:
        return [f"{CARD} is damaged: {one_line(error)}"]
    if not isinstance(card, dict):
        return [f"{CARD} is not a mapping"]
    wanted = {"model": index.model, "family": index.family, "checkpoint_sha256": index.checkpoint_sha256}
    return [
        f"{CARD} says {name} {card.get(name)!r}, {INDEX} {value!r}"
        for name, value in wanted.items()
        if card.get(name) != value
    ]


def _notes(records: Sequence[Record]) -> list[str]:
    """What a maintainer should know of how it was measured."""
    notes = []
    revisions = {str(record.provenance.get("revision")) for record in records}
    if any(revision.endswith("-dirty") for revision in revisions):
        notes.append("measured by a checkout with changes that were not committed")
    if len(revisions) > 1:
        notes.append(f"measured by {len(revisions)} revisions of hierbench")
    dtypes = {str(record.provenance.get("dtype")) for record in records}
    if dtypes != {"float32"}:
        notes.append(f"encoded in {', '.join(sorted(dtypes))}")
    return notes


def _coverage(records: Iterable[Record]) -> str:
    """Which suites the submission has whole, and how much of the others."""
    tasks = {record.task for record in records}
    parts = []
    for name, suite in registry.suites().items():
        have = len(tasks & set(suite["tasks"]))
        if have:
            whole = have == len(suite["tasks"])
            parts.append(f"{name} whole" if whole else f"{have} of the {len(suite['tasks'])} tasks of {name}")
    return "covers " + (", ".join(parts) if parts else "no suite's tasks")


# ---------------------------------------------------------------------------------------------------------- a record


def _check_record(folder: Path, record: Record, filed: Sequence[Path]) -> tuple[list[str], int, str]:
    """What is wrong with a measured record, how many figures were found equal, and what should be known of it."""
    if record.limit is not None:
        return [f"measured on at most {record.limit:,} items: measure the whole dataset"], 0, ""
    try:
        if record.protocol not in PROTOCOLS:
            return [f"no protocol {record.protocol!r}"], 0, ""
        task = registry.under(record.task, record.protocol)
    except HierbenchError as error:
        return [one_line(error)], 0, ""
    wrong = _fits_task(record, task)
    if wrong:
        return wrong, 0, ""
    try:
        items = results.read_items(folder, record)
        if not items:
            return ["it comes without per-item outcomes"], 0, ""
        _check_labels(items)
        computed = task.statistics(items)
        figures = computed.estimates()
    except HierbenchError as error:
        return [one_line(error)], 0, ""
    except Exception as error:  # columns of a stranger's making: whatever numpy and pandas think of them
        return [f"its items cannot be scored: {type(error).__name__}: {one_line(error)}"], 0, ""
    if why := record.miscounted(computed.n):
        wrong.append(why)
    wrong += _differing(record.metrics or {}, figures)
    untold = sorted(computed.degenerate.keys() - record.degenerate.keys())
    wrong += [f"it does not say of {name} that {computed.degenerate[name]}" for name in untold]
    wrong += _fits_data(record, len(computed.units), items)
    other, note = _same_items(record, items, filed)
    wrong += other
    return wrong, 0 if wrong else len(figures), note


def _fits_task(record: Record, task: Task) -> list[str]:
    spec = task.spec
    wrong = []
    if record.task_version != spec.version:
        wrong.append(f"measured with version {record.task_version} of the task, which is now {spec.version}")
    if record.dataset != spec.dataset:
        wrong.append(f"measured on {record.dataset}, the task's dataset is {spec.dataset}")
    if record.headline != spec.headline or _shape(record.specs) != _shape(described(spec.metrics)):
        wrong.append("it describes its metrics otherwise than the task does")
    known = {kind.name: kind.entailment_definition for kind in (Lorentz, Product, Sphere)}
    geometry = record.provenance.get("geometry")
    definition = known.get(str(geometry.get("name"))) if isinstance(geometry, dict) else None
    if record.definition and definition and record.definition != definition:
        wrong.append(f"its entailment is {record.definition}, that of its geometry {definition}")
    return wrong


def _shape(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What decides how tables print and rank a metric; titles may change."""
    return {name: (spec.get("unit"), spec.get("higher_is_better")) for name, spec in specs.items()}


def _check_labels(items: Mapping[str, pd.DataFrame]) -> None:
    for table in items.values():
        for name in ("label", "predicted"):
            if name in table.columns and not table[name].between(0, MOST_CLASSES).all():
                raise DataError(f"its items have a {name} outside 0 … {MOST_CLASSES:,}")


def _differing(said: Mapping[str, Estimate], computed: Mapping[str, Estimate]) -> list[str]:
    """Where figures or bounds are not those of the items."""
    wrong = [f"its items give no {name}" for name in said.keys() - computed.keys()]
    wrong += [f"it lacks {name}, which its items give" for name in computed.keys() - said.keys()]
    for name in said.keys() & computed.keys():
        ours, theirs = computed[name], said[name]
        if not _equal(theirs.value, ours.value):
            wrong.append(f"{name} is {theirs.value:.6g}, its items give {ours.value:.6g}")
        elif not (_equal(theirs.low, ours.low) and _equal(theirs.high, ours.high)):
            wrong.append(f"the interval of {name} is {_interval(theirs)}, its items give {_interval(ours)}")
    return sorted(wrong)


def _equal(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= ROUNDING * max(1.0, abs(b))


def _interval(figure: Estimate) -> str:
    return "none" if figure.low is None or figure.high is None else f"[{figure.low:.6g}, {figure.high:.6g}]"


# ------------------------------------------------------------------------------------------------------------ the data


def _fits_data(record: Record, units: int, items: Mapping[str, pd.DataFrame]) -> list[str]:
    """That names, prompts and numbers of items are those of the dataset's manifest, where the images are its own."""
    try:
        manifest = load_manifest(record.dataset)
    except UnknownNameError:
        return [f"nobody knows its dataset {record.dataset}"]
    wrong = []
    if record.provenance.get("dataset_fingerprint") is None:
        wrong.append("it does not say which data it was measured on (no dataset_fingerprint)")
    if manifest.classes:
        hashes = {
            "names_hash": names_hash(manifest.class_names(record.protocol)),
            "prompts_hash": names_hash(manifest.prompts(record.prompts)),
        }
        for what, wanted in hashes.items():
            if record.provenance.get(what) != wanted:
                wrong.append(
                    f"measured with other {what.partition('_')[0]} than {record.way} has ({what} differs)"
                )
    part = manifest.outside and record.task.partition("/")[0] in OF_THE_TREE
    if record.variant == "" and not part:
        wrong += _counts(manifest, units, items)
    return wrong


def _counts(manifest: Manifest, units: int, items: Mapping[str, pd.DataFrame]) -> list[str]:
    counts = manifest.counts
    if counts.images is not None and units not in (counts.images, counts.samples):
        return [f"measured on {units:,} of the split's {counts.images:,} images"]
    wanted = counts.per_class
    images = items.get("images")
    if wanted is None or images is None or "label" not in images.columns:
        return []
    found = np.bincount(images["label"], minlength=len(manifest.classes))
    each = dict.fromkeys(manifest.classes, wanted) if isinstance(wanted, int) else wanted
    if found.tolist() != [each[class_id] for class_id in manifest.classes]:
        return ["its items have other numbers of images by class than the split"]
    return []


def _filed(board: str | Path | None, folder: Path, model: str) -> list[Path]:
    """Submissions of other models that are filed already."""
    if board is None or not Path(board).is_dir():
        return []
    filed = sorted(path.parent for path in Path(board).glob(f"*/{INDEX}"))
    return [path for path in filed if path.resolve() != folder.resolve() and read_index(path).model != model]


def _same_items(
    record: Record, items: Mapping[str, pd.DataFrame], filed: Sequence[Path]
) -> tuple[list[str], str]:
    """What differs from the items of another model on the same data: images, labels, captions, pairs are the data's.

    Or, second, why nothing was compared.
    """
    others = [(path, other) for path in filed for other in _measured_alike(path, record)]
    if not others:
        return [], "nobody else was measured on the data, so labels and images could not be compared"
    fingerprint = record.provenance.get("dataset_fingerprint")
    same = [place for place in others if place[1].provenance.get("dataset_fingerprint") == fingerprint]
    if not same:
        return [], "measured on other images or labels than what is filed, and so not comparable with it"
    path, other = same[0]
    known = results.read_items(path, other)
    if items.keys() != known.keys():
        return [f"its items have other tables than those of {other.model}"], ""
    for table, theirs in known.items():
        for name in (name for name in theirs.columns if name in TRUTH):
            if name not in items[table].columns or _listed(items[table][name]) != _listed(theirs[name]):
                return [f"its {table} have another {name} than those of {other.model} on the same data"], ""
    return [], ""


def _measured_alike(folder: Path, record: Record) -> list[Record]:
    """The record of the same task of a filed submission, if it was measured the same way."""
    model = read_index(folder).model
    found = results.read_record(folder, model, record.task)
    alike = found is not None and found.metrics is not None and found.way == record.way
    return [found] if alike and found is not None and found.task_version == record.task_version else []


def _listed(column: pd.Series) -> list[Any]:
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in column]
