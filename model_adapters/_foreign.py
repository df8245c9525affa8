"""What the adapters of other libraries' models share: checks of the weights, arithmetic, silence."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from PIL import Image
from torch import Tensor, nn

from hierbench.errors import CheckpointError, UsageError, one_line
from hierbench.json_files import read_json
from hierbench.reference.checkpoint import check_dtypes, read_state

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


Model = TypeVar("Model", bound=nn.Module)


def ready(model: Model, device: str, dtype: str, where: str) -> Model:
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


# ------------------------------------------------------------------------------------ folders of transformers

HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
"""ORG/REPO, perhaps with @REVISION."""

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")

SAFETENSORS_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I8": "int8"}


def read_config(folder: Path) -> dict[str, Any]:
    """What a folder's config.json says. Raises CheckpointError."""
    path = folder / "config.json"
    if not path.exists():
        raise CheckpointError(f"{folder} has no config.json: not a model in transformers' layout")
    told = read_json(path, "configuration", CheckpointError)
    if not isinstance(told, dict):
        raise CheckpointError(f"{path} holds no fields: not a model in transformers' layout")
    return told


def pretrained(cls: Any, folder: Path, what: str, **settings: Any) -> Any:
    """`cls.from_pretrained` of a folder: nothing downloaded or run, nothing printed. Raises CheckpointError.

    `what` begins the message: "the tokenizer in", say.
    """
    from transformers.utils import logging as transformers_logging

    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        with quietly():
            return cls.from_pretrained(folder, local_files_only=True, **settings)
    except Exception as error:  # the library raises nearly anything
        raise CheckpointError(f"{what} {folder} does not load: {one_line(error)}") from error
    finally:
        if bars:
            transformers_logging.enable_progress_bar()


def pretrained_model(cls: Any, folder: Path) -> tuple[Any, dict[str, list[str]]]:
    """A folder's model in float32 and, by kind ("missing_keys", …), what does not fit it. Raises CheckpointError."""
    model, report = pretrained(
        cls, folder, f"the {cls.__name__} in", output_loading_info=True, dtype=torch.float32
    )
    wrong = {}
    for kind in ("missing_keys", "mismatched_keys", "unexpected_keys"):
        # Old files carry the position numbers, which are no weights.
        names = sorted(str(key) for key in report.get(kind) or () if not str(key).endswith("position_ids"))
        wrong[kind] = names
    return model, wrong


def resampling(processor: Any, folder: Path) -> str:
    """How an image processor resamples: "bicubic", say. Raises CheckpointError."""
    try:
        return Image.Resampling(int(processor.resample)).name.lower()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the image processor in {folder}: resample: {one_line(error)}") from error


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights, sorted. Raises CheckpointError where there are none."""
    weights = next((found for pattern in WEIGHTS if (found := sorted(folder.glob(pattern)))), None)
    if not weights:
        raise CheckpointError(f"{folder} has no weights: expected {' or '.join(WEIGHTS)}")
    return weights


def check_weight_dtypes(folder: Path) -> None:
    """Refuse weights that transformers would cast to floating point without a word. Raises CheckpointError."""
    from safetensors import safe_open

    for file in weight_files(folder):
        if file.suffix == ".safetensors":
            try:
                with safe_open(file, "pt") as entries:
                    dtypes = {name: entries.get_slice(name).get_dtype() for name in entries.keys()}  # noqa: SIM118
            except Exception as error:
                raise CheckpointError(
                    f"{file} is truncated or not a safetensors file: {one_line(error)}"
                ) from error
            dtypes = {name: SAFETENSORS_DTYPES.get(dtype, dtype) for name, dtype in dtypes.items()}
        else:
            dtypes = {
                name: str(value.dtype).removeprefix("torch.") for name, value in read_state(file).items()
            }
        check_dtypes(
            {name: dtype for name, dtype in dtypes.items() if not name.endswith("position_ids")}, str(file)
        )


@dataclass(frozen=True)
class Scaling:
    """From values in [0, 1] to what a model reads: (gain · x − mean) / std, by channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    gain: float = 1.0

    @classmethod
    def of(cls, processor: Any, folder: Path) -> Scaling:
        """What an image processor of transformers does to values in 0–255. Raises CheckpointError."""
        factor = processor.rescale_factor if processor.do_rescale else 1.0
        mean: tuple[float, ...] = (0.0,) * 3
        std: tuple[float, ...] = (1.0,) * 3
        try:
            if processor.do_normalize:
                mean, std = (
                    tuple(map(float, values if isinstance(values, list | tuple) else [values] * 3))
                    for values in (processor.image_mean, processor.image_std)
                )
            found = cls(mean, std, 255 * float(factor))
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"the image processor in {folder}: {one_line(error)}") from error
        numbers = (found.gain, *mean, *std)
        sane = all(map(math.isfinite, numbers)) and found.gain > 0 and all(std) and len(mean) == len(std) == 3
        if not sane:
            raise CheckpointError(
                f"the image processor in {folder} has rescale_factor {factor}, image_mean {mean}, image_std {std}: "
                "expected a positive factor, three means and three stds that are not zero"
            )
        return found

    def __call__(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> the same shape."""
        mean, std = (
            torch.tensor(values, device=pixels.device).view(3, 1, 1) for values in (self.mean, self.std)
        )
        return ((pixels if self.gain == 1 else pixels * self.gain) - mean) / std

    def words(self) -> str:
        """For the card."""
        mean, std = ("/".join(f"{value:.5g}" for value in values) for values in (self.mean, self.std))
        gain = "" if self.gain == 1 else f"values times {self.gain:.5g}, "
        return f"{gain}mean {mean}, std {std}"


def check_processor(processor: Any, folder: Path, kinds: Collection[str]) -> None:
    """Refuse a folder's image processor that does what we do not: another kind, padding, no resizing.

    `kinds` are the names of classes that we read, without Fast, Pil and the like. Raises CheckpointError.
    """
    for file in PROCESSOR_FILES:
        if not (folder / file).exists():
            continue
        told = read_json(folder / file, "image processor", CheckpointError)
        told = told.get("image_processor") or told if isinstance(told, dict) else {}
        kind = told.get("image_processor_type") or told.get("feature_extractor_type")
        if kind is not None and str(kind).removesuffix("Fast").removesuffix("Pil") not in kinds:
            raise CheckpointError(
                f"{folder / file} is of a {kind}, which prepares images in another way than {' or '.join(kinds)}"
            )
    if not processor.do_resize:
        raise CheckpointError(
            f"the image processor in {folder} does not resize (do_resize: false): images of several sizes cannot "
            "be read so"
        )
    if getattr(processor, "do_pad", None):
        raise CheckpointError(
            f"the image processor in {folder} pads images (do_pad: true), which is not offered"
        )


def size_of(processor: Any, name: str, known: Sequence[str], folder: Path) -> dict[str, int]:
    """An image processor's `size` or `crop_size`, with these keys at most. Raises CheckpointError."""
    given = getattr(processor, name) or {}
    found = {key: value for key, value in dict(given).items() if value is not None}
    if not found.keys() <= set(known) or not all(isinstance(v, int) and v > 0 for v in found.values()):
        raise CheckpointError(
            f"the image processor in {folder} has {name} {found}: expected whole numbers of {', '.join(known)}"
        )
    return found
