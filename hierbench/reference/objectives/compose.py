"""An objective: weighted terms, and the figures each of them logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from torch import Tensor

from hierbench.errors import UsageError, first_fault
from hierbench.reference.objectives.contrastive import Contrastive, UncertaintyContrastive
from hierbench.reference.objectives.embedded import Embedded, Term
from hierbench.reference.objectives.entailment import AdaptiveEntailment, ConeEntailment, PiecewiseEntailment
from hierbench.reference.objectives.norm import NormRegulariser
from hierbench.reference.objectives.own import build_own, call_own, is_own

TERMS: dict[str, type[Term]] = {
    "contrastive": Contrastive,
    "uncertainty_contrastive": UncertaintyContrastive,
    "cone_entailment": ConeEntailment,
    "piecewise_entailment": PiecewiseEntailment,
    "adaptive_entailment": AdaptiveEntailment,
    "norm_regulariser": NormRegulariser,
}
"""Term names of configs. The next paper's loss is one class and one line here."""


MAX_WEIGHT = 1_000_000


@dataclass(frozen=True)
class Weighted:
    """A term and its weight in the total."""

    term: Term
    weight: float = 1.0
    own: str = ""  # FILE.py:CLASS of a user's own


def build_terms(entries: Sequence[Mapping[str, Any]]) -> tuple[Weighted, ...]:
    """Terms of a config: [{"term": name or FILE.py:CLASS, "weight": 1.0, …fields of its class}]. Raises UsageError."""
    return tuple(_build(dict(entry)) for entry in entries)


def total_loss(terms: Sequence[Weighted], batch: Embedded) -> tuple[Tensor, dict[str, Tensor]]:
    """(total, logged figures): `contrastive_loss`, `entailment_loss`, `<relation>_entailment_loss`, `norm_loss`.

    A term that looks at one relation only logs its loss alone, as the released MERU does.
    """
    total: Any = 0.0
    logged: dict[str, Tensor] = {}
    for weighted in terms:
        term = weighted.term
        loss, relations = call_own(weighted.own, term, batch) if weighted.own else term(batch)
        if len(relations) > 1:
            logged |= {f"{name}_{term.label}_loss": value.detach() for name, value in relations.items()}
        total = total + weighted.weight * loss
        logged[f"{term.label}_loss"] = loss.detach()
    return total, logged


def _build(entry: dict[str, Any]) -> Weighted:
    name = entry.pop("term", None)
    if not is_own(name) and (not isinstance(name, str) or name not in TERMS):
        known = f"known: {', '.join(TERMS)}, or FILE.py:CLASS for one of your own"
        raise UsageError(f"objective: no term {name!r:.80}, {known}")
    weight = entry.pop("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= MAX_WEIGHT:
        raise UsageError(
            f"objective term {name}: weight must be a number from 0 to {MAX_WEIGHT:,}, got {str(weight)[:40]}"
        )
    if is_own(name):
        return Weighted(build_own(name, entry), float(weight), own=name)
    try:
        return Weighted(TERMS[name](**entry), float(weight))
    except ValidationError as error:
        option, reason = first_fault(error)
        if error.errors()[0]["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            known = ", ".join(vars(TERMS[name])["__dataclass_fields__"]) or "none"
            raise UsageError(f"objective term {name}: unknown option {option}, known: {known}") from None
        raise UsageError(f"objective term {name}: {option}: {reason}") from None
