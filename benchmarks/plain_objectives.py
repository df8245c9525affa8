"""HyCoCLIP's and UNCHA's losses as plain steps have them: dense matrices of pairs in float32. For bench_training.py.

By the formulas of the papers (MERU, section 3, for the geometry; HyCoCLIP; UNCHA), one process.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from hierbench.reference.model import ReferenceModel

MIN_RADIUS, ACROSS, WITHIN, ENTAILMENT = 0.1, 0.7, 1.2, 0.2


def plain_objective(model: ReferenceModel, family: str) -> Callable[..., Tensor]:
    """Projected features of B whole images, M part images, B captions and M phrases, and (M,) whose parts they are
    -> the loss.
    """
    encoder = model.encoder
    terms = {"hycoclip": _hycoclip, "uncha": _uncha}[family]

    def loss(image: Tensor, part_image: Tensor, text: Tensor, part_text: Tensor, owner: Tensor) -> Tensor:
        curvature = encoder.curvature()
        assert curvature is not None
        space = _Space(curvature)
        images = [space.lift(encoder.tangents(features, "image")) for features in (image, part_image)]
        texts = [space.lift(encoder.tangents(features, "text")) for features in (text, part_text)]
        scales = {name: scale.clamp(max=100) for name, scale in encoder.scales().items()}
        return terms(space, scales, owner, *images, *texts)

    return loss


class _Space:
    def __init__(self, curvature: Tensor):
        self.curvature = curvature

    def lift(self, tangents: Tensor) -> Tensor:
        length = self.curvature.sqrt() * tangents.norm(dim=-1, keepdim=True)
        return length.clamp(1e-8, 11.09).sinh() / length.clamp(min=1e-8) * tangents

    def time(self, points: Tensor) -> Tensor:
        return (1 / self.curvature + points.square().sum(-1)).sqrt()

    def distances(self, x: Tensor, y: Tensor) -> Tensor:
        inner = x @ y.T - self.time(x)[:, None] * self.time(y)
        return (-self.curvature * inner).clamp(min=1 + 1e-8).acosh() / self.curvature.sqrt()

    def angle(self, x: Tensor, y: Tensor) -> Tensor:
        inner = self.curvature * ((x * y).sum(-1) - self.time(x) * self.time(y))
        outward = (self.time(y) + inner * self.time(x)) / (
            x.norm(dim=-1) * (inner.square() - 1).clamp(min=1e-8).sqrt()
        )
        return outward.clamp(-1 + 1e-8, 1 - 1e-8).acos()

    def aperture(self, x: Tensor) -> Tensor:
        sine = 2 * MIN_RADIUS / (self.curvature.sqrt() * x.norm(dim=-1) + 1e-8)
        return sine.clamp(max=1 - 1e-8).asin()

    def outside(self, x: Tensor, y: Tensor, eta: float, slope: float = 0.0) -> Tensor:
        angle = self.angle(x, y)
        return (angle - eta * self.aperture(x)).clamp(min=0) + slope * angle


def _matched(space: _Space, x: Tensor, y: Tensor, scale: Tensor, own: Tensor | None = None) -> Tensor:
    targets = torch.arange(len(x)) if own is None else own
    return F.cross_entropy(-scale * space.distances(x, y), targets)


def _hycoclip(space, scales, owner, image, part_image, text, part_text):
    scale = scales["logit_scale"]
    contrastive = [
        _matched(space, image, text, scale),
        _matched(space, text, image, scale),
        _matched(space, part_image, text, scale, owner),
        _matched(space, part_text, image, scale, owner),
    ]
    outside = [
        space.outside(text, image, ACROSS).mean(),
        space.outside(part_text, part_image, ACROSS).mean(),
        space.outside(part_image, image[owner], WITHIN).mean(),
        space.outside(part_text, text[owner], WITHIN).mean(),
    ]
    return sum(contrastive) / 4 + ENTAILMENT * sum(outside) / 2


def _uncha(space, scales, owner, image, part_image, text, part_text):
    images, texts = image[owner], text[owner]
    whole, local, crossed = (scales[f"{name}_logit_scale"] for name in ("global", "local", "global_local"))
    contrastive = [_matched(space, *pair, whole) for pair in ((image, text), (text, image))]
    contrastive += [
        _matched(space, *pair, local) for pair in ((part_image, part_text), (part_text, part_image))
    ]
    for parts, wholes in ((part_image, texts), (part_text, images)):
        factor = (-_uncertain(parts.detach()) / 2).exp().clamp(0.1, 10)
        contrastive.append(_matched(space, parts, wholes, crossed * factor[:, None]))
    across = space.outside(text, image, ACROSS, 0.1).mean() / 2
    across = across + space.outside(part_text, part_image, ACROSS, 0.1).mean() / 2
    within = []
    for parts, wholes in ((part_image, images), (part_text, texts)):
        residual = space.outside(parts, wholes, WITHIN, 0.1)
        u = _uncertain(parts)
        share = u.softmax(0)
        each = residual.detach() / (u.exp() + 1e-6) / 2 + u / 2
        within.append(residual.mean() / 4 + 10 * (each.mean() - (share * share.log()).sum()))
    return sum(contrastive) / 2 + ENTAILMENT * (across + sum(within))


def _uncertain(points: Tensor) -> Tensor:
    return F.softplus(-points.norm(dim=-1))
