"""The running average of a model's weights over its steps (EMA): w̄ ← decay · w̄ + (1 − decay) · w after each step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hierbench.reference.training.parallel import local


class Average:
    """The average of the learned weights of `encoder`, in float32 or what they are in; it begins at what they are now.

    Frozen entries and buffers have no average: `state_dict` takes them as they are. Averages lie where the weights
    lie, on the same device and cut over processes as they are.
    """

    def __init__(self, encoder: nn.Module, decay: float):
        self.decay = decay
        self._encoder = encoder
        learned = ((name, p) for name, p in encoder.named_parameters() if p.requires_grad)
        self.tensors: dict[str, Tensor] = {name: p.detach().clone() for name, p in learned}

    @torch.no_grad()
    def update(self) -> None:
        """Take one more step's weights in."""
        weights = dict(self._encoder.named_parameters())
        now = [local(weights[name].detach()) for name in self.tensors]
        torch._foreach_lerp_([local(tensor) for tensor in self.tensors.values()], now, 1 - self.decay)

    def state_dict(self) -> dict[str, Tensor]:
        """All entries of the encoder's state dict, the learned ones averaged."""
        return {**self._encoder.state_dict(), **self.tensors}
