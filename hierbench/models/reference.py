"""What a user calls a model, parsed once: a catalog name, a family with a checkpoint, or a checkpoint file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hierbench.contracts import ModelAdapter
from hierbench.errors import CheckpointError, HierbenchError, UnknownNameError, UsageError, explained
from hierbench.models import checkpoints
from hierbench.models.catalog import ModelEntry, catalog
from hierbench.models.families import families, family_loader
from hierbench.names import lookup, unknown

CHECKPOINT_SUFFIXES = {".pth", ".pt", ".safetensors", ".bin", ".ckpt"}

NAMELESS_STEMS = {
    "model", "weights", "checkpoint", "pytorch_model", "open_clip_model", "open_clip_pytorch_model",
}  # fmt: skip
"""File names that every training run writes: such a model is called after its folder."""


@dataclass(frozen=True)
class ModelReference:
    """A model that a user named, not loaded yet: a catalog entry, a family with what its `load` takes, or a file."""

    name: str  # the row's name in tables
    chosen: bool  # the user chose the name (a catalog's too); a default one may be made longer, or left to the adapter
    family: str | None  # None = the entries of the file will tell
    checkpoint: str | None = (
        None  # what the family's `load` takes; None for catalog entries, and where it needs none
    )
    entry: ModelEntry | None = None

    @classmethod
    def of(cls, model: str | Path | ModelReference | Sequence[str | Path | None]) -> ModelReference:
        """Parse a name, a path, `FAMILY:CHECKPOINT`, or (name or family, checkpoint, name in tables).

        Of a tuple's three the later ones may be left out or None, and the family may be None: the file tells it.
        Nothing is loaded. Raises UsageError for another type, UnknownNameError, and CheckpointError for a file that
        has to tell its family and is not there.
        """
        if isinstance(model, ModelReference):
            return model
        parts = model if isinstance(model, tuple) else (model,)
        given_kinds = (str, Path, type(None))
        if (
            not 1 <= len(parts) <= 3
            or not all(isinstance(part, given_kinds) for part in parts)
            or all(part is None for part in parts[:2])
        ):
            raise UsageError(
                f"{model!r} is no model: give a name, a path, (family, checkpoint[, name]) or an adapter"
            )
        first, given, name = (*(None if part is None else str(part) for part in parts), None, None)[:3]
        if given is None and first in catalog():
            entry = catalog()[first]
            return cls(name or entry.name, True, entry.family, entry=entry)
        family, checkpoint = (None, given) if first is None else _family_and_checkpoint(first, given)
        if family is None and not Path(checkpoint or "").exists():
            raise CheckpointError(f"no checkpoint file {checkpoint}: check the path")
        return cls(name or _default_name(family, checkpoint), name is not None, family, checkpoint)

    @property
    def path(self) -> Path | None:
        """The file or folder on this machine that `checkpoint` names, if it does."""
        path = Path(self.checkpoint).expanduser() if self.checkpoint else None
        return path if path is not None and path.exists() else None

    def sha256(self, offline: bool = False) -> str | None:
        """Hash of the one file that the model is made of, fetched if need be; None where loading has to tell."""
        try:
            if self.entry is None:
                return (
                    checkpoints.sha256(self.path) if self.path is not None and self.path.is_file() else None
                )
            if self.entry.reference:
                return None
            return checkpoints.sha256(checkpoints.checkpoint(self.entry, offline=offline))
        except (OSError, HierbenchError):
            return None  # loading will say what is wrong

    def load(
        self, device: str = "cpu", dtype: str = "float32", offline: bool = False, *, name: str | None = None
    ) -> ModelAdapter:
        """The adapter; `name` overrides the row's name. With `offline` nothing is asked of the network.

        Raises UsageError, UnknownNameError, CheckpointError.
        """
        if name is None and (self.chosen or self.path is not None):
            name = self.name
        with checkpoints.hub_offline(offline):
            family, checkpoint = self.family, self.checkpoint
            if self.entry is not None:
                checkpoint = self.entry.reference or str(checkpoints.checkpoint(self.entry, offline=offline))
            if family is None:
                from hierbench.reference.checkpoint import detect_family

                family = detect_family(str(checkpoint))
            return _load(family, checkpoint, name=name, device=device, dtype=dtype)


def load_model(
    name_or_family: str | Path,
    checkpoint: str | Path | None = None,
    device: str = "cpu",
    *,
    name: str | None = None,
    dtype: str = "float32",
    offline: bool = False,
) -> ModelAdapter:
    """Load a model adapter.

    `name_or_family` is one of: a catalog name (`hycoclip-vit-b`), a family with its `checkpoint`
    (`"hycoclip", "tiny.pth"`), `family:checkpoint` in one string (`open_clip:ViT-B-32/openai`), a family that needs
    no checkpoint (`random`), or the path of a checkpoint file whose keys tell its family.
    `name` is the row's name in tables; by default the catalog name or the file's stem (its folder's name for
    `model.safetensors` and the like). With `offline`, nothing is asked of the network.
    Raises UnknownNameError, UsageError, CheckpointError.
    """
    return ModelReference.of((name_or_family, checkpoint, name)).load(device, dtype, offline)


def _load(family: str, checkpoint: str | None, **options: Any) -> ModelAdapter:
    """What a family's `load` returns; where the family is not ours, what goes wrong in it is told as its mistake."""
    load = family_loader(family)
    if getattr(load, "__module__", "").startswith("hierbench.model_adapters."):
        return load(checkpoint, **options)
    try:
        adapter = load(checkpoint, **options)
    except HierbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"adapter {family}: load() failed: {explained(error)}; alone and with --debug it shows where"
        ) from error
    parts = ("card", "geometry", "preprocess", "encode_images", "encode_texts")
    if missing := [part for part in parts if not hasattr(adapter, part)]:
        raise UsageError(
            f"adapter {family}: load() returned {type(adapter).__name__}, which is no model adapter: "
            f"it has no {', '.join(missing)}"
        )
    return adapter


def _family_and_checkpoint(name: str, checkpoint: str | None) -> tuple[str | None, str | None]:
    """Of what the user calls a model that is not in the catalog. The family is None where the file will tell."""
    known = families()
    family, colon, rest = name.partition(":")
    if checkpoint is not None or (family in known and not colon):
        lookup("model family", name, known)
        return name, checkpoint
    if family in known:
        return family, rest
    if Path(name).is_file() or (Path(name).suffix in CHECKPOINT_SUFFIXES and not colon):
        return None, name
    if name and Path(name).is_dir():
        raise UnknownNameError(f"model {name!r} is a folder: say what is in it, as FAMILY:{name}")
    raise UnknownNameError(unknown("model", name, [*catalog(), *known], typed=family))


def _default_name(family: str | None, checkpoint: str | None) -> str:
    """A path's own name, or its folder's where the file is called as in every run; else what the user typed."""
    if not checkpoint:
        return str(family)
    path = Path(checkpoint).expanduser()
    if not path.exists():
        return f"{family}:{checkpoint}"
    path = path.resolve()
    if path.is_dir():
        return path.name
    return path.parent.name if path.stem in NAMELESS_STEMS and path.parent.name else path.stem
