"""Collecting garbage in a run: what was made since it began is looked at, not each time all that torch has imported."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

_within = False  # a run of this process has set aside what was there before it


@contextlib.contextmanager
def only_new() -> Iterator[None]:
    """Within it, what was there before is set aside; a caller who has set things aside is left alone."""
    global _within
    if _within or gc.get_freeze_count():
        yield
        return
    gc.freeze()
    _within = True
    try:
        yield
    finally:
        _within = False
        gc.unfreeze()


def collect() -> None:
    """Give the memory of a model that is gone back, to the GPU as well."""
    gc.collect()
    if _within:  # what its libraries have imported stays: the next time need not look at that
        gc.freeze()
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available():
        torch.cuda.empty_cache()
