"""A run's options from a YAML file: `hierbench run --config FILE`. What is typed on the line wins.

Keys are the options' own names without their dashes (`data-dir: /data`), `models` for MODEL, `data` as a mapping, and
`checkpoints`: NAME -> a file, {file, family}, or {seeds: {SEED: FILE, …}, family} for the models NAME@SEED.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from hierbench.cli._shared import data_paths, existing_folder, register
from hierbench.errors import HierbenchError, UsageError, one_line
from hierbench.names import unknown

WHOSE = (
    "models",
    "checkpoint",
    "family",
    "name",
)  # one choice: models on the line leave out those of the file
LINE_ALONE = ("config", "dry-run", "json", "help")
FILES = (".pth", ".pt", ".bin", ".ckpt", ".safetensors")  # what ends so is a file and no name of a model
INSTEAD = {"checkpoint": "checkpoints", "family": "checkpoints", "name": "checkpoints"}


def preset(context: typer.Context, path: Path | None) -> Path | None:
    """Callback of --config: what the file says becomes the defaults of the command's options.

    Raises UsageError, with the file and the key, for what is no option, of another type, or none of the values that the
    option takes.
    """
    if path is None or context.resilient_parsing:
        return path
    options = {
        _spelled(param): param for param in context.command.params if _spelled(param) not in LINE_ALONE
    }
    known = [*(name for name in options if name not in INSTEAD), "checkpoints"]
    found: dict[str, Any] = {}
    from hierbench.yaml_files import read_yaml

    for key, value in read_yaml(path, "config", UsageError).items():
        where = f"config {path}: {key}"
        if key not in known:
            raise UsageError(f"config {path}: {unknown('option', str(key), known)}")
        if key == "checkpoints":
            found |= _checkpoints(where, value)
        elif key == "data":
            found["data"] = [f"{name}={place}" for name, place in _texts(where, value).items()]
        else:
            found[str(options[key].name)] = _taken(context, where, options[key], value)
    context.default_map = found
    return path


def line_wins(context: typer.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of options that go together, less those of the file where the line names others of their kind.

    A model, or a suite or task, on the line leaves out all of the file's; `data` on the line only those of its names.
    """
    found = dict(values)
    for group in (WHOSE, ("suite", "task")):
        if any(_source(context, name) == "COMMANDLINE" for name in group):
            found |= {name: None for name in group if _source(context, name) == "DEFAULT_MAP"}
    if _source(context, "data") == "COMMANDLINE":
        own = {pair.partition("=")[0] for pair in found["data"]}
        told = (context.default_map or {}).get("data", [])
        found["data"] = [*found["data"], *(pair for pair in told if pair.partition("=")[0] not in own)]
    return found


@contextmanager
def from_file(context: typer.Context, *names: str) -> Iterator[None]:
    """Errors about the values of these options name the file and the key, where the file holds one of them."""
    try:
        yield
    except HierbenchError as error:
        name = next((name for name in names if _source(context, name) == "DEFAULT_MAP"), None)
        if name is None:
            raise
        key = INSTEAD.get(name, name.replace("_", "-"))
        raise UsageError(f"config {context.params['config']}: {key}: {error}") from error


def own_files(context: typer.Context, adapter: Any, manifest: Any, task_file: Any) -> None:
    """Make a user's own files known, as `register`; errors name the file and the key."""
    for kind, files in (("adapter", adapter), ("manifest", manifest), ("task_file", task_file)):
        with from_file(context, kind):
            register(**{f"{kind}s": files})


def places(context: typer.Context, data: Sequence[str] | None, data_dir: Path | None) -> dict[str, Any]:
    """Where datasets lie, as `runner.run` takes it; errors name the file and the key."""
    with from_file(context, "data"):
        found = data_paths(data)
    with from_file(context, "data_dir"):
        return {"data": found, "data_dir": existing_folder("--data-dir", data_dir)}


def check_names(
    context: typer.Context,
    models: Sequence[str | tuple[str | None, ...]],
    suite: str | None,
    tasks: Sequence[str] | None,
) -> None:
    """Look up what the file names before anything is measured. Raises UsageError with the file and the key.

    A suite beside tasks, on the line too; models, suites and tasks that nobody knows; a checkpoint's file that is not
    there; a name that two models have.
    """
    from hierbench import registry
    from hierbench.models.reference import ModelReference

    with from_file(context, "suite", "task"):
        if suite and tasks:
            raise UsageError("--suite and --task are both given: choose one")
        if context.params.get("config") is None:
            return
        if suite is not None:
            registry.suite(suite)
    with from_file(context, "task"):
        for name in tasks or ():
            registry.task(name)
    taken: set[str] = set()
    for model in models:
        with from_file(context, "models" if isinstance(model, str) else "checkpoint"):
            found = ModelReference.of(model)
            if found.path is None and Path(found.checkpoint or "").suffix in FILES:
                raise UsageError(f"{found.name}: no checkpoint file {found.checkpoint}: check the path")
            name = (
                found.name if found.chosen else str(model)
            )  # a default one is made longer where it has to be
            if name in taken:
                raise UsageError(f"two models are called {name!r}: give one another name")
            taken.add(name)


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "" if source is None else source.name


def _spelled(param: Any) -> str:
    """What a key is called: the long spelling of an option, `models` for the argument."""
    longest = max(param.opts, key=len)
    return longest.removeprefix("--") if longest.startswith("--") else str(param.name)


def _taken(context: typer.Context, where: str, param: Any, value: Any) -> Any:
    """A value that the option's parser takes, as it stands in the file."""
    value = _value(where, param, value)
    try:
        param.process_value(context, value)
    except typer.BadParameter as error:
        raise UsageError(f"{where}: {one_line(error.message).removeprefix('Value error, ')}") from error
    return value


def _value(where: str, param: Any, value: Any) -> Any:
    """A value as the command line's parser takes it."""
    if getattr(param, "is_flag", False):
        if type(value) is not bool:
            raise UsageError(f"{where}: true or false is expected, found {_shown(value)}")
        return value
    if param.multiple or param.nargs == -1:
        listed = value if isinstance(value, list) else [value]
        if not listed or not all(isinstance(entry, str) and entry for entry in listed):
            raise UsageError(f"{where}: a text or a list of texts is expected, found {_shown(value)}")
        return listed
    kind = int if param.metavar == "N" else str  # as every whole number's is
    if type(value) is not kind:
        wanted = "a whole number" if kind is int else "a text"
        raise UsageError(f"{where}: {wanted} is expected, found {_shown(value)}")
    return value


def _checkpoints(where: str, value: Any) -> dict[str, list[str]]:
    """Named checkpoints as --checkpoint, --family and --name have them, one entry each."""
    if not isinstance(value, dict) or not value:
        raise UsageError(
            f"{where}: names with their files (`NAME: FILE`) are expected, found {_shown(value)}"
        )
    rows: list[tuple[str, str, str]] = []
    for name, entry in value.items():
        at = f"{where}: {name}"
        entry = {"file": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, dict) or ("file" in entry) == ("seeds" in entry):
            raise UsageError(f"{at}: a file, or `file` or `seeds` (one of them) with `family`, is expected")
        for key in entry:
            if key not in ("file", "seeds", "family"):
                raise UsageError(f"{at}: {unknown('entry', str(key), ('file', 'seeds', 'family'))}")
        family = entry.get("family", "")
        if not isinstance(family, str):
            raise UsageError(f"{at}: family: a text is expected, found {_shown(family)}")
        files = (
            _texts(f"{at}: seeds", entry["seeds"]) if "seeds" in entry else _texts(at, {"": entry["file"]})
        )
        rows += [
            (file, family, f"{name}@{seed}" if seed != "" else str(name)) for seed, file in files.items()
        ]
    return {
        "checkpoint": [file for file, _, _ in rows],
        "family": [family for _, family, _ in rows],
        "name": [name for _, _, name in rows],
    }


def _texts(where: str, value: Any) -> dict[str, str]:
    """A mapping to texts, its keys as texts."""
    if not isinstance(value, dict) or not value:
        raise UsageError(f"{where}: `key: text` pairs are expected, found {_shown(value)}")
    for key, entry in value.items():
        if not isinstance(entry, str) or not entry:
            raise UsageError(
                f"{where}: {key if key != '' else 'file'}: a text is expected, found {_shown(entry)}"
            )
    return {str(key): entry for key, entry in value.items()}


def _shown(value: Any) -> str:
    """A value for a message, short."""
    kinds: Sequence[tuple[type, str]] = ((dict, "a mapping"), (list, "a list"), (type(None), "nothing"))
    return next((told for kind, told in kinds if isinstance(value, kind)), repr(value)[:40])
