"""Numbers of a page's panels: short ones, and the bins of histograms."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def short(values: Iterable[float], digits: int = 4) -> list[float]:
    """Numbers of so many significant digits: more are not seen, and take room."""
    return [float(f"{value:.{digits}g}") for value in values]


def edges(values: np.ndarray, bins: int) -> np.ndarray:
    """(bins + 1,) edges of bins over all values; where all are the same, the first bin begins with them."""
    low, high = float(values.min()), float(values.max())
    return np.linspace(low, high if high > low else low + 1, bins + 1)
