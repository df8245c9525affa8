"""Measurements of earlier runs on this machine: a run into another folder takes their records and items over.

A record is remembered under all that can move its figures and is known before a model is loaded: checkpoint, task,
options, the files of hierbench, the versions of packages. Whether the data is still the same is asked anew, as for a
record that lies in the run's own folder. Only what hierbench brings is remembered: the code of a user's task or adapter
may change and keep its version.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from hierbench import results
from hierbench.cache import cache_dir
from hierbench.contracts import ModelCard, Task
from hierbench.engine import processes, provenance
from hierbench.engine.keeping import kept, same
from hierbench.engine.setup import RunModel, Setup
from hierbench.errors import HierbenchError, OutputError
from hierbench.plugins import package_files
from hierbench.results import Record

NAME = "measured"  # of the model, in a folder that serves models of any name
CODE = ("hierbench", "hierbench.tasks", "hierbench.model_adapters", "hierbench.data_manifests")
LIBRARIES = (
    "scikit-learn",
    "scipy",
    "nltk",
    "pandas",
)  # that score; those that encode are in a record's versions


def known(
    setup: Setup, model: RunModel, sha256: str | None, task: Task, card: ModelCard | None
) -> tuple[Record, Path | None] | None:
    """The record that this run would only repeat, under the model's name here; None where there is none.

    With it where its items are: None = beside it in the run's own folder, else the folder of a run elsewhere.
    """
    record = kept(setup, model, sha256, task, card)
    return _elsewhere(setup, model, sha256, task, card) if record is None else (record, None)


def _elsewhere(
    setup: Setup, model: RunModel, sha256: str | None, task: Task, card: ModelCard | None
) -> tuple[Record, Path] | None:
    """None, too, where what is remembered is damaged, and where the data is another by now."""
    place = _place(setup, model, sha256, task)
    if setup.options.force or place is None or sha256 is None:
        return None
    try:
        record = results.read_record(place, NAME, task.spec.name)
        if record is None or not same(setup, model, sha256, task, card, record):
            return None
        items = results.items_sha256(place, record)
        if (items[0] if items else None) != record.items_sha256:
            return None
        os.utime(place)  # `prune` drops what was not used for long
    except (OSError, HierbenchError):
        return None
    return replace(record, model=model.name), results.items_path(place, NAME, task.spec.name)


def remember(setup: Setup, model: RunModel, record: Record, task: Task) -> None:
    """Keep a record as it lies in the run's folder, with its items. Raises OutputError where the cache is no place."""
    place = _place(setup, model, record.provenance.get("checkpoint_sha256"), task)
    if place is None or setup.out is None or record.error is not None:
        return
    items = results.items_path(setup.out, record.model, record.task)
    try:
        results.take_over(place, replace(record, model=NAME), items)
    except OutputError as error:
        reason = getattr(error.__cause__, "strerror", None) or error
        raise OutputError(
            f"measurements are not remembered: cannot write {place.parent}: {reason}"
        ) from error


def stats() -> tuple[int, int]:
    """How many measurements are remembered, and their bytes."""
    places = list(_places())
    return len(places), sum(map(_bytes, places))


def prune(*, older_than: float | None = None, max_bytes: int | None = None) -> tuple[int, int]:
    """Forget what was not used for `older_than` seconds, then the least recently used until no more than `max_bytes`.

    Returns how many measurements that were, and their bytes.
    """
    now, removed, freed = time.time(), 0, 0
    places = sorted(_places(), key=lambda place: place.stat().st_mtime)
    left = sum(map(_bytes, places))
    for place in places:
        old = older_than is not None and now - place.stat().st_mtime > older_than
        if old or (max_bytes is not None and left > max_bytes):
            size = _bytes(place)
            shutil.rmtree(place, ignore_errors=True)
            removed, freed, left = removed + 1, freed + size, left - size
    return removed, freed


def _places() -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        yield from (cache_dir() / "measurements").iterdir()


def _bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def _place(setup: Setup, model: RunModel, sha256: str | None, task: Task) -> Path | None:
    """Where the record of a measurement is remembered; None for one that is not."""
    options = setup.options
    if setup.out is None or sha256 is None or not options.cache or options.adapter or options.task_file:
        return None
    if (
        model.adapter is not None
        or not _ours(model.family)
        or not type(task).__module__.startswith("hierbench.")
    ):
        return None
    about = {
        "checkpoint": sha256,
        "task": [task.spec.name, task.spec.version, task.spec.dataset, task.spec.protocol],
        "options": [options.dtype, options.limit, options.protocol, options.prompts, options.compile],
        "device": setup.device,
        "batch_size": setup.batch_size,
        "processes": processes.world_size(),
        "machine": platform.node(),
        "versions": _versions(),
        "code": _code(),
    }
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return cache_dir() / "measurements" / key[:32]


def _ours(family: str | None) -> bool:
    """Whether a family is hierbench's own; None, for the checkpoint's keys to tell, always is."""
    return family is None or family in {
        path.stem for path in package_files("hierbench.model_adapters", ".py")
    }


@cache
def _versions() -> dict[str, str]:
    return provenance.versions() | {name: metadata.version(name) for name in LIBRARIES}


@cache
def _code() -> str:
    """The state of hierbench's files: a changed line is another measurement, whatever the version says."""
    digest = hashlib.sha256()
    for package in CODE:
        spec = find_spec(package)
        for folder in sorted((spec and spec.submodule_search_locations) or ()):
            for file in sorted(Path(folder).rglob("*")):
                if file.suffix in (".py", ".yaml", ".tsv", ".json", ".safetensors"):
                    state = file.stat()
                    digest.update(f"{file}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return digest.hexdigest()
