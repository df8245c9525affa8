"""A folder of a Qwen3-VL model: where it lies, whether its parts fit a role and each other, what is read of it."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers

from hierbench.errors import CheckpointError, UsageError, one_line
from hierbench.json_files import read_json
from hierbench.models import checkpoints

KIND, WHOLE = "qwen3_vl", "Qwen3VLForConditionalGeneration"  # `model_type` and `architectures` in config.json
EXPECTED = {
    "verifier": "Qwen3-VL such as Qwen/Qwen3-VL-8B-Instruct",
    "embedder": "Qwen3-VL-Embedding such as Qwen/Qwen3-VL-Embedding-8B",
    "reranker": "Qwen3-VL-Reranker such as Qwen/Qwen3-VL-Reranker-8B",
}
HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
SETTINGS = ("*.json", "*.jinja", "*.txt")  # configuration, tokenizer, image processor, chat template


def find(name: str, role: str) -> tuple[Path, str, str]:
    """(the model's folder, what it is called, its revision: the hub's commit, or a hash of the folder's files)."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path, path.resolve().name, _fingerprint(path, role)
    hub = HUB_NAME.fullmatch(name)
    if path.exists() or not hub:
        what = "is a file, no folder" if path.exists() else "is neither a folder nor a hub name ORG/REPO"
        raise CheckpointError(f"{name} {what}: the {role} is {EXPECTED[role]}")
    folder = checkpoints.hub_snapshot(hub[1], hub[2])
    return folder, hub[1], folder.name


def is_elsewhere(name: str) -> bool:
    """Whether a hub's model has yet to be downloaded."""
    hub = HUB_NAME.fullmatch(name)
    if not hub or Path(name).expanduser().exists():
        return False
    try:
        checkpoints.hub_snapshot(hub[1], hub[2], offline=True)
    except CheckpointError:
        return True
    return False


def _fingerprint(folder: Path, role: str) -> str:
    weights = next((found for pattern in WEIGHTS if (found := sorted(folder.glob(pattern)))), None)
    if not weights:
        raise CheckpointError(
            f"{folder} has no weights ({' or '.join(WEIGHTS)}): the {role} is {EXPECTED[role]}"
        )
    settings = sorted(file for pattern in SETTINGS for file in folder.glob(pattern))
    return checkpoints.files_sha256([*weights, *settings])


def read_config(folder: Path, role: str) -> Any:
    """The model's Qwen3VLConfig. Raises CheckpointError for one of another kind than the role needs."""
    path = folder / "config.json"
    if not path.exists():
        raise CheckpointError(
            f"{folder} has no config.json, so is no model folder: the {role} is {EXPECTED[role]}"
        )
    told = read_json(path, "configuration", CheckpointError)
    if not isinstance(told, dict):
        raise CheckpointError(f"{path} cannot be read: it holds no fields")
    kind, built = told.get("model_type"), list(told.get("architectures") or ())
    if kind != KIND:
        raise CheckpointError(f"{folder} holds a model of type {kind!r}: the {role} is {EXPECTED[role]}")
    if role != "embedder" and built and WHOLE not in built:
        raise CheckpointError(
            f"{folder} holds {', '.join(map(str, built))}, which has no layer that says yes or no: the {role} is "
            f"{EXPECTED[role]}"
        )
    if "mm_encoder_outputs" not in inspect.signature(transformers.Qwen3VLModel.forward).parameters:
        raise UsageError(
            f"transformers {transformers.__version__} cannot share an image among prompts: "
            "pip install --upgrade transformers (5.24 is known to), or use --backend server"
        )
    try:
        with quietly():
            return transformers.Qwen3VLConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise CheckpointError(f"{folder / 'config.json'} cannot be read: {one_line(error)}") from error


def read_processor(folder: Path) -> transformers.Qwen3VLProcessor:
    """Tokenizer, image processor and chat template. Raises CheckpointError where one is not there or broken."""
    try:
        with quietly():
            processor = transformers.Qwen3VLProcessor.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise CheckpointError(
            f"the tokenizer or image processor in {folder} cannot be read: {one_line(error)}"
        ) from error
    if not processor.chat_template:
        raise CheckpointError(
            f"{folder} has no chat template (chat_template.jinja or .json): copy the model's"
        )
    return processor


def check_fit(folder: Path, config: Any, processor: Any) -> None:
    """Raises CheckpointError where tokenizer and model are of different models."""
    if (
        processor.image_token_id != config.image_token_id
        or len(processor.tokenizer) > config.text_config.vocab_size
    ):
        raise CheckpointError(
            f"{folder}: the tokenizer is missing or another model's (image token {processor.image_token_id}, "
            f"{len(processor.tokenizer)} tokens; config.json says {config.image_token_id}, "
            f"{config.text_config.vocab_size})"
        )


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without the library's log lines and bars; what matters reaches the user as an error."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
