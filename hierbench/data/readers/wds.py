"""Reads WebDataset shards in the layout of `clip-benchmark/wds_*`: `test/0.tar` with KEY.jpg and KEY.cls or KEY.txt.

`KEY.cls` holds a number whose name is that line of `classnames.txt` (from 0); `KEY.txt` holds captions, one a line;
`KEY.npy` and `KEY.ignored.npy` hold a 0 or 1 a class, in our own exports of images with several labels.
Where `class_ids.txt` lies beside it, that says what the numbers mean: an export under the released protocol has the
released names, some of which stand for the wrong class.
Archives are never unpacked: images are read from where they lie in them.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hierbench.data.datasets import Classification, MultiLabel, Retrieval
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import VARIANT, first_there, read_lines, read_text, subfolders
from hierbench.data.readers._labels import SERVED, by_names, class_ids_of, classification
from hierbench.data.readers._multilabel import multilabel
from hierbench.data.readers._retrieval import retrieval
from hierbench.data.stamps import stamp_of
from hierbench.errors import DataError
from hierbench.files import regular_file, text_lines

NAME = "wds"
IMAGES = ("jpg", "jpeg", "png", "webp")
KINDS = {"retrieval": "txt", "multilabel": "npy"}  # task -> suffix of the annotation; of the others cls
IGNORED = "ignored.npy"
NAMES = ("class_ids.txt", "../class_ids.txt", "classnames.txt", "../classnames.txt")

Place = tuple[int, int, int]  # shard, offset, size


@dataclass(frozen=True)
class TarImages:
    """Images inside of tar files; an id is `SHARD/KEY.jpg`."""

    shards: tuple[Path, ...]
    ids: tuple[str, ...]
    places: tuple[Place, ...] = field(repr=False)  # of each id
    _row: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self):
        self._row.update((image_id, row) for row, image_id in enumerate(self.ids))

    def read(self, image_id: str) -> bytes:
        """Encoded bytes of one image. DataError where the archive is cut off."""
        shard, offset, size = self.places[self._row[image_id]]
        return _read(self.shards[shard], offset, size)

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """See `hierbench.data.stamps`."""
        return stamp_of(self.shards, str(self.places))


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether numbered tar files lie in the folder, in `test/` or in another folder just below."""
    root, shards = _shards(folder) if {*SERVED, "multilabel"} & set(manifest.tasks) else (folder, [])
    return bool(shards) and ("multilabel" not in manifest.tasks or _has_several(root))


def read(manifest: Manifest, folder: Path) -> Classification | MultiLabel | Retrieval:
    """Samples in the order of the shards. Raises DataError: damaged archives, another number of shards than
    `nshards.txt` says, keys that repeat, samples without image, label or captions, no table of names or one of another
    length than there are classes, labels outside of it, names that are no classes.
    """
    root, shards = _shards(folder)
    if not shards:
        raise DataError(f"dataset {manifest.name}: {folder} has no shards such as test/0.tar")
    _check_count(manifest, root, len(shards))
    kind = next((k for task, k in KINDS.items() if task in manifest.tasks), "cls")
    ids: list[str] = []
    places: list[Place] = []
    annotations: list[bytes] = []
    ignored: list[bytes | None] = []
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
            annotations.append(_read(shard, *parts[kind]))
            ignored.append(_read(shard, *parts[IGNORED]) if IGNORED in parts else None)
    images = TarImages(tuple(shards), tuple(ids), tuple(places))
    if kind == "npy":
        return _several(manifest, root, images, annotations, ignored)
    texts = [_text(content, image_id, kind) for image_id, content in zip(ids, annotations, strict=True)]
    if kind == "txt":
        captions = [[line for line in text_lines(text) if line.strip()] for text in texts]
        return retrieval(manifest, images, captions, str(root))
    table, names = _names(manifest, root, NAMES)
    labels = []
    for image_id, text in zip(ids, texts, strict=True):
        if not re.fullmatch(r"-?[0-9]{1,9}", text.strip()):
            raise DataError(
                f"dataset {manifest.name}: the label of {image_id} is {text.strip()[:20]!r}, no number"
            )
        labels.append(int(text))
    return classification(manifest, images, by_names(manifest, names, labels, f"the names in {table}"))


def _several(
    manifest: Manifest,
    root: Path,
    images: TarImages,
    present: Sequence[bytes],
    ignored: Sequence[bytes | None],
) -> MultiLabel:
    """Images with a vector of zeros and ones each, a place a class."""
    table, names = _names(manifest, root, NAMES)
    words = names
    if manifest.classes:
        by_names(manifest, names, (), f"the names in {table}")
        meaning = class_ids_of(manifest, names, f"the table {table}")
        words = [meaning[name] for name in names]

    def labels(vectors: Sequence[bytes | None]) -> list[list[str]]:
        found = []
        for image_id, content in zip(images.ids, vectors, strict=True):
            vector = (
                _vector(content, len(words), image_id) if content is not None else np.zeros(len(words), bool)
            )
            found.append([words[k] for k in np.flatnonzero(vector).tolist()])
        return found

    without = labels(ignored) if any(content is not None for content in ignored) else None
    return multilabel(manifest, images, labels(present), ignored=without, class_ids=words)


def _names(manifest: Manifest, root: Path, places: Sequence[str]) -> tuple[Path, list[str]]:
    """The table that says what the numbers mean, and its lines."""
    path = first_there(root, places)
    if path is None:
        raise DataError(
            f"dataset {manifest.name}: {root} has no classnames.txt, which says what its labels mean: fetch it too"
        )
    return path, [line for _, line in read_lines(path, "class names")]


def _vector(content: bytes, count: int, image_id: str) -> np.ndarray:
    try:
        vector = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # numpy raises nearly anything on corrupt input
        raise DataError(f"the labels of {image_id} are no numpy array: fetch it again") from error
    if getattr(vector, "shape", None) != (count,) or not np.isin(vector, (0, 1)).all():
        raise DataError(
            f"the labels of {image_id} are not {count} zeros and ones, one a class: fetch it again"
        )
    return vector


def _text(content: bytes, image_id: str, kind: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise DataError(f"sample {image_id}: its .{kind} is not UTF-8 text: fetch it again") from None


def _has_several(root: Path) -> bool:
    """Whether these are our own shards of images with several labels: others do not say which labels count neither as
    present nor as absent, and would give another figure.
    """
    kind, own = (first_there(root, (name, f"../{name}")) for name in ("dataset_type.txt", VARIANT))
    return kind is not None and own is not None and read_text(kind, "dataset type").strip() == "multilabel"


def _check_count(manifest: Manifest, root: Path, count: int) -> None:
    """Raise DataError where another number of shards lies there than was written."""
    path = root / "nshards.txt"
    if not path.exists():
        return
    told = read_text(path, "number of shards").strip()
    if told != str(count):
        raise DataError(
            f"dataset {manifest.name}: {root} has {count} shards, its nshards.txt says {told[:20]!r}: some are "
            "missing, or left over from another version; fetch it again into an empty folder"
        )


def _shards(folder: Path) -> tuple[Path, list[Path]]:
    """Folder and shards, in the order of their numbers; a folder below is taken for a mirror's repository."""
    for root in (folder, *subfolders(folder)):
        for place in (root / "test", root / "validation", root / "val", root):
            found = [path for path in place.glob("*.tar") if re.fullmatch(r"(.*\D)?\d+", path.stem)]
            if found:
                return place, sorted(found, key=lambda path: (len(path.stem), path.stem))
    return folder, []


def _samples(shard: Path) -> dict[str, dict[str, tuple[int, int]]]:
    """Offset and size by suffix of every key of an archive, in its order; a key ends at a file name's first dot."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    try:
        length = regular_file(shard, "archive").stat().st_size
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                above, slash, base = member.name.removeprefix("./").rpartition("/")
                stem, _, suffix = base.partition(".")
                if (
                    not member.isfile() or not stem or not suffix
                ):  # `._1.jpg` is macOS' description of another file
                    continue
                if member.offset_data + member.size > length:
                    raise tarfile.ReadError("it ends within a member")
                parts = found.setdefault(f"{above}{slash}{stem}", {})
                if suffix.lower() in parts:
                    raise DataError(
                        f"archive {shard} holds {member.name} twice, or two samples of that key: number them apart"
                    )
                parts[suffix.lower()] = (member.offset_data, member.size)
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
