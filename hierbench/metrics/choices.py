"""Which caption fits, and whether a fuller caption fits better: compositionality and monotonicity.

Ties are wrong, as in the released evaluators of SugarCrepe, Winoground and ARO's relations and attributions, which all
ask for a strictly higher score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hierbench.contracts import Geometry
from hierbench.metrics import bootstrap

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 4096
ENOUGH = 25
"""Questions that a kind needs to count in the mean over kinds, as in ARO's evaluator."""


def pair_similarity(
    geometry: Geometry, images: Tensor, texts: Tensor, image: np.ndarray, text: np.ndarray
) -> np.ndarray:
    """(P,) float64: similarity of the points `images[image[p]]` and `texts[text[p]]`."""
    import torch

    rows = zip(torch.from_numpy(image).split(CHUNK), torch.from_numpy(text).split(CHUNK), strict=True)
    return (
        torch.cat([geometry.similarity(images[i], texts[t], paired=True) for i, t in rows]).double().numpy()
    )


def choice_items(scores: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """What holds of each question, (Q,) float64 each, from scores (k images, m captions), caption i being image i's.

    `text`: every image scores its own caption above all others; `image`: every one of the k captions scores its own
    image above the others (NaN where there is one image); `group`: both; `tied`: some own score equals another.
    """
    table = {name: np.zeros(len(scores)) for name in ("text", "image", "group", "tied")}
    for row, score in enumerate(scores):
        k = len(score)
        own = np.diag(score)
        others = [np.delete(score[i], i).max(initial=-np.inf) for i in range(k)]
        rivals = [np.delete(score[:, i], i).max(initial=-np.inf) for i in range(k)]
        table["text"][row] = np.all(own > others)
        table["image"][row] = np.all(own > rivals) if k > 1 else np.nan
        table["group"][row] = np.all(own > others) and np.all(own > rivals) if k > 1 else np.nan
        table["tied"][row] = np.any(own == others) or (k > 1 and np.any(own == rivals))
    return table


def choice_statistic(
    items: dict[str, np.ndarray], kinds: np.ndarray, shown: Sequence[str], unit: np.ndarray, units: int
) -> bootstrap.Statistic:
    """Figures in percent (`tied`: a fraction) from columns of `choice_items`; question q is of unit `unit[q]`.

    `text`, `image`, `group`, `tied`; `text_KIND` for the kinds in `shown`, NaN for one that does not occur; `macro`:
    the mean of `text` over the kinds with at least 25 questions, or with most where none has so many.
    """
    names, of_kind = np.unique(kinds, return_inverse=True)
    counted = np.bincount(of_kind) >= min(ENOUGH, int(np.bincount(of_kind).max()))

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(unit, values, minlength=units)

    plain = np.stack([sums(np.nan_to_num(items[name])) for name in ("text", "image", "group", "tied")], 1)
    asked = np.stack(
        [sums(np.isfinite(items[name]).astype(float)) for name in ("text", "image", "group", "tied")], 1
    )
    right = np.stack([sums(items["text"] * (of_kind == row)) for row in range(len(names))], 1)
    each = np.stack([sums((of_kind == row).astype(float)) for row in range(len(names))], 1)

    def statistic(counts: np.ndarray) -> dict[str, np.ndarray]:
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (counts @ plain) / (counts @ asked)
            by_kind = 100 * (counts @ right) / (counts @ each)
        found = {
            "text": 100 * share[:, 0],
            "image": 100 * share[:, 1],
            "group": 100 * share[:, 2],
            "tied": share[:, 3],
        }
        found["macro"] = by_kind[:, counted].mean(1)
        place = {name: row for row, name in enumerate(names.tolist())}
        nothing = np.full(len(counts), np.nan)
        return found | {
            f"text_{name}": by_kind[:, place[name]] if name in place else nothing for name in shown
        }

    return statistic


def monotonicity(scores: np.ndarray) -> dict[str, np.ndarray]:
    """Of each chain, (S,) float64 each, from similarities (S, K) of its K ever fuller captions to its image.

    `himo`: Pearson's correlation of 1 … K and the similarities, 0 where they are all the same (HiMo@K, Wu et al.,
    AAAI 2026); `himo_rank`: Spearman's, which no monotone change of the similarity moves; `rising`: each above the one
    before.
    """
    from scipy.stats import rankdata

    place = np.arange(scores.shape[1], dtype=float)
    return {
        "himo": _pearson(place, scores),
        "himo_rank": _pearson(place, rankdata(scores, axis=1)),
        "rising": (np.diff(scores, axis=1) > 0).all(1).astype(float),
    }


def _pearson(place: np.ndarray, values: np.ndarray) -> np.ndarray:
    a, b = place - place.mean(), values - values.mean(1, keepdims=True)
    length = np.sqrt((a**2).sum() * (b**2).sum(1))
    flat = (values == values[:, :1]).all(1) | (length == 0)
    return np.where(flat, 0.0, (b @ a) / np.where(length == 0, 1.0, length))
