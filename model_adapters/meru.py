"""MERU: images and captions on a hyperboloid, captions entail images."""

from __future__ import annotations

from hierbench.model_adapters import _lineage

PAPER = "MERU, arXiv:2304.09172"


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> _lineage.LineageAdapter:
    """`checkpoint` is a .pth, .pt or .safetensors file in MERU's layout. Raises CheckpointError, UsageError."""
    return _lineage.load("meru", "hyperbolic", checkpoint, name=name, device=device, dtype=dtype, paper=PAPER)
