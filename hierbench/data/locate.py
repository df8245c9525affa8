"""Where a dataset's files lie on this machine, and what to say when they do not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hierbench.cache import cache_dir
from hierbench.data import prepared
from hierbench.data.manifests import Manifest, load_manifest
from hierbench.errors import DataError


@dataclass(frozen=True)
class Locations:
    """Where to look: explicit paths by dataset name, then NAME in `data_dir`, $HIERBENCH_DATA, the cache.

    The cache is where `hierbench data prepare` writes. Raises UnknownNameError for a path given to a dataset that
    nobody registered.
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
    state: str  # built in, prepared, in place (its content is checked when it is opened), damaged, missing
    path: Path | None
    found_by: str  # --data, --data-dir, $HIERBENCH_DATA, cache, built in; empty where not found
    obtain: str  # how to get it
    note: str = ""  # on what was found: what is damaged, what sets it apart from the released split

    @property
    def ready(self) -> bool:
        """Whether a run would use it."""
        return self.state in ("built in", "prepared", "in place")


def describe(name: str, locations: Locations) -> Status:
    """Where the dataset was found or how to get it. Raises UnknownNameError."""
    manifest = load_manifest(name)
    if manifest.reader == "miniature":
        return Status(name, manifest.title, "built in", None, "built in", "")
    path, rule = locations.search(name)
    state, note = _state(path)
    return Status(name, manifest.title, state, path, rule, how_to_get(manifest), note)


def _state(path: Path | None) -> tuple[str, str]:
    if path is None or not path.exists():
        return "missing", ""
    if not (path / prepared.RECORD).is_file():
        return "in place", ""
    try:
        info = prepared.load(path)
    except DataError as error:
        return "damaged", str(error)
    return "prepared", "; ".join(info.differences)


def missing(manifest: Manifest) -> str:
    """One short line for a dataset that is not here: the command that gets it, or that says what to get."""
    name = manifest.name
    command = (
        f"`hierbench data show {name}` says how to get it"
        if manifest.by_hand
        else f"`hierbench data prepare {name}` gets it"
    )
    return f"dataset {name} is not on this machine: {command}, or give --data {name}=PATH"


def how_to_get(manifest: Manifest) -> str:
    """One line: where the data comes from, and the command that gets it."""
    command = f"hierbench data prepare {manifest.name}"
    by_hand = [source for source in manifest.sources if source.kind == "manual"]
    automatic = [source for source in manifest.sources if source.kind != "manual"]
    what = manifest.obtain or " ".join(source.how for source in by_hand)
    parts = [what] if what else []
    if automatic:
        split = automatic[0].variant
        lesser = f" (another split, its results are labelled +{split})" if split else ""
        parts.append(f"`{command}` downloads and prepares it{lesser}; for a copy of yours")
    else:
        parts.append(f"Then `{command} --from PATH`, or without preparing")
    return f"{' '.join(parts)} give --data {manifest.name}=PATH"
