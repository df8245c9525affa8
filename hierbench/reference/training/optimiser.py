"""AdamW with the lineage's parameter groups."""

from __future__ import annotations

import torch

from hierbench.reference.schema import TrainConfig


def build_optimiser(model: torch.nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """Fused AdamW (where the device has it) with weight decay on matrices and embeddings.

    Learned scalars (temperatures, curvature, alphas) are never decayed; gains and biases only with
    `decay_gains_and_biases`, which is what the released helper does against its own documentation.
    """
    decayed: list[torch.nn.Parameter] = []
    spared: list[torch.nn.Parameter] = []
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        plain = parameter.ndim == 0 or (parameter.ndim == 1 and not config.decay_gains_and_biases)
        (spared if plain else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    device = next(model.parameters()).device.type
    return torch.optim.AdamW(
        groups, lr=config.learning_rate, betas=config.betas, fused=device in ("cpu", "cuda", "mps")
    )
