"""Training objectives of the lineage as composed terms; each is a small class over lifted embeddings."""

from hierbench.reference.objectives.compose import TERMS, Weighted, build_terms, total_loss
from hierbench.reference.objectives.embedded import Embedded, Sharing

__all__ = ["TERMS", "Embedded", "Sharing", "Weighted", "build_terms", "total_loss"]
