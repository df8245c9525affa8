"""Contrastive terms: cross-entropy over the batch on logits scale × similarity, −geodesic distance or cosine."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hierbench.reference.objectives.embedded import Embedded
from hierbench.reference.objectives.uncertainty import uncertainty

PARTS = ("part_image", "part_text")


@dataclass(frozen=True)
class Contrastive:
    """Mean over `pairs` (from, to) of the cross-entropy from each `from` to its own `to` among the batch's.

    CLIP and MERU: image–text both ways; HyCoCLIP and ARGENT also part_image → text and part_text → image
    (HyCoCLIP, eq. 6). The scale is exp(logit_scale), at most 100.
    """

    pairs: tuple[tuple[str, str], ...] = (("image", "text"), ("text", "image"))
    scale: str = "logit_scale"

    def __call__(self, batch: Embedded) -> Tensor:
        """Scalar loss."""
        losses = [
            matching_loss(batch, queries, targets, batch.scales[self.scale])
            for queries, targets in self.pairs
        ]
        return torch.stack(losses).mean()


@dataclass(frozen=True)
class UncertaintyContrastive:
    """UNCHA's contrastive part: ½ of each of global, local and global–local pairs, three temperatures.

    Global: whole image–caption. Local: part image–part caption over all valid parts. Global–local: parts against the
    whole items, repeated per valid part, each row's logits multiplied by exp(−½ u(part)), which is detached and
    clamped to [0.1, 10] (UNCHA, uncertainty-guided contrastive loss).
    """

    def __call__(self, batch: Embedded) -> Tensor:
        """Scalar loss."""
        scales = batch.scales
        total = sum(
            matching_loss(batch, *pair, scales["global_logit_scale"])
            for pair in (("image", "text"), ("text", "image"))
        )
        total += sum(
            matching_loss(batch, *pair, scales["local_logit_scale"])
            for pair in (("part_image", "part_text"), ("part_text", "part_image"))
        )
        for parts, whole in (("part_image", "text"), ("part_text", "image")):
            factor = (-uncertainty(batch.points(parts).detach()) / 2).exp().clamp(0.1, 10)
            scale = scales["global_local_logit_scale"] * factor[:, None]
            total += matching_loss(batch, parts, whole, scale, repeat=True)
        return total / 2


def matching_loss(
    batch: Embedded, queries: str, targets: str, scale: Tensor, *, repeat: bool = False
) -> Tensor:
    """Cross-entropy from each valid query to its own target.

    Parts against whole items: the target is the part's owner among the B items, or with `repeat` among the items
    repeated once per valid part (an item with two parts then stands in the denominator twice).
    """
    a, b = batch.points(queries), batch.points(targets)
    parts = queries in PARTS
    if parts and targets not in PARTS and repeat:
        b = b[batch.owner]
    wanted = (
        batch.owner
        if parts and targets not in PARTS and not repeat
        else torch.arange(len(a), device=a.device)
    )
    logits = scale * _closeness(batch, a, b)
    if len(b) != len(batch.image) or targets in PARTS or repeat:
        logits = logits.masked_fill(~batch.valid, float("-inf"))
    if not parts:
        return F.cross_entropy(logits, wanted)
    own = logits.gather(1, wanted[:, None])[:, 0]
    losses = torch.where(batch.valid, logits.logsumexp(1) - torch.where(batch.valid, own, 0), 0)
    return losses.sum() / batch.valid.sum().clamp(min=1)


def _closeness(batch: Embedded, a: Tensor, b: Tensor) -> Tensor:
    if batch.geometry.has_cones:
        return -batch.geometry.distance(a, b)
    return batch.geometry.similarity(a, b)
