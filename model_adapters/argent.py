"""ARGENT: MERU's layout, trained with adaptive entailment and a norm regulariser."""

from __future__ import annotations

from hierbench.model_adapters import _lineage

PAPER = "ARGENT, arXiv:2603.23311"


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> _lineage.LineageAdapter:
    """`checkpoint` is a .pth, .pt or .safetensors file in MERU's layout. Raises CheckpointError, UsageError."""
    return _lineage.load(
        "argent", "hyperbolic", checkpoint, name=name, device=device, dtype=dtype, paper=PAPER
    )
