"""HyCoCLIP: MERU's layout, trained on whole scenes and their parts."""

from __future__ import annotations

from hierbench.model_adapters import _lineage

PAPER = "HyCoCLIP, arXiv:2410.06912 (ICLR 2025)"


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> _lineage.LineageAdapter:
    """`checkpoint` is a .pth, .pt or .safetensors file in MERU's layout. Raises CheckpointError, UsageError."""
    return _lineage.load(
        "hycoclip", "hyperbolic", checkpoint, name=name, device=device, dtype=dtype, paper=PAPER
    )
