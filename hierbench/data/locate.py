"""Where a dataset's files lie on this machine, and what to say when they do not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hierbench.data.cache import cache_dir
from hierbench.data.manifests import Manifest, load_manifest


@dataclass(frozen=True)
class Locations:
    """Where to look: explicit paths by dataset name, then NAME in `data_dir`, $HIERBENCH_DATA, the cache.

    Raises UnknownNameError for a path given to a dataset that nobody registered.
    """

    explicit: Mapping[str, Path] = field(default_factory=dict)
    data_dir: Path | None = None

    def __post_init__(self):
        for name in self.explicit:
            load_manifest(name)

    def find(self, name: str) -> Path | None:
        """The dataset's path. One that was given explicitly need not exist; the reader then says so."""
        return self.search(name)[0]

    def search(self, name: str) -> tuple[Path | None, str]:
        """The dataset's path and which rule found it; (None, "") where there is none."""
        if name in self.explicit:
            return Path(self.explicit[name]).expanduser(), "--data"
        folders = {
            "--data-dir": self.data_dir,
            "$HIERBENCH_DATA": os.environ.get("HIERBENCH_DATA"),
            "cache": cache_dir() / "datasets",
        }
        for rule, folder in folders.items():
            if folder and (path := Path(folder).expanduser() / name).exists():
                return path, rule
        return None, ""


@dataclass(frozen=True)
class Status:
    """Whether a dataset is at hand: for `hierbench doctor` and `hierbench datasets`."""

    name: str
    title: str
    ready: bool  # the path exists; its content is checked when it is opened
    path: Path | None
    found_by: str  # --data, --data-dir, $HIERBENCH_DATA, cache, built in; empty where not found
    obtain: str  # how to get it


def describe(name: str, locations: Locations) -> Status:
    """Where the dataset was found or how to get it. Raises UnknownNameError."""
    manifest = load_manifest(name)
    if manifest.reader == "miniature":
        return Status(name, manifest.title, True, None, "built in", "")
    path, rule = locations.search(name)
    return Status(name, manifest.title, path is not None and path.exists(), path, rule, how_to_get(manifest))


def how_to_get(manifest: Manifest) -> str:
    """One line: where the data comes from and how to point at it."""
    source = f"{manifest.obtain} " if manifest.obtain else ""
    return f"{source}Then give --data {manifest.name}=PATH"
