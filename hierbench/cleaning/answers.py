"""Answers of the roles on disk: append-only, found by item, kept for as long as the role's player is the same.

A file is a heading and records of key (32 bytes), length, content and CRC-32. Every process writes a file of its own
and reads all; whatever a kill leaves unfinished at the end of a file is skipped, and asked again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import shutil
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hierbench.errors import OutputError
from hierbench.files import regular_file, replacing
from hierbench.json_files import known_json, write_json

log = logging.getLogger(__name__)

HEADING = b"hierbench answers 1\n"
SUFFIX = ".answers"
PACES = "pace.json"
_FRAME = struct.Struct("<32sI")  # key, length of the content; content and CRC-32 follow
_CRC = struct.Struct("<I")


def item_key(*parts: str | bytes | None) -> bytes:
    """32 bytes that stand for what was asked: texts, and images by their content."""
    plain = [hashlib.sha256(part).hexdigest() if isinstance(part, bytes) else part for part in parts]
    text = json.dumps(plain, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class Answers:
    """The answers of one role's player to one kind of item, in a folder of their own below `folder`.

    Safe for several processes; an answer once given stays, even if another process gives another. `usable` says whether
    a content can be an answer of this kind; with `even`, all have one length, which is that of most. What is neither,
    whole as it may be on disk, is told once, counts as never given, and is asked anew.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        identity: Mapping[str, Any],
        usable: Callable[[bytes], bool] = lambda content: True,
        even: bool = False,
    ):
        self._usable, self._even = usable, even
        self.identity = dict(identity)
        told = json.dumps(self.identity, sort_keys=True, ensure_ascii=False, default=str)
        self.folder = folder / f"{kind}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
        self._told = told
        self._known: dict[bytes, bytes] = {}
        self._read: dict[Path, int] = {}  # bytes understood of each file
        self._own: Path | None = None
        self.refresh()

    def __contains__(self, key: bytes) -> bool:
        return key in self._known

    def __getitem__(self, key: bytes) -> bytes:
        return self._known[key]

    def missing(self, keys: Iterable[bytes]) -> list[bytes]:
        """Those without an answer, each once, in order."""
        return [key for key in dict.fromkeys(keys) if key not in self._known]

    def refresh(self) -> None:
        """Take up what other processes have written since the last look."""
        new: list[tuple[bytes, bytes]] = []
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            if path == self._own:
                continue
            done = self._read.get(path, 0)
            if path.stat().st_size > done:
                found, self._read[path] = _records(path, done)
                new += found
        good = [(key, content) for key, content in new if self._usable(content)]
        if self._even:
            lengths = Counter(map(len, [*self._known.values(), *(content for _, content in good)]))
            most = max(lengths, key=lengths.__getitem__, default=0)
            good = [(key, content) for key, content in good if len(content) == most]
        if len(good) < len(new):
            log.warning(
                f"{len(new) - len(good):,} of {len(new):,} answers in {self.folder} are of a wrong length or out of "
                "range: they are asked again"
            )
        for key, content in good:
            self._known.setdefault(key, content)

    def add(self, keys: Sequence[bytes], contents: Sequence[bytes]) -> None:
        """Keep answers: no kill of this process loses them now, a power cut may. Raises OutputError."""
        records = b"".join(
            (record := _FRAME.pack(key, len(content)) + content) + _CRC.pack(zlib.crc32(record))
            for key, content in zip(keys, contents, strict=True)
        )
        own = self.ready()
        try:
            with own.open("ab") as file:
                file.write(records)
        except OSError as error:
            raise self._full(error) from error
        for key, content in zip(keys, contents, strict=True):
            self._known.setdefault(key, content)

    def ready(self) -> Path:
        """Make sure that answers can be kept, before anyone is asked: in the file returned. Raises OutputError."""
        try:
            if self._own is None:
                self._own = self._begin()
            return self._own
        except OSError as error:
            raise self._full(error) from error

    def _full(self, error: OSError) -> OutputError:
        return OutputError(
            f"answers cannot be kept in {self.folder}: {error.strerror or error}: free space or choose another -o; "
            "what is kept already is not asked again"
        )

    def pace(self, what: str) -> float | None:
        """Seconds an answer to questions of this sort; None where nobody has measured it."""
        found = self.note(PACES).get(what)
        return found if isinstance(found, float) else None

    def keep_pace(self, what: str, answers: int, seconds: float) -> None:
        """Remember how quick answers came, for estimates."""
        if answers and self.folder.is_dir():
            with contextlib.suppress(OutputError):
                self.keep_note(PACES, {**self.note(PACES), what: seconds / answers})

    def note(self, name: str) -> dict[str, Any]:
        """What is noted about the player under a file name; empty where nothing is."""
        return known_json(self.folder / name) or {}

    def keep_note(self, name: str, content: Mapping[str, Any]) -> None:
        """Replace a note. Raises OutputError."""
        self.ready()
        try:
            write_json(self.folder / name, content)
        except OSError as error:
            raise self._full(error) from error

    def _begin(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        about = self.folder / "identity.json"
        if not about.exists():
            with replacing(about) as temporary:
                temporary.write_text(self._told, encoding="utf-8")
        name = f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        own = self.folder / name
        with own.open("xb") as file:
            file.write(HEADING)
        return own


def identities(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Whose answers of a kind lie in the folder."""
    found = (known_json(path) for path in sorted(folder.glob(f"{kind}-*/identity.json")))
    return [told for told in found if told is not None]


def merge(folders: Sequence[Path], into: Path) -> int:
    """Copy the answers of several folders into one; returns the number of files copied.

    Raises OutputError for a folder without answers, and where `into` cannot be written.
    """
    files = []
    for folder in folders:
        found = sorted(folder.glob(f"*/*{SUFFIX}"))
        if not found:
            raise OutputError(f"no answers in {folder}: give folders that `hierbench clean` has written")
        files += found
    copied = 0
    for path in files:
        target = into / path.parent.name / path.name
        try:
            if not target.exists() or target.stat().st_size < path.stat().st_size:
                target.parent.mkdir(parents=True, exist_ok=True)
                for name in (path.name, "identity.json", "probe.json"):
                    if (path.parent / name).exists():
                        with replacing(target.with_name(name)) as temporary:
                            shutil.copyfile(path.parent / name, temporary)
                copied += 1
        except OSError as error:
            raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    return copied


def _records(path: Path, start: int) -> tuple[list[tuple[bytes, bytes]], int]:
    """Whole records from byte `start` on, and how far they reach; a warning where a file is no file of answers."""
    with regular_file(path, "answers").open("rb") as file:
        file.seek(start)
        content = file.read()
    position = 0
    if start == 0:
        if not content.startswith(HEADING):
            if not HEADING.startswith(content):
                log.warning(f"{path} holds no answers of this version: ignored")
            return [], 0
        position = len(HEADING)
    found: list[tuple[bytes, bytes]] = []
    while len(content) - position >= _FRAME.size:
        key, length = _FRAME.unpack_from(content, position)
        end = position + _FRAME.size + length
        if end + _CRC.size > len(content):
            break
        if zlib.crc32(content[position:end]) != _CRC.unpack_from(content, end)[0]:
            log.warning(f"{path} is damaged after {len(found):,} answers: the others are asked again")
            break
        found.append((key, content[position + _FRAME.size : end]))
        position = end + _CRC.size
    return found, start + position
