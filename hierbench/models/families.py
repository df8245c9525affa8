"""Adapter families: the files of `model_adapters/`, entry points, and a user's own files (`--adapter FILE`).

An adapter file is a family named after itself and has one function `load(checkpoint, *, name, device, dtype)`; its
code is imported only when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from hierbench.contracts import ModelAdapter
from hierbench.errors import UsageError
from hierbench.models.catalog import catalog
from hierbench.names import lookup
from hierbench.plugins import import_entry, module_from_file, package_files, summary

ADAPTER_GROUP = "hierbench.model_adapters"

_user_adapters: dict[str, Path] = {}  # families added by --adapter FILE


@dataclass(frozen=True)
class Family:
    """An adapter family: its name, the first line of its file, and where it lives."""

    name: str
    summary: str
    target: str  # module name, "module:attribute" of an entry point, or the path of a user's file


def families() -> dict[str, Family]:
    """Every adapter family by name, without importing any of them.

    Raises UsageError where two sources claim one name.
    """
    found: dict[str, Family] = {}
    for path in package_files("hierbench.model_adapters", ".py"):
        _add(found, Family(path.stem, summary(path), f"hierbench.model_adapters.{path.stem}"))
    for point in entry_points(group=ADAPTER_GROUP):
        _add(found, Family(point.name, f"from {point.value}", point.value))
    for name, path in _user_adapters.items():
        _add(found, Family(name, summary(path), str(path)))
    return dict(sorted(found.items()))


def add_adapter_file(path: str | Path) -> str:
    """Register a user's adapter file; its name without `.py` becomes the family. Returns that name.

    Raises UsageError for a file that is missing or no Python, or whose name is taken.
    """
    path = Path(path).expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"no adapter file {path}: give the path of a Python file that defines load()")
    if _user_adapters.get(path.stem) != path:
        family = Family(path.stem, summary(path), str(path))
        _add({**families(), **catalog()}, family)
    _user_adapters[path.stem] = path
    return path.stem


def family_loader(name: str) -> Callable[..., ModelAdapter]:
    """The `load(checkpoint, *, name, device, dtype)` of a family.

    Raises UnknownNameError for a family that does not exist, UsageError for one that does not import.
    """
    family = lookup("model family", name, families())
    if name in _user_adapters:
        found = module_from_file(_user_adapters[name])
    else:
        found = import_entry(EntryPoint(name, family.target, ADAPTER_GROUP), "adapter")
    load = getattr(found, "load", None) if isinstance(found, ModuleType) else found
    if not callable(load):
        raise UsageError(
            f"adapter {family.target} has no function load(checkpoint, *, name, device, dtype): define it there"
        )
    return load


def _add(found: dict[str, Any], family: Family) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", family.name):
        raise UsageError(f"{family.target}: {family.name!r} is no name for a model family, rename the file")
    if family.name in found:
        other = getattr(found[family.name], "target", "the catalog")
        raise UsageError(
            f"two adapters claim the name {family.name!r}: {other} and {family.target}, rename one"
        )
    found[family.name] = family
