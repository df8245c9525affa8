"""The prepared form of a dataset, written by `hierbench data prepare`: parquet shards and `dataset.json`.

NAME/images-00000.parquet … hold the columns id (string), image (binary, the encoded bytes as published) and the
annotation: label (class id) | labels, ignored (lists of class ids) | captions (list) with caption_rows (their places
among all captions) | samples (list of row, id, captions). NAME/dataset.json is written last and says what they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hierbench.data.datasets import (
    AnyDataset,
    CaptionChains,
    CaptionChoices,
    Classification,
    MultiLabel,
    Retrieval,
)
from hierbench.data.manifests import Manifest
from hierbench.data.stamps import stamp_of
from hierbench.errors import DataError, first_fault, one_line
from hierbench.files import regular_file
from hierbench.json_files import read_json

NAME = "prepared"
RECORD = "dataset.json"
SCHEMA = 1
"""Of dataset.json and the shards; rises when older ones could not be read any more."""

GROUP_BYTES = 2 << 20  # of images in a row group: what a random access reads
GROUP_ROWS = 1024
GROUPS_KEPT = 8  # row groups that a process keeps in memory


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Shard(_Strict):
    """One parquet file."""

    name: str = Field(pattern=r"^[\w-]+\.parquet$")
    rows: int = Field(gt=0)
    size: int  # bytes
    sha256: str


class PreparedCounts(_Strict):
    """How many there are."""

    images: int
    captions: int | None = None
    samples: int | None = None
    per_class: dict[str, int] | None = None  # images by class id, in label order


class Origin(_Strict):
    """Where the images came from."""

    kind: str  # folder, archives, url, hub
    places: tuple[str, ...]
    revision: str | None = None  # of a hub repository


class Info(_Strict):
    """What dataset.json says."""

    schema_version: int = Field(alias="schema")
    name: str
    kind: str  # key of `KINDS`
    split: str
    variant: str  # as in Classification
    complete: bool  # the counts are the manifest's
    differences: tuple[str, ...]  # from the manifest's counts, in words
    counts: PreparedCounts
    fingerprint: str  # of ids, image bytes and annotations in any order: `combined` of `item_digest`
    source: Origin
    hierbench: str  # the version that wrote it
    pool: tuple[str, ...] | None = None  # of CaptionChains
    classes: dict[str, str] | None = None  # id -> name in prompts, where the manifest has none
    shards: tuple[Shard, ...] = Field(min_length=1)


DECODER_ERRORS = (OSError, ValueError, LookupError, TypeError, OverflowError, MemoryError, RuntimeError)
"""What pyarrow raises on damaged files: besides `pyarrow.ArrowException`."""

KINDS = {
    "classification": Classification,
    "multilabel": MultiLabel,
    "retrieval": Retrieval,
    "chains": CaptionChains,
}


# ------------------------------------------------------------------------------------------ reading a folder


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the folder holds a prepared dataset."""
    return (folder / RECORD).is_file()


def read(manifest: Manifest, folder: Path) -> AnyDataset:
    """The dataset as the reader of its source gave it: same ids, order and annotation.

    Raises DataError: another dataset, an unknown schema, missing or damaged
    shards, a label that is none of the manifest's classes.
    """
    info = load(folder)
    if info.name != manifest.name:
        raise DataError(
            f"{folder} holds the prepared dataset {info.name}, not {manifest.name}: give its folder"
        )
    columns = _columns(folder, info)
    images = PreparedImages(folder, [(shard.name, shard.rows) for shard in info.shards], columns.pop("id"))
    where = f"dataset {manifest.name} in {folder}"
    if info.kind == "classification":
        label_of = {class_id: label for label, class_id in enumerate(manifest.class_ids)}
        labels = _labels(columns["label"], label_of, where)
        return Classification(info.name, images, labels, manifest.class_ids, variant=info.variant)
    if info.kind == "multilabel":
        class_ids = manifest.class_ids if info.classes is None else tuple(info.classes)
        label_of = {class_id: label for label, class_id in enumerate(class_ids)}
        present = _matrix(columns["labels"], label_of, where)
        ignored = _matrix(columns["ignored"], label_of, where) if "ignored" in columns else None
        return MultiLabel(info.name, images, present, class_ids, ignored=ignored, variant=info.variant)
    if info.kind == "retrieval":
        captions, owner = _flattened(columns["captions"], columns["caption_rows"], where)
        return Retrieval(info.name, images, tuple(captions), owner, variant=info.variant)
    samples, owner = _flattened(
        columns["samples"], [[sample["row"] for sample in row] for row in columns["samples"]], where
    )
    return CaptionChains(
        name=info.name,
        images=images,
        sample_ids=tuple(sample["id"] for sample in samples),
        captions=tuple(tuple(sample["captions"]) for sample in samples),
        owner=owner,
        pool=info.pool,
    )


def load(folder: Path) -> Info:
    """What dataset.json says. Raises DataError where it cannot be read, or shards are not there with their sizes."""
    path = folder / RECORD
    again = "prepare it again with --force"
    document = read_json(path, "record", advice=again)
    version = document.get("schema") if isinstance(document, dict) else None
    if version != SCHEMA:
        raise DataError(
            f"{path} has schema {version!r}, this version of hierbench reads {SCHEMA}: {again}, or update hierbench"
        )
    try:
        info = Info.model_validate(document)
    except ValidationError as error:
        place, what = first_fault(error)
        raise DataError(f"{path} is damaged ({place}: {what}): {again}") from error
    if info.kind not in KINDS:
        raise DataError(f"{path} is damaged (kind {info.kind!r}): {again}")
    for shard in info.shards:
        shard_path = folder / shard.name
        size = shard_path.stat().st_size if shard_path.is_file() else None
        if size != shard.size:
            found = "is missing" if size is None else f"has {size:,} bytes instead of {shard.size:,}"
            raise DataError(f"dataset {info.name}: {shard_path} {found}: {again}")
    return info


class PreparedImages:
    """The images of a prepared folder, in memory-mapped shards that each process opens when it needs them.

    A read brings in one row group (about 2 MB); the last few are kept. Safe for threads and for forked or spawned
    worker processes.
    """

    def __init__(self, folder: Path, shards: Sequence[tuple[str, int]], ids: Sequence[str]):
        """`shards`: names and rows, in the order of `ids`."""
        self.folder, self.shards, self.ids = folder, tuple(shards), tuple(ids)
        self._row_of = {image_id: row for row, image_id in enumerate(self.ids)}
        if len(self._row_of) < len(self.ids):
            raise DataError(f"{folder} holds an image id twice: prepare it again with --force")
        self._starts = np.cumsum([0, *(rows for _, rows in self.shards)]).tolist()
        self._begin()

    def read(self, image_id: str) -> bytes:
        """Encoded bytes of one image as published. Raises DataError where the shard is gone or damaged."""
        row = self._row_of[image_id]
        if os.getpid() != self._process:  # forked: files and lock are the parent's
            self._begin()
        shard = bisect_right(self._starts, row) - 1
        with self._lock:
            images, place = self._group(shard, row - self._starts[shard])
        content = images[place].as_py()
        if not content:
            raise DataError(f"image {image_id} in {self.folder} is empty (0 bytes): prepare it again")
        return content

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """The record's and all shards': see `hierbench.data.stamps`."""
        return stamp_of([self.folder / RECORD, *(self.folder / name for name, _ in self.shards)])

    def _group(self, shard: int, row: int):
        """The row group's array of images and the row's place in it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.folder / self.shards[shard][0]
        try:
            if shard not in self._files:
                file = pq.ParquetFile(path, memory_map=True)
                counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
                self._files[shard] = file, np.cumsum([0, *counts]).tolist()
            file, starts = self._files[shard]
            group = bisect_right(starts, row) - 1
            if (shard, group) not in self._groups:
                column = file.read_row_group(group, columns=["image"], use_threads=False).column(0)
                self._groups[shard, group] = (
                    column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
                )
                if len(self._groups) > GROUPS_KEPT:
                    self._groups.popitem(last=False)
            self._groups.move_to_end((shard, group))
            return self._groups[shard, group], row - starts[group]
        except (pa.ArrowException, *DECODER_ERRORS) as error:
            raise DataError(_unreadable(path, error)) from error

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._files: dict[int, tuple[Any, list[int]]] = {}
        self._groups: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def __getstate__(self):
        return self.folder, self.shards, self.ids

    def __setstate__(self, state):
        self.__init__(*state)

    def __eq__(self, other):
        return isinstance(other, PreparedImages) and self.__getstate__() == other.__getstate__()

    __hash__ = None  # type: ignore[assignment]  # compared by content, which is too much to hash


def _columns(folder: Path, info: Info) -> dict[str, list[Any]]:
    """Every column but the images, over all shards."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for shard in info.shards:
        path = folder / shard.name
        try:
            file = pq.ParquetFile(regular_file(path, "shard"), memory_map=True)
            names = [name for name in file.schema_arrow.names if name != "image"]
            tables.append(file.read(columns=names, use_threads=False))
        except (pa.ArrowException, *DECODER_ERRORS) as error:
            raise DataError(_unreadable(path, error)) from error
        if not file.schema_arrow.equals(schema(info.kind, "ignored" in names)):
            raise DataError(_unreadable(path, "other columns"))
        if tables[-1].num_rows != shard.rows:
            raise DataError(_unreadable(path, f"{tables[-1].num_rows} rows instead of {shard.rows}"))
        try:
            tables[-1].validate(full=True)
            if any(_has_nulls(column.combine_chunks()) for column in tables[-1].columns):
                raise DataError(_unreadable(path, "values are missing"))
        except (pa.ArrowException, *DECODER_ERRORS) as error:
            raise DataError(_unreadable(path, error)) from error
    return pa.concat_tables(tables).to_pydict()


def _has_nulls(values: Any) -> bool:
    """Whether a value of an array, or a part of one, is missing."""
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        return any(_has_nulls(chunk) for chunk in values.chunks)
    if values.null_count:
        return True
    if pa.types.is_list(values.type):
        return _has_nulls(values.flatten())
    return pa.types.is_struct(values.type) and any(map(_has_nulls, values.flatten()))


def _unreadable(path: Path, error: BaseException | str) -> str:
    again = "`hierbench data verify` says what else is, prepare it again with --force"
    return f"{path} is damaged ({one_line(error)}): {again}"


def _labels(class_ids: Sequence[str], label_of: dict[str, int], where: str) -> np.ndarray:
    try:
        return np.array([label_of[class_id] for class_id in class_ids], np.int64)
    except KeyError as error:
        raise DataError(
            f"{where}: the label {error.args[0]!r} is none of the manifest's {len(label_of)} classes: was it "
            "prepared with another manifest?"
        ) from None


def _matrix(rows: Sequence[Sequence[str]], label_of: dict[str, int], where: str) -> np.ndarray:
    matrix = np.zeros((len(rows), len(label_of)), bool)
    for row, class_ids in enumerate(rows):
        matrix[row, _labels(class_ids, label_of, where)] = True
    return matrix


def _flattened(items: Sequence[Sequence[Any]], rows: Sequence[Sequence[int]], where: str):
    """Items listed by image, in the order that their rows say, with the position of each one's image."""
    placed = sorted(
        ((row, image) for image, of_image in enumerate(rows) for row in of_image), key=lambda pair: pair[0]
    )
    if [row for row, _ in placed] != list(range(len(placed))):
        raise DataError(f"{where}: captions are missing: prepare it again with --force")
    item_at = {
        row: item for ones, its in zip(items, rows, strict=True) for item, row in zip(ones, its, strict=True)
    }
    return [item_at[row] for row, _ in placed], np.array([image for _, image in placed], np.int64)


# ------------------------------------------------------------------------------------------ what is written


def kind_of(record: AnyDataset) -> str:
    """Key of `KINDS`. Raises DataError for questions on captions."""
    if isinstance(record, CaptionChoices):
        raise DataError(
            f"dataset {record.name} has no prepared form: it is read where it lies (--data {record.name}=DIR)"
        )
    return next(kind for kind, cls in KINDS.items() if isinstance(record, cls))


def annotation(record: AnyDataset) -> dict[str, list[Any]]:
    """The columns of a record besides id and image, one entry an image."""
    count = len(record.images.ids)
    if isinstance(record, Classification):
        return {"label": [record.class_ids[label] for label in record.labels.tolist()]}
    if isinstance(record, MultiLabel):
        columns = {"labels": _names_of(record.present, record.class_ids)}
        if record.ignored is not None:
            columns["ignored"] = _names_of(record.ignored, record.class_ids)
        return columns
    if isinstance(record, Retrieval):
        captions: list[list[str]] = [[] for _ in range(count)]
        rows: list[list[int]] = [[] for _ in range(count)]
        for row, (caption, image) in enumerate(zip(record.captions, record.owner.tolist(), strict=True)):
            captions[image].append(caption)
            rows[image].append(row)
        return {"captions": captions, "caption_rows": rows}
    assert isinstance(record, CaptionChains), "kind_of has refused any other"
    samples: list[list[dict[str, Any]]] = [[] for _ in range(count)]
    chains = zip(record.sample_ids, record.captions, record.owner.tolist(), strict=True)
    for row, (sample_id, levels, image) in enumerate(chains):
        samples[image].append({"row": row, "id": sample_id, "captions": list(levels)})
    return {"samples": samples}


def schema(kind: str, ignored: bool = False):
    """The columns of a shard, as a pyarrow schema."""
    import pyarrow as pa

    strings = pa.list_(pa.string())
    sample = pa.struct([("row", pa.int64()), ("id", pa.string()), ("captions", strings)])
    columns = {
        "classification": [("label", pa.string())],
        "multilabel": [("labels", strings), *([("ignored", strings)] if ignored else [])],
        "retrieval": [("captions", strings), ("caption_rows", pa.list_(pa.int64()))],
        "chains": [("samples", pa.list_(sample))],
    }[kind]
    return pa.schema([("id", pa.string()), ("image", pa.binary()), *columns])


def _names_of(matrix: np.ndarray, class_ids: Sequence[str]) -> list[list[str]]:
    return [[class_ids[label] for label in np.flatnonzero(row).tolist()] for row in matrix]


# ---------------------------------------------------------------------------------------------- fingerprints


def item_digest(identity: str, content: bytes, facts: dict[str, Any]) -> int:
    """A number for one image: its id, the hash of its bytes or pixels, its annotation (places left out)."""
    facts = {name: value for name, value in facts.items() if name != "caption_rows"}
    if "samples" in facts:
        facts["samples"] = [[sample["id"], sample["captions"]] for sample in facts["samples"]]
    text = json.dumps([identity, content.hex(), facts], ensure_ascii=False, sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())


def combined(digests: Sequence[int]) -> int:
    """Sum modulo 2²⁵⁶: the order does not matter, and parts can be combined again. Detects accidents, not forgery."""
    return sum(digests) % (1 << 256)


def as_fingerprint(total: int) -> str:
    """64 hex digits."""
    return f"{total:064x}"
