"""Checkpoint files of the lineage's layout: reading them safely, telling families apart, building the model in them."""

from __future__ import annotations

import math
import pickle
import re
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hierbench.errors import CheckpointError, UsageError, one_line
from hierbench.files import regular_file
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.encoders import VOCABULARY
from hierbench.reference.layouts import LAYOUTS, Layout, layout_of

TOKEN_WEIGHT, TOKEN_IDS = "textual.token_embed.weight", "textual.token_ids"
"""The token embedding; and, in files that hold only some of its rows, their ids (int64, ascending)."""


FLOATS = ("float64", "float32", "float16", "bfloat16")

WRAPPERS = ("model", "state_dict")
"""Keys under which trainers keep the weights, perhaps one in the other."""

PREFIXES = ("module.", "_orig_mod.")
"""What DistributedDataParallel and torch.compile put before the names of all entries."""


def read_state(path: str | Path) -> dict[str, Tensor]:
    """The weights of a .safetensors file, or of a torch file: a state dict, bare or under "model" or "state_dict".

    Names come without the prefixes of data-parallel and compiled models. Never runs code from the file. Raises
    CheckpointError for a file that is missing, empty, truncated, unsafe or anything else than a checkpoint, and for
    tensors that are sparse, quantised, or larger than what is stored of them.
    """
    path = Path(path)
    if path.is_dir():
        raise CheckpointError(f"checkpoint {path} is a folder: give the .pth or .safetensors file in it")
    if not path.exists():
        raise CheckpointError(f"no checkpoint file {path}: check the path")
    if not path.is_file():
        raise CheckpointError(f"checkpoint {path} is no regular file: give the .pth or .safetensors file")
    try:
        if path.stat().st_size == 0:
            raise CheckpointError(f"checkpoint {path} is empty (0 bytes): fetch it again")
        content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error.strerror or error}") from error
    for key in WRAPPERS * 2:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not content or not all(map(_is_entry, content.items())):
        raise CheckpointError(
            f"checkpoint {path} holds no weights: expected a dictionary of tensors, bare or under 'model' or "
            "'state_dict'"
        )
    odd = [name for name, value in content.items() if not _is_stored_whole(value)]
    if odd:
        raise CheckpointError(
            f"checkpoint {path} holds sparse, quantised or expanded tensors in {_some(odd)}: save dense ones"
        )
    return _without_prefixes(content, path)


def _is_entry(entry: tuple[object, object]) -> bool:
    name, value = entry
    return isinstance(name, str) and isinstance(value, Tensor)


def _is_stored_whole(value: Tensor) -> bool:
    """Whether each element of a tensor has a place of its own in the file: its shape alone can claim anything."""
    if value.layout != torch.strided or value.is_quantized or value.is_nested or value.is_meta:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def _without_prefixes(state: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    names = list(state)
    while prefix := next((p for p in PREFIXES if all(name.startswith(p) for name in names)), None):
        names = [name.removeprefix(prefix) for name in names]
    names = [name.replace("_orig_mod.", "") for name in names]  # of towers compiled one by one
    if len(set(names)) < len(names):
        raise CheckpointError(
            f"checkpoint {path} holds entries twice, with and without _orig_mod: save it anew"
        )
    return dict(zip(names, (value.detach() for value in state.values()), strict=True))


def _read_safetensors(path: Path) -> object:
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except OSError:
        raise
    except Exception as error:  # safetensors raises nearly anything on foreign bytes
        raise CheckpointError(
            f"checkpoint {path} is truncated or not a safetensors file: {one_line(error)}"
        ) from error


def _read_torch(path: Path) -> object:
    zipped = zipfile.is_zipfile(path)
    if zipped and _is_torchscript(path):
        raise CheckpointError(
            f"checkpoint {path} is a TorchScript archive, which holds code: it was not loaded; save the state dict "
            "alone, with torch.jit.load and torch.save (OpenAI's CLIP: open_clip:ViT-B-32/openai, without a file)"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except OSError:
        raise
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)", one_line(error, 5000))
        if named or _starts_as_pickle(path):
            raise CheckpointError(
                f"checkpoint {path} holds pickled Python objects{f' ({named[1]})' if named else ''}, which can run "
                "code: it was not loaded; save the state dict alone"
            ) from error
        raise CheckpointError(_DAMAGED.format(path)) from error
    except Exception as error:  # torch raises nearly anything on foreign bytes
        raise CheckpointError(_DAMAGED.format(path)) from error


_DAMAGED = "checkpoint {} is truncated or no torch checkpoint: fetch it again or check the path"


def _is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return False  # damaged: reading it says so


def _starts_as_pickle(path: Path) -> bool:
    with regular_file(path, "checkpoint").open("rb") as file:
        return file.read(1) == pickle.PROTO  # of pickle protocol 2 and later


def detect_family(path: str | Path) -> str:
    """The family by the entries of a file (clip, uncha, phyclip). Raises CheckpointError where they do not tell."""
    state = read_state(path)
    _dimensions(state, str(path))  # refuses what is no file of the lineage at all
    families = LAYOUTS[layout_of(state)].families
    if len(families) > 1:
        raise CheckpointError(
            f"checkpoint {path} can be of {_either(families)}, whose files are alike: name the family with --family"
        )
    return families[0]


def load_dual_encoder(path: str | Path, layout: Layout | None = None) -> DualEncoder:
    """The model in a checkpoint file, float32 on the CPU. Raises CheckpointError; `layout` None = as the file says."""
    state = read_state(path)
    found = layout_of(state)
    if layout is not None and found != layout and "visual_proj.weight" in state:
        families = _either(LAYOUTS[found].families)
        raise CheckpointError(
            f"checkpoint {path} is not of the family asked for: its entries are those of --family {families}"
        )
    return dual_encoder_from(state, str(path))


def dual_encoder_from(state: Mapping[str, Tensor], where: str = "state dict") -> DualEncoder:
    """Build the model that a state dict belongs to and load it, every entry accounted for.

    Depths, widths, patch and image size, vocabulary and context come from the shapes; heads from the widths. What
    files hold without using may be absent. Raises CheckpointError that names entries which are missing,
    unexpected, of another shape, or not finite. A state of `with_token_rows` gets its whole vocabulary back.
    """
    layout = layout_of(state)
    known = None
    if TOKEN_IDS in state:
        known = frozenset(state[TOKEN_IDS].flatten().tolist())
        state = _with_whole_vocabulary(state, where)
    try:
        with torch.device("meta"):
            model = DualEncoder.create(layout, **_dimensions(state, where))
    except (UsageError, ArithmeticError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"checkpoint {where} is of another architecture: {one_line(error)}") from error
    expected = model.state_dict()
    state = {**{key: torch.zeros(expected[key].shape) for key in LAYOUTS[layout].unused}, **state}
    check_entries(expected, state, where)
    model.to_empty(device="cpu").load_state_dict(state, strict=True)
    model.textual.known_tokens = known
    return model


def with_token_rows(state: Mapping[str, Tensor], token_ids: Iterable[int]) -> dict[str, Tensor]:
    """The state dict with the token embedding cut to these ids, and a table of them: files of small worlds.

    All other tokens come back as zero vectors; the model's `textual.known_tokens` says which it has.
    """
    ids = torch.tensor(sorted(set(token_ids)))
    return {**state, TOKEN_WEIGHT: state[TOKEN_WEIGHT][ids].clone(), TOKEN_IDS: ids}


def _with_whole_vocabulary(state: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    state = dict(state)
    ids, rows = state.pop(TOKEN_IDS), state.get(TOKEN_WEIGHT)
    layer = state.get("textual.resblocks.0.attn.in_proj_weight")  # bounds the width by what the file holds
    if (
        rows is None
        or layer is None
        or not (ids.ndim == 1 and rows.ndim == 2 and len(rows) == len(ids) > 0)
        or layer.shape != (3 * rows.shape[1], rows.shape[1])
        or ids.dtype not in (torch.int32, torch.int64)
        or not 0 <= int(ids.min()) <= int(ids.max()) < VOCABULARY
    ):
        raise CheckpointError(
            f"checkpoint {where}: {TOKEN_IDS} does not fit {TOKEN_WEIGHT}, the file is damaged"
        )
    state[TOKEN_WEIGHT] = rows.new_zeros(VOCABULARY, rows.shape[1]).index_copy_(0, ids.long(), rows)
    return state


def _dimensions(state: Mapping[str, Tensor], where: str) -> dict[str, Any]:
    """Arguments of `DualEncoder.create` that the shapes of a state dict stand for."""

    def shape(key: str, ndim: int) -> torch.Size:
        if key not in state or state[key].ndim != ndim:
            raise CheckpointError(
                f"checkpoint {where} is not of the lineage's layout (CLIP, MERU, HyCoCLIP, UNCHA, ARGENT, PHyCLIP): "
                f"it has no entry {key} of {ndim} dimensions"
            )
        return state[key].shape

    def depth(blocks: str) -> int:
        found = (re.match(rf"{re.escape(blocks)}\.([0-9]+)\.", key) for key in state)
        numbers = {match[1] for match in found if match}
        if gaps := numbers ^ {str(number) for number in range(len(numbers))}:
            raise CheckpointError(
                f"checkpoint {where} is damaged: its {blocks} are not numbered 0 to {len(numbers) - 1} ({_some(gaps)})"
            )
        return len(numbers)

    width, _, _, patch = shape("visual.patch_embed.proj.weight", 4)
    _, positions, position_width = shape("visual.pos_embed", 3)
    context, text_width = shape("textual.posit_embed", 2)
    hidden = shape("visual.blocks.0.mlp.fc1.weight", 2)[0]
    if width != position_width or not width or not hidden:
        raise CheckpointError(
            f"checkpoint {where} is damaged: visual.patch_embed is {width} wide, visual.pos_embed {position_width}"
        )
    grid = math.isqrt(max(positions - 1, 0))
    return {
        "vision": "vit_tiny_patch16_224",  # any plain ViT: all that tells them apart follows
        "vision_sizes": {
            "embed_dim": width,
            "depth": depth("visual.blocks"),
            "patch_size": patch,
            "mlp_ratio": (hidden + 0.5) / width,  # timm truncates the product
        },
        "image_size": grid * patch,
        "text": f"L{depth('textual.resblocks')}_W{text_width}",
        "vocabulary": shape(TOKEN_WEIGHT, 2)[0],
        "context": context,
        "embed_dim": shape("visual_proj.weight", 2)[0],
    }


def check_entries(expected: Mapping[str, Tensor], state: Mapping[str, Tensor], where: str) -> None:
    """See that a state dict is what a model expects, entry by entry: names, shapes, floating point, finite values.

    `expected` is the model's own state dict (on any device). Raises CheckpointError that names the entries.
    """
    problems = {
        "missing": [key for key in expected if key not in state],
        "unexpected": [key for key in state if key not in expected],
        "of another shape": [
            f"{key} {list(state[key].shape)} instead of {list(expected[key].shape)}"
            for key in expected
            if key in state and state[key].shape != expected[key].shape
        ],
    }
    if any(problems.values()):
        told = "; ".join(f"{kind}: {_some(keys)}" for kind, keys in problems.items() if keys)
        raise CheckpointError(f"checkpoint {where} does not fit the model that its shapes describe; {told}")
    floats = {key: state[key] for key, value in expected.items() if value.is_floating_point()}
    check_dtypes({key: str(value.dtype).removeprefix("torch.") for key, value in floats.items()}, where)
    bad = [key for key, value in floats.items() if not value.isfinite().all()]
    if bad:
        raise CheckpointError(
            f"checkpoint {where} has NaN or infinite weights in {_some(bad)}: use an earlier one"
        )


def check_dtypes(found: Mapping[str, str], where: str) -> None:
    """Refuse weights that are not floating point of 16 bits or more: without their scales they are other weights.

    `found`: entry -> the name of its type. Raises CheckpointError.
    """
    wrong = [f"{key} ({dtype})" for key, dtype in found.items() if dtype not in FLOATS]
    if wrong:
        raise CheckpointError(
            f"checkpoint {where} holds weights that are not floating point, in {_some(wrong)}: quantised weights are "
            "not read, give the original ones"
        )


def _either(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _some(items: Iterable[str]) -> str:
    """The first three, each short and printable, and how many more."""
    items = list(items)
    rest = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return (
        ", ".join(item if item.isprintable() and len(item) < 100 else repr(item[:100]) for item in items[:3])
        + rest
    )
