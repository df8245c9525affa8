"""An objective: weighted terms, and the figures each of them logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hierbench.errors import UsageError
from hierbench.reference.objectives.contrastive import Contrastive, UncertaintyContrastive
from hierbench.reference.objectives.embedded import Embedded
from hierbench.reference.objectives.entailment import (
    FOUR,
    AdaptiveEntailment,
    ConeEntailment,
    PiecewiseEntailment,
)
from hierbench.reference.objectives.norm import NormRegulariser

TERMS: dict[str, tuple[Callable[..., Any], str]] = {
    "contrastive": (Contrastive, "contrastive"),
    "uncertainty_contrastive": (UncertaintyContrastive, "contrastive"),
    "cone_entailment": (ConeEntailment, "entailment"),
    "piecewise_entailment": (PiecewiseEntailment, "entailment"),
    "adaptive_entailment": (AdaptiveEntailment, "entailment"),
    "norm_regulariser": (NormRegulariser, "norm"),
}
"""Term names of configs: the class, and what its loss is called in logs. The next paper's loss is one line here."""


@dataclass(frozen=True)
class Weighted:
    """A term, its weight in the total, and its name in logs."""

    term: Callable[[Embedded], Any]
    weight: float
    name: str


def build_terms(entries: Sequence[Mapping[str, Any]]) -> tuple[Weighted, ...]:
    """Terms of a config: [{"term": name, "weight": 1.0, …fields of its class}]. Raises UsageError."""
    return tuple(_build(dict(entry)) for entry in entries)


def total_loss(terms: Sequence[Weighted], batch: Embedded) -> tuple[Tensor, dict[str, Tensor]]:
    """(total, logged figures): `contrastive_loss`, `entailment_loss`, `<relation>_entailment_loss`, `norm_loss`."""
    total: Any = 0.0
    logged: dict[str, Tensor] = {}
    for weighted in terms:
        loss = weighted.term(batch)
        if isinstance(loss, tuple):
            loss, relations = loss
            if len(relations) > 1:
                logged |= {
                    f"{label}_{weighted.name}_loss": value.detach() for label, value in relations.items()
                }
        total = total + weighted.weight * loss
        logged[f"{weighted.name}_loss"] = loss.detach()
    return total, logged


def _build(entry: dict[str, Any]) -> Weighted:
    name = entry.pop("term", None)
    if name not in TERMS:
        raise UsageError(f"objective: no term {name!r}, known: {', '.join(TERMS)}")
    weight = entry.pop("weight", 1.0)
    if not isinstance(weight, int | float) or weight < 0:
        raise UsageError(f"objective term {name}: weight must be a number of at least 0, got {weight!r}")
    factory, label = TERMS[name]
    fields = {key: _tuples(value) for key, value in entry.items()}
    if "relations" in fields:
        fields["relations"] = tuple(_relation(name, wanted) for wanted in fields["relations"])
    try:
        term = factory(**fields)
    except TypeError:
        known = ", ".join(factory.__dataclass_fields__) or "none"
        raise UsageError(
            f"objective term {name}: unknown option in {sorted(fields)}, known: {known}"
        ) from None
    return Weighted(term, float(weight), label)


def _relation(term: str, label: str):
    for relation in FOUR:
        if relation.label == label:
            return relation
    raise UsageError(
        f"objective term {term}: no relation {label!r}, known: {', '.join(r.label for r in FOUR)}"
    )


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value
