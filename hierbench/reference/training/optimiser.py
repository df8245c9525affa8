"""AdamW with the lineage's parameter groups, and its moments by the names of what they belong to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from hierbench.reference.schema import TrainConfig
from hierbench.reference.training.parallel import partition

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps of a parameter."""


def build_optimiser(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """Fused AdamW (where the device has it) with weight decay on matrices and embeddings.

    Learned scalars (temperatures, curvature, alphas) are never decayed; gains and biases only with
    `decay_gains_and_biases`, which is what the released helper does against its own documentation.
    """
    groups = [
        {"params": alike, "weight_decay": decay}
        for decay, named in zip((config.weight_decay, 0.0), _grouped(model, config), strict=True)
        for alike in partition([parameter for _, parameter in named])
    ]
    device = next(model.parameters()).device.type
    return torch.optim.AdamW(
        groups, lr=config.learning_rate, betas=config.betas, fused=device in ("cpu", "cuda", "mps")
    )


def names(model: nn.Module, config: TrainConfig) -> list[str]:
    """Names of the parameters in the order in which an optimiser's state dict numbers them."""
    return [name for group in _grouped(model, config) for name, _ in group]


def by_name(state: dict[str, Any], ordered: list[str]) -> dict[str, Tensor]:
    """The moments of an optimiser's state dict as NAME/MOMENT. Raises KeyError, IndexError for another's."""
    return {f"{ordered[index]}/{key}": kept[key] for index, kept in state["state"].items() for key in MOMENTS}


def moments(
    model: nn.Module, optimiser: torch.optim.Optimizer, made: Iterable[str] = ()
) -> dict[str, Tensor]:
    """The optimiser's own moments as NAME/MOMENT; those of the parameters `made` are made where there are none."""
    parameters = dict(model.named_parameters())
    for name in set(made) & parameters.keys():
        parameter = parameters[name]
        if not optimiser.state[parameter]:
            zeros = {key: torch.zeros_like(parameter, requires_grad=False) for key in MOMENTS[1:]}
            optimiser.state[parameter] = {"step": torch.zeros((), device=parameter.device), **zeros}
    return {
        f"{name}/{key}": optimiser.state[parameter][key]
        for name, parameter in parameters.items()
        if optimiser.state.get(parameter)
        for key in MOMENTS
    }


def _grouped(model: nn.Module, config: TrainConfig) -> tuple[list, list]:
    """Names and parameters: those that are decayed, those that are not."""
    decayed: list[tuple[str, nn.Parameter]] = []
    spared: list[tuple[str, nn.Parameter]] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        plain = parameter.ndim == 0 or (parameter.ndim == 1 and not config.decay_gains_and_biases)
        (spared if plain else decayed).append((name, parameter))
    return decayed, spared
