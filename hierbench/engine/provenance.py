"""Where figures come from, as far as this machine and installation go: versions, revision, device."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import hierbench

PACKAGES = ("torch", "torchvision", "timm", "open_clip_torch", "transformers", "numpy", "pillow")
"""Those that can move a figure."""


@cache
def versions() -> dict[str, str]:
    """Versions of hierbench, Python, the platform and `PACKAGES`."""
    found = {
        "hierbench": hierbench.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


@cache
def revision() -> str | None:
    """Git revision of hierbench where it runs from a checkout, with "-dirty" for uncommitted changes."""
    root = Path(hierbench.__file__).resolve().parent.parent
    if not (root / "pyproject.toml").is_file():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def device_name(device: str) -> str:
    """The device and, for a GPU, what it is."""
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})" if device.startswith("cuda") else device


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
