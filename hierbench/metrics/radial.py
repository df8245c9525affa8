"""HierarCaps retrieval along the radius (HierarCaps, Alper and Averbuch-Elor 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hierbench.contracts import Geometry
from hierbench.errors import MetricError
from hierbench.metrics import _checks, bootstrap

if TYPE_CHECKING:
    from torch import Tensor

LEVELS = 4
ROWS = 1024  # images whose similarities are held at a time


@dataclass(frozen=True)
class Radial:
    """Outcomes of radial retrieval for N images and S samples."""

    precision: np.ndarray  # (N,) distinct predicted strings that are the image's own, as a share
    recall: np.ndarray  # (N,) share of the four levels at which some own caption is among the predictions
    tau: np.ndarray  # (S,) Kendall's tau of the four radii
    ties: np.ndarray  # (S,) share of the six pairs of levels whose radii are equal
    predicted: np.ndarray  # (N, steps) row of the predicted caption among the 4 S, −1 where the pool has none
    radius: np.ndarray  # (S, 4)
    owner: np.ndarray  # (S,)

    def statistic(self) -> bootstrap.Statistic:
        """`precision`, `recall`, `d_corr`; units are images with their samples, the pool stays whole."""
        return bootstrap.together(
            bootstrap.means({"precision": self.precision, "recall": self.recall}),
            bootstrap.means({"d_corr": self.tau}, self.owner),
        )


def hierarcaps(
    geometry: Geometry, image, caption, owner, texts, root, steps: int = 50, protocol: str = "released"
) -> dict[str, float]:
    """Radial retrieval of a chain of captions: {"precision", "recall", "d_corr"}, fractions.

    `image` (N, D) tangent features; `caption` (S, 4, D), or (4 S, D) in the same order, those of the four
    captions of each sample from general to specific; `owner` (S,) the image of each sample (or (4 S,), of
    each caption); `texts` the captions themselves, S sequences of four or 4 S strings; `root` the tangent
    feature (D,) of the empty caption, which geometries with an origin of their own ignore (None will do).

    The radius of a caption is its distance from the root. At each of `steps` thresholds, evenly spaced from
    the smallest to the largest radius of all captions, an image predicts the most similar caption whose
    radius is within the threshold (the first of equal ones). The image's distinct predicted strings are then
    compared with its own captions: `precision` is the share of them that are its own (of any of its samples,
    at any level), `recall` the share of the four levels at which the caption of any of its samples is among
    them, both averaged over images. `d_corr` is Kendall's tau between the four radii of a sample and their
    levels, averaged over samples; equal radii count as rightly ordered, as the released evaluator's stable
    sort has it, or order nothing (0) under the protocol `corrected`. Strings are stripped of surrounding white
    space; equal strings are one.

    Raises MetricError on other shapes, non-finite features, an owner out of range, an image without a sample.
    """
    outcome = radial_retrieval(geometry, image, caption, owner, texts, root, steps, protocol=protocol)
    return bootstrap.value(outcome.statistic(), len(outcome.precision))


def radial_retrieval(
    geometry: Geometry,
    image,
    caption,
    owner,
    texts,
    root,
    steps: int = 50,
    *,
    removed: np.ndarray | None = None,
    protocol: str = "released",
) -> Radial:
    """The outcomes behind `hierarcaps`, image by image and sample by sample.

    `removed` (N, 4 S) bool: captions that an image's pool lacks; the thresholds stay those of all captions.
    Raises MetricError where an image's own captions are all removed, and as `hierarcaps`.
    """
    import torch

    if steps < 1:
        raise MetricError(f"steps must be at least 1, got {steps}")
    if protocol not in ("released", "corrected"):
        raise MetricError(f"no protocol {protocol!r}: released or corrected")
    image = _checks.features(image, "image features")
    caption = _checks.features(_flat(caption), "caption features")
    string = _string_numbers(texts, len(caption))
    owner = _owner_of_samples(owner, len(image), len(caption))
    _checks.same_width(image=image, caption=caption)
    if root is not None:
        root = _checks.features(root, "root", torch.as_tensor(root).dim()).reshape(-1)
        _checks.same_width(caption=caption, root=root)
        root = geometry.lift(root)

    points = geometry.lift(caption)
    radius = geometry.radius(points, root=root)
    gone = _removed(removed, owner, len(image), len(caption))
    found_at = [
        _predictions(geometry.similarity(part, points), radius, steps, gone[start : start + ROWS])
        for start, part in zip(range(0, len(image), ROWS), geometry.lift(image).split(ROWS), strict=True)
    ]
    predicted = torch.cat(found_at).numpy()

    own = np.zeros((len(image), string.max() + 1), bool)  # image x distinct string
    own[np.repeat(owner, LEVELS), string] = True
    guessed = np.zeros_like(own)
    rows, at = np.nonzero(predicted >= 0)
    guessed[rows, string[predicted[rows, at]]] = True
    found = np.zeros((len(image), LEVELS), bool)
    np.logical_or.at(found, owner, guessed[owner[:, None], string.reshape(-1, LEVELS)])
    radii = radius.numpy().reshape(-1, LEVELS)
    return Radial(
        precision=(guessed & own).sum(1) / guessed.sum(1),
        recall=found.mean(1),
        tau=_order_tau(radii, protocol),
        ties=np.mean([radii[:, i] == radii[:, j] for i, j in combinations(range(LEVELS), 2)], axis=0),
        predicted=predicted,
        radius=radii,
        owner=owner,
    )


def _predictions(similarity: Tensor, radius: Tensor, steps: int, gone: Tensor) -> Tensor:
    """(N, M) similarities and (M,) radii -> (N, steps): the most similar caption within each threshold, −1 = none."""
    import torch

    if len(gone):
        similarity = similarity.masked_fill(gone, -torch.inf)
    spaced = np.linspace(float(radius.min()), float(radius.max()), steps)
    thresholds = torch.from_numpy(spaced).to(radius.dtype)
    entered_at = torch.searchsorted(thresholds, radius)  # the first threshold that a caption is within
    best = similarity.new_full((len(similarity),), -torch.inf)
    winner = torch.full((len(similarity),), -1)
    predicted = []
    for step in range(steps):
        new = (entered_at == step).nonzero().flatten()
        if len(new):
            value, at = similarity[:, new].max(1)
            better = (value > best) | ((value == best) & (new[at] < winner))
            best, winner = torch.where(better, value, best), torch.where(better, new[at], winner)
        predicted.append(winner)
    return torch.stack(predicted, 1)


def _removed(removed: np.ndarray | None, owner: np.ndarray, images: int, captions: int) -> Tensor:
    """The mask as a tensor, (images, captions); empty where nothing is removed."""
    import torch

    if removed is None:
        return torch.empty(0, captions, dtype=torch.bool)
    if np.shape(removed) != (images, captions):
        raise MetricError(f"removed: expected shape {(images, captions)}, got {np.shape(removed)}")
    removed = np.asarray(removed, bool)
    whole = np.asarray(
        removed.reshape(images, -1, LEVELS).all(2), bool
    )  # (images, samples): no level is left
    left = np.zeros(images, bool)
    np.logical_or.at(left, owner, ~whole[owner, np.arange(len(owner))])
    if not left.all():
        raise MetricError(f"removed: image {int(np.flatnonzero(~left)[0])} keeps no caption of its own")
    return torch.from_numpy(removed)


def _order_tau(radius: np.ndarray, protocol: str) -> np.ndarray:
    """Kendall's tau (S,) of each row (S, 4) with increasing order; a tie counts as ordered (`released`) or 0."""
    pairs = [(radius[:, i], radius[:, j]) for i, j in combinations(range(LEVELS), 2)]
    if protocol == "released":
        return 2 * np.asarray(np.mean([inner <= outer for inner, outer in pairs], axis=0)) - 1
    return np.asarray(np.mean([np.sign(outer - inner) for inner, outer in pairs], axis=0, dtype=np.float64))


def _flat(caption) -> Tensor:
    """(S, 4, D) or (4 S, D) -> (4 S, D)."""
    import torch

    caption = torch.as_tensor(caption)
    if caption.dim() == 3 and caption.shape[1] == LEVELS:
        caption = caption.flatten(0, 1)
    if caption.dim() != 2 or len(caption) % LEVELS:
        raise MetricError(f"caption features: expected (samples, 4, width), got {tuple(caption.shape)}")
    return caption


def _string_numbers(texts: Sequence, captions: int) -> np.ndarray:
    """Number (captions,) of each caption's string; equal strings have the same number."""
    flat = [text for entry in texts for text in ([entry] if isinstance(entry, str) else entry)]
    if len(flat) != captions:
        raise MetricError(f"texts: {len(flat)} strings for {captions} caption features")
    number: dict[str, int] = {}
    return np.array([number.setdefault(text.strip(), len(number)) for text in flat])


def _owner_of_samples(owner, images: int, captions: int) -> np.ndarray:
    """Owners of samples (S,), from those of samples or of captions."""
    owner = _checks.integers(owner, "owner", images)
    if len(owner) == captions:
        if (owner.reshape(-1, LEVELS) != owner[::LEVELS, None]).any():
            raise MetricError("owner: the four captions of a sample belong to different images")
        owner = owner[::LEVELS]
    return _checks.owners(owner, images, captions // LEVELS)
