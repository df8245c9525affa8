"""The errors known in the released evaluators, and what each protocol makes of them (`tasks/errata.yaml`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Erratum:
    """One known error. Fields without another word are prose."""

    id: str
    mended: bool  # whether the protocol `corrected` puts it right
    title: str
    what: str
    where: str  # the code it sits in
    effect: str  # on figures
    released: str  # what hierbench does under the protocol `released`
    corrected: str  # … and under `corrected`
    tasks: tuple[str, ...] = ()  # of a mended one: names of the tasks whose figures it moves
    encoding: bool = False  # it sits in the encoder: only adapters that are ProtocolAware have it
    ranking: bool = False  # it sits in what a geometry ranks by: the same


@cache
def _document() -> dict:
    from importlib import resources

    from hierbench.yaml_files import read_yaml

    return read_yaml(str(resources.files("hierbench.tasks") / "errata.yaml"), "errata")


def protocols() -> dict[str, str]:
    """What each protocol is, by name."""
    return dict(_document()["protocols"])


def errata() -> tuple[Erratum, ...]:
    """Every known error, in the order of the file."""
    return tuple(
        Erratum(**{**fields, "tasks": tuple(fields.get("tasks", ()))}) for fields in _document()["errata"]
    )
