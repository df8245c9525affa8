"""Whether a run has diverged, told by its logged losses alone: the same on every process and after every resumption."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hierbench.errors import HierbenchError
from hierbench.reference.schema import TrainConfig

IN_A_ROW, STEPS_IN_A_ROW = 5, 50
"""So many bad losses in a row, over so many steps at least, are no noise."""
EXPLODED = 1.5
"""A loss above this multiple of the run's first one is worse than chance."""
LEARNED, LOST = 0.5, 0.95
"""A loss that was below the first share of the run's first loss and is above the second again has lost what it knew."""

ADVICE = "begin again in another --out with a lower train.learning_rate, train.clip_norm=1 or more train.warmup_steps"


class DivergedError(HierbenchError):
    """A run whose loss or gradients are not finite, exploded, or back where they began."""


class Watch:
    """The losses of a run, as logged, held against its first one.

    `see` each loss; `fault` then says what is wrong. `state`: what a checkpoint holds of it, for a run that goes on.
    """

    def __init__(self, config: TrainConfig, state: Mapping[str, float] | None = None):
        self._config = config
        self._enough = max(IN_A_ROW, math.ceil(STEPS_IN_A_ROW / config.log_every))
        self._first, self._best = (state["first"], state["best"]) if state else (math.nan, math.inf)
        self._bad = 0
        self._last = math.nan

    def state(self) -> dict[str, float]:
        """The first loss (NaN before there is one) and the least; bad ones are in no checkpoint."""
        return {"first": self._first, "best": self._best}

    def see(self, loss: float) -> None:
        """Take note of one more logged loss."""
        if math.isnan(self._first) and math.isfinite(loss):
            self._first = loss
        self._last = loss
        if self._wrong(loss):
            self._bad += 1
        else:
            self._bad, self._best = 0, min(self._best, loss)

    @property
    def suspect(self) -> bool:
        """Whether the last loss was bad: what the run is now is not worth a checkpoint."""
        return self._config.stop_diverged and self._bad > 0

    def fault(self, bad_steps: int = 0) -> str | None:
        """Why the run has to end, or None. `bad_steps`: steps so far whose gradients were not finite."""
        allowed = self._config.max_nonfinite_steps
        if bad_steps > allowed or (allowed == 0 and not math.isfinite(self._last)):
            return (
                f"{bad_steps} steps had gradients that are not finite, "
                f"more than train.max_nonfinite_steps={allowed}"
            )
        if self._config.stop_diverged and self._bad >= self._enough:
            return f"the loss is {self._last:.4g} after {self._first:.4g} at the start (diverged)"
        return None

    def _wrong(self, loss: float) -> bool:
        if not math.isfinite(loss):
            return True
        first = self._first
        if not first > 0:  # a loss that can be negative has no scale to hold it against
            return False
        return loss > EXPLODED * first or (self._best < LEARNED * first and loss > LOST * first)
