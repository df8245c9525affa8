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


class DualEncoder(nn.Module):
    """Pixels and token sequences -> features of one space.

    `layout` says which learned scalars there are, and so in what geometry the features lie: see `layouts`.
    """

    pixel_mean: Tensor
    pixel_std: Tensor
    visual_alpha: nn.Parameter
    textual_alpha: nn.Parameter

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
        self.spec = LAYOUTS[layout]
        for name, temperature in self.spec.temperatures.items():
            self.register_parameter(name, _scalar(-math.log(temperature)))
        if "logit_scale" in self.spec.unused:
            self.logit_scale = _scalar(-math.log(0.07)).requires_grad_(False)
        for name in self.spec.curvatures:
            self.register_parameter(name, _scalar(0.0))
        if self.spec.alphas:
            self.visual_alpha = _scalar(-0.5 * math.log(embed_dim))  # tangents of norm near 1 at the start
            self.textual_alpha = _scalar(-0.5 * math.log(embed_dim))
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

    def curvatures(self) -> dict[str, Tensor]:
        """κ > 0 by entry, as tensors that carry gradient; the space (or its factor) has curvature −κ."""
        return {name: getattr(self, name).exp() for name in self.spec.curvatures}

    def geometry(self, learned: bool = True) -> Geometry:
        """The space that lifted features lie in. `learned`: its curvatures carry gradient; else they are numbers.

        Raises GeometryError for a curvature that is not positive and finite.
        """
        found = self.curvatures().values()
        return self.spec.geometry(*(found if learned else (value.item() for value in found)))

    def tangents(self, features: Tensor, of: Literal["image", "text"]) -> Tensor:
        """(N, embed_dim) features of images or texts, times the learned scale that the layout has for them."""
        if not self.spec.alphas:
            return features
        return features * (self.visual_alpha if of == "image" else self.textual_alpha).exp()

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
        for name in self.spec.temperatures:
            getattr(self, name).clamp_(max=math.log(MAX_LOGIT_SCALE))
        for name in self.spec.curvatures:
            getattr(self, name).clamp_(*map(math.log, CURVATURE_RANGE))
        if self.spec.alphas:
            self.visual_alpha.clamp_(max=0.0)
            self.textual_alpha.clamp_(max=0.0)


def _scalar(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value))
