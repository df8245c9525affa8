"""The known checkpoints (`model_adapters/catalog.yaml`): what they are called and where their weights come from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

from hierbench.errors import UsageError, first_fault
from hierbench.yaml_files import parse_yaml


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


@cache
def catalog() -> dict[str, ModelEntry]:
    """The known checkpoints by name. Raises UsageError for an entry with unknown or contradictory fields."""
    text = (resources.files("hierbench.model_adapters") / "catalog.yaml").read_text(encoding="utf-8")
    return read_catalog(text)


def read_catalog(text: str) -> dict[str, ModelEntry]:
    """A catalog's YAML, checked."""
    from pydantic import TypeAdapter, ValidationError

    found, checked = {}, TypeAdapter(ModelEntry)
    for name, fields in parse_yaml(text, "catalog.yaml", UsageError).items():
        try:
            entry = checked.validate_python({"name": name, **fields})
        except ValidationError as error:
            where, what = first_fault(error)
            raise UsageError(f"catalog.yaml: model {name}: {where}: {what}") from None
        if sum(bool(source) for source in (entry.url, entry.repo, entry.reference, entry.builtin)) != 1:
            raise UsageError(f"catalog.yaml: model {name} needs one of url, repo, reference and builtin")
        found[name] = entry
    return found


def list_models() -> list[ModelEntry]:
    """Every model that can be named without a file: the catalog."""
    return list(catalog().values())
