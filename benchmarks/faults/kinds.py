"""All kinds of malformed input: sound inputs for them, and what a process of the pool does with a case."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from benchmarks.faults import of_data, of_results, of_training
from benchmarks.faults.kind import Kind, type_all
from benchmarks.faults.pool import Case, apart

KINDS: dict[str, Kind] = {**of_training.KINDS, **of_data.KINDS, **of_results.KINDS}


def prepare(base: Path, names: list[str], typed: bool = False) -> None:
    """The sound inputs of the named kinds, each in its folder below `base`; each is read once, and must be sound."""
    for name in names:
        kind, folder = KINDS[name], base / name
        folder.mkdir(parents=True)
        kind.make(folder)
        for read in (kind.use, lambda here, kind=kind: type_all(kind.typed(here)))[: 1 + typed]:
            tried = base / f"{name}.try"
            shutil.copytree(folder, tried / "input", symlinks=True)
            os.environ["HIERBENCH_CACHE"] = str(tried / "cache")
            apart(lambda tried=tried, read=read: read(tried / "input"))  # type: ignore[misc]
            shutil.rmtree(tried)


def worker(base: Path, typed: bool = False) -> Callable[[Case, Path], None]:
    """What a process of the pool does with a case: reads it as a library, or by the commands that a person types."""

    def work(case: Case, folder: Path) -> None:
        kind = KINDS[case.kind]
        here, sound = folder / "input", base / case.kind
        rng = Random(f"{case.kind} {case.number}")
        part = rng.choice(sorted(path.name for path in sound.iterdir())) if kind.parts else "."
        shutil.copytree(sound / part, here / part, symlinks=True, dirs_exist_ok=True)
        kind.change(here, rng)
        os.environ["HIERBENCH_CACHE"] = str(folder / "cache")
        if typed:
            apart(lambda: type_all(kind.typed(here)))
        else:
            kind.use(here)

    return work
