"""What the metrics accept: numpy, torch or lists, brought to one form; anything unusable is a MetricError."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hierbench.errors import MetricError

if TYPE_CHECKING:  # figures of outcomes that were kept do not wait for torch
    from torch import Tensor


def features(value, what: str, dims: int = 2) -> Tensor:
    """`value` as a tensor of `dims` axes on the CPU: float32 or float64, no axis empty, all values finite."""
    import torch

    try:
        tensor = torch.as_tensor(value).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise MetricError(f"{what}: expected an array of numbers, got {type(value).__name__}") from error
    if tensor.dim() != dims or 0 in tensor.shape:
        raise MetricError(f"{what}: expected {dims} axes, none empty, got shape {tuple(tensor.shape)}")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    if not torch.isfinite(tensor).all():
        row = int((~torch.isfinite(tensor)).reshape(len(tensor), -1).any(1).nonzero()[0])
        raise MetricError(f"{what}: row {row} holds NaN or infinity")
    return tensor


def numbers(value, what: str) -> np.ndarray:
    """`value` as a float array (n,), not empty, all values finite."""
    try:
        array = as_array(value)
        array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise MetricError(f"{what}: expected numbers, got {type(value).__name__}") from error
    if array.ndim != 1 or not array.size:
        raise MetricError(f"{what}: expected 1 axis, not empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise MetricError(f"{what}: row {int(np.argmin(np.isfinite(array)))} holds NaN or infinity")
    return array


def as_array(value) -> np.ndarray:
    """`value`, perhaps a tensor on any device, as an array."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def integers(value, what: str, upper: int, length: int | None = None) -> np.ndarray:
    """`value` as an int64 array (n,) with all values in [0, upper); `length` is the n it must have."""
    array = as_array(value)
    if array.ndim != 1 or array.size == 0:
        raise MetricError(f"{what}: expected a non-empty list of integers, got shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise MetricError(f"{what}: expected integers, got {array.dtype}")
    if length is not None and len(array) != length:
        raise MetricError(f"{what}: expected {length} values, got {len(array)}")
    outside = np.flatnonzero((array < 0) | (array >= upper))
    if outside.size:
        at = int(outside[0])
        raise MetricError(f"{what}: value {array[at]} at position {at} is outside 0 … {upper - 1}")
    return array.astype(np.int64)


def same_width(**named: Tensor) -> None:
    """All the named tensors have one width (last axis)."""
    widths = {name: tensor.shape[-1] for name, tensor in named.items()}
    if len(set(widths.values())) > 1:
        raise MetricError(
            "embeddings of different widths: " + ", ".join(f"{k} {v}" for k, v in widths.items())
        )


def owners(value, images: int, captions: int) -> np.ndarray:
    """`value` as the image (captions,) of each caption, every image having at least one."""
    owner = integers(value, "owner", images, captions)
    without = np.flatnonzero(np.bincount(owner, minlength=images) == 0)
    if without.size:
        raise MetricError(
            f"owner: image {without[0]} has no captions ({without.size} such images of {images})"
        )
    return owner
