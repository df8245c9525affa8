"""Checks JSON annotation files: lists of entries with fields of known types."""

from __future__ import annotations

from typing import Any

from hierbench.errors import DataError


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
