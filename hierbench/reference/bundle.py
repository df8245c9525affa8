"""Bundled models: a run on the miniature made small enough for the package, with a card that says how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hierbench.errors import OutputError, UsageError
from hierbench.files import replacing
from hierbench.reference.checkpoint import read_state, with_token_rows
from hierbench.reference.tokenizer import END, START, tokenize
from hierbench.reference.training.state import save_weights
from hierbench.yaml_files import read_yaml

MAX_BYTES = 4_000_000


def bundle(
    run: Path, folder: Path, *, command: str, seconds: float, figures: Mapping[str, float], **notes: Any
) -> Path:
    """Make `folder/FAMILY.safetensors` and its card `folder/FAMILY.yaml` of the finished training run in `run`.

    The file holds the run's weights in the released layout; of the token embedding it keeps the rows of the
    miniature's words alone. The card says command, seed, seconds, figures (name -> value), `notes`, and the whole
    config. Returns the file's path. Raises UsageError for a run that has not finished, CheckpointError, OutputError.
    """
    recorded, weights = run / "config.yaml", run / "model.safetensors"
    if not recorded.is_file() or not weights.is_file():
        raise UsageError(f"no finished training run in {run}: it has no config.yaml with a model.safetensors")
    config = read_yaml(recorded, "config", UsageError)
    for added in ("name", "processes", "launch"):  # what a run adds to its config
        config.pop(added, None)
    state = with_token_rows(read_state(weights), miniature_tokens())
    target = folder / f"{config['family']}.safetensors"
    size = sum(value.numel() * value.element_size() for value in state.values())
    if size > MAX_BYTES:
        raise OutputError(
            f"{target} would have {size:,} bytes, more than {MAX_BYTES:,}: train a smaller model"
        )
    card = {
        "family": config["family"],
        "command": command,
        "seed": config["train"]["seed"],
        "seconds": round(seconds, 1),
        "figures": {name: round(float(value), 4) for name, value in figures.items()},
        **notes,
        "config": config,
    }
    try:
        with replacing(target) as temporary:
            save_weights(temporary, state)
        with replacing(target.with_suffix(".yaml")) as temporary:
            temporary.write_text(yaml.safe_dump(card, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{target} could not be written: {error.strerror or error}") from error
    return target


def miniature_tokens() -> frozenset[int]:
    """Ids of all tokens that a text of the miniature can have."""
    from hierbench.miniature import words

    return frozenset([START, END, *(token for row in tokenize(words()) for token in row)])
