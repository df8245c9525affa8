"""Reads WebDataset shards in the layout of `clip-benchmark/wds_*`: `test/0.tar` with KEY.jpg and KEY.cls or KEY.txt.

`KEY.cls` holds a number whose name is that line of `classnames.txt` (from 0); `KEY.txt` holds captions, one a line.
Where `class_ids.txt` lies beside it, that says what the numbers mean: an export under the released protocol has the
released names, some of which stand for the wrong class.
Archives are never unpacked: images are read from where they lie in them.
"""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from hierbench.data.datasets import Classification, Retrieval
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import first_there, read_text, subfolders
from hierbench.data.readers._labels import SERVED, by_names, classification
from hierbench.data.readers._retrieval import retrieval
from hierbench.errors import DataError

NAME = "wds"
IMAGES = ("jpg", "jpeg", "png", "webp")
NAMES = ("class_ids.txt", "../class_ids.txt", "classnames.txt", "../classnames.txt")


@dataclass(frozen=True)
class TarImages:
    """Images inside of tar files; an id is `SHARD/KEY.jpg`."""

    shards: tuple[Path, ...]
    ids: tuple[str, ...]
    places: tuple[tuple[int, int, int], ...] = field(repr=False)  # of each id: shard, offset, size
    _row: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self):
        self._row.update((image_id, row) for row, image_id in enumerate(self.ids))

    def read(self, image_id: str) -> bytes:
        """Encoded bytes of one image. DataError where the archive is cut off."""
        shard, offset, size = self.places[self._row[image_id]]
        return _read(self.shards[shard], offset, size)


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether numbered tar files lie in the folder, in `test/` or in another folder just below."""
    return bool(SERVED & set(manifest.tasks) and _shards(folder)[1])


def read(manifest: Manifest, folder: Path) -> Classification | Retrieval:
    """Samples in the order of the shards. Raises DataError: damaged archives, samples without image, label or
    captions, no `classnames.txt`, labels outside of it, names that are no classes.
    """
    root, shards = _shards(folder)
    if not shards:
        raise DataError(f"dataset {manifest.name}: {folder} has no shards such as test/0.tar")
    captioned = "retrieval" in manifest.tasks
    kind = "txt" if captioned else "cls"
    ids: list[str] = []
    places: list[tuple[int, int, int]] = []
    texts: list[str] = []
    for number, shard in enumerate(shards):
        for key, parts in _samples(shard).items():
            image = next((suffix for suffix in IMAGES if suffix in parts), None)
            if image is None or kind not in parts:
                lacking = "image" if image is None else f".{kind}"
                raise DataError(
                    f"dataset {manifest.name}: sample {key} of {shard} has no {lacking}: fetch it again"
                )
            ids.append(f"{shard.stem}/{key}.{image}")
            places.append((number, *parts[image]))
            try:
                texts.append(_read(shard, *parts[kind]).decode())
            except UnicodeDecodeError:
                raise DataError(
                    f"sample {key} of {shard}: its .{kind} is not UTF-8 text: fetch it again"
                ) from None
    images = TarImages(tuple(shards), tuple(ids), tuple(places))
    if captioned:
        captions = [[line for line in text.splitlines() if line.strip()] for text in texts]
        return retrieval(manifest, images, captions, str(root))
    names = first_there(root, NAMES)
    if names is None:
        raise DataError(
            f"dataset {manifest.name}: {root} has no classnames.txt, which says what its labels mean: fetch it too"
        )
    labels = []
    for image_id, text in zip(ids, texts, strict=True):
        if not re.fullmatch(r"-?\d{1,9}", text.strip()):
            raise DataError(
                f"dataset {manifest.name}: the label of {image_id} is {text.strip()[:20]!r}, no number"
            )
        labels.append(int(text))
    lines = [line.strip() for line in read_text(names, "class names").splitlines()]
    class_ids = by_names(manifest, lines, labels, f"the names in {names}")
    return classification(manifest, images, class_ids)


def _shards(folder: Path) -> tuple[Path, list[Path]]:
    """Folder and shards, in the order of their numbers; a folder below is taken for a mirror's repository."""
    for root in (folder, *subfolders(folder)):
        for place in (root / "test", root / "validation", root / "val", root):
            found = [path for path in place.glob("*.tar") if re.fullmatch(r"(.*\D)?\d+", path.stem)]
            if found:
                return place, sorted(found, key=lambda path: (len(path.stem), path.stem))
    return folder, []


def _samples(shard: Path) -> dict[str, dict[str, tuple[int, int]]]:
    """Offset and size by suffix of every key of an archive, in its order."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    try:
        length = shard.stat().st_size
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                key, _, suffix = member.name.removeprefix("./").partition(".")
                if member.isfile():
                    found.setdefault(key, {})[suffix.lower()] = (member.offset_data, member.size)
                    if member.offset_data + member.size > length:
                        raise tarfile.ReadError("it ends within a member")
    except (OSError, tarfile.TarError) as error:
        raise DataError(f"archive {shard} is damaged ({error}): fetch it again") from error
    return found


def _read(shard: Path, offset: int, size: int) -> bytes:
    try:
        with open(shard, "rb") as file:
            file.seek(offset)
            content = file.read(size)
    except OSError as error:
        raise DataError(f"archive {shard} cannot be read: {error.strerror}") from error
    if len(content) != size or not size:
        raise DataError(f"archive {shard} is cut off or has an empty member: fetch it again")
    return content
