"""Work shared among processes that end with their parent, however it ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from typing import Any

from hierbench.errors import OutputError


def each(work: Callable[[Any], Any], items: Sequence[Any], workers: int, kept: str) -> Iterator[Any]:
    """`work(item)` of every item, as they finish, by so many processes (below 2: this one, in order).

    Processes are forked where the system can: `work` may then be anything, and is not copied. `kept` completes
    the line when a process is killed: what stays, and what to do. Raises what `work` raises, and OutputError.
    """
    if min(workers, len(items)) < 2:
        yield from map(work, items)
        return
    context = get_context("fork" if "fork" in get_all_start_methods() else None)
    pool = ProcessPoolExecutor(
        min(workers, len(items)), context, initializer=_begin, initargs=(os.getpid(), work)
    )
    try:
        for future in as_completed([pool.submit(_call, item) for item in items]):
            yield future.result()
    except BrokenProcessPool:
        raise OutputError(f"a worker process was killed (out of memory?): {kept}") from None
    finally:
        pool.shutdown(cancel_futures=True)


_work: Callable[[Any], Any] | None = None  # of this worker process


def _begin(parent: int, work: Callable[[Any], Any]) -> None:
    """In a worker: end at once on Ctrl-C, and when the parent ends, even by a kill; the pool's queue would keep it
    waiting for ever.
    """
    global _work
    _work = work

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=watch, daemon=True).start()


def _call(item: Any) -> Any:
    assert _work is not None  # set by `_begin`
    return _work(item)
