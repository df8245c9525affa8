"""From a config to a reference model. A config is a packaged name or a mapping; nothing in it goes unread.

Packaged names: FAMILY/SIZE (the GRIT recipe: `hycoclip/vit-b`), cc3m/FAMILY/SIZE, miniature/FAMILY; families and
sizes are the files of `configs/`. A mapping may name one under `extends` and change what differs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from hierbench.errors import UnknownNameError, UsageError, one_line
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.model import ReferenceModel
from hierbench.reference.objectives import build_terms
from hierbench.reference.objectives.own import beside
from hierbench.reference.schema import ReferenceConfig
from hierbench.yaml_files import parse_yaml, read_yaml

MAX_EXTENDS = 16
"""Configs that build on one another, at most: a longer row is one without end."""


def build(config: str | Mapping[str, Any] | ReferenceConfig, *, seed: int | None = None) -> ReferenceModel:
    """A freshly initialised model; `seed` (default: the config's) decides its weights.

    Raises UnknownNameError for a name that is not packaged, UsageError for a config with unknown or wrong values.
    """
    import torch

    resolved = config if isinstance(config, ReferenceConfig) else resolve(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(resolved.train.seed if seed is None else seed)
        encoder = DualEncoder.create(**resolved.model.model_dump())
    return ReferenceModel(
        encoder, build_terms(resolved.objective), loss_tile_mib=resolved.train.loss_tile_mib
    )


def resolve(config: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> ReferenceConfig:
    """A packaged name, the path of a YAML file or a mapping, with `key=value` overrides -> the whole config.

    Raises UnknownNameError and UsageError, each naming the key.
    """
    values = _values(config)
    for override in overrides:
        _override(values, override)
    if "objective" in values:
        values["objective"] = beside(values["objective"], Path())
    try:
        resolved = ReferenceConfig(**values)
    except ValidationError as error:
        raise UsageError(_fault(error)) from None
    except TypeError as error:  # a key that is no text
        raise UsageError(f"config: {one_line(error)}") from None
    build_terms(resolved.objective)
    return resolved


def _fault(error: ValidationError) -> str:
    """The first fault of a config in one line, with the keys that are near an unknown one."""
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"])) or "as a whole"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        *section, name = first["loc"]
        known: Any = ReferenceConfig
        for part in section:
            known = _fields(known)[str(part)]
        message = f"unknown key, {_hint(str(name), _fields(known))}"
    return one_line(UsageError(f"config {key}: {message}"))


def _fields(section: Any) -> dict[str, Any]:
    """The keys of a section of the schema, each with its type; of a section that may be absent, too."""
    section = next((part for part in get_args(section) if hasattr(part, "model_fields")), section)
    if hasattr(section, "model_fields"):
        return {name: field.annotation for name, field in section.model_fields.items()}
    return dict(section.__annotations__)


def packaged() -> list[str]:
    """Every packaged config name."""
    families, sizes = _stems("families"), _stems("sizes")
    pairs = [f"{family}/{size}" for family in families for size in sizes]
    return [*pairs, *(f"cc3m/{pair}" for pair in pairs), *(f"miniature/{family}" for family in families)]


def _values(config: str | Path | Mapping[str, Any], seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a config says, laid over what it extends; `seen`: those that extend it."""
    folder = None
    if isinstance(config, Mapping):
        values = deepcopy(dict(config))  # overrides must not reach the caller's
    elif str(config) in packaged():
        return _packaged(str(config))
    elif Path(config).suffix in (".yaml", ".yml"):
        values = read_yaml(config, "config", UsageError)
        folder = Path(config).parent
        if "objective" in values:
            values["objective"] = beside(values["objective"], folder)
    else:
        hint = _hint(str(config), packaged())
        raise UnknownNameError(
            f"no config {str(config)[:80]!r}: {hint} (or a .yaml file; `hierbench train --list` prints all)"
        )
    base = values.pop("extends", None)
    if base is None:
        return values
    if not isinstance(base, str | Path):
        raise UsageError(f"config extends: one packaged name or .yaml file, got {type(base).__name__}")
    if folder is not None and str(base) not in packaged():
        base = folder / base  # beside the file that names it
    if str(base) in seen or len(seen) >= MAX_EXTENDS:
        raise UsageError(f"config extends: {str(base)[:80]} comes back to itself, or is one of too many")
    return _merged(_values(base, (*seen, str(base))), values)


def _packaged(name: str) -> dict[str, Any]:
    parts = name.split("/")
    if parts[0] == "miniature":
        layers = [f"families/{parts[1]}", "settings/miniature"]
    else:
        setting, family, size = parts if len(parts) == 3 else ("grit", *parts)
        layers = [f"settings/{setting}", f"sizes/{size}", f"families/{family}"]
    values: dict[str, Any] = {}
    for layer in layers:
        file = Path(str(resources.files("hierbench.reference"))) / "configs" / f"{layer}.yaml"
        values = _merged(values, read_yaml(file, "config", UsageError))
    return values


def _merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`change` laid over `base`, mappings merged key by key, everything else replaced."""
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _override(values: dict[str, Any], text: str) -> None:
    path, equals, value = text.partition("=")
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    if not equals or not path:
        raise UsageError(f"override {shown!r} is not of the form key=value, e.g. train.steps=1000")
    *parents, last = path.split(".")
    place: Any = values
    for parent in parents:
        if isinstance(place, list) and _is_index(parent) and int(parent) < len(place):
            place = place[int(parent)]
        elif isinstance(place, dict) and isinstance(place.setdefault(parent, {}), dict | list):
            place = place[parent]
        else:
            raise UsageError(f"override {shown!r}: {parent} is no section of the config")
    content = parse_yaml(f"value: {value}", f"override {shown!r}", UsageError)
    key = int(last) if isinstance(place, list) and _is_index(last) else last
    try:
        (place[key],) = content.values()
    except (IndexError, TypeError, ValueError):
        raise UsageError(f"override {shown!r} cannot be set") from None


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known := list(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known[:20])}"


def _stems(folder: str) -> list[str]:
    files = (resources.files("hierbench.reference") / "configs" / folder).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))
