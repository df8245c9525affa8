"""Reads a folder that TensorFlow Datasets has prepared, without TensorFlow.

`DATASET-SPLIT.tfrecord-00000-of-00004` holds framed records (tensorflow.org/tutorials/load_data/tfrecord): length,
CRC of the length, content, CRC of the content. A record is a tf.train.Example in protobuf's wire format
(protobuf.dev/programming-guides/encoding). `label.labels.txt` says what each label means.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hierbench.data.datasets import Classification
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import all_of, first_there, read_lines, subfolders
from hierbench.data.readers._labels import SERVED, by_names, classification
from hierbench.data.readers._tfds_order import slice_of, split_of
from hierbench.data.stamps import stamp_of
from hierbench.errors import DataError
from hierbench.files import regular_file
from hierbench.json_files import read_json

NAME = "tfds"
DEPTH = 4  # DATASET/CONFIG/VERSION below a data folder
Bytes = memoryview | bytes
IMAGE, LABEL = b"image", b"label"
FILE_NAMES = (b"file_name", b"filename", b"image/file_name", b"image/filename")
_SHARD = re.compile(r"(?P<dataset>.+)-(?P<split>[a-z_]+)\.tfrecord-(?P<number>\d{5})-of-(?P<count>\d{5})")


@dataclass(frozen=True)
class RecordImages:
    """Images inside of TFRecord files."""

    shards: tuple[Path, ...]
    ids: tuple[str, ...]
    places: tuple[tuple[int, int, int], ...] = field(
        repr=False
    )  # of each id: shard, offset and size of the record
    _row: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self):
        self._row.update((image_id, row) for row, image_id in enumerate(self.ids))

    def read(self, image_id: str) -> bytes:
        """Encoded bytes of one image, as TFDS stores them. DataError."""
        number, offset, size = self.places[self._row[image_id]]
        with open(self.shards[number], "rb") as file:
            file.seek(offset)
            features = _features(memoryview(file.read(size)), self.shards[number])
        return bytes(_strings(features[IMAGE])[0])

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """See `hierbench.data.stamps`."""
        return stamp_of(self.shards, str(self.places))


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether TFRecord shards lie in the folder or below."""
    return bool(manifest.classes and SERVED & set(manifest.tasks) and _prepared(folder))


def read(manifest: Manifest, folder: Path) -> Classification:
    """The manifest's split of the prepared dataset, in TFDS' order.

    Ids are `CLASS/FILE` where the examples name distinct files, else `test/00017`, the row in TFDS' split.
    Raises DataError: no such split, shards missing or damaged, no image or label in a record, labels outside the
    names, several configurations of which no single one has the right number of images.
    """
    found = {root: _indexed(manifest, root) for root in _prepared(folder)}
    if not found:
        raise DataError(
            f"dataset {manifest.name}: {folder} has no prepared TFDS dataset (….tfrecord-00000-of-00001)"
        )
    root = _the_one(manifest, folder, {root: len(rows) for root, (_, rows) in found.items()})
    shards, rows = found[root]
    table = first_there(root, ["label.labels.txt"])
    if table is None:
        raise DataError(
            f"dataset {manifest.name}: {root} has no label.labels.txt, which says what its labels mean"
        )
    names = [line for _, line in read_lines(table, "class names")]
    class_ids = by_names(manifest, names, [label for label, _, _ in rows], f"the names in {table}")
    ids = [_id(name, class_id) for class_id, (_, name, _) in zip(class_ids, rows, strict=True)]
    if len(set(ids)) != len(ids) or "" in ids:
        ids = [f"{split_of(manifest.split)[0]}/{row:05d}" for row in range(len(rows))]
    images = RecordImages(tuple(shards), tuple(ids), tuple(place for _, _, place in rows))
    return classification(manifest, images, class_ids)


def _prepared(folder: Path) -> list[Path]:
    """Folders with TFRecord shards in or below the folder."""
    found, level = [], [folder]
    for _ in range(DEPTH):
        found += [
            path for path in level if any(_SHARD.fullmatch(file.name) for file in path.glob("*.tfrecord-*"))
        ]
        level = [] if found else [below for path in level for below in subfolders(path)]
    return found


def _the_one(manifest: Manifest, folder: Path, counts: dict[Path, int]) -> Path:
    if len(counts) == 1:
        return next(iter(counts))
    fitting = [root for root, count in counts.items() if count == manifest.counts.images]
    if len(fitting) != 1:
        listed = ", ".join(f"{root.relative_to(folder)} ({count})" for root, count in counts.items())
        raise DataError(
            f"dataset {manifest.name}: {folder} holds several prepared datasets ({listed} images): give one of them"
        )
    return fitting[0]


def _indexed(
    manifest: Manifest, root: Path
) -> tuple[list[Path], list[tuple[int, str, tuple[int, int, int]]]]:
    """The split's shards, and label, file name and place of every example of the slice."""
    split, start, stop = split_of(manifest.split)
    by_split: dict[str, dict[int, Path]] = {}
    totals: dict[str, set[int]] = {}
    for path in root.glob("*.tfrecord-*"):
        if name := _SHARD.fullmatch(path.name):
            by_split.setdefault(name["split"], {})[int(name["number"])] = path
            totals.setdefault(name["split"], set()).add(int(name["count"]))
    if split not in by_split:
        split = next(
            (other for other in ("test", "validation") if other in by_split and not (start or stop)), ""
        )
        if not split:
            raise DataError(
                f"dataset {manifest.name}: {root} has no shards of the split {split_of(manifest.split)[0]}"
            )
    shards = all_of(manifest, root, by_split[split], totals[split])
    lengths = _lengths(root, split)
    rows = []
    for number, shard in enumerate(shards):
        found = [(label, name, (number, offset, size)) for label, name, offset, size in _examples(shard)]
        if lengths and (number >= len(lengths) or lengths[number] != len(found)):
            told = lengths[number] if number < len(lengths) else "no"
            raise DataError(
                f"dataset {manifest.name}: {shard} has {len(found)} examples, dataset_info.json says {told}: "
                "fetch it again"
            )
        rows += found
    return shards, rows[slice_of(start, stop, len(rows))]


def _lengths(root: Path, split: str) -> list[int]:
    """Examples of each shard of a split as dataset_info.json has them; empty where it does not say."""
    path = root / "dataset_info.json"
    if not path.exists():
        return []
    told = read_json(path, "dataset description")
    try:
        (found,) = [part for part in told["splits"] if part["name"] == split] if "splits" in told else [{}]
        return [int(length) for length in found.get("shardLengths", ())]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"dataset description {path} is damaged: fetch it again") from error


def _examples(shard: Path) -> Iterator[tuple[int, str, int, int]]:
    """Label, file name (or ""), offset and size of every record of a file; image bytes are passed over."""
    with open(regular_file(shard, "shard"), "rb") as file:
        if not file.seek(0, 2):
            return
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))  # let go with its last slice
    offset = 0
    while offset < len(view):
        if len(view) - offset < 12:
            raise DataError(f"shard {shard} ends within a record: fetch it again")
        length, check = struct.unpack_from("<QI", view, offset)
        if _masked_crc(bytes(view[offset : offset + 8])) != check:
            raise DataError(
                f"shard {shard} is damaged at byte {offset} (length and CRC disagree): fetch it again"
            )
        start, offset = offset + 12, offset + 16 + length
        if offset > len(view):
            raise DataError(f"shard {shard} ends within a record: fetch it again")
        features = _features(view[start : start + length], shard)
        name = next((bytes(_strings(features[key])[0]) for key in FILE_NAMES if key in features), b"")
        yield _integer(features[LABEL]), name.decode("utf-8", "replace"), start, length


def _features(record: memoryview, shard: Path) -> dict[bytes, tuple[int, Bytes]]:
    """Feature name -> (kind, serialised list); kind 1 = bytes, 2 = floats, 3 = integers. DataError if damaged."""
    found: dict[bytes, tuple[int, Bytes]] = {}
    try:
        for _, features in _messages(record):
            for _, entry in _messages(features):
                (_, key), (_, feature) = _messages(entry)
                found[bytes(key)] = next(_messages(feature), (0, b""))
    except (IndexError, ValueError, TypeError) as error:
        raise DataError(f"shard {shard} has a record that is no tf.train.Example: fetch it again") from error
    if lacking := [key.decode() for key in (IMAGE, LABEL) if found.get(key, (0, b""))[0] not in (1, 3)]:
        raise DataError(
            f"shard {shard} has a record without {' and '.join(lacking)}: is it an image classification set?"
        )
    return found


def _messages(message: Bytes) -> Iterator[tuple[int, Bytes]]:
    """As `_fields`, of a message whose fields are messages or strings; ValueError for numbers."""
    for number, value in _fields(message):
        if isinstance(value, int):
            raise ValueError("a number where a message is expected")
        yield number, value


def _fields(message: Bytes) -> Iterator[tuple[int, Bytes | int]]:
    """Number and value of a message's fields: varints as integers, the rest as views on the bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, at = _varint(message, at)
        else:
            size = {1: 8, 5: 4}[wire] if wire in (1, 5) else -1
        if size < 0 or at + size > len(message):
            raise ValueError("field beyond the end")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: Bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _strings(feature: tuple[int, Bytes]) -> list[Bytes]:
    return [value for _, value in _fields(feature[1]) if not isinstance(value, int)] or [b""]


def _integer(feature: tuple[int, Bytes]) -> int:
    """The only integer of a list, packed or not; -1 for an empty list, which no class has."""
    for _, value in _fields(feature[1]):
        number = value if isinstance(value, int) else _varint(value, 0)[0] if len(value) else -1
        return number - (1 << 64) if number >= 1 << 63 else number
    return -1


def _id(name: str, class_id: str) -> str:
    name = name.strip("/")
    return name if "/" in name or not name else f"{class_id}/{name}"


def _masked_crc(content: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_table() -> tuple[int, ...]:
    """CRC-32C (Castagnoli), the remainders of single bytes."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_CRC = _crc_table()
