"""Reading MATLAB files in a process of its own: some damaged ones make SciPy's reader end its process, or never end."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hierbench.data.readers._files import read_bytes
from hierbench.errors import DataError, one_line

SECONDS = 60.0  # of the wall, for files that take less than one
MEMORY = 8 << 30  # bytes of address space: a damaged size may ask for any

_PROGRAM = str(Path(__file__).with_name("_mat_process.py"))


def read_mat(path: Path, names: Sequence[str]) -> dict:
    """Variables of a MATLAB file (version 5), squeezed. DataError: no such file, damaged, a variable missing."""
    content = read_bytes(path, "annotation file")
    try:
        done = subprocess.run(
            [sys.executable, "-P", _PROGRAM, *sys.path],
            input=pickle.dumps((content, list(names), MEMORY)),
            capture_output=True,
            timeout=SECONDS,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # each thread takes address space
        )
    except subprocess.TimeoutExpired:
        raise _damaged(path, f"reading it had not ended after {SECONDS:.0f} s") from None
    except OSError as error:
        raise DataError(
            f"annotation file {path}: no process could be started to read it: {error.strerror}: free memory"
        ) from error
    if done.returncode < 0:
        raise _damaged(path, f"its reader died: {signal.strsignal(-done.returncode)}")
    if done.returncode:
        raise _damaged(path, one_line(done.stderr.decode(errors="replace")))
    found = pickle.loads(done.stdout)
    if missing := [name for name in names if name not in found]:
        raise DataError(f"annotation file {path} has no variable {missing[0]!r}: fetch it again")
    return found


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"annotation file {path} is damaged ({why}): fetch it again")
