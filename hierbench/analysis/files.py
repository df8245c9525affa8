"""The files of an analysis: tables, documents and pictures, each written whole or not at all."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from hierbench.analysis import style
from hierbench.errors import OutputError
from hierbench.files import replacing


def save_rows(path: Path, header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """A CSV file. Raises OutputError."""
    with (
        _told(path),
        replacing(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def save_json(path: Path, document: Any) -> None:
    """A JSON file. Raises OutputError, and ValueError for numbers that are not finite."""
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    with _told(path), replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def save_figure(figure: Figure, folder: Path, name: str, form: str) -> None:
    """A picture. Raises OutputError, and UsageError for a form that is none."""
    with _told(folder / f"{name}.{form}"):
        style.save(figure, folder, name, form)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}: choose another folder") from error
