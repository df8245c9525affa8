"""Loss terms of a user's own: `term: FILE.py:CLASS` in a config, held to the interface of `Term`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from torch import Tensor

from hierbench.errors import HierbenchError, UsageError, explained
from hierbench.plugins import module_from_file
from hierbench.reference.layouts import LAYOUTS
from hierbench.reference.objectives.embedded import Embedded, Item, Term


def is_own(name: object) -> bool:
    """Whether a term's name in a config is of the form FILE.py:CLASS."""
    return isinstance(name, str) and name.rpartition(":")[0].endswith(".py")


def beside(objective: Any, folder: Path) -> Any:
    """The objective of a config with the files of own terms as absolute paths, relative ones taken from `folder`."""
    if not isinstance(objective, list):
        return objective
    placed = []
    for entry in objective:
        if isinstance(entry, Mapping) and is_own(entry.get("term")):
            file, _, name = entry["term"].rpartition(":")
            entry = {**entry, "term": f"{(folder / file).absolute()}:{name}"}
        placed.append(entry)
    return placed


def build_own(name: str, options: Mapping[str, Any]) -> Term:
    """The term FILE.py:CLASS with its options. Raises UsageError where it does not import or is no term."""
    file, _, attribute = name.rpartition(":")
    if not Path(file).is_file():
        raise UsageError(f"objective term {name}: there is no file {file}")
    kind = getattr(module_from_file(Path(file), "term"), attribute, None)
    if not isinstance(kind, type):
        raise UsageError(f"objective term {name}: the file has no class {attribute}")
    try:
        term = kind(**options)
    except Exception as error:
        raise UsageError(
            f"objective term {name} cannot be made of its options: {explained(error)}"
        ) from error
    _check(name, term)
    return term


def call_own(name: str, term: Term, batch: Embedded) -> tuple[Tensor, Mapping[str, Tensor]]:
    """The term's loss; what goes wrong in it is told as its mistake. Raises UsageError."""
    try:
        result = term(batch)
    except HierbenchError:
        raise
    except Exception as error:
        raise UsageError(f"objective term {name} failed: {explained(error)}") from error
    match result:
        case (Tensor() as loss, Mapping() as figures) if loss.ndim == 0:
            return loss, figures
    raise UsageError(f"objective term {name} must return (loss, figures): a tensor of one number and a dict")


def _check(name: str, term: Any) -> None:
    scales = {scale for layout in LAYOUTS.values() for scale in layout.temperatures}
    label = getattr(term, "label", None)
    fault = None
    if not callable(term):
        fault = "no __call__(batch)"
    elif not (isinstance(label, str) and label.isidentifier()):
        fault = "no label, a word under which its loss is logged"
    elif not isinstance(getattr(term, "needs_cones", None), bool):
        fault = "no needs_cones, True or False"
    elif not _within(getattr(term, "items", None), set(get_args(Item))):
        fault = f"no items, a set of some of {', '.join(get_args(Item))}"
    elif not _within(getattr(term, "temperatures", None), scales):
        fault = f"no temperatures, a set (perhaps empty) of some of {', '.join(sorted(scales))}"
    if fault:
        raise UsageError(f"objective term {name} has {fault}")


def _within(given: Any, known: set[str]) -> bool:
    return isinstance(given, set | frozenset) and given <= known
