"""Code that is found rather than imported by name: files of a package folder, entry points, files of the user's own."""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
import zlib
from importlib import resources
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

from hierbench.errors import UsageError, explained
from hierbench.files import regular_file


def package_files(package: str, suffix: str) -> list[Path]:
    """Public files of a package folder, sorted; names with a leading underscore are helpers, not entries."""
    return sorted(
        Path(str(entry))
        for entry in resources.files(package).iterdir()
        if entry.name.endswith(suffix) and not entry.name.startswith("_")
    )


def summary(path: Path) -> str:
    """First line of a file's docstring, read without running the file."""
    try:
        status = path.stat()
        return _first_line(path, status.st_mtime_ns, status.st_size)
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"adapter file {path} cannot be read as Python: {error}") from error


@functools.cache
def _first_line(path: Path, changed: int, size: int) -> str:
    """Kept as long as the file stays as it is: each load of a model asks for the line of every family."""
    text = regular_file(path, "adapter file").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text, path.name)) or "").partition("\n")[0]


def import_entry(point: EntryPoint, kind: str) -> Any:
    """What an entry point names; any failure of the import as one UsageError."""
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{kind} {point.name} ({point.value}) does not import: {explained(error)}"
        ) from error


def module_from_file(path: Path, kind: str = "adapter") -> ModuleType:
    """A user's own file as a module, imported once a process. Raises UsageError where it does not import.

    `kind` says what it holds, for messages: an adapter, tasks.
    """
    name = f"hierbench_user_{kind}_{zlib.crc32(str(path.resolve()).encode()):08x}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"adapter file {path} is no Python file: its name must end in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise UsageError(f"{kind} file {path} does not import: {explained(error)}") from error
    return sys.modules[name]
