"""PHyCLIP: a product of hyperbolic factors, compared by the mean of their distances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from hierbench.geometry import Product
from hierbench.model_adapters import _lineage

PAPER = "PHyCLIP, arXiv:2510.08919 (ICLR 2026)"


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> PhyclipAdapter:
    """`checkpoint` is a .pth, .pt or .safetensors file in PHyCLIP's layout. Raises CheckpointError, UsageError.

    The released evaluators rank by the sum of the factors' inner products, not by the distance that was trained. A run
    does so under the protocol `released`; everything else ranks by the distance.
    """
    adapter = _lineage.load(
        "phyclip", "phyclip", checkpoint, name=name, device=device, dtype=dtype, paper=PAPER
    )
    return PhyclipAdapter(adapter.card, adapter.geometry, adapter.model)


@dataclass(frozen=True)
class PhyclipAdapter(_lineage.LineageAdapter):
    """A dual encoder of the lineage that ranks as the protocol has it (erratum ranked-by-inner-products)."""

    def under(self, protocol: str) -> Self:
        """See `hierbench.contracts.ProtocolAware`: the features are the same, `similarity` is not."""
        assert isinstance(self.geometry, Product)
        ranking: Literal["inner", "distance"] = "inner" if protocol == "released" else "distance"
        return replace(self, geometry=replace(self.geometry, ranking=ranking))
