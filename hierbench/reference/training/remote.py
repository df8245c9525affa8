"""Shards at a URL (https, s3, hf, gs and what else fsspec reads): a stream that goes on where its connection broke.

Nothing is kept on disk: each shard is read once an epoch, front to back, as training reads it.
"""

from __future__ import annotations

import time
from typing import Any

from hierbench.errors import DataError, one_line

WAITS = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try after a connection broke; a read that brought bytes begins them anew."""


def is_remote(path: str) -> bool:
    """Whether a shard's name is a URL rather than a file."""
    return "://" in path


def list_remote(pattern: str) -> list[str]:
    """URLs that a pattern with `*` stands for, or of the tars in a folder, sorted.

    Raises DataError where the place cannot be listed: some web servers list nothing, a range needs no list.
    """
    files, path = _filesystem(pattern)
    try:
        found = files.glob(path if "*" in path else f"{path.rstrip('/')}/*.tar")
    except Exception as error:  # each file system raises kinds of its own
        raise DataError(
            f"{pattern} cannot be listed ({one_line(error, 120)}): name the shards by a range like "
            "https://host/grit/{00000..02050}.tar"
        ) from error
    return sorted(files.unstrip_protocol(file) for file in found)


class RemoteShard:
    """The bytes of a shard at `url`, front to back; `read` is all that a tar stream asks for.

    A read that fails is tried again from where it stood, after WAITS. Where that does not help, `read` raises
    DataError and `failed` holds it: readers of tars take an error for damage, and must look there.
    """

    def __init__(self, url: str):
        self.url, self.place = url, 0
        self.failed: DataError | None = None
        self._file: Any = None

    def __enter__(self) -> RemoteShard:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes (all that are left if negative), b"" at the end."""
        tries = 0
        while True:
            try:
                content = self._opened().read(size)
                self.place += len(content)
                return content
            except FileNotFoundError as error:
                self.failed = DataError(f"shard {self.url} does not exist: check data.shards")
                raise self.failed from error
            except DataError as error:
                self.failed = error
                raise
            except Exception as error:  # each file system raises kinds of its own
                self._close()
                if tries == len(WAITS):
                    self.failed = DataError(
                        f"shard {self.url} cannot be read beyond byte {self.place:,}, tried {tries + 1} times "
                        f"({one_line(error, 120)}): `hierbench train … --resume` goes on when it can be"
                    )
                    raise self.failed from error
                time.sleep(WAITS[tries])
                tries += 1

    def _opened(self) -> Any:
        """The open file, standing at `place`."""
        if self._file is None:
            files, path = _filesystem(self.url)
            file = files.open(path, "rb", cache_type="readahead")
            if self.place:
                file.seek(self.place)
            self._file = file
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _filesystem(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it. DataError where it needs a package that is not there."""
    from fsspec.core import url_to_fs

    try:
        return url_to_fs(url)
    except (ImportError, ValueError) as error:  # no package for this protocol; no such protocol
        raise DataError(f"{url} cannot be opened: {one_line(error, 160)}") from error
