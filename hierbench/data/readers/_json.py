"""Reads JSON annotation files whose errors are worth a line: lists of entries with fields of known types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hierbench.data.readers._files import read_text
from hierbench.errors import DataError


def load(path: Path, what: str) -> Any:
    """The content. Raises DataError: no such file, not UTF-8, not JSON (with the line), nested too deeply."""
    try:
        return json.loads(read_text(path, what))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{what} {path}, line {error.lineno}: not JSON ({error.msg}): fetch it again"
        ) from error
    except RecursionError:
        raise DataError(f"{what} {path} is nested too deeply: is it the right file?") from None


def entries(content: Any, key: str, fields: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """The list `key` of a mapping, every entry with fields of the given types. Raises DataError."""
    found = content.get(key) if isinstance(content, dict) else None
    if not isinstance(found, list):
        raise DataError(f"{where} has no list {key!r}: is it the right file?")
    for number, entry in enumerate(found):
        for name, kind in fields.items():
            if not isinstance(entry, dict) or not isinstance(entry.get(name), kind):
                raise DataError(f"{where}: {key}[{number}] has no proper {name!r}")
    return found
