"""Samples out of tar shards (WebDataset layout): split over processes, shuffled, resumable, damage counted.

Shards are files, or URLs as `remote` reads them. Two layouts: GRIT as HyCoCLIP's preparation writes it (`child.jpg`,
`child.txt`, `numparents.txt`, `parentNNN.jpg`, `parentNNN.txt`; child = the whole image, parents = its boxes) and
plain pairs (`KEY.jpg`, `KEY.txt`).
"""

from __future__ import annotations

import glob
import random
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hierbench.errors import DataError
from hierbench.files import regular_file
from hierbench.reference.training.remote import RemoteShard, is_remote, list_remote

MAX_EPOCHS_WITHOUT = 100  # of shards shorter than their readers are many: quickly through
MAX_SHARDS = 1_000_000
IMAGE_SUFFIXES = ("jpg", "jpeg", "png", "webp")


@dataclass(frozen=True)
class RawSample:
    """One image with its caption and its boxes, still encoded."""

    key: str
    image: bytes
    caption: str
    parts: tuple[tuple[bytes, str], ...] = ()


@dataclass(frozen=True)
class Stream:
    """Which of the `count` readers (shares of a step x workers) this one is."""

    index: int
    count: int


def find_shards(pattern: str) -> list[str]:
    """Shards of a folder, a glob, or a brace range like `grit/{00000..00099}.tar`, sorted; each also as a URL.

    Raises DataError when there is none, or when a file of a brace range is missing or empty. Whether a URL of a
    range exists is not asked before it is read.
    """
    remote = is_remote(pattern)
    if not remote and Path(pattern).is_dir():
        files = sorted(str(path) for path in Path(pattern).glob("*.tar"))
    elif brace := re.search(r"\{(\d{1,9})\.\.(\d{1,9})\}", pattern):
        first, last = brace.groups()
        if int(last) - int(first) >= MAX_SHARDS:
            raise DataError(f"data.shards={pattern} stands for more than {MAX_SHARDS:,} shards")
        files = [
            pattern[: brace.start()] + str(number).zfill(len(first)) + pattern[brace.end() :]
            for number in range(int(first), int(last) + 1)
        ]
    elif remote:
        files = [pattern] if pattern.endswith(".tar") and "*" not in pattern else list_remote(pattern)
    else:
        files = sorted(glob.glob(pattern))
    if not files:
        raise DataError(
            f"no tar shards match {pattern}: give a folder, a glob or a range like x/{{000..099}}.tar"
        )
    for file in [] if remote else files:
        if not Path(file).is_file():
            raise DataError(f"shard {file} does not exist: check data.shards={pattern}")
        if Path(file).stat().st_size == 0:
            raise DataError(f"shard {file} is empty (0 bytes): fetch or prepare it again")
    return files


def read_stream(
    shards: Sequence[str],
    stream: Stream,
    parse: Callable[[dict[str, Any], Counter], RawSample | None],
    *,
    seed: int,
    tally: Counter,
) -> Iterator[RawSample]:
    """Endless samples of one reader; epoch after epoch the shards come in another order.

    With at least as many shards as readers each shard has one reader; with fewer, the readers of a shard take
    every m-th sample of it, which of a short shard may be none. Either way no sample is read twice in an epoch.
    Unreadable samples are skipped and counted in `tally`. Raises DataError for an epoch without a single usable one
    among a reader's samples, and for MAX_EPOCHS_WITHOUT a share.
    """
    epoch = without = 0
    while True:
        order = list(shards)
        random.Random(f"{seed}:{epoch}").shuffle(order)
        if len(order) >= stream.count:
            mine, step, offset = order[stream.index :: stream.count], 1, 0
        else:
            slot = stream.index % len(order)
            sharing = range(slot, stream.count, len(order))
            mine, step, offset = [order[slot]], len(sharing), sharing.index(stream.index)
        usable = seen = 0
        for shard in mine:
            for position, members in enumerate(_members(shard, tally)):
                if position % step != offset:
                    continue
                seen += 1
                sample = parse(members, tally)
                if sample is not None:
                    usable += 1
                    yield sample
        without = 0 if seen else without + 1
        if without > MAX_EPOCHS_WITHOUT:
            raise DataError(
                f"{stream.count} readers (processes x data.workers) share {len(order)} shards such as {order[0]}, "
                f"and one of them finds nothing to read: set data.workers so that there are at most {len(order)}"
            )
        if not usable and (seen or step == 1):
            raise DataError(
                f"no usable sample in {len(mine)} shard(s) such as {mine[0]}: {dict(tally) or 'no members'}"
            )
        epoch += 1


def shuffled(samples: Iterator[Any], size: int, seed: int) -> Iterator[Any]:
    """The same endless samples through a shuffle buffer of `size`, drawn from a named seed."""
    draw = random.Random(seed)
    buffer: list[Any] = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = draw.randrange(size)
        buffer[place], sample = sample, buffer[place]
        yield sample


def parse_grit(members: dict[str, Any], tally: Counter) -> RawSample | None:
    """A sample of GRIT's prepared layout; None, counted, where a member is missing or nothing is left to use."""
    image, caption, count = (members.get(name) for name in ("child.jpg", "child.txt", "numparents.txt"))
    if image is None or caption is None or count is None:
        tally["missing member"] += 1
        return None
    if not caption.strip():
        tally["empty caption"] += 1
        return None
    try:
        number = int(count)
    except ValueError:
        tally["unreadable numparents"] += 1
        return None
    parts = []
    for index in range(number):
        part_image, phrase = members.get(f"parent{index:03d}.jpg"), members.get(f"parent{index:03d}.txt")
        if part_image is None or phrase is None or not phrase.strip():
            tally["missing box"] += 1
            continue
        parts.append((part_image, _text(phrase)))
    return RawSample(members["__key__"], image, _text(caption), tuple(parts))


def parse_pair(members: dict[str, Any], tally: Counter) -> RawSample | None:
    """A sample of a plain image-caption tar; None, counted, where the image or the caption is missing."""
    image = next((members[suffix] for suffix in IMAGE_SUFFIXES if suffix in members), None)
    caption = members.get("txt") or members.get("caption")
    if image is None or caption is None:
        tally["missing member"] += 1
        return None
    if not caption.strip():
        tally["empty caption"] += 1
        return None
    return RawSample(members["__key__"], image, _text(caption))


def _members(shard: str, tally: Counter) -> Iterator[dict[str, Any]]:
    """Members of one shard grouped by key; a truncated or damaged shard gives what can be read and is counted.

    Raises DataError for a URL that cannot be read any more: that is no damage of the shard's.
    """
    from webdataset.tariterators import group_by_keys, tar_file_iterator

    with ExitStack() as held:
        remote = held.enter_context(RemoteShard(shard)) if is_remote(shard) else None
        file = remote or held.enter_context(regular_file(Path(shard), "shard").open("rb"))

        def goes_on(error: Exception) -> bool:
            if remote is not None and remote.failed is not None:
                return False
            tally["damaged member"] += 1
            return True

        try:
            files = ({**member, "__url__": shard} for member in tar_file_iterator(file, handler=goes_on))
            yield from group_by_keys(files, handler=goes_on)
        except Exception:  # tarfile raises many kinds for a truncated archive
            if remote is None or remote.failed is None:
                tally["damaged shard"] += 1
        if remote is not None and remote.failed is not None:
            raise DataError(str(remote.failed))


def told_samples(
    shard: str, parse: Callable[[dict[str, Any], Counter], RawSample | None], tally: Counter
) -> Iterator[RawSample]:
    """Samples of one shard on disk as `parse` judges them, their images left unread (b""): for counting.

    Damage of the archive is counted in `tally` as in training, so far as it shows without reading images.
    """
    from webdataset.tariterators import group_by_keys

    def goes_on(error: Exception) -> bool:
        tally["damaged member"] += 1
        return True

    def members(archive: tarfile.TarFile) -> Iterator[dict[str, Any]]:
        for info in archive:
            if info.isfile():
                told = archive.extractfile(info) if info.name.lower().endswith((".txt", ".caption")) else None
                yield {"fname": info.name, "data": told.read() if told else b"", "__url__": shard}
            archive.members = []  # type: ignore[attr-defined]  # or it keeps every header

    try:
        with regular_file(Path(shard), "shard").open("rb") as file, tarfile.open(fileobj=file) as archive:
            for sample in group_by_keys(members(archive), handler=goes_on):
                parsed = parse(sample, tally)
                if parsed is not None:
                    yield parsed
    except (tarfile.TarError, EOFError, ValueError):
        tally["damaged shard"] += 1


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace").strip()
