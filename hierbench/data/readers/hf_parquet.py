"""Reads Hugging Face image datasets in parquet: `data/test-00000-of-00002.parquet`.

Images are structs {bytes, path}, one row an image or, of captions, several. Labels are numbers whose names stand in the
schema's metadata (`huggingface`, ClassLabel); captions are strings or lists of strings. Images stay in the file until
one is asked for.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hierbench.data.datasets import Classification, Retrieval
from hierbench.data.manifests import Manifest
from hierbench.data.prepared import DECODER_ERRORS
from hierbench.data.readers._files import all_of, subfolders
from hierbench.data.readers._labels import OTHER_SPLIT, SERVED, by_names, class_ids_of, classification
from hierbench.data.readers._retrieval import retrieval
from hierbench.data.stamps import stamp_of
from hierbench.errors import DataError, one_line
from hierbench.files import regular_file

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "hf-parquet"
SPLITS = ("test", "validation", "valid", "val", "train")
"""Which files are read, the first that exist; an ImageNet-like dataset, whose test labels are secret, has `val`."""

CAPTIONS = ("captions", "caption", "sentences", "sentences_raw", "caption_list", "text", "raw")
FILE_NAMES = ("filename", "file_name", "image_path")
IMAGE_NUMBERS = ("image_id", "imgid", "cocoid", "img_id")
OF = re.compile(r"-(\d+)-of-(\d+)\.parquet$")

T = TypeVar("T")
Place = tuple[int, int, int]  # file, row group, row in it


@dataclass(frozen=True)
class ParquetImages:
    """Images in parquet files, one row group in memory at a time."""

    files: tuple[Path, ...]
    column: str
    ids: tuple[str, ...]
    places: tuple[Place, ...] = field(repr=False)  # of each id
    _row: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self):
        self._row.update((image_id, row) for row, image_id in enumerate(self.ids))

    def read(self, image_id: str) -> bytes:
        """Encoded bytes as they stand in the file. DataError where there are none."""
        file, group, row = self.places[self._row[image_id]]
        content = _content(_row_group(self.files[file], group, self.column)[row])
        if not content:
            raise DataError(
                f"image {image_id} has no bytes in {self.files[file]}: take a version with images inside"
            )
        return content

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """See `hierbench.data.stamps`."""
        return stamp_of(self.files, f"{self.column} {self.places}")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether parquet files of a split lie in the folder, in `data/` or in another folder just below."""
    return bool(SERVED & set(manifest.tasks) and _files(manifest, folder)[1])


def read(manifest: Manifest, folder: Path) -> Classification | Retrieval:
    """Labels or captions, by what the manifest's tasks want. Ids are file names where a column gives distinct ones,
    else `test/00017`, the row in the split. Rows of one image (one a caption) become one image with all captions.

    Raises DataError: damaged files, files missing of those their names count, no images, no labels or captions,
    labels outside the names, unknown names, columns that are missing, doubled, empty or of another type.
    """
    split, files = _files(manifest, folder)
    if not files:
        raise DataError(
            f"dataset {manifest.name}: {folder} has no parquet files such as data/test-00000-of-00001.parquet"
        )
    where = f"{files[0].parent}/{split}-*.parquet"
    schema = _schema(files)
    image = _image_column(manifest, schema, where)
    columns = [name for name in schema.names if _is_small(schema.field(name).type)]
    rows, places = _table(files, columns)
    if "split" in columns and "test" in rows["split"]:  # all splits in one file, as Karpathy's are
        kept = [row for row, name in enumerate(rows["split"]) if name == "test"]
        rows = {name: [values[row] for row in kept] for name, values in rows.items()}
        places = [places[row] for row in kept]
    if "retrieval" in manifest.tasks:
        captions = _captions(manifest, rows, where)
        groups = _rows_of_images(files, image, rows, places, where)
        first = [group[0] for group in groups]
        ids = _ids(split, {name: [values[row] for row in first] for name, values in rows.items()}, len(first))
        images = ParquetImages(tuple(files), image, ids, tuple(places[row] for row in first))
        return retrieval(manifest, images, [_joined(captions, group) for group in groups], where)
    images = ParquetImages(tuple(files), image, _ids(split, rows, len(places)), tuple(places))
    class_ids = _class_ids(manifest, schema, rows, where)
    return classification(manifest, images, class_ids, OTHER_SPLIT if split == "train" else "")


def _files(manifest: Manifest, folder: Path) -> tuple[str, list[Path]]:
    """Split and files. Raises DataError where files named `…-k-of-N` are not all of N."""
    order = SPLITS[1:4] + SPLITS if manifest.split.startswith("val") else SPLITS
    for place in (folder / "data", folder, *subfolders(folder)):
        for split in dict.fromkeys(order):
            if files := sorted([*place.glob(f"{split}-*.parquet"), *place.glob(f"{split}.parquet")]):
                return split, _counted(manifest, place, files)
    return "", []


def _counted(manifest: Manifest, place: Path, files: list[Path]) -> list[Path]:
    numbered = {path: found for path in files if (found := OF.search(path.name))}
    if not numbered:
        return files
    if others := [path for path in files if path not in numbered]:
        raise DataError(
            f"dataset {manifest.name}: {others[0]} lies among files numbered `-of-`: it is left over, or they "
            "are; remove which"
        )
    totals = {int(found[2]) for found in numbered.values()}
    return all_of(manifest, place, {int(found[1]): path for path, found in numbered.items()}, totals)


def _rows_of_images(
    files: Sequence[Path], column: str, rows: dict[str, list], places: Sequence[Place], where: str
) -> list[list[int]]:
    """The rows of each image, in the order of its first. Rows belong together by a column of names or numbers of
    images, the bytes being equal as well; without one by the bytes alone.
    """
    named = (rows[name] for name in (*FILE_NAMES, *IMAGE_NUMBERS) if name in rows)
    keys = next(
        (values for values in named if all(isinstance(key, str | int) and key != "" for key in values)), None
    )
    if keys is not None and len(set(keys)) == len(keys):
        return [[row] for row in range(len(keys))]
    digests: list[bytes] = []
    for file, group, row in places:
        content = _content(_row_group(files[file], group, column)[row])
        # an image without bytes is like no other, and refused when it is read
        digests.append(hashlib.sha256(content).digest() if content else f"row {len(digests)}".encode())
    grouped: dict[Any, list[int]] = {}
    for row, key in enumerate(digests if keys is None else keys):
        first = grouped.setdefault(key, [row])
        if first[0] == row:
            continue
        if digests[first[0]] != digests[row]:
            raise DataError(f"{where}: rows {first[0]} and {row} are both of {key!r}, with different images")
        first.append(row)
    return list(grouped.values())


def _joined(captions: Sequence[Sequence[str]], group: Sequence[int]) -> list[str]:
    """The captions of an image's rows; once, where each row has all of them."""
    first = list(captions[group[0]])
    if len(first) > 1 and all(list(captions[row]) == first for row in group):
        return first
    return [caption for row in group for caption in captions[row]]


def _guarded(path: Path, read: Callable[[], T]) -> T:
    """What `read` gives; whatever the decoder raises on damaged files as a DataError."""
    import pyarrow as pa

    try:
        return read()
    except (pa.ArrowException, *DECODER_ERRORS) as error:
        raise DataError(f"parquet file {path} is damaged ({one_line(error)}): fetch it again") from error


def _opened(path: Path) -> Any:
    import pyarrow.parquet as pq

    return _guarded(path, lambda: pq.ParquetFile(regular_file(path, "parquet file")))


def _schema(files: Sequence[Path]) -> pa.Schema:
    """The columns of the first file. Raises DataError where one stands there twice, or another file has others."""
    first = None
    for path in files:
        schema = _guarded(path, partial(getattr, _opened(path), "schema_arrow"))
        names = schema.names
        if doubled := [name for name in names if names.count(name) > 1]:
            raise DataError(f"parquet file {path} has the column {doubled[0]!r} twice: fetch it again")
        first = schema if first is None else first
        for name in first.names:
            if name not in names:
                raise DataError(f"parquet file {path} has no column {name!r}, which {files[0].name} has")
            if schema.field(name).type != first.field(name).type:
                raise DataError(
                    f"parquet file {path}: the column {name!r} holds {schema.field(name).type}, in {files[0].name} "
                    f"{first.field(name).type}: fetch it again"
                )
    return first


def _table(files: Sequence[Path], columns: list[str]) -> tuple[dict[str, list], list[Place]]:
    """All values of the columns without images, and where each row lies: file, row group, row in the group."""
    rows: dict[str, list] = {name: [] for name in columns}
    places: list[Place] = []
    for number, path in enumerate(files):
        file = _opened(path)
        found = _guarded(path, partial(_values, file, columns))
        before = len(places)
        for group in range(file.num_row_groups):
            places += [(number, group, row) for row in range(file.metadata.row_group(group).num_rows)]
        for name in columns:
            if len(found[name]) != len(places) - before:
                raise DataError(
                    f"parquet file {path} is damaged (columns of different lengths): fetch it again"
                )
            rows[name] += found[name]
    return rows, places


def _values(file: Any, columns: list[str]) -> dict[str, list]:
    return file.read(columns, use_threads=False).to_pydict()


def _content(value: Any) -> bytes | None:
    return value["bytes"].as_py() if value.is_valid else None


@lru_cache(maxsize=2)  # without threads: workers may be forks of a process that had some
def _row_group(path: Path, group: int, column: str) -> pa.ChunkedArray:
    file = _opened(path)
    return _guarded(path, lambda: file.read_row_group(group, [column], use_threads=False).column(column))


def _image_column(manifest: Manifest, schema: pa.Schema, where: str) -> str:
    import pyarrow as pa

    for name in schema.names:
        kind = schema.field(name).type
        if pa.types.is_struct(kind) and (place := kind.get_field_index("bytes")) >= 0:
            inside = kind.field(place).type
            if pa.types.is_binary(inside) or pa.types.is_large_binary(inside):
                return name
    raise DataError(f"dataset {manifest.name}: {where} has no column of images (a struct with binary bytes)")


def _is_small(kind: pa.DataType) -> bool:
    import pyarrow as pa

    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    listed = (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_small(kind.value_type)
    return text or pa.types.is_integer(kind) or listed


def _ids(split: str, rows: dict[str, list], count: int) -> tuple[str, ...]:
    for name in FILE_NAMES:
        values = rows.get(name, [])
        if all(isinstance(value, str) and value for value in values) and len(set(values)) == count:
            return tuple(values)
    return tuple(f"{split}/{row:05d}" for row in range(count))


def _captions(manifest: Manifest, rows: dict[str, list], where: str) -> list[list[str]]:
    name = next((name for name in CAPTIONS if name in rows), None)
    if name is None:
        raise DataError(f"dataset {manifest.name}: {where} has no column {' or '.join(CAPTIONS)}")
    found = [
        value if isinstance(value, list) else [value] if value is not None else [] for value in rows[name]
    ]
    if not all(isinstance(text, str) for texts in found for text in texts):
        raise DataError(
            f"dataset {manifest.name}: {where}: the column {name} holds other things than captions"
        )
    return found


def _class_ids(manifest: Manifest, schema: pa.Schema, rows: dict[str, list], where: str) -> list[str]:
    """By the first column of class labels whose names are classes; or by names written out in a column `label`."""
    named = {name: names for name, names in _class_labels(schema, where).items() if name in rows}
    if not named:
        words = rows.get("label", [])
        if not words or not all(isinstance(word, str) for word in words):
            raise DataError(
                f"dataset {manifest.name}: {where} says nowhere what its labels mean (no ClassLabel in the schema): "
                "load and save it with the datasets library, or take another source"
            )
        meaning = class_ids_of(manifest, words, where)
        return [meaning[word] for word in words]
    fitting = [
        c
        for c, names in named.items()
        if sum(manifest.class_for(n) is not None for n in names) * 2 > len(names)
    ]
    column = (fitting or list(named))[0]
    if not all(label is None or isinstance(label, int) for label in rows[column]):
        raise DataError(
            f"dataset {manifest.name}: {where}: the column {column} holds other things than labels"
        )
    if any(label is None for label in rows[column]):
        raise DataError(f"dataset {manifest.name}: {where}: the column {column} has rows without a label")
    return by_names(manifest, named[column], rows[column], f"the column {column} of {where}")


def _class_labels(schema: pa.Schema, where: str) -> dict[str, list[str]]:
    """Names of the classes by column, as the datasets library writes them into the schema."""
    try:
        described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = described.get("info", {}).get("features", {})
        labels = {name: f["names"] for name, f in features.items() if f.get("_type") == "ClassLabel"}
        listed = {
            name: [names[key] for key in sorted(names, key=int)] if isinstance(names, dict) else list(names)
            for name, names in labels.items()
        }
        if not all(isinstance(word, str) for names in listed.values() for word in names):
            raise TypeError("names that are no text")
        return listed
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{where}: the schema's description of the features is damaged ({error!r})"
        ) from error
