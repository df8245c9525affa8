"""Writing the shards of a prepared dataset: planned, made by several processes, each finished one kept after a kill."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hierbench.data import prepared
from hierbench.data.datasets import AnyDataset, spread
from hierbench.data.prepared import Origin, Shard
from hierbench.errors import DataError
from hierbench.files import replacing, sha256, sweep
from hierbench.json_files import known_json, write_json
from hierbench.pool import each
from hierbench.progress import Progress

SHARD_BYTES = 96 << 20  # of images, about
SHARD_ROWS = 1024  # at most, so that processes have something to share in small datasets, too
SAMPLED = 64  # images whose size is looked at for that
AGAIN = "what is finished is kept, run the command again to go on"


@dataclass(frozen=True)
class Plan:
    """Which images go into which shard: `rows` of them each, in the record's order."""

    images: int
    rows: int
    stamp: str  # of ids, annotation and source: with another one, finished shards are of no use

    def ranges(self) -> list[tuple[int, range]]:
        """Number and rows of each shard."""
        starts = range(0, self.images, self.rows)
        return [(n, range(start, min(start + self.rows, self.images))) for n, start in enumerate(starts)]


def plan_shards(record: AnyDataset, origin: Origin, staging: Path) -> Plan:
    """Cut the dataset into shards; checks the space, and throws away shards of another plan."""
    ids = record.images.ids
    sampled = [ids[row] for row in spread(len(ids), SAMPLED)]
    mean = sum(len(record.images.read(image_id)) for image_id in sampled) / len(sampled)
    needed, free = int(mean * len(ids) * 1.02), shutil.disk_usage(staging).free
    if free < needed:
        raise DataError(
            f"the prepared dataset takes about {needed:,} bytes in {staging.parent}, where {free:,} are free: free "
            "some, or choose another disk with --out"
        )
    facts = hashlib.sha256(record.facts())
    facts.update(origin.model_dump_json().encode())
    facts.update(f"{prepared.SCHEMA} {prepared.GROUP_BYTES} {prepared.GROUP_ROWS}".encode())
    plan = Plan(len(ids), max(1, min(SHARD_ROWS, int(SHARD_BYTES / max(mean, 1)))), facts.hexdigest())
    if known_json(staging / "plan.json") != asdict(plan):
        shutil.rmtree(staging / "prepared", ignore_errors=True)
        shutil.rmtree(staging / "finished", ignore_errors=True)
    for folder in ("prepared", "finished"):
        (staging / folder).mkdir(parents=True, exist_ok=True)
        sweep(staging / folder, ".*.tmp", held=True)
    write_json(staging / "plan.json", asdict(plan))
    return plan


def write_shards(
    record: AnyDataset, plan: Plan, staging: Path, workers: int, progress: Progress
) -> tuple[int, list[Shard]]:
    """Write the shards that are not finished yet -> the content fingerprint's number, and all shards in order."""
    columns = prepared.annotation(record)
    kind = prepared.kind_of(record)

    def make(item: tuple[int, range]) -> tuple[int, Shard, int]:
        return _make_shard(record, kind, columns, item, staging)

    made = {}
    with progress.bar(f"preparing {record.name}", plan.images) as advance:
        for number, shard, digest in each(
            make, plan.ranges(), workers, f"{AGAIN}, perhaps with fewer --workers"
        ):
            made[number] = shard, digest
            advance(shard.rows)
    shards = [made[number][0] for number in sorted(made)]
    return prepared.combined([digest for _, digest in made.values()]), shards


def _make_shard(
    record: AnyDataset, kind: str, columns: dict[str, list[Any]], item: tuple[int, range], staging: Path
) -> tuple[int, Shard, int]:
    number, rows = item
    path = staging / "prepared" / f"images-{number:05d}.parquet"
    account = staging / "finished" / f"{path.stem}.json"
    kept = _finished(path, account)
    if kept is not None:
        return number, *kept
    with replacing(path) as temporary, temporary.open("wb") as file:
        sink = _Hashing(file)
        digest = write_rows(sink, record, kind, columns, rows)
    shard = Shard(name=path.name, rows=len(rows), size=sink.size, sha256=sink.hash.hexdigest())
    write_json(account, shard.model_dump() | {"digest": prepared.as_fingerprint(digest)})
    return number, shard, digest


def _finished(path: Path, account: Path) -> tuple[Shard, int] | None:
    """A shard of an earlier run, where its size and hash are still those of its account."""
    told = known_json(account)
    if told is None or not path.is_file() or path.stat().st_size != told.get("size"):
        return None
    if sha256(path) != told["sha256"]:
        return None
    digest = int(told.pop("digest"), 16)
    return Shard(**told), digest


def write_rows(
    sink: Any, record: AnyDataset, kind: str, columns: dict[str, list[Any]], rows: Sequence[int]
) -> int:
    """Write some images of a record as one parquet file -> the sum of their digests.

    Row groups of about `GROUP_BYTES`; nothing is compressed, and one group is in memory at a time.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = prepared.schema(kind, "ignored" in columns)
    digests: list[int] = []
    with pq.ParquetWriter(
        sink, schema, compression="NONE", use_dictionary=["label"] if kind == "classification" else False,
        write_statistics=False,
    ) as writer:  # fmt: skip
        group: list[int] = []
        contents: list[bytes] = []
        size = 0

        def flush() -> None:
            nonlocal size
            arrays = [[record.images.ids[row] for row in group], contents]
            arrays += [[columns[name][row] for row in group] for name in schema.names[2:]]
            table = pa.table(
                [pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema
            )
            writer.write_table(table, row_group_size=len(group))
            group.clear()
            contents.clear()
            size = 0

        for row in rows:
            content = record.images.read(record.images.ids[row])
            facts = {name: values[row] for name, values in columns.items()}
            digests.append(
                prepared.item_digest(record.images.ids[row], hashlib.sha256(content).digest(), facts)
            )
            group.append(row)
            contents.append(content)
            size += len(content)
            if size >= prepared.GROUP_BYTES or len(group) >= prepared.GROUP_ROWS:
                flush()
        if group:
            flush()
    return prepared.combined(digests)


class _Hashing:
    """A file to write to from front to back, with size and SHA-256 of what was written."""

    closed = False

    def __init__(self, file: Any):
        self.file, self.hash, self.size = file, hashlib.sha256(), 0

    def write(self, content: Any) -> int:
        view = memoryview(content)
        self.hash.update(view)
        self.size += view.nbytes
        self.file.write(view)
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self.file.flush()
