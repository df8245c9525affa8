"""UNCHA: HyCoCLIP with uncertainty of parts; three temperatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

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
    keep_end: bool | None = None,
) -> UnchaAdapter:
    """`checkpoint` is a .pth, .pt or .safetensors file in UNCHA's layout. Raises CheckpointError, UsageError.

    The released evaluator loses the end token of over-long captions. By default a run does so under the protocol
    `released`, and everything else keeps it; `keep_end` True or False settles it once and for all.
    """
    adapter = _lineage.load(
        "uncha",
        "uncha",
        checkpoint,
        name=name,
        device=device,
        dtype=dtype,
        paper=PAPER,
        keep_end=keep_end is not False,
    )
    return UnchaAdapter(
        adapter.card, adapter.geometry, adapter.model, adapter.keep_end, settled=keep_end is not None
    )


@dataclass(frozen=True)
class UnchaAdapter(_lineage.LineageAdapter):
    """A dual encoder of the lineage that reads over-long captions as the protocol has it (erratum lost-end-token)."""

    settled: bool = False  # whoever loaded it has chosen: protocols change nothing

    def under(self, protocol: str) -> Self:
        """See `hierbench.contracts.ProtocolAware`."""
        return self if self.settled else self.with_end(protocol != "released")
