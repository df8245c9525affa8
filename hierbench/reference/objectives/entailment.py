"""Entailment terms: how far a specific point lies outside the cone of a general one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hierbench.reference.objectives.embedded import Embedded, valid_mean
from hierbench.reference.objectives.uncertainty import calibration

ACROSS, WITHIN = 0.7, 1.2  # aperture factors η of HyCoCLIP across and within modalities


@dataclass(frozen=True)
class Relation:
    """`general` entails `specific`; `label` is the relation's name in logs."""

    general: str
    specific: str
    label: str

    @property
    def within(self) -> bool:
        """Whether both ends are of one modality."""
        return self.general.endswith("image") == self.specific.endswith("image")


TEXT_IMAGE = Relation("text", "image", "text_image")
FOUR = (
    TEXT_IMAGE,
    Relation("part_text", "part_image", "box_text_image"),
    Relation("part_image", "image", "cross_image"),
    Relation("part_text", "text", "cross_text"),
)
"""HyCoCLIP's relations: the caption entails its image, the part's phrase its image, a part its whole."""


@dataclass(frozen=True)
class ConeEntailment:
    """Half the sum over the relations of mean (φ − ηω)₊ (HyCoCLIP, eq. 8); MERU: one relation, η = 1, not halved."""

    relations: tuple[Relation, ...] = FOUR
    across: float = ACROSS
    within: float = WITHIN
    factor: float = 0.5

    def __call__(self, batch: Embedded) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Scalar loss and the mean of each relation by label."""
        means = {}
        for relation in self.relations:
            general, specific, valid = ends(batch, relation)
            means[relation.label] = valid_mean(
                cone_residual(batch, general, specific, self._eta(relation)), valid
            )
        return self.factor * torch.stack(list(means.values())).sum(), means

    def _eta(self, relation: Relation) -> float:
        return self.within if relation.within else self.across


@dataclass(frozen=True)
class PiecewiseEntailment:
    """UNCHA's: r = (φ − ηω)₊ + 0.1 φ; ½ across and ¼ within modalities, plus the calibration of the parts."""

    slope: float = 0.1
    across: float = ACROSS
    within: float = WITHIN

    def __call__(self, batch: Embedded) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Scalar loss and half the mean of each relation by label (as UNCHA logs it)."""
        total, halves = 0.0, {}
        for relation in FOUR:
            general, specific, valid = ends(batch, relation)
            eta = self.within if relation.within else self.across
            residual = cone_residual(batch, general, specific, eta, slope=self.slope)
            half = valid_mean(residual, valid) / 2
            halves[relation.label] = half
            total = total + (half / 2 if relation.within else half)
            if relation.within:
                total = total + calibration(general, residual, valid)
        return total, halves


@dataclass(frozen=True)
class AdaptiveEntailment:
    """ARGENT's AdaEnt: half the sum over the relations of mean Huber_β(h φ) (ARGENT §4).

    Readings, where the paper's text leaves them open: h = 1 across modalities; within, h falls with the similarity of
    the pair: "cosine": 1 − cos(g̃, s̃) clamped to [0, 1]; "distance": tanh of the geodesic distance; "none": 1.
    No gradient flows through h. β = 1; the sum is halved as HyCoCLIP's is.
    """

    relations: tuple[Relation, ...] = FOUR
    weighting: str = "cosine"
    beta: float = 1.0
    factor: float = 0.5

    def __call__(self, batch: Embedded) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Scalar loss and the mean of each relation by label."""
        means = {}
        for relation in self.relations:
            general, specific, valid = ends(batch, relation)
            angle = batch.geometry.exterior_angle(general, specific, paired=True)
            if relation.within:
                angle = self._weight(batch, general.detach(), specific.detach()) * angle
            loss = F.huber_loss(angle, torch.zeros_like(angle), reduction="none", delta=self.beta)
            means[relation.label] = valid_mean(loss, valid)
        return self.factor * torch.stack(list(means.values())).sum(), means

    def _weight(self, batch: Embedded, general: Tensor, specific: Tensor) -> Tensor | float:
        if self.weighting == "none":
            return 1.0
        if self.weighting == "distance":
            return batch.geometry.distance(general, specific, paired=True).tanh().detach()
        return (1 - F.cosine_similarity(general, specific, dim=-1)).clamp(0, 1)


def cone_residual(
    batch: Embedded, general: Tensor, specific: Tensor, eta: float, *, slope: float = 0.0
) -> Tensor:
    """(φ − ηω)₊ + slope · φ of paired rows, (N, D), (N, D) -> (N,)."""
    angle = batch.geometry.exterior_angle(general, specific, paired=True)
    outside = (angle - eta * batch.geometry.half_aperture(general)).clamp(min=0)
    return outside + slope * angle if slope else outside


def ends(batch: Embedded, relation: Relation) -> tuple[Tensor, Tensor, Tensor | None]:
    """General and specific points row by row, whole items repeated per part, and which rows are valid."""
    general, specific = batch.points(relation.general), batch.points(relation.specific)
    if not relation.general.startswith("part"):
        return general, specific, None
    if not relation.specific.startswith("part"):
        specific = specific[batch.owner]
    return general, specific, batch.valid
