"""Checkpoints onto this machine: from the hub, from a URL, or out of the package; offline from the cache.

The hub keeps its own cache; a download from a URL lies at CACHE/checkpoints/<model>/<file>. For both, a
sidecar <file>.json in that folder records the first arrival (hierbench.acquire.download). Every failure is one
CheckpointError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hierbench.acquire.download import (
    DownloadError,
    Expected,
    ask_hub,
    download,
    files_sha256,
    mismatch,
    record,
    sha256,
    usable,
)
from hierbench.cache import cache_dir
from hierbench.errors import CheckpointError

if TYPE_CHECKING:
    from hierbench.models.catalog import ModelEntry

__all__ = ["SNAPSHOT_FILES", "checkpoint", "files_sha256", "hub_offline", "hub_snapshot", "sha256"]

SNAPSHOT_FILES = ["*.json", "*.yaml", "*.txt", "*.jinja", "*.model", "*.safetensors", "*.bin"]
"""What a transformers folder needs; other frameworks' weights and training states stay on the hub."""


def checkpoint(entry: ModelEntry, offline: bool = False) -> Path:
    """The file (or, for a whole hub repository, the folder) of a catalog entry, downloaded where necessary.

    Hub tokens, mirrors and HF_HUB_OFFLINE work as huggingface_hub has them; with `offline` nothing is asked
    for. Safe for several processes at once. Raises CheckpointError.
    """
    with _checkpoint_errors():
        if entry.builtin:
            return _from_package(entry, entry.builtin)
        if entry.url:
            return _from_url(entry, entry.url, offline)
        if entry.repo and entry.file:
            return _from_hub(entry, entry.repo, entry.file, offline)
        if entry.repo:
            return hub_snapshot(entry.repo, entry.revision, offline)
    raise CheckpointError(f"model {entry.name}: its catalog entry says neither url, repo nor builtin")


def hub_snapshot(repo: str, revision: str | None = None, offline: bool = False) -> Path:
    """The folder of a hub repository's configuration, tokenizer and weights. Raises CheckpointError."""
    from huggingface_hub import snapshot_download

    get = partial(snapshot_download, repo, revision=revision, local_files_only=offline)
    with _checkpoint_errors():
        return Path(ask_hub(repo, partial(get, allow_patterns=SNAPSHOT_FILES)))


@contextlib.contextmanager
def hub_offline(offline: bool) -> Iterator[None]:
    """Within it, libraries that fetch for themselves (open_clip) find hub files in the cache alone."""
    if not offline:
        yield
        return
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True  # the environment variable is read at import only
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


# ------------------------------------------------------------------------------------------ the three sources


def _from_package(entry: ModelEntry, builtin: str) -> Path:
    path = Path(str(resources.files("hierbench"))) / builtin
    if not path.is_file():
        raise CheckpointError(
            f"model {entry.name}: {path} is missing from the installation, reinstall hierbench"
        )
    return path


def _from_url(entry: ModelEntry, url: str, offline: bool) -> Path:
    target = _folder(entry) / Path(urlsplit(url).path).name
    if offline and not usable(target, url, _expected(entry), target):
        raise CheckpointError(_offline(entry, target))
    return download(url, target, _expected(entry))


def _from_hub(entry: ModelEntry, repo: str, file: str, offline: bool) -> Path:
    from huggingface_hub import constants, hf_hub_download

    what, recorded_at = f"{repo}/{file}", _folder(entry) / file
    get = partial(hf_hub_download, repo, file, revision=entry.revision, local_files_only=offline)
    path = Path(ask_hub(what, get))
    if usable(path, str(path), _expected(entry), recorded_at):
        return path
    if offline or constants.HF_HUB_OFFLINE:
        raise CheckpointError(_offline(entry, path))
    path = Path(ask_hub(what, partial(get, force_download=True)))
    wrong = mismatch(path, _expected(entry))
    if wrong:
        raise CheckpointError(f"{what} {wrong}: not what {_expected(entry).by} expects")
    record(recorded_at, str(path), path)
    return path


def _expected(entry: ModelEntry) -> Expected:
    return Expected(entry.size, entry.sha256, by="the catalog of hierbench")


def _folder(entry: ModelEntry) -> Path:
    return cache_dir() / "checkpoints" / entry.name


def _offline(entry: ModelEntry, path: Path) -> str:
    state = "is damaged" if path.is_file() else "is not in the cache"
    return (
        f"model {entry.name}: {path} {state} and this run is offline, run once with the network to fetch it"
    )


@contextlib.contextmanager
def _checkpoint_errors() -> Iterator[None]:
    try:
        yield
    except DownloadError as error:
        raise CheckpointError(str(error)) from error
