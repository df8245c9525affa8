"""What the adapters of other libraries' models share: checks of the weights, arithmetic, silence."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import warnings
from collections.abc import Iterator

import torch
from torch import nn

from hierbench.errors import CheckpointError, UsageError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def ready(model: nn.Module, device: str, dtype: str, where: str) -> nn.Module:
    """The model in evaluation mode, without gradients, on the device; its weights stay float32.

    Raises CheckpointError where weights are not finite, UsageError for a dtype that is not offered.
    """
    if dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is not offered: choose {', '.join(DTYPES)}")
    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise CheckpointError(f"{where}: weight {name} holds NaN or infinity, the file is damaged")
    return model.eval().requires_grad_(False).to(device)


@contextlib.contextmanager
def arithmetic(device: torch.device, dtype: str) -> Iterator[None]:
    """No gradients, and matrix products in `dtype` while sums and norms stay float32."""
    half = dtype != "float32"
    with torch.no_grad(), torch.autocast(device.type, dtype=DTYPES[dtype] if half else None, enabled=half):
        yield


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without the library's own log lines and warnings; what matters reaches the user as an error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def state_sha256(model: nn.Module) -> str:
    """A fingerprint of weights that are no file: names, shapes and bytes of the state dict."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
