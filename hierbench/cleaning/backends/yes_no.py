"""What counts as yes and as no, and how much of a model's answers was neither."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

log = logging.getLogger(__name__)

ENOUGH = 0.5
"""An answer with less of its probability on yes and no together counts as neither."""

_AROUND = " \t\n\r.,;:!?'\"*`Ġ▁Ċ"  # white space, also as tokenizers write it, and what surrounds a word


def spelled(token: str) -> str | None:
    """ "yes" or "no" for a token that is a spelling of it (Yes, YES, with a space, a full stop, …), else None."""
    word = token.strip(_AROUND).casefold()
    return word if word in ("yes", "no") else None


def probability(yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    """yes / (yes + no) of (n,) masses; 0 where neither has any: what is not affirmed is not verified."""
    total = yes + no
    return np.divide(yes, total, out=np.zeros_like(total), where=total > 0)


@dataclass
class Tally:
    """How many questions a verifier has answered, and how many of its answers were neither yes nor no."""

    model: str
    answers: int = 0
    neither: int = 0
    lowest: float = 1.0  # the smallest share of probability that was on yes and no together

    def count(self, shares: Iterable[float], questions: Iterable[str]) -> None:
        """Add answers with their shares; warns at the first that is neither yes nor no, and at every power of ten."""
        for share, question in zip(shares, questions, strict=True):
            self.answers += 1
            self.lowest = min(self.lowest, float(share))
            if share >= ENOUGH:
                continue
            self.neither += 1
            if str(self.neither).strip("0") == "1":
                log.warning(
                    "%s: %d of %d answers were neither yes nor no (%.0f %% of its probability is on them), last to: %s",
                    self.model, self.neither, self.answers, 100 * share, " ".join(question.split()),
                )  # fmt: skip

    def record(self) -> dict[str, float | int]:
        """For a manifest: {"answers", "neither", "lowest_share"}."""
        return {"answers": self.answers, "neither": self.neither, "lowest_share": self.lowest}
