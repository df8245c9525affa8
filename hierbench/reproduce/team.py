"""Several processes at the work of one study: each claims trainings in the output folder until none is left."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import replace

from hierbench.errors import HierbenchError, one_line
from hierbench.reproduce.work import Plan, Training, work

log = logging.getLogger(__name__)


def work_together(plan: Plan, processes: int, after: Callable[[Training], None] | None = None) -> list[str]:
    """`work` in this process and `processes` − 1 more, each with its share of the cores; all end with this one.

    Returns the failures that this process met. Raises as `work`, and HierbenchError where another process ended
    before its time, once all else is done.
    """
    if processes == 1:
        return work(plan, after=after)
    import torch

    before = torch.get_num_threads()
    share = max(1, before // processes)
    start = multiprocessing.get_context("spawn")
    plain = replace(plan)  # without what is computed already: it is sent to the others
    others = [start.Process(target=_beside, args=(plain, share)) for _ in range(processes - 1)]
    torch.set_num_threads(share)
    try:
        for process in others:
            process.start()
        failures = work(plan, quiet=True, after=after)
        for process in others:
            process.join()
    finally:
        torch.set_num_threads(before)
        for process in others:
            if process.is_alive():
                process.terminate()
                process.join()
    if ended := next((process for process in others if process.exitcode), None):
        if ended.exitcode != FAILED:
            raise HierbenchError(
                f"one of the {processes} processes ended early (status {ended.exitcode}), see its message; "
                "the same command goes on"
            )
        failures = failures or ["a training failed in another process, see its message"]
    return failures


FAILED = 1


def _beside(plan: Plan, threads: int) -> None:
    """What each of the other processes runs."""
    import torch

    torch.set_num_threads(threads)
    logging.basicConfig(format=f"hierbench: process {os.getpid()}: %(message)s")
    logging.getLogger("hierbench").setLevel(logging.INFO)
    try:
        failures = work(plan, quiet=True)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except HierbenchError as error:
        log.error(one_line(error))
        raise SystemExit(2) from None
    raise SystemExit(FAILED if failures else 0)
