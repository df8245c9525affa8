"""Checking a dataset: counts, hashes of the prepared form, and fingerprints of bytes or of pixels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hierbench.acquire.counting import check
from hierbench.data import prepared
from hierbench.data.datasets import AnyDataset
from hierbench.data.locate import Locations
from hierbench.data.manifests import load_manifest
from hierbench.data.prepared import PreparedCounts
from hierbench.errors import DataError
from hierbench.files import sha256
from hierbench.pool import each
from hierbench.progress import Progress, choose

PART = 512  # images that a process checks at a time


@dataclass(frozen=True)
class Verified:
    """A dataset that was read whole and is what it says it is."""

    name: str
    folder: Path | None  # None: built in
    prepared: bool
    variant: str
    counts: PreparedCounts
    differences: tuple[str, ...]  # of the counts from the manifest's
    fingerprint: str  # of ids, image bytes and annotation
    pixels: str | None  # of decoded pixels and annotation, without ids; where asked for


def verify(
    name: str,
    locations: Locations,
    *,
    pixels: bool = False,
    workers: int = 1,
    progress: Progress | bool | None = None,
) -> Verified:
    """Read every image of a dataset, count and hash; with `pixels`, decode as well.

    Of a prepared dataset every shard's hash, the counts and the content fingerprint must be those of its
    dataset.json. Two sources of one dataset that are byte-identical or lossless have the same `pixels`, whatever their
    image ids, order and label numbers. Raises UnknownNameError, MissingDataError, and DataError saying what is damaged.
    """
    from hierbench.data.readers import open_dataset

    manifest = load_manifest(name)
    folder = None if manifest.reader == "miniature" else locations.find(name)
    progress = choose(progress)
    info = None
    if folder is not None and (folder / prepared.RECORD).is_file():
        info = prepared.load(folder)
        _check_shards(folder, info, workers, progress)
    record = open_dataset(name, locations)
    counts, differences = check(manifest, record)
    content, seen = _digests(record, pixels, workers, progress)
    fingerprint = prepared.as_fingerprint(content)
    if info is not None:
        again = "prepare it again with --force"
        if counts != info.counts:
            raise DataError(
                f"dataset {name}: {folder} holds other counts than its dataset.json says: {again}"
            )
        if fingerprint != info.fingerprint:
            raise DataError(
                f"dataset {name}: the content of {folder} has the fingerprint {fingerprint[:16]}…, its dataset.json "
                f"says {info.fingerprint[:16]}…: {again}"
            )
    return Verified(
        name=name,
        folder=folder,
        prepared=info is not None,
        variant=getattr(record, "variant", ""),
        counts=counts,
        differences=tuple(differences),
        fingerprint=fingerprint,
        pixels=None if seen is None else prepared.as_fingerprint(seen),
    )


def _check_shards(folder: Path, info: prepared.Info, workers: int, progress: Progress) -> None:
    """Raise DataError naming the shards whose bytes are not those that were written."""
    wrong = []
    with progress.bar(f"{info.name}: shards", len(info.shards)) as advance:
        for name, actual, expected in each(partial(_hashed, folder), info.shards, workers, "run it again"):
            if actual != expected:
                wrong.append(f"{name} has SHA-256 {actual[:16]}… instead of {expected[:16]}…")
            advance(1)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise DataError(
            f"dataset {info.name} in {folder} is damaged: {sorted(wrong)[0]}{more}: prepare it again with --force"
        )


def _hashed(folder: Path, shard: prepared.Shard) -> tuple[str, str, str]:
    try:
        return shard.name, sha256(folder / shard.name), shard.sha256
    except OSError as error:
        raise DataError(f"{folder / shard.name} cannot be read: {error.strerror or error}") from error


def _digests(record: AnyDataset, pixels: bool, workers: int, progress: Progress) -> tuple[int, int | None]:
    """The numbers behind the fingerprints of content and, where asked for, of pixels."""
    columns = prepared.annotation(record)
    total = len(record.images.ids)
    parts = [range(start, min(start + PART, total)) for start in range(0, total, PART)]

    def digest(rows: range) -> tuple[int, int, int]:
        return len(rows), *_digest(record, columns, rows, pixels)

    contents, seen = [], []
    with progress.bar(f"{record.name}: images", total) as advance:
        for count, content, picture in each(digest, parts, workers, "run it again"):
            contents.append(content)
            seen.append(picture)
            advance(count)
    return prepared.combined(contents), prepared.combined(seen) if pixels else None


def _digest(
    record: AnyDataset, columns: dict[str, list[Any]], rows: Sequence[int], pixels: bool
) -> tuple[int, int]:
    contents, seen = [], []
    for row in rows:
        image_id = record.images.ids[row]
        content = record.images.read(image_id)
        facts = {name: values[row] for name, values in columns.items()}
        contents.append(prepared.item_digest(image_id, hashlib.sha256(content).digest(), facts))
        if pixels:
            seen.append(
                prepared.item_digest("", _pixels(content, f"{image_id} of {record.name}"), _plain(facts))
            )
    return prepared.combined(contents), prepared.combined(seen)


def _pixels(content: bytes, where: str) -> bytes:
    from hierbench.data.images import decode

    image = decode(content, where)
    digest = hashlib.sha256(f"{image.width}x{image.height}".encode())
    digest.update(image.tobytes())
    return digest.digest()


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """An image's annotation without what sources write differently: white space and order of captions, empty lists."""
    plain = dict(facts)
    if "captions" in plain:
        plain["captions"] = sorted(" ".join(caption.split()) for caption in plain["captions"])
    for name in ("labels", "ignored"):
        if name in plain:
            plain[name] = sorted(plain[name])
    if plain.get("ignored") == []:
        del plain["ignored"]
    return plain
