"""The reference models: encoders, tokenizer and checkpoints of the lineage, its objectives, and a training loop.

Names load on first use: torch and timm take seconds to import.
"""

from importlib import import_module

_API = {
    "build": "hierbench.reference.configuration",
    "Batch": "hierbench.reference.model",
    "DualEncoder": "hierbench.reference.dual_encoder",
    "tokenize": "hierbench.reference.tokenizer",
}

__all__ = list(_API)


def __getattr__(name: str):
    if name in _API:
        return getattr(import_module(_API[name]), name)
    raise AttributeError(f"module 'hierbench.reference' has no attribute {name!r}")
