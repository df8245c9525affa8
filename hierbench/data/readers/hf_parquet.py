"""Reads Hugging Face image datasets in parquet: `data/test-00000-of-00002.parquet`.

Images are structs {bytes, path}. Labels are numbers whose names stand in the schema's metadata (`huggingface`,
ClassLabel); captions are strings or lists of strings. Images stay in the file until one is asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierbench.data.datasets import Classification, Retrieval
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import subfolders
from hierbench.data.readers._labels import OTHER_SPLIT, SERVED, by_names, class_ids_of, classification
from hierbench.data.readers._retrieval import retrieval
from hierbench.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "hf-parquet"
SPLITS = ("test", "validation", "valid", "val", "train")
"""Which files are read, the first that exist; an ImageNet-like dataset, whose test labels are secret, has `val`."""

CAPTIONS = ("captions", "caption", "sentences", "sentences_raw", "caption_list", "text", "raw")
FILE_NAMES = ("filename", "file_name", "image_path")


@dataclass(frozen=True)
class ParquetImages:
    """Images in parquet files, one row group in memory at a time."""

    files: tuple[Path, ...]
    column: str
    ids: tuple[str, ...]
    places: tuple[tuple[int, int, int], ...] = field(repr=False)  # of each id: file, row group, row in it
    _row: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self):
        self._row.update((image_id, row) for row, image_id in enumerate(self.ids))

    def read(self, image_id: str) -> bytes:
        """Encoded bytes as they stand in the file. DataError where there are none."""
        file, group, row = self.places[self._row[image_id]]
        content = _row_group(self.files[file], group, self.column)[row].as_py()["bytes"]
        if not content:
            raise DataError(
                f"image {image_id} has no bytes in {self.files[file]}: take a version with images inside"
            )
        return content


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether parquet files of a split lie in the folder, in `data/` or in another folder just below."""
    return bool(SERVED & set(manifest.tasks) and _files(manifest, folder)[1])


def read(manifest: Manifest, folder: Path) -> Classification | Retrieval:
    """Labels or captions, by what the manifest's tasks want. Ids are file names where a column gives distinct ones,
    else `test/00017`, the row in the split.

    Raises DataError: damaged files, no images, no labels or captions, labels outside the names, unknown names.
    """
    split, files = _files(manifest, folder)
    if not files:
        raise DataError(
            f"dataset {manifest.name}: {folder} has no parquet files such as data/test-00000-of-00001.parquet"
        )
    where = f"{files[0].parent}/{split}-*.parquet"
    schema = _opened(files[0]).schema_arrow
    image = _image_column(manifest, schema, where)
    columns = [name for name in schema.names if _is_small(schema.field(name).type)]
    rows, places = _table(files, columns)
    if "split" in columns and "test" in rows["split"]:  # all splits in one file, as Karpathy's are
        kept = [row for row, name in enumerate(rows["split"]) if name == "test"]
        rows = {name: [values[row] for row in kept] for name, values in rows.items()}
        places = [places[row] for row in kept]
    images = ParquetImages(tuple(files), image, _ids(split, rows, len(places)), tuple(places))
    if "retrieval" in manifest.tasks:
        captions = _captions(manifest, rows, where)
        return retrieval(manifest, images, captions, where)
    class_ids = _class_ids(manifest, schema, rows, where)
    return classification(manifest, images, class_ids, OTHER_SPLIT if split == "train" else "")


def _files(manifest: Manifest, folder: Path) -> tuple[str, list[Path]]:
    order = SPLITS[1:4] + SPLITS if manifest.split.startswith("val") else SPLITS
    for place in (folder / "data", folder, *subfolders(folder)):
        for split in dict.fromkeys(order):
            if files := sorted([*place.glob(f"{split}-*.parquet"), *place.glob(f"{split}.parquet")]):
                return split, files
    return "", []


def _opened(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"parquet file {path} is damaged ({_first_line(error)}): fetch it again") from error


def _table(files: list[Path], columns: list[str]) -> tuple[dict[str, list], list[tuple[int, int, int]]]:
    """All values of the columns without images, and where each row lies: file, row group, row in the group."""
    import pyarrow as pa

    rows: dict[str, list] = {name: [] for name in columns}
    places: list[tuple[int, int, int]] = []
    for number, path in enumerate(files):
        file = _opened(path)
        if missing := [name for name in columns if name not in file.schema_arrow.names]:
            raise DataError(f"parquet file {path} has no column {missing[0]!r}, which the first file has")
        for group in range(file.num_row_groups):
            places += [(number, group, row) for row in range(file.metadata.row_group(group).num_rows)]
        try:
            table = file.read(columns, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"parquet file {path} is damaged ({_first_line(error)}): fetch it again"
            ) from error
        for name in columns:
            rows[name] += table.column(name).to_pylist()
    return rows, places


@lru_cache(maxsize=2)  # without threads: workers may be forks of a process that had some
def _row_group(path: Path, group: int, column: str) -> pa.ChunkedArray:
    import pyarrow as pa

    try:
        return _opened(path).read_row_group(group, [column], use_threads=False).column(column)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"parquet file {path} is damaged ({_first_line(error)}): fetch it again") from error


def _image_column(manifest: Manifest, schema: pa.Schema, where: str) -> str:
    import pyarrow as pa

    for name in schema.names:
        kind = schema.field(name).type
        if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            return name
    raise DataError(f"dataset {manifest.name}: {where} has no column of images (a struct with bytes)")


def _is_small(kind: pa.DataType) -> bool:
    import pyarrow as pa

    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    listed = (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_small(kind.value_type)
    return text or pa.types.is_integer(kind) or listed


def _ids(split: str, rows: dict[str, list], count: int) -> tuple[str, ...]:
    for name in FILE_NAMES:
        values = rows.get(name, [])
        if len(set(values)) == count and all(isinstance(value, str) and value for value in values):
            return tuple(values)
    return tuple(f"{split}/{row:05d}" for row in range(count))


def _captions(manifest: Manifest, rows: dict[str, list], where: str) -> list[list[str]]:
    name = next((name for name in CAPTIONS if name in rows), None)
    if name is None:
        raise DataError(f"dataset {manifest.name}: {where} has no column {' or '.join(CAPTIONS)}")
    found = [[value] if isinstance(value, str) else list(value or ()) for value in rows[name]]
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
    if any(label is None for label in rows[column]):
        raise DataError(f"dataset {manifest.name}: {where}: the column {column} has rows without a label")
    return by_names(manifest, named[column], rows[column], f"the column {column} of {where}")


def _class_labels(schema: pa.Schema, where: str) -> dict[str, list[str]]:
    """Names of the classes by column, as the datasets library writes them into the schema."""
    try:
        described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = described.get("info", {}).get("features", {})
        labels = {name: f["names"] for name, f in features.items() if f.get("_type") == "ClassLabel"}
        return {
            name: [names[key] for key in sorted(names, key=int)] if isinstance(names, dict) else list(names)
            for name, names in labels.items()
        }
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise DataError(
            f"{where}: the schema's description of the features is damaged ({error!r})"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]
