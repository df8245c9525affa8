"""The lineage's CLIP baseline (MERU §4): unit vectors, files without a curvature."""

from __future__ import annotations

from hierbench.model_adapters import _lineage

PAPER = "MERU, arXiv:2304.09172"


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> _lineage.LineageAdapter:
    """`checkpoint` is a .pth, .pt or .safetensors file in MERU's layout, without a curvature.

    Raises CheckpointError, UsageError.
    """
    return _lineage.load("clip", "clip", checkpoint, name=name, device=device, dtype=dtype, paper=PAPER)
