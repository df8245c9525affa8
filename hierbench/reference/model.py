"""A reference model to train: the lineage's dual encoder with an objective.

`encode` is the expensive part, `objective` what couples the samples of a batch; they are apart so that a loop can gather
features over processes, or cut `encode` into pieces, in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hierbench.errors import UsageError
from hierbench.geometry import Lorentz, Sphere
from hierbench.reference.dual_encoder import MAX_LOGIT_SCALE, TEMPERATURES, DualEncoder
from hierbench.reference.objectives import Embedded, Weighted, total_loss
from hierbench.reference.packing import Pack, pack
from hierbench.reference.tokenizer import tokenize


@dataclass(frozen=True)
class Batch:
    """B samples with up to N parts each, for `ReferenceModel.loss`."""

    images: Tensor  # (B, 3, H, W) in [0, 1]
    captions: Sequence[str]  # B
    part_images: Tensor | None = None  # (B, N, 3, H, W)
    part_captions: Sequence[Sequence[str]] | None = None  # B lists of N
    part_valid: Tensor | None = None  # (B, N) bool; None = all


class ReferenceModel(nn.Module):
    """CLIP, MERU, HyCoCLIP, UNCHA or ARGENT, by encoder layout and terms. `encoder.state_dict()` is released layout."""

    def __init__(self, encoder: DualEncoder, terms: Sequence[Weighted], *, needs_parts: bool):
        super().__init__()
        self.encoder = encoder
        self.terms = tuple(terms)
        self.needs_parts = needs_parts

    def encode(self, pixels: Tensor, texts: Sequence[Sequence[int]] | Pack) -> tuple[Tensor, Tensor]:
        """(R, 3, H, W) in [0, 1] and R token sequences -> two (R, D) float32 features before the learned scale."""
        return self.encoder.encode_image(pixels).float(), self.encoder.encode_text(texts).float()

    def objective(
        self,
        image: Tensor,
        text: Tensor,
        part_valid: Tensor | None = None,
        gather: Callable[[Tensor], Tensor] = lambda rows: rows,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Features -> (total loss, logged figures); always in float32 or wider.

        image, text: (b·(1 + P), D) as `encode` gives them, the b whole items first, then the parts slot after slot.
        part_valid: (b, P) bool. `gather` makes the rows of all processes from those of this one.
        """
        encoder = self.encoder
        count = len(image) if part_valid is None else len(part_valid)
        parts = {}
        if self.needs_parts:
            if part_valid is None:
                raise UsageError(
                    "this objective compares parts with wholes: give part_images and part_captions"
                )
            valid = gather(part_valid)
            slots = valid.shape[1]
            owner = torch.arange(len(valid), device=image.device).repeat_interleave(slots)
            parts = {"valid": valid.flatten(), "owner": owner}
        scales = {
            name: getattr(encoder, name).exp().clamp(max=MAX_LOGIT_SCALE)
            for name in TEMPERATURES[encoder.layout]
        }
        geometry = Lorentz(encoder.curvature()) if encoder.is_hyperbolic else Sphere()
        points = {}
        for name, features in (("image", image), ("text", text)):
            if encoder.is_hyperbolic:
                alpha = encoder.visual_alpha if name == "image" else encoder.textual_alpha
                features = features * alpha.exp()
            lifted = geometry.lift(features)
            points[name] = gather(lifted[:count])
            if parts:
                by_slot = lifted[count:].unflatten(0, (-1, count)).transpose(0, 1)  # (b, P, D)
                points[f"part_{name}"] = gather(by_slot).flatten(0, 1)
        total, logged = total_loss(self.terms, Embedded(geometry, scales=scales, **points, **parts))
        return total, logged | self._scalars(scales)

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """(total loss, logged figures) of a batch in one process."""
        self.encoder.clamp_scalars()
        pixels, captions, valid = batch.images, list(batch.captions), None
        if batch.part_images is not None:
            if batch.part_captions is None:
                raise UsageError("part_images without part_captions")
            count, slots = batch.part_images.shape[:2]
            pixels = torch.cat([pixels, batch.part_images.transpose(0, 1).flatten(0, 1)])
            captions += [row[slot] for slot in range(slots) for row in batch.part_captions]
            valid = batch.part_valid
            if valid is None:
                valid = torch.ones(count, slots, dtype=torch.bool, device=pixels.device)
        image, text = self.encode(pixels, pack(tokenize(captions)))
        return self.objective(image, text, valid)

    def _scalars(self, scales: dict[str, Tensor]) -> dict[str, Tensor]:
        logged = {
            name if name == "logit_scale" else name.replace("logit_", ""): value.detach()
            for name, value in scales.items()
        }
        if self.encoder.is_hyperbolic:
            logged["curv"] = self.encoder.curvature().detach()
        return logged
