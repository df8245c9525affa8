"""The lineage's dual encoder: two towers, two projections, learned scalars; the released state-dict layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from hierbench.reference.encoders import (
    CONTEXT,
    VOCABULARY,
    TextTransformer,
    full_precision,
    text_tower,
    vision_tower,
)
from hierbench.reference.packing import Pack

Layout = Literal["clip", "hyperbolic", "uncha"]

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

TEMPERATURES: dict[str, dict[str, float]] = {
    "clip": {"logit_scale": 0.07},
    "hyperbolic": {"logit_scale": 0.07},
    "uncha": {"global_logit_scale": 0.07, "local_logit_scale": 0.05, "global_local_logit_scale": 0.06},
}
"""The learned temperatures of each layout and where they start (CLIP's 0.07; UNCHA's as released)."""

MAX_LOGIT_SCALE = 100.0
CURVATURE_RANGE = (0.1, 10.0)
UNUSED_BY_UNCHA = ("logit_scale", "textual.min_radius_head.0.weight", "textual.min_radius_head.0.bias")
"""Entries that UNCHA's released files hold although nothing reads them."""


class DualEncoder(nn.Module):
    """Pixels and token sequences -> features of one space.

    `layout` says which scalars there are: "clip" has a temperature; "hyperbolic" (MERU, HyCoCLIP, ARGENT) also the
    logs of the curvature and of two scales (alphas) before the lift; "uncha" three temperatures.
    """

    def __init__(
        self,
        visual: nn.Module,
        textual: TextTransformer,
        embed_dim: int,
        layout: Layout,
        *,
        pixel_mean: Sequence[float] = IMAGENET_MEAN,
        pixel_std: Sequence[float] = IMAGENET_STD,
    ):
        super().__init__()
        self.layout = layout
        for name, temperature in TEMPERATURES[layout].items():
            self.register_parameter(name, _scalar(-math.log(temperature)))
        if layout == "uncha":
            self.logit_scale = _scalar(-math.log(0.07)).requires_grad_(False)  # released, unused
        if layout != "clip":
            self.curv = _scalar(0.0)
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
        vision_sizes: dict | None = None,
        vocabulary: int = VOCABULARY,
        context: int = CONTEXT,
        **options,
    ) -> DualEncoder:
        """A new model from names: any timm ViT (`vision_sizes`: embed_dim, depth, patch_size, mlp_ratio replace its
        own) and a text tower such as L12_W512. `options` go to the constructor. Raises UsageError for bad names.
        """
        visual = vision_tower(vision, image_size=image_size, **(vision_sizes or {}))
        textual = text_tower(text, vocabulary=vocabulary, context=context, min_radius_head=layout == "uncha")
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
        return self.visual.patch_embed.img_size[0]

    @property
    def is_hyperbolic(self) -> bool:
        return self.layout != "clip"

    def curvature(self) -> Tensor:
        """κ > 0 as a tensor that carries gradient; the space has curvature −κ."""
        return self.curv.exp()

    def encode_image(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, embed_dim), after the projection, before the learned scale."""
        return self.visual_proj(self.visual((pixels - self.pixel_mean) / self.pixel_std))

    def encode_text(self, texts: Sequence[Sequence[int]] | Pack) -> Tensor:
        """B token sequences, or a `Pack` of them -> (B, embed_dim), after the projection, before the learned scale."""
        return self.textual_proj(self.textual(texts))

    def image_tangents(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, embed_dim) float32 tangent features: scaled, ready for the lift."""
        features = full_precision(self.encode_image(pixels))
        return features * self.visual_alpha.exp() if self.is_hyperbolic else features

    def text_tangents(self, texts: Sequence[Sequence[int]] | Pack) -> Tensor:
        """B token sequences, or a `Pack` of them -> (B, embed_dim) float32 tangent features."""
        features = full_precision(self.encode_text(texts))
        return features * self.textual_alpha.exp() if self.is_hyperbolic else features

    @torch.no_grad()
    def clamp_scalars(self) -> None:
        """Bring the learned scalars into their ranges, as released training does before every forward pass:
        logit scales at most 100, curvature in [0.1, 10], alphas at most 1. Evaluation takes them as they are.
        """
        for name in TEMPERATURES[self.layout]:
            getattr(self, name).clamp_(max=math.log(MAX_LOGIT_SCALE))
        if self.is_hyperbolic:
            self.curv.clamp_(*map(math.log, CURVATURE_RANGE))
            self.visual_alpha.clamp_(max=0.0)
            self.textual_alpha.clamp_(max=0.0)


def _scalar(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value))
