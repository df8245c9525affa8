"""Floating-point operations of a training step by formula, and what devices can do in a second.

A multiplication with its addition counts as two. A transformer layer of width W and MLP ratio r over a sequence of N
tokens takes 2N · (4 + 2r) W² in its matrices and 4 N² W in its attention, causal or not (as PaLM counts, Chowdhery et
al., 2022, appendix B). The cutting into patches and the projections are added; norms, softmax and the loss are not.
A step takes three times its forward pass: recomputing activations is no work of the model. The count is that of the
model as published: images through all tokens of all layers, texts once with the tokens they have and once as if padded
to the context, so that figures can be held against codes that pad.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from hierbench.reference.dual_encoder import DualEncoder

STEP = 3
"""Passes that forward and backward cost together, in forward passes."""

PEAKS: dict[str, dict[str, float]] = {
    "B200": {"bfloat16": 2250, "float16": 2250, "float32": 75},
    "H200": {"bfloat16": 989.4, "float16": 989.4, "float32": 66.9},
    "H100 PCIe": {"bfloat16": 756, "float16": 756, "float32": 51},
    "H100": {"bfloat16": 989.4, "float16": 989.4, "float32": 66.9},
    "A100": {"bfloat16": 312, "float16": 312, "float32": 19.5},
    "L40S": {"bfloat16": 362, "float16": 362, "float32": 91.6},
    "V100": {"float16": 125, "float32": 15.7},
}
"""Dense TFLOP/s by a part of the device's name, by NVIDIA's data sheets: without sparsity, float32 without TF32."""


@dataclass(frozen=True)
class Tower:
    """The sizes of a transformer that its cost depends on."""

    width: int
    depth: int
    ratio: float  # of the MLP's width to the tower's

    def forward(self, tokens: float, squares: float) -> float:
        """Operations for sequences of `tokens` tokens in all; `squares`: the sum of their lengths' squares."""
        return self.depth * (2 * tokens * (4 + 2 * self.ratio) * self.width**2 + 4 * squares * self.width)


@dataclass(frozen=True)
class Cost:
    """What a model's forward pass takes, by images and texts."""

    image: float  # operations an image
    texts: Tower
    context: int
    projection: float  # operations a text

    @classmethod
    def of(cls, encoder: DualEncoder) -> Cost:
        """By the modules themselves, whatever config they came from."""
        visual: Any = encoder.visual
        width, grid = visual.embed_dim, visual.patch_embed.num_patches
        ratio = visual.blocks[0].mlp.fc1.out_features / width
        tokens = grid + visual.num_prefix_tokens
        patch = visual.patch_embed.proj.weight
        tower = Tower(width, len(visual.blocks), ratio)
        image = tower.forward(tokens, tokens**2) + 2 * grid * patch.numel() + 2 * width * encoder.embed_dim
        textual = encoder.textual
        texts = Tower(textual.width, len(textual.resblocks), 4)
        return cls(image, texts, textual.context, 2 * textual.width * encoder.embed_dim)

    def step(self, images: int, lengths: Iterable[int]) -> tuple[float, float]:
        """Operations of a training step on so many images and texts of these lengths: (true tokens, padded)."""
        lengths = list(lengths)
        shared = images * self.image + len(lengths) * self.projection
        true = self.texts.forward(sum(lengths), sum(length**2 for length in lengths))
        padded = self.texts.forward(len(lengths) * self.context, len(lengths) * self.context**2)
        return STEP * (shared + true), STEP * (shared + padded)


def peak(device: torch.device, precision: str) -> float | None:
    """The device's operations a second at a `train.precision`; None where that is not known (all CPUs)."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    tflops = next((rates.get(precision) for part, rates in PEAKS.items() if part in name), None)
    return None if tflops is None else tflops * 1e12
