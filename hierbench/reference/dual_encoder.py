"""The lineage's dual encoder: two towers, two projections, learned scalars; the released state-dict layout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from hierbench.contracts import Geometry
from hierbench.reference.encoders import (
    CONTEXT,
    VOCABULARY,
    TextTransformer,
    full_precision,
    text_tower,
    vision_tower,
)
from hierbench.reference.layouts import CURVATURE_RANGE, LAYOUTS, MAX_LOGIT_SCALE, Layout
from hierbench.reference.packing import Pack

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

UNUSED = {"logit_scale": -math.log(0.07), "curv": 0.0, "visual_alpha": 0.0, "textual_alpha": 0.0}
"""Scalars that a layout may hold without using, and what a new model's are."""


class DualEncoder(nn.Module):
    """Pixels and token sequences -> features of one space.

    `layout` says which learned scalars there are, and so in what geometry the features lie: see `layouts`.
    """

    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self,
        visual: VisionTransformer,
        textual: TextTransformer,
        embed_dim: int,
        layout: Layout,
        *,
        pixel_mean: Sequence[float] = IMAGENET_MEAN,
        pixel_std: Sequence[float] = IMAGENET_STD,
    ):
        super().__init__()
        self.layout = layout
        self.spec = spec = LAYOUTS[layout]
        for name, temperature in spec.temperatures.items():
            self.register_parameter(name, _scalar(-math.log(temperature)))
        for name in (name for name in UNUSED if name in spec.unused):
            self.register_parameter(name, nn.Parameter(torch.tensor(UNUSED[name]), requires_grad=False))
        factors = spec.factors(embed_dim)
        if spec.curvature:
            setattr(self, spec.curvature, _scalars(0.0, factors))
        for name in spec.alphas or ():  # tangents (of each factor) of norm near 1 at the start
            setattr(self, name, _scalars(-0.5 * math.log(spec.factor_width or embed_dim), factors))
        self.register_buffer("pixel_mean", torch.tensor(pixel_mean).view(3, 1, 1))
        self.register_buffer("pixel_std", torch.tensor(pixel_std).view(3, 1, 1))
        self.visual = visual
        self.textual = textual
        self.visual_proj = nn.Linear(visual.embed_dim, embed_dim, bias=False)
        self.textual_proj = nn.Linear(textual.width, embed_dim, bias=False)
        nn.init.normal_(self.visual_proj.weight, std=visual.embed_dim**-0.5)
        nn.init.normal_(self.textual_proj.weight, std=textual.width**-0.5)

    @classmethod
    def create(
        cls,
        layout: Layout,
        *,
        vision: str = "vit_small_patch16_224",
        text: str = "L12_W512",
        embed_dim: int = 512,
        image_size: int | None = None,
        vision_sizes: Mapping[str, Any] | None = None,
        vocabulary: int = VOCABULARY,
        context: int = CONTEXT,
        **options: Any,
    ) -> DualEncoder:
        """A new model from names: any timm ViT (`vision_sizes`: embed_dim, depth, patch_size, mlp_ratio replace its
        own) and a text tower such as L12_W512. `options` go to the constructor. Raises UsageError for bad names.
        """
        visual = vision_tower(vision, image_size=image_size, **(vision_sizes or {}))
        unused_head = any("min_radius_head" in entry for entry in LAYOUTS[layout].unused)
        textual = text_tower(text, vocabulary=vocabulary, context=context, min_radius_head=unused_head)
        return cls(visual, textual, embed_dim, layout, **options)

    @property
    def device(self) -> torch.device:
        return self.pixel_mean.device

    @property
    def embed_dim(self) -> int:
        return self.visual_proj.out_features

    @property
    def image_size(self) -> int:
        """Side of the square that `encode_image` reads, pixels."""
        embed: Any = self.visual.patch_embed
        return embed.img_size[0]

    def scales(self) -> dict[str, Tensor]:
        """The logit scales by entry, as factors that carry gradient."""
        return {name: getattr(self, name).exp() for name in self.spec.temperatures}

    def curvature(self) -> Tensor | None:
        """κ > 0, or (factors,) of a product, carrying gradient; the space (each factor) has curvature −κ."""
        return self._learned(self.spec.curvature) if self.spec.curvature else None

    def alphas(self) -> dict[str, Tensor]:
        """The scales of image and text features by entry, or (factors,) of a product, carrying gradient."""
        return {name: self._learned(name) for name in self.spec.alphas or ()}

    def geometry(self, learned: bool = True) -> Geometry:
        """The space that lifted features lie in. `learned`: its curvatures carry gradient; else they are numbers.

        Raises GeometryError for a curvature that is not positive and finite.
        """
        curvature = self.curvature()
        each = () if curvature is None else curvature.reshape(-1).unbind()
        return self.spec.geometry(*(each if learned else (value.item() for value in each)))

    def tangents(self, features: Tensor, of: Literal["image", "text"]) -> Tensor:
        """(N, embed_dim) features of images or texts, times the learned scales that the layout has for them."""
        if self.spec.alphas is None:
            return features
        scale = self._learned(self.spec.alphas[("image", "text").index(of)])
        return features * (
            scale.repeat_interleave(self.spec.factor_width) if self.spec.factor_width else scale
        )

    def _learned(self, name: str) -> Tensor:
        """exp of the entry `name`, or of its numbered entries as a vector."""
        entry = getattr(self, name)
        return (torch.stack(list(entry)) if isinstance(entry, nn.ParameterList) else entry).exp()

    def encode_image(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, embed_dim), after the projection, before the learned scale."""
        return self.visual_proj(self.visual((pixels - self.pixel_mean) / self.pixel_std))

    def encode_text(self, texts: Sequence[Sequence[int]] | Pack) -> Tensor:
        """B token sequences, or a `Pack` of them -> (B, embed_dim), after the projection, before the learned scale."""
        return self.textual_proj(self.textual(texts))

    def image_tangents(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, embed_dim) float32 tangent features: scaled, ready for the lift."""
        return self.tangents(full_precision(self.encode_image(pixels)), "image")

    def text_tangents(self, texts: Sequence[Sequence[int]] | Pack) -> Tensor:
        """B token sequences, or a `Pack` of them -> (B, embed_dim) float32 tangent features."""
        return self.tangents(full_precision(self.encode_text(texts)), "text")

    @torch.no_grad()
    def clamp_scalars(self) -> None:
        """Bring the learned scalars into their ranges, as released training does before every forward pass:
        logit scales at most 100, curvature in [0.1, 10], alphas at most 1. Evaluation takes them as they are.
        """
        spec = self.spec
        ranges: dict[str, dict[str, float]] = {
            name: {"max": math.log(MAX_LOGIT_SCALE)} for name in spec.temperatures
        }
        ranges |= {name: {"max": 0.0} for name in spec.alphas or ()}
        if spec.curvature:
            ranges[spec.curvature] = dict(zip(("min", "max"), map(math.log, CURVATURE_RANGE), strict=True))
        for name, limits in ranges.items():
            entry = getattr(self, name)
            for scalar in entry if isinstance(entry, nn.ParameterList) else (entry,):
                scalar.clamp_(**limits)


def _scalars(value: float, factors: int | None) -> nn.Parameter | nn.ParameterList:
    """One learned scalar, or one of each factor."""
    return _scalar(value) if factors is None else nn.ParameterList([_scalar(value) for _ in range(factors)])


def _scalar(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value))
