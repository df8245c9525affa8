"""What a run leaves: records as they come go to the results, to the folder with their items, and to the log."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path
from typing import Any

from hierbench import results
from hierbench.engine import provenance, remembering
from hierbench.engine.setup import Setup
from hierbench.errors import OutputError
from hierbench.files import sweep
from hierbench.results import Items, Record, Results

log = logging.getLogger(__name__)


class Recorder:
    """Takes records as they come: to the results, to the folder, to the log."""

    def __init__(self, setup: Setup):
        self.setup, self.found, self.begun = setup, Results(), False
        self.lacking = False  # whether it was said that data is missing
        self.remembers = True  # until the cache turns out to be no place to write to

    def add(self, record: Record, items: Items | Path | None) -> None:
        """`items` is None for a record that lies in the folder already, a path for one of a run into another folder.

        Raises OutputError.
        """
        out = self.setup.out
        if out is not None and not self.begun:
            sweep(out)
            results.write_run(out, _asked(self.setup))
            self.begun = True
        if isinstance(items, Path):
            assert out is not None, "only a run with a folder takes records over"
            results.take_over(out, record, items)
        elif out is not None and items is not None:
            record = results.write_record(out, record, items)
            if self.remembers:
                self._remember(record)
        if items and not isinstance(items, Path):
            self.found.items[record.model, record.task] = items
        self.found.append(record)
        if not record.lacks_data:
            log.info(_said(record, items))
        elif not self.lacking:  # which, and how to get it, is listed once, at the end
            self.lacking = True
            log.info("tasks whose data is not here are skipped")

    def _remember(self, record: Record) -> None:
        model = next(model for model in self.setup.models if model.name == record.model)
        task = next(task for task in self.setup.tasks if task.spec.name == record.task)
        try:
            remembering.remember(self.setup, model, record, task)
        except (
            OutputError
        ) as error:  # a full disk or a read-only cache: slower next time, but no reason to stop
            self.remembers = False
            log.warning(str(error))


def _asked(setup: Setup) -> dict[str, Any]:
    """Content of run.json: what this run asks for."""
    return {
        "schema": results.SCHEMA,
        "models": [model.name for model in setup.models],
        "tasks": [task.spec.name for task in setup.tasks],
        "suite": setup.suite,
        "layout": setup.layout,
        "command": shlex.join(sys.argv),
        "started": provenance.now(),
        "versions": provenance.versions(),
    }


def _said(record: Record, items: Items | Path | None) -> str:
    """One line for the log."""
    what = f"{record.model}: {record.task}"
    if record.metrics is None:
        return f"{what} {record.status}: {record.error or record.skipped}"
    first = "".join(f" {name} {figure.value:.4g}," for name, figure in list(record.metrics.items())[:1])
    if items is None:
        return f"{what}:{first} kept, as model, data and options are the same (force repeats it)"
    if isinstance(items, Path):
        return f"{what}:{first} as measured {record.provenance['recorded']}, nothing has changed (force repeats it)"
    return f"{what}:{first} n = {record.n:,}, {sum(record.provenance['seconds'].values()):.1f} s"
