"""UNCHA: HyCoCLIP with uncertainty of parts; three temperatures."""

from __future__ import annotations

from hierbench.model_adapters import _lineage

PAPER = (
    "UNCHA: Uncertainty-guided Compositional Alignment with Part-to-Whole Semantic Representativeness "
    "in Hyperbolic Vision-Language Models (CVPR 2026)"
)


def load(
    checkpoint: str | None = None,
    *,
    name: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    keep_end: bool = True,
) -> _lineage.LineageAdapter:
    """`checkpoint` is a .pth, .pt or .safetensors file in UNCHA's layout. Raises CheckpointError, UsageError.

    `keep_end=False` loses the end token of over-long captions, as the released code does.
    """
    return _lineage.load(
        "uncha", "uncha", checkpoint, name=name, device=device, dtype=dtype, paper=PAPER, keep_end=keep_end
    )
