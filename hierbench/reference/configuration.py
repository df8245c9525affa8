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
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hierbench.errors import UnknownNameError, UsageError
from hierbench.reference.dual_encoder import IMAGENET_MEAN, IMAGENET_STD, DualEncoder
from hierbench.reference.layouts import Layout
from hierbench.reference.model import ReferenceModel
from hierbench.reference.objectives import build_terms
from hierbench.reference.training.config import DataConfig, TrainConfig

Triple = tuple[float, float, float]


class ModelConfig(BaseModel):
    """The two towers; see `DualEncoder.create`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layout: Layout
    vision: str = "vit_small_patch16_224"
    vision_sizes: dict[str, int | float] = Field(default_factory=dict)
    image_size: int = Field(224, ge=1)
    text: str = "L12_W512"
    embed_dim: int = Field(512, ge=1)
    pixel_mean: Triple = IMAGENET_MEAN
    pixel_std: Triple = IMAGENET_STD


class ReferenceConfig(BaseModel):
    """A reference model and how it is trained."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: str
    model: ModelConfig
    objective: list[dict[str, Any]] = Field(min_length=1)
    data: DataConfig = Field(default_factory=lambda: DataConfig(kind="miniature"))
    train: TrainConfig = Field(default_factory=TrainConfig)


def build(config: str | Mapping[str, Any] | ReferenceConfig, *, seed: int | None = None) -> ReferenceModel:
    """A freshly initialised model; `seed` (default: the config's) decides its weights.

    Raises UnknownNameError for a name that is not packaged, UsageError for a config with unknown or wrong values.
    """
    import torch

    resolved = config if isinstance(config, ReferenceConfig) else resolve(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(resolved.train.seed if seed is None else seed)
        encoder = DualEncoder.create(**resolved.model.model_dump())
    return ReferenceModel(encoder, build_terms(resolved.objective))


def resolve(config: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> ReferenceConfig:
    """A packaged name, the path of a YAML file or a mapping, with `key=value` overrides -> the whole config.

    Raises UnknownNameError and UsageError, each naming the key.
    """
    values = _values(config)
    for override in overrides:
        _override(values, override)
    try:
        return ReferenceConfig(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            *section, name = first["loc"]
            fields = ReferenceConfig.model_fields
            known = fields[section[0]].annotation.model_fields if section else fields
            message = f"unknown key, {_hint(str(name), known)}"
        raise UsageError(f"config {key}: {message}") from None


def packaged() -> list[str]:
    """Every packaged config name."""
    families, sizes = _stems("families"), _stems("sizes")
    pairs = [f"{family}/{size}" for family in families for size in sizes]
    return [*pairs, *(f"cc3m/{pair}" for pair in pairs), *(f"miniature/{family}" for family in families)]


def _values(config: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(config, Mapping):
        values = deepcopy(dict(config))  # overrides must not reach the caller's
    elif str(config) in packaged():
        return _packaged(str(config))
    elif Path(config).suffix in (".yaml", ".yml"):
        values = _read(Path(config))
    else:
        hint = _hint(str(config), packaged())
        raise UnknownNameError(
            f"no config {str(config)!r}: {hint} (or a .yaml file; `hierbench train --list` prints all)"
        )
    base = values.pop("extends", None)
    return values if base is None else _merged(_values(base), values)


def _packaged(name: str) -> dict[str, Any]:
    parts = name.split("/")
    if parts[0] == "miniature":
        layers = [f"families/{parts[1]}", "settings/miniature"]
    else:
        setting, family, size = parts if len(parts) == 3 else ("grit", *parts)
        layers = [f"settings/{setting}", f"sizes/{size}", f"families/{family}"]
    values: dict[str, Any] = {}
    for layer in layers:
        values = _merged(values, _read(resources.files("hierbench.reference") / "configs" / f"{layer}.yaml"))
    return values


def _read(path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"config {path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"config {path} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(values, dict):
        raise UsageError(f"config {path} must be a mapping with family, model, objective, data, train")
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
    if not equals or not path:
        raise UsageError(f"override {text!r} is not of the form key=value, e.g. train.steps=1000")
    *parents, last = path.split(".")
    place: Any = values
    for parent in parents:
        if isinstance(place, list) and parent.isdigit() and int(parent) < len(place):
            place = place[int(parent)]
        elif isinstance(place, dict) and isinstance(place.setdefault(parent, {}), dict | list):
            place = place[parent]
        else:
            raise UsageError(f"override {text!r}: {parent} is no section of the config")
    key = int(last) if isinstance(place, list) and last.isdigit() else last
    try:
        place[key] = yaml.safe_load(value)
    except (IndexError, TypeError, yaml.YAMLError):
        raise UsageError(f"override {text!r} cannot be set") from None


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known := list(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known[:20])}"


def _stems(folder: str) -> list[str]:
    files = (resources.files("hierbench.reference") / "configs" / folder).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))
