"""Names to things: adapter families, catalog models, tasks, suites, datasets.

Found by folder (`model_adapters/*.py`, `tasks/*.py`, `tasks/suites/*.yaml`, `data_manifests/*.yaml`) and by entry
point (groups `hierbench.model_adapters` and `hierbench.tasks`); code is imported only when it is asked for.

An adapter file is a family named after itself and has one function `load`; a task file has a mapping `TASKS` from
task name to a function that builds the task.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import yaml

from hierbench.contracts import ModelAdapter, Task
from hierbench.errors import HierbenchError, UnknownNameError, UsageError

ADAPTER_GROUP = "hierbench.model_adapters"
TASK_GROUP = "hierbench.tasks"
CHECKPOINT_SUFFIXES = {".pth", ".pt", ".safetensors", ".bin", ".ckpt"}

_user_adapters: dict[str, Path] = {}  # families added by --adapter FILE


@dataclass(frozen=True)
class Family:
    """An adapter family: its name, the first line of its file, and where it lives."""

    name: str
    summary: str
    target: str  # module name, "module:attribute" of an entry point, or the path of a user's file


@dataclass(frozen=True)
class ModelEntry:
    """A model of `model_adapters/catalog.yaml`; it comes from one of url, repo, reference and builtin."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: str
    family: str
    url: str | None = None  # a plain download
    repo: str | None = None  # a Hugging Face repository …
    file: str | None = None  # … and the file in it; None = the whole repository
    revision: str | None = None
    size: int | None = None  # bytes
    sha256: str | None = None
    licence: str | None = None
    paper: str | None = None
    trained_on: str | None = None
    reference: str | None = (
        None  # what the family's `load` takes when it fetches for itself (open_clip names)
    )
    builtin: str | None = None  # a file inside the package


# ---------------------------------------------------------------------------------------------------- families


def families() -> dict[str, Family]:
    """Every adapter family by name, without importing any of them.

    Raises UsageError where two sources claim one name.
    """
    found: dict[str, Family] = {}
    for path in _package_files("hierbench.model_adapters", ".py"):
        _add(found, Family(path.stem, _summary(path), f"hierbench.model_adapters.{path.stem}"))
    for point in entry_points(group=ADAPTER_GROUP):
        _add(found, Family(point.name, f"from {point.value}", point.value))
    for name, path in _user_adapters.items():
        _add(found, Family(name, _summary(path), str(path)))
    return dict(sorted(found.items()))


def add_adapter_file(path: str | Path) -> str:
    """Register a user's adapter file; its name without `.py` becomes the family. Returns that name.

    Raises UsageError for a file that is missing or no Python, or whose name is taken.
    """
    path = Path(path).expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"no adapter file {path}: give the path of a Python file that defines load()")
    if _user_adapters.get(path.stem) != path:
        family = Family(path.stem, _summary(path), str(path))
        _add({**families(), **catalog()}, family)
    _user_adapters[path.stem] = path
    return path.stem


def family_loader(name: str) -> Callable[..., ModelAdapter]:
    """The `load(checkpoint, *, name, device, dtype)` of a family.

    Raises UnknownNameError for a family that does not exist, UsageError for one that does not import.
    """
    family = lookup("model family", name, families())
    if name in _user_adapters:
        found = _module_from_file(_user_adapters[name])
    else:
        found = _import(EntryPoint(name, family.target, ADAPTER_GROUP), "adapter")
    load = getattr(found, "load", None) if isinstance(found, ModuleType) else found
    if not callable(load):
        raise UsageError(
            f"adapter {family.target} has no function load(checkpoint, *, name, device, dtype): define it there"
        )
    return load


# ------------------------------------------------------------------------------------------------------- models


@cache
def catalog() -> dict[str, ModelEntry]:
    """The known checkpoints by name. Raises UsageError for an entry with unknown or contradictory fields."""
    text = (resources.files("hierbench.model_adapters") / "catalog.yaml").read_text(encoding="utf-8")
    return read_catalog(text)


def read_catalog(text: str) -> dict[str, ModelEntry]:
    """A catalog's YAML, checked."""
    from pydantic import TypeAdapter, ValidationError

    found = {}
    for name, fields in (yaml.safe_load(text) or {}).items():
        try:
            entry = TypeAdapter(ModelEntry).validate_python({"name": name, **fields})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise UsageError(f"catalog.yaml: model {name}: {where}: {first['msg']}") from None
        if sum(bool(source) for source in (entry.url, entry.repo, entry.reference, entry.builtin)) != 1:
            raise UsageError(f"catalog.yaml: model {name} needs one of url, repo, reference and builtin")
        found[name] = entry
    return found


def list_models() -> list[ModelEntry]:
    """Every model that can be named without a file: the catalog."""
    return list(catalog().values())


def load_model(
    name_or_family: str,
    checkpoint: str | Path | None = None,
    device: str = "cpu",
    *,
    name: str | None = None,
    dtype: str = "float32",
    offline: bool = False,
) -> ModelAdapter:
    """Load a model adapter.

    `name_or_family` is one of: a catalog name (`hycoclip-vit-b`), a family with its `checkpoint`
    (`"hycoclip", "tiny.pth"`), `family:checkpoint` in one string (`open_clip:ViT-B-32/openai`), a family that needs
    no checkpoint (`random`), or the path of a checkpoint file whose keys tell its family.
    `name` is the row's name in tables; by default the catalog name or the file's stem.
    With `offline`, nothing is asked of the network.
    Raises UnknownNameError, UsageError, CheckpointError.
    """
    from hierbench.data import fetch

    options = {"device": device, "dtype": dtype}
    with fetch.hub_offline(offline):
        if checkpoint is None and name_or_family in catalog():
            entry = catalog()[name_or_family]
            checkpoint = entry.reference or fetch.checkpoint(entry, offline=offline)
            return _load(entry.family, str(checkpoint), name=name or entry.name, **options)
        family, checkpoint = resolve_model(name_or_family, checkpoint)
        if family is None:
            from hierbench.reference.checkpoint import detect_family

            family = detect_family(checkpoint)
        return _load(family, checkpoint, name=name, **options)


def _load(family: str, checkpoint: str | None, **options: Any) -> ModelAdapter:
    """What a family's `load` returns; where the family is not ours, what goes wrong in it is told as its mistake."""
    load = family_loader(family)
    if getattr(load, "__module__", "").startswith("hierbench.model_adapters."):
        return load(checkpoint, **options)
    try:
        adapter = load(checkpoint, **options)
    except HierbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"adapter {family}: load() failed: {_reason(error)}; alone and with --debug it shows where"
        ) from error
    parts = ("card", "geometry", "preprocess", "encode_images", "encode_texts")
    if missing := [part for part in parts if not hasattr(adapter, part)]:
        raise UsageError(
            f"adapter {family}: load() returned {type(adapter).__name__}, which is no model adapter: "
            f"it has no {', '.join(missing)}"
        )
    return adapter


def resolve_model(name: str, checkpoint: str | Path | None = None) -> tuple[str | None, str | None]:
    """(family, checkpoint) of what the user calls a model that is not in the catalog, without loading it.

    The family is None where the keys of the checkpoint file will tell. Raises UnknownNameError.
    """
    family, colon, rest = name.partition(":")
    if checkpoint is not None or (family in families() and not colon):
        lookup("model family", name, families())
        return name, None if checkpoint is None else str(checkpoint)
    if family in families():
        return family, rest
    if Path(name).is_file() or (Path(name).suffix in CHECKPOINT_SUFFIXES and not colon):
        return None, name
    if name and Path(name).is_dir():
        raise UnknownNameError(f"model {name!r} is a folder: say what is in it, as FAMILY:{name}")
    raise UnknownNameError(_unknown("model", name, [*catalog(), *families()], typed=family))


# -------------------------------------------------------------------------------------------------------- tasks


@cache
def task_factories() -> dict[str, Callable[[], Task]]:
    """Every task's factory by name. Imports the task files. Raises UsageError on a name used twice."""
    found: dict[str, Callable[[], Task]] = {}
    tables: list[Mapping[str, Any]] = []
    for path in _package_files("hierbench.tasks", ".py"):
        module = importlib.import_module(f"hierbench.tasks.{path.stem}")
        tables.append(module.TASKS)
    tables += [{point.name: _import(point, "task")} for point in entry_points(group=TASK_GROUP)]
    for table in tables:
        for name, factory in table.items():
            if name in found:
                raise UsageError(f"two tasks are called {name!r}: rename one")
            found[name] = factory
    return found


def task(name: str) -> Task:
    """Build a task by name; UnknownNameError with the nearest names where there is none."""
    return lookup("task", name, task_factories())()


def list_tasks() -> list[Task]:
    """Every registered task, built."""
    return [factory() for factory in task_factories().values()]


@cache
def suites() -> dict[str, dict[str, Any]]:
    """Suites by name: {"title", "layout", "tasks": [names]}, from `tasks/suites/*.yaml`."""
    folder = resources.files("hierbench.tasks") / "suites"
    return {
        path.name.removesuffix(".yaml"): yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted(folder.iterdir(), key=lambda p: p.name)
        if path.name.endswith(".yaml")
    }


def suite(name: str) -> dict[str, Any]:
    """A suite by name."""
    return lookup("suite", name, suites())


# ----------------------------------------------------------------------------------------------------- datasets


def list_datasets() -> list:
    """Every dataset's manifest."""
    from hierbench.data.manifests import all_manifests

    return list(all_manifests().values())


# -------------------------------------------------------------------------------------------------------- shared


def lookup(kind: str, name: str, table: Mapping[str, Any]) -> Any:
    """`table[name]`, or an UnknownNameError that offers the nearest names."""
    if name in table:
        return table[name]
    raise UnknownNameError(_unknown(kind, name, table))


def _unknown(kind: str, name: str, known: Iterable[str], typed: str | None = None) -> str:
    """The message for a name that nobody registered; `typed`: the part of it to compare with."""
    known = sorted(set(known))
    near = difflib.get_close_matches(typed or name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known[:20])}"
    return f"no {kind} {name!r}: {hint}"


def _add(found: dict[str, Any], family: Family) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", family.name):
        raise UsageError(f"{family.target}: {family.name!r} is no name for a model family, rename the file")
    if family.name in found:
        other = getattr(found[family.name], "target", "the catalog")
        raise UsageError(
            f"two adapters claim the name {family.name!r}: {other} and {family.target}, rename one"
        )
    found[family.name] = family


def _import(point: EntryPoint, kind: str) -> Any:
    """What an entry point names; any failure of the import as one UsageError."""
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise UsageError(f"{kind} {point.name} ({point.value}) does not import: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """An error of foreign code in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _package_files(package: str, suffix: str) -> list[Path]:
    """Public files of a package folder, sorted; names with a leading underscore are helpers, not entries."""
    return sorted(
        Path(str(entry))
        for entry in resources.files(package).iterdir()
        if entry.name.endswith(suffix) and not entry.name.startswith("_")
    )


def _summary(path: Path) -> str:
    """First line of a file's docstring, read without running the file."""
    try:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"), path.name)) or ""
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"adapter file {path} cannot be read as Python: {error}") from error
    return docstring.partition("\n")[0]


def _module_from_file(path: Path) -> ModuleType:
    name = f"hierbench_user_adapter_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise UsageError(f"adapter file {path} does not import: {_reason(error)}") from error
    return sys.modules[name]
