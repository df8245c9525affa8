"""A reference model to train: the lineage's dual encoder with an objective.

`encode` is the expensive part, `objective` what couples the samples of a batch; they are apart so that a loop can
gather features over processes, or cut `encode` into pieces, in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hierbench.contracts import Geometry
from hierbench.errors import UsageError
from hierbench.geometry import factors
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.encoders import full_precision
from hierbench.reference.layouts import MAX_LOGIT_SCALE
from hierbench.reference.objectives import Embedded, Sharing, Weighted, total_loss
from hierbench.reference.objectives.embedded import PARTS
from hierbench.reference.objectives.tiles import TILE_MIB
from hierbench.reference.packing import Pack
from hierbench.reference.tokenizer import tokenize


@dataclass(frozen=True)
class Batch:
    """B samples with up to N parts each, for `ReferenceModel.loss`."""

    images: Tensor  # (B, 3, H, W) in [0, 1]
    captions: Sequence[str]  # B
    part_images: Tensor | None = None  # (B, N, 3, H, W)
    part_captions: Sequence[Sequence[str]] | None = None  # B lists of at most N
    part_valid: Tensor | None = None  # (B, N) bool; None = the slots that have a caption


class ReferenceModel(nn.Module):
    """CLIP, MERU, HyCoCLIP, UNCHA, ARGENT or PHyCLIP, by encoder layout and terms.

    Contrastive terms go by tiles of at most `loss_tile_mib` MiB.

    Its state dict is the encoder's, in the released layout. Raises UsageError where layout and terms do not fit.
    """

    def __init__(self, encoder: DualEncoder, terms: Sequence[Weighted], *, loss_tile_mib: float = TILE_MIB):
        super().__init__()
        self.loss_tile_mib = loss_tile_mib
        self.encoder = encoder
        self.terms = tuple(terms)
        self.needs_parts = any(item in PARTS for weighted in terms for item in weighted.term.items)
        self._check()

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """The encoder's: names and shapes of the released checkpoints."""
        return self.encoder.state_dict(*args, **options)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load weights in the released layout."""
        return self.encoder.load_state_dict(state_dict, strict=strict, assign=assign)

    def encode(self, pixels: Tensor, texts: Sequence[Sequence[int]] | Pack) -> tuple[Tensor, Tensor]:
        """(R, 3, H, W) in [0, 1] and R token sequences -> two (R, D) features before the learned scale, float32
        (float64 where the model is).
        """
        return full_precision(self.encoder.encode_image(pixels)), full_precision(
            self.encoder.encode_text(texts)
        )

    def objective(
        self,
        image: Tensor,
        text: Tensor,
        part_valid: Tensor | None = None,
        sharing: Sharing = Sharing(),
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Features -> (total loss, logged figures), evaluated in float64 whatever the encoders' arithmetic.

        Besides its terms' figures it logs the learned scalars, `collapsed_cones` (see `_collapsed`), and `image_norm`
        and `text_norm`: the mean length of the whole items' scaled features, in hyperbolic space their distance from
        the root.
        image, text: (b·(1 + P), D) as `encode` gives them, the b whole items first, then the parts slot after slot.
        part_valid: (b, P) bool. With several processes `sharing` says which rows are this one's.
        """
        encoder = self.encoder
        count = len(image) if part_valid is None else len(part_valid)
        parts: dict[str, Any] = {}
        if self.needs_parts:
            if part_valid is None:
                raise UsageError(
                    "this objective compares parts with wholes: give part_images and part_captions "
                    "(in training: data.boxes of at least 1)"
                )
            valid = sharing.gather(part_valid)
            slots = valid.shape[1]
            owner = torch.arange(len(valid), device=image.device).repeat_interleave(slots)
            parts = {"valid": valid.flatten(), "owner": owner}
        scales = {name: scale.clamp(max=MAX_LOGIT_SCALE) for name, scale in encoder.scales().items()}
        geometry = encoder.geometry()
        points: dict[str, Any] = {}
        norms: dict[str, Tensor] = {}
        items: tuple[tuple[Literal["image", "text"], Tensor], ...] = (("image", image), ("text", text))
        for name, features in items:
            features = features.to(torch.float32 if features.device.type == "mps" else torch.float64)
            tangents = encoder.tangents(features, name)
            lifted = geometry.lift(tangents)
            norms[f"{name}_norm"] = tangents[:count].detach().norm(dim=-1).mean()
            if name == "text" and geometry.has_cones:
                norms["collapsed_cones"] = _collapsed(geometry, lifted[:count].detach())
            points[name] = sharing.gather(lifted[:count])
            if parts:
                by_slot = lifted[count:].unflatten(0, (-1, count)).transpose(0, 1)  # (b, P, D)
                points[f"part_{name}"] = sharing.gather(by_slot).flatten(0, 1)
        batch = Embedded(
            geometry, scales=scales, sharing=sharing, tile_mib=self.loss_tile_mib, **points, **parts
        )
        total, logged = total_loss(self.terms, batch)
        return total.float(), logged | self._scalars(scales) | norms

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """(total loss, logged figures) of a batch in one process. Raises UsageError for parts that do not match."""
        self.encoder.clamp_scalars()
        pixels, captions, valid = batch.images, list(batch.captions), None
        if len(pixels) != len(captions):
            raise UsageError(f"a batch needs one caption per image, got {len(captions)} for {len(pixels)}")
        if self.needs_parts and batch.part_images is not None:
            part_images, part_captions, valid = _parts(batch)
            pixels = torch.cat([pixels, part_images.transpose(0, 1).flatten(0, 1)])
            captions += [
                row[slot] if slot < len(row) else ""
                for slot in range(valid.shape[1])
                for row in part_captions
            ]
        image, text = self.encode(pixels, tokenize(captions))
        return self.objective(image, text, valid)

    def _check(self) -> None:
        layout = self.encoder.layout
        for term in (weighted.term for weighted in self.terms):
            if term.needs_cones and not self.encoder.geometry().has_cones:
                raise UsageError(f"a {term.label} term needs hyperbolic space, and layout {layout} has none")
            missing = term.temperatures - self.encoder.spec.temperatures.keys()
            if missing:
                raise UsageError(
                    f"layout {layout} has no {sorted(missing)[0]}, which a {term.label} term reads"
                )

    def _scalars(self, scales: dict[str, Tensor]) -> dict[str, Tensor]:
        logged = {
            name if name == "logit_scale" else name.replace("logit_", ""): value.detach()
            for name, value in scales.items()
        }
        curvature = self.encoder.curvature()  # of a product: (factors,)
        return logged if curvature is None else {**logged, "curv": curvature.detach()}


def _collapsed(geometry: Geometry, points: Tensor) -> Tensor:
    """The share of points (in a product: of points by factors) whose cone is a half-space.

    There ‖x̃‖ ≤ 2C / √κ: the aperture grows no further and a hinge on it has no gradient (ARGENT, §4 and fig. 2).
    """
    apertures = torch.stack([each.half_aperture(one) for each, one in factors(geometry, points)])
    return torch.where(apertures.isnan(), apertures, (apertures >= torch.pi / 2).to(apertures)).mean()


def _parts(batch: Batch) -> tuple[Tensor, Sequence[Sequence[str]], Tensor]:
    """A batch's part images and captions, and (B, N) bool: which part slots are real."""
    images, captions, valid = batch.part_images, batch.part_captions, batch.part_valid
    count = len(batch.images)
    if (
        images is None
        or captions is None
        or images.ndim != 5
        or len(images) != count
        or len(captions) != count
    ):
        raise UsageError(
            f"parts of {count} samples need part_images ({count}, N, 3, H, W) and {count} lists of part_captions"
        )
    slots = images.shape[1]
    told = torch.tensor(
        [[slot < len(row) for slot in range(slots)] for row in captions], device=images.device
    )
    if valid is None:
        valid = told
    if valid.shape != (count, slots) or max(map(len, captions)) > slots:
        raise UsageError(
            f"part_valid must be ({count}, {slots}), and no list of part_captions longer than {slots}"
        )
    if (valid & ~told).any():
        raise UsageError("part_valid marks a part that has no caption: give a string for every valid slot")
    return images, captions, valid.to(device=images.device, dtype=torch.bool)
