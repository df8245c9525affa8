"""Entailment terms: how far a specific point lies outside the cone of a general one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass as plain_dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from hierbench.geometry import factors
from hierbench.reference.objectives.embedded import PARTS, Embedded, Item, valid_mean
from hierbench.reference.objectives.uncertainty import calibration

ACROSS, WITHIN = 0.7, 1.2  # aperture factors η of HyCoCLIP across and within modalities

RelationName = Literal["text_image", "box_text_image", "cross_image", "cross_text"]
FOUR: tuple[RelationName, ...] = ("text_image", "box_text_image", "cross_image", "cross_text")
Relations = Annotated[tuple[RelationName, ...], Field(min_length=1, max_length=16)]
AtLeastZero = Annotated[float, Field(ge=0, le=1000)]


@plain_dataclass(frozen=True)
class Relation:
    """`general` entails `specific`."""

    general: Item
    specific: Item

    @property
    def within(self) -> bool:
        """Whether both ends are of one modality."""
        return self.general.endswith("image") == self.specific.endswith("image")


RELATIONS: dict[RelationName, Relation] = {
    "text_image": Relation("text", "image"),
    "box_text_image": Relation("part_text", "part_image"),
    "cross_image": Relation("part_image", "image"),
    "cross_text": Relation("part_text", "text"),
}
"""HyCoCLIP's, by their names in logs: a caption entails its image, a part's phrase its image, a part its whole."""


class _Entailment:
    """What the entailment terms have in common."""

    label: ClassVar[str] = "entailment"
    needs_cones: ClassVar[bool] = True
    temperatures: ClassVar[frozenset[str]] = frozenset()

    @property
    def relations(self) -> tuple[RelationName, ...]:
        """Which pairs it reads: a field of each term."""
        raise NotImplementedError

    @property
    def items(self) -> frozenset[str]:
        relations = [RELATIONS[name] for name in self.relations]
        return frozenset(item for relation in relations for item in (relation.general, relation.specific))


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ConeEntailment(_Entailment):
    """`factor` × the sum over the relations of mean (φ − ηω)₊ (HyCoCLIP: all four, ½; MERU: text → image, η = 1, 1).

    η is `across` modalities or `within` one.
    """

    relations: Relations = FOUR
    across: AtLeastZero = ACROSS
    within: AtLeastZero = WITHIN
    factor: AtLeastZero = 0.5

    def __call__(self, batch: Embedded) -> tuple[Tensor, Mapping[str, Tensor]]:
        means: dict[str, Tensor] = {}
        for name in self.relations:
            general, specific, valid = ends(batch, RELATIONS[name])
            eta = self.within if RELATIONS[name].within else self.across
            means[name] = valid_mean(cone_residual(batch, general, specific, eta), valid)
        return self.factor * torch.stack(list(means.values())).sum(), means


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PiecewiseEntailment(_Entailment):
    """UNCHA's: r = (φ − ηω)₊ + slope · φ; ½ across and ¼ within modalities, plus the calibration of the parts.

    `entropy`: the calibration's entropy is taken over the whole "batch", or over each "process" as released, or left
    out ("none"); without `calibrated` the whole calibration is. The figures by relation are half of mean r, as the
    released code logs them.
    """

    slope: AtLeastZero = 0.1
    across: AtLeastZero = ACROSS
    within: AtLeastZero = WITHIN
    entropy: Literal["batch", "process", "none"] = "batch"
    calibrated: bool = True

    relations: ClassVar[tuple[RelationName, ...]] = FOUR

    def __call__(self, batch: Embedded) -> tuple[Tensor, Mapping[str, Tensor]]:
        total: Tensor = torch.zeros((), dtype=batch.text.dtype, device=batch.text.device)
        halves: dict[str, Tensor] = {}
        groups = {"batch": 1, "process": batch.sharing.world, "none": None}[self.entropy]
        for name in FOUR:
            within = RELATIONS[name].within
            general, specific, valid = ends(batch, RELATIONS[name])
            eta = self.within if within else self.across
            residual = cone_residual(batch, general, specific, eta, slope=self.slope)
            halves[name] = valid_mean(residual, valid) / 2
            total = total + (halves[name] / 2 if within else halves[name])
            if within and self.calibrated:
                assert valid is not None, "a pair with a part says which parts are real"
                total = total + calibration(general, residual, valid, groups=groups)
        return total, halves


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class AdaptiveEntailment(_Entailment):
    """ARGENT's AdaEnt: `factor` × the sum over the relations of mean Huber_β(h φ) (ARGENT §4).

    h falls with the similarity of a pair, in the relations that `weighted` names: "within" a modality (the paper's
    "Intra"), or "any"; elsewhere it is 1. Its formula is a reading, as the paper's text leaves it open: "cosine":
    1 − cos(g̃, s̃) clamped to [0, 1]; "square": 1 − cos², 1 for cos < 0; "distance": tanh of the geodesic distance;
    "none": 1. No gradient flows through h. β = 1; the sum is halved as HyCoCLIP's is.
    """

    relations: Relations = FOUR
    weighting: Literal["cosine", "square", "distance", "none"] = "cosine"
    weighted: Literal["within", "any"] = "within"
    beta: Annotated[float, Field(gt=0, le=1000)] = 1.0
    factor: AtLeastZero = 0.5

    def __call__(self, batch: Embedded) -> tuple[Tensor, Mapping[str, Tensor]]:
        means: dict[str, Tensor] = {}
        for name in self.relations:
            general, specific, valid = ends(batch, RELATIONS[name])
            weight: Tensor | float = 1.0
            if self.weighted == "any" or RELATIONS[name].within:
                weight = self._weight(batch, general.detach(), specific.detach())
            losses = []
            for geometry, one, other in factors(batch.geometry, general, specific):
                angle = weight * geometry.exterior_angle(one, other, paired=True)
                zero = torch.zeros_like(angle)
                losses.append(F.huber_loss(angle, zero, reduction="none", delta=self.beta))
            means[name] = valid_mean(torch.stack(losses).mean(0), valid)
        return self.factor * torch.stack(list(means.values())).sum(), means

    def _weight(self, batch: Embedded, general: Tensor, specific: Tensor) -> Tensor | float:
        if self.weighting == "none":
            return 1.0
        if self.weighting == "distance":
            return batch.geometry.distance(general, specific, paired=True).tanh().detach()
        cosine = F.cosine_similarity(general, specific, dim=-1).clamp(0, 1)
        return 1 - (cosine.square() if self.weighting == "square" else cosine)


def cone_residual(
    batch: Embedded, general: Tensor, specific: Tensor, eta: float, *, slope: float = 0.0
) -> Tensor:
    """(φ − ηω)₊ + slope · φ of paired rows, (N, D), (N, D) -> (N,); in a product the mean over its factors."""
    each = []
    for geometry, one, other in factors(batch.geometry, general, specific):
        angle = geometry.exterior_angle(one, other, paired=True)
        outside = (angle - eta * geometry.half_aperture(one)).clamp(min=0)
        each.append(outside + slope * angle if slope else outside)
    return torch.stack(each).mean(0)


def ends(batch: Embedded, relation: Relation) -> tuple[Tensor, Tensor, Tensor | None]:
    """General and specific points row by row, whole items repeated per part, and which rows are valid."""
    general, specific = batch.points(relation.general), batch.points(relation.specific)
    if relation.general not in PARTS:
        return general, specific, None
    if relation.specific not in PARTS:
        specific = specific[batch.owner]
    return general, specific, batch.valid
