"""What a user calls a model, parsed once: a catalog name, a family with a checkpoint, or a checkpoint file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hierbench.contracts import ModelAdapter
from hierbench.errors import HierbenchError, UnknownNameError, UsageError
from hierbench.models import checkpoints
from hierbench.models.catalog import catalog
from hierbench.models.families import families, family_loader
from hierbench.names import lookup, unknown
from hierbench.plugins import reason

CHECKPOINT_SUFFIXES = {".pth", ".pt", ".safetensors", ".bin", ".ckpt"}


def load_model(
    name_or_family: str,
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
    `name` is the row's name in tables; by default the catalog name or the file's stem.
    With `offline`, nothing is asked of the network.
    Raises UnknownNameError, UsageError, CheckpointError.
    """
    options = {"device": device, "dtype": dtype}
    with checkpoints.hub_offline(offline):
        if checkpoint is None and name_or_family in catalog():
            entry = catalog()[name_or_family]
            checkpoint = entry.reference or checkpoints.checkpoint(entry, offline=offline)
            return _load(entry.family, str(checkpoint), name=name or entry.name, **options)
        family, checkpoint = resolve_model(name_or_family, checkpoint)
        if family is None:
            from hierbench.reference.checkpoint import detect_family

            family = detect_family(checkpoint)
        return _load(family, checkpoint, name=name, **options)


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
            f"adapter {family}: load() failed: {reason(error)}; alone and with --debug it shows where"
        ) from error
    parts = ("card", "geometry", "preprocess", "encode_images", "encode_texts")
    if missing := [part for part in parts if not hasattr(adapter, part)]:
        raise UsageError(
            f"adapter {family}: load() returned {type(adapter).__name__}, which is no model adapter: "
            f"it has no {', '.join(missing)}"
        )
    return adapter


def resolve_model(name: str, checkpoint: str | Path | None = None) -> tuple[str | None, str | None]:
    """(family, checkpoint) of what the user calls a model that is not in the catalog, without loading it.

    The family is None where the keys of the checkpoint file will tell. Raises UnknownNameError.
    """
    family, colon, rest = name.partition(":")
    if checkpoint is not None or (family in families() and not colon):
        lookup("model family", name, families())
        return name, None if checkpoint is None else str(checkpoint)
    if family in families():
        return family, rest
    if Path(name).is_file() or (Path(name).suffix in CHECKPOINT_SUFFIXES and not colon):
        return None, name
    if name and Path(name).is_dir():
        raise UnknownNameError(f"model {name!r} is a folder: say what is in it, as FAMILY:{name}")
    raise UnknownNameError(unknown("model", name, [*catalog(), *families()], typed=family))
