"""Contrastive terms: cross-entropy over the batch on logits scale × closeness, −geodesic distance or cosine."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import ConfigDict, field_validator
from pydantic.dataclasses import dataclass
from torch import Tensor

from hierbench.reference.objectives.embedded import PARTS, Embedded, Item, valid_mean
from hierbench.reference.objectives.tiles import row_losses
from hierbench.reference.objectives.uncertainty import uncertainty

GLOBAL, LOCAL, GLOBAL_LOCAL = "global_logit_scale", "local_logit_scale", "global_local_logit_scale"


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Contrastive:
    """Mean over `pairs` (from, to) of the cross-entropy from each `from` to its own `to` among the batch's.

    CLIP and MERU: image–text both ways; HyCoCLIP and ARGENT also part_image → text and part_text → image
    (HyCoCLIP, hierarchical compositional contrastive loss). The scale is exp(logit scale), at most 100.
    """

    pairs: tuple[tuple[Item, Item], ...] = (("image", "text"), ("text", "image"))
    scale: Literal["logit_scale", "global_logit_scale", "local_logit_scale", "global_local_logit_scale"] = (
        "logit_scale"
    )

    label: ClassVar[str] = "contrastive"
    needs_cones: ClassVar[bool] = False

    @field_validator("pairs")
    @classmethod
    def _one_target_each(cls, pairs):
        if not pairs:
            raise ValueError("at least one pair is needed")
        for queries, targets in pairs:
            if queries not in PARTS and targets in PARTS:
                raise ValueError(f"{queries} to {targets}: a whole item has no single part to find")
        return pairs

    @property
    def items(self) -> frozenset[str]:
        return frozenset(item for pair in self.pairs for item in pair)

    @property
    def temperatures(self) -> frozenset[str]:
        return frozenset([self.scale])

    def __call__(self, batch: Embedded) -> tuple[Tensor, dict]:
        scale = batch.scales[self.scale]
        losses = [matching_loss(batch, queries, targets, scale) for queries, targets in self.pairs]
        return torch.stack(losses).mean(), {}


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class UncertaintyContrastive:
    """UNCHA's contrastive part: ½ of each of global, local and global–local pairs, three temperatures.

    Global: whole image–caption. Local: part image–part caption over all valid parts. Global–local: parts against the
    whole items, repeated per valid part, each row's logits multiplied by exp(−½ u(part)), which is detached and
    clamped to [0.1, 10] (UNCHA, uncertainty-guided contrastive loss). Without `guided` that factor is 1.
    """

    guided: bool = True

    label: ClassVar[str] = "contrastive"
    needs_cones: ClassVar[bool] = False
    items: ClassVar[frozenset[str]] = frozenset(["image", "text", *PARTS])
    temperatures: ClassVar[frozenset[str]] = frozenset([GLOBAL, LOCAL, GLOBAL_LOCAL])

    def __call__(self, batch: Embedded) -> tuple[Tensor, dict]:
        scales = batch.scales
        losses = [
            matching_loss(batch, "image", "text", scales[GLOBAL]),
            matching_loss(batch, "text", "image", scales[GLOBAL]),
            matching_loss(batch, "part_image", "part_text", scales[LOCAL]),
            matching_loss(batch, "part_text", "part_image", scales[LOCAL]),
        ]
        crossed: tuple[tuple[Item, Item], ...] = (("part_image", "text"), ("part_text", "image"))
        for parts, wholes in crossed:
            scale = scales[GLOBAL_LOCAL]
            if self.guided:
                factor = (-uncertainty(batch.points(parts).detach()) / 2).exp().clamp(0.1, 10)
                scale = scale * factor[:, None]
            losses.append(matching_loss(batch, parts, wholes, scale, repeat=True))
        return torch.stack(losses).sum() / 2, {}


def matching_loss(
    batch: Embedded, queries: Item, targets: Item, scale: Tensor, *, repeat: bool = False
) -> Tensor:
    """Mean cross-entropy from each valid query to its own target; each process scores its own queries.

    Parts against whole items: the target is the part's owner among the B items, or with `repeat` among the items
    repeated once per valid part (an item with two parts then stands in the denominator twice).
    """
    a, b = batch.points(queries), batch.points(targets)
    own = torch.arange(len(a), device=a.device)
    to_wholes = queries in PARTS and targets not in PARTS
    if to_wholes:
        assert batch.owner is not None, "parts come with their owners"
        if repeat:
            b = b[batch.owner]
        else:
            own = batch.owner
    shown = None
    if targets in PARTS or repeat:
        assert batch.valid is not None, "parts come with which of them are real"
        shown = batch.valid
    rows = batch.sharing.own(len(a))
    losses = row_losses(
        batch.geometry, a[rows], b, scale[rows] if scale.ndim else scale, own[rows], shown, batch.tile_mib
    )
    return valid_mean(batch.sharing.gather(losses), batch.valid if queries in PARTS else None)
