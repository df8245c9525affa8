"""The embedding store: tangent features kept between runs, so that nothing is encoded twice.

A section (a folder named by a hash) holds the features of one model under one preprocessing, arithmetic and
device; its rows are found by content id, the SHA-256 of an image's encoded bytes or of a string. Sections
grow by shards: Arrow files that are written under a temporary name and renamed, never changed afterwards. So
several processes can write to one store, a killed one loses only the rows it had not yet written, and readers
map files that cannot change.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import time
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hierbench.cache import cache_dir
from hierbench.contracts import ModelCard
from hierbench.errors import DataError, OutputError, one_line
from hierbench.files import regular_file, replacing, sweep
from hierbench.json_files import read_json

log = logging.getLogger(__name__)

LAYOUT = 1  # of the files; a part of the key, so another layout never meets these files
ID_BYTES = 32


class EmbeddingStore:
    """All sections under one folder, by default `embeddings` in the cache."""

    def __init__(self, folder: str | Path | None = None):
        self.folder = Path(folder) if folder is not None else cache_dir() / "embeddings"
        self._sections: dict[str, Section] = {}  # a shard is read once, whoever asks for its section

    def section(self, card: ModelCard, kind: str, device: str = "cpu") -> Section:
        """The features of one model. `kind` is "text" or the `Fit` of the images; `device` its type ("cuda").

        Raises ValueError for a card without sha256: nothing says which weights made such features.
        """
        if card.sha256 is None:
            raise ValueError(f"{card.name} has no checkpoint hash, its embeddings cannot be stored")
        about = {
            "layout": LAYOUT,
            "sha256": card.sha256,
            "family": card.family,  # two families may read one file differently
            "preprocessing": card.preprocessing,
            **({"tokenizing": card.tokenizing} if kind == "text" else {}),  # the same images serve both
            "kind": str(kind),
            "dtype": card.dtype,
            "device": device,
            "dim": card.embedding_dim,
        }
        key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
        if key not in self._sections:
            self._sections[key] = Section(
                self.folder / key, card.embedding_dim, {**about, "model": card.name}
            )
        return self._sections[key]

    def stats(self) -> list[SectionStats]:
        """What the store holds, the most recently used section first."""
        found = [_stats(file.parent) for file in self.folder.glob("*/section.json")]
        return sorted(filter(None, found), key=lambda section: -section.last_used)

    def prune(self, *, older_than: float | None = None, max_bytes: int | None = None) -> Pruned:
        """Delete what is not needed; says how much that was.

        That is: sections whose section.json is damaged, sections not used for `older_than` seconds, then the least
        recently used ones until the store is no larger than `max_bytes`, damaged shards, and temporary files of
        killed processes.
        """
        now = time.time()
        removed = [sweep(self.folder, "*/.*.tmp")]
        damaged = [file.parent for file in self.folder.glob("*/section.json") if _about(file.parent) is None]
        removed += [_remove_section(folder) for folder in damaged]
        kept, sections = [], len(damaged)
        for section in self.stats():
            if older_than is not None and now - section.last_used > older_than:
                removed.append(_remove_section(section.folder))
                sections += 1
            else:
                kept.append(section)
        while kept and max_bytes is not None and sum(section.bytes for section in kept) > max_bytes:
            removed.append(_remove_section(kept.pop().folder))
            sections += 1
        for section in kept:
            for file in section.folder.glob("*.arrow"):
                if _read_shard(file, section.about["dim"]) is None:
                    removed.append(_unlink(file))
        return Pruned(sections, sum(removed))

    def export(self, path: str | Path, model: str | None = None) -> int:
        """Write stored features to `path`, .parquet or .npz; returns the number of rows.

        Columns: model, kind ("text", "crop", "squeeze"), dtype, device, label (the string, or the image's id
        when it was first seen), content (hex id), feature (tangent, float32). `model`: only that model's. An
        .npz file has one set of arrays a section, `0_feature` and so on. Raises OutputError.
        """
        path, sections = Path(path), [s for s in self.stats() if model in (None, s.about["model"])]
        if path.suffix not in (".parquet", ".npz"):
            raise OutputError(f"cannot export embeddings to {path}: the name must end in .parquet or .npz")
        if not sections:
            raise OutputError(f"no stored embeddings{f' of {model}' if model else ''} in {self.folder}")
        tables = [_section_table(section) for section in sections]
        try:
            with replacing(path, durable=False) as temporary:
                _write_parquet(tables, temporary) if path.suffix == ".parquet" else _write_npz(
                    tables, temporary
                )
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
        return sum(table.num_rows for table in tables)


@dataclass(frozen=True)
class SectionStats:
    """What one section holds."""

    folder: Path
    about: dict[str, Any]  # model, family, sha256, preprocessing, kind, dtype, device, dim
    rows: int
    shards: int
    bytes: int
    last_used: float  # seconds since the epoch


@dataclass(frozen=True)
class Pruned:
    """What `prune` deleted."""

    sections: int
    bytes: int


class Section:
    """The features of one model, found by content id."""

    def __init__(self, folder: Path, dim: int, about: dict[str, Any]):
        self.folder = folder
        self.dim = dim
        self.about = about
        self._shards: list[np.ndarray] = []  # (rows, dim) each, mapped
        self._starts = [0]  # number of rows before each shard, and in all
        self._row: dict[bytes, int] = {}
        self._seen: set[str] = set()

    def get(self, ids: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """(n,) content ids -> (n, D) float32 features and (n,) bool: which are known (others are zero)."""
        self._refresh()
        rows = np.array([self._row.get(key, -1) for key in ids], np.int64)
        features = np.zeros((len(ids), self.dim), np.float32)
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._starts)
        for shard, start, first, last in zip(self._shards, self._starts, cuts, cuts[1:], strict=False):
            places = order[first:last]
            features[places] = shard[rows[places] - start]
        if (known := rows >= 0).any():
            _touch(self.folder / "section.json")  # `prune` drops what was not used for long
        return features, known

    def put(self, ids: Sequence[bytes], labels: Sequence[str], features: np.ndarray) -> None:
        """Add a shard: (n,) content ids, (n,) strings or image ids, (n, D) float32. Raises OSError."""
        about = self.folder / "section.json"
        if not about.exists():
            with replacing(about, durable=False) as temporary:
                temporary.write_text(json.dumps(self.about, indent=1))
        path = self.folder / f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}.arrow"
        features = np.ascontiguousarray(features, np.float32)
        columns = {
            "id": pa.array(list(ids), pa.binary(ID_BYTES)),
            "label": pa.array([label.encode("utf-8", "replace").decode() for label in labels], pa.string()),
            "feature": pa.FixedSizeListArray.from_arrays(pa.array(features.reshape(-1)), self.dim),
        }
        table = pa.table(columns).replace_schema_metadata({"crc32": str(_checksum(ids, features))})
        with (
            replacing(path, durable=False) as temporary,
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)

    def _refresh(self) -> None:
        """Take up the shards that have come since the last look."""
        for path in sorted(self.folder.glob("*.arrow")):
            if path.name in self._seen:
                continue
            self._seen.add(path.name)
            if (shard := _read_shard(path, self.dim)) is None:
                continue
            ids, features = shard
            self._row.update(zip(ids, range(self._starts[-1], self._starts[-1] + len(ids)), strict=True))
            self._shards.append(features)
            self._starts.append(self._starts[-1] + len(ids))


class MemoryStore:
    """A store for one model and one run: what is not kept on disk. Least recently used rows go first."""

    def __init__(self, max_bytes: int = 2 << 30):
        self.max_bytes = max_bytes
        self.bytes = 0
        self.rows: OrderedDict[tuple[str, bytes], np.ndarray] = OrderedDict()

    def section(self, card: ModelCard, kind: str, device: str = "cpu") -> _MemorySection:
        return _MemorySection(self, str(kind), card.embedding_dim)


@dataclass(frozen=True)
class _MemorySection:
    """As `Section`, in memory."""

    store: MemoryStore
    kind: str
    dim: int

    def get(self, ids: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        rows = self.store.rows
        features, known = np.zeros((len(ids), self.dim), np.float32), np.zeros(len(ids), bool)
        for place, content in enumerate(ids):
            if (row := rows.get((self.kind, content))) is not None:
                features[place], known[place] = row, True
                rows.move_to_end((self.kind, content))
        return features, known

    def put(self, ids: Sequence[bytes], labels: Sequence[str], features: np.ndarray) -> None:
        for content, row in zip(ids, np.array(features, np.float32), strict=True):
            if self.store.rows.setdefault((self.kind, content), row) is row:
                self.store.bytes += row.nbytes
        while self.store.bytes > self.store.max_bytes:
            self.store.bytes -= self.store.rows.popitem(last=False)[1].nbytes


# -------------------------------------------------------------------------------------------------- shards


def _read_shard(path: Path, dim: int) -> tuple[list[bytes], np.ndarray] | None:
    """Ids and mapped (rows, dim) features; None, with a warning, where the file is damaged or another's."""
    try:
        table = pa.ipc.open_file(_mapped(path)).read_all()
        table.validate(full=True)  # or Arrow ends the process where offsets lead out of the file
        table = table.combine_chunks()
        ids = table.column("id").to_pylist()
        column = table.column("feature")
        flat = column.chunk(0).flatten().to_numpy() if column.num_chunks else np.zeros(0, np.float32)
        features = flat.reshape(len(ids), dim)
        if flat.dtype != np.float32 or int(table.schema.metadata[b"crc32"]) != _checksum(ids, features):
            raise ValueError("its checksum does not fit")
        if not np.isfinite(features).all():  # asked here, once, and when something is encoded
            raise ValueError("it holds NaN or infinite values")
        return ids, features
    except FileNotFoundError:  # pruned by another process a moment ago
        return None
    except (OSError, ValueError, KeyError, TypeError, DataError, pa.ArrowException) as error:
        log.warning(
            f"embedding store: {path} is damaged ({one_line(error)}): ignored; `hierbench cache prune` removes it"
        )
        return None


def _mapped(path: Path) -> pa.MemoryMappedFile:
    return pa.memory_map(str(regular_file(path, "shard")))


def _checksum(ids: Sequence[bytes], features: np.ndarray) -> int:
    return zlib.crc32(features.data, zlib.crc32(b"".join(ids)))


def _about(folder: Path) -> dict[str, Any] | None:
    """What a section is about; None, with a warning, where its section.json is damaged."""
    path = folder / "section.json"
    try:
        about = read_json(path, "section")
        if isinstance(about, dict) and about.keys() >= {"model", "kind", "dtype", "device", "dim"}:
            return about
        reason = "entries are missing"
    except DataError as error:
        reason = str(error)
    log.warning(f"embedding store: {path} is damaged ({reason}): ignored; `hierbench cache prune` removes it")
    return None


def _stats(folder: Path) -> SectionStats | None:
    """None where nothing says what the section is about."""
    if (about := _about(folder)) is None:
        return None
    files, rows = list(folder.glob("*.arrow")), 0
    for file in files:
        try:
            reader = pa.ipc.open_file(_mapped(file))
            rows += sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
        except (OSError, DataError, pa.ArrowException):
            continue  # damaged: holds no usable row
    size = sum(file.stat().st_size for file in files)
    used = (folder / "section.json").stat().st_mtime
    return SectionStats(folder, about, rows, len(files), size, used)


def _section_table(section: SectionStats) -> pa.Table:
    """A section's rows, each content id once, with what the section is about beside them."""
    rows: dict[bytes, tuple[str, np.ndarray]] = {}
    for path in sorted(section.folder.glob("*.arrow")):
        if (shard := _read_shard(path, section.about["dim"])) is not None:
            labels = pa.ipc.open_file(_mapped(path)).read_all().column("label").to_pylist()
            rows.update(zip(shard[0], zip(labels, shard[1], strict=True), strict=True))
    about = {
        name: pa.array([section.about[name]] * len(rows)) for name in ("model", "kind", "dtype", "device")
    }
    features = np.concatenate([row for _, row in rows.values()]) if rows else np.zeros(0, np.float32)
    return pa.table(
        about
        | {"label": pa.array([label for label, _ in rows.values()], pa.string())}
        | {"content": pa.array([content.hex() for content in rows], pa.string())}
        | {"feature": pa.FixedSizeListArray.from_arrays(pa.array(features), section.about["dim"])}
    )


def _write_parquet(tables: list[pa.Table], path: Path) -> None:
    import pyarrow.parquet as pq

    loose = [  # models differ in width: a list of any length holds them all
        table.set_column(6, "feature", table.column("feature").cast(pa.list_(pa.float32())))
        for table in tables
    ]
    pq.write_table(pa.concat_tables(loose), path)


def _write_npz(tables: list[pa.Table], path: Path) -> None:
    arrays: dict[str, Any] = {}
    for number, table in enumerate(tables):
        for name in table.column_names[:-1]:
            arrays[f"{number}_{name}"] = np.array(table.column(name).to_pylist(), dtype=str)
        flat = table.column("feature").combine_chunks().flatten().to_numpy()
        arrays[f"{number}_feature"] = flat.reshape(table.num_rows, -1)
    with path.open("wb") as file:  # a name would get a second suffix
        np.savez(file, **arrays)


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):  # a read-only cache still serves
        os.utime(path)


def _unlink(path: Path) -> int:
    """Delete a file; returns how many bytes that freed."""
    try:
        size = path.stat().st_size
        path.unlink()
    except OSError:
        return 0
    return size


def _remove_section(folder: Path) -> int:
    freed = sum(
        _unlink(file) for file in sorted(folder.glob("*"), key=lambda file: file.name == "section.json")
    )
    with contextlib.suppress(OSError):  # another process has just written to it
        folder.rmdir()
    return freed
