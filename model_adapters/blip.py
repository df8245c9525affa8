"""BLIP image-text retrieval models (BLIP-ITM) in transformers' layout, by the cosine of their two towers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from torch import Tensor

from hierbench.contracts import Fit, Geometry, ModelCard
from hierbench.data.images import to_square
from hierbench.errors import CheckpointError, UsageError
from hierbench.geometry import Sphere
from hierbench.model_adapters._foreign import (
    HUB_NAME,
    Scaling,
    arithmetic,
    check_processor,
    check_weight_dtypes,
    pretrained,
    pretrained_model,
    read_config,
    ready,
    resampling,
    size_of,
    weight_files,
)
from hierbench.models import checkpoints

TEXT_BATCH = 256
PARTS = ("*.json", "*.txt")  # configuration, tokenizer, image processor
EXAMPLE = "Salesforce/blip-itm-large-coco"


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> BlipAdapter:
    """`checkpoint` is a folder with config.json and weights, or a hub name ORG/REPO, perhaps with @REVISION.

    Of the two heads the contrastive one is used, whose cosine compares any two embeddings; the matching head reads
    an image and a text together, so embeds nothing. Raises CheckpointError, UsageError.
    """
    if not checkpoint:
        raise UsageError(f"blip needs a folder in transformers' layout or a hub name, blip:{EXAMPLE}")
    folder, title = _folder(checkpoint)
    check_weight_dtypes(folder)
    model = ready(_model(folder), device, dtype, checkpoint)
    config: Any = model.config  # declared as if its parts could be missing
    vision = config.vision_config
    words, resample, scaling = _processors(folder, vision.image_size)
    card = ModelCard(
        name=name or title,
        family="blip",
        source=checkpoint,
        embedding_dim=config.image_text_hidden_size,
        image_size=vision.image_size,
        parameters=sum(p.numel() for p in model.parameters()),
        preprocessing=f"to {vision.image_size} ({resample}), {scaling.words()}",
        sha256=_sha256(folder),
        dtype=dtype,
        paper="Li, Li, Xiong and Hoi 2022. BLIP. ICML",
    )
    return BlipAdapter(card, Sphere(), model, words, resample, scaling, torch.device(device))


@dataclass(frozen=True)
class BlipAdapter:
    """A transformers BlipForImageTextRetrieval; features are the towers' first tokens, projected."""

    card: ModelCard
    geometry: Geometry
    model: transformers.BlipForImageTextRetrieval
    words: Callable[..., Any]
    resample: str
    scaling: Scaling
    device: torch.device

    def preprocess(self, image: Image.Image, fit: Fit) -> Tensor:
        """RGB image -> (3, H, W) in [0, 1]."""
        return to_square(image, self.card.image_size, fit, self.resample)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, D)."""
        with arithmetic(self.device, self.card.dtype):
            pixels = pixels.to(self.device, torch.float32, non_blocking=True)
            states = self.model.vision_model(pixel_values=self.scaling(pixels)).last_hidden_state
            return self.model.vision_proj(states[:, 0]).float()

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """-> (len(texts), D)."""
        features = torch.empty(len(texts), self.card.embedding_dim, device=self.device)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        text_config: Any = self.model.config.text_config
        context = text_config.max_position_embeddings
        with arithmetic(self.device, self.card.dtype):
            for start in range(0, len(order), TEXT_BATCH):
                rows = order[start : start + TEXT_BATCH]
                tokens = self.words(
                    [texts[row] for row in rows],
                    padding=True,
                    truncation=True,
                    max_length=context,
                    return_tensors="pt",
                ).to(self.device)
                states = self.model.text_encoder(
                    input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
                ).last_hidden_state
                features[rows] = self.model.text_proj(states[:, 0]).float()
        return features


def _folder(checkpoint: str) -> tuple[Path, str]:
    """(the folder, what the model is called). Refuses what is no BLIP before anything is built."""
    path = Path(checkpoint).expanduser()
    hub = HUB_NAME.fullmatch(checkpoint)
    if path.is_dir():
        folder, title = path, path.resolve().name
    elif hub and not path.exists():
        folder, title = checkpoints.hub_snapshot(hub[1], hub[2]), hub[1].partition("/")[2]
    else:
        raise CheckpointError(f"{checkpoint} is neither a folder nor a hub name: blip reads, say, {EXAMPLE}")
    config = read_config(folder)
    kind, built = config.get("model_type"), list(map(str, config.get("architectures") or ()))
    if kind != "blip" or "BlipForImageTextRetrieval" not in built:
        what = f"{', '.join(built) or 'a model'} of type {kind!r}"
        raise CheckpointError(f"{folder} holds {what}: blip reads BlipForImageTextRetrieval, say {EXAMPLE}")
    return folder, title


def _model(folder: Path) -> transformers.BlipForImageTextRetrieval:
    model, report = pretrained_model(transformers.BlipForImageTextRetrieval, folder)
    wrong = sorted([*report["missing_keys"], *report["mismatched_keys"]])
    if wrong:
        raise CheckpointError(
            f"{folder} is no complete BLIP retrieval model: {len(wrong)} weights are missing or of another shape, "
            f"the first is {wrong[0]}"
        )
    return model


def _processors(folder: Path, image_size: int) -> tuple[Callable[..., Any], str, Scaling]:
    """(tokenizer, resampling, scaling of pixels) of the folder."""
    what = "the tokenizer or image processor in"
    words = pretrained(transformers.AutoTokenizer, folder, what, trust_remote_code=False)
    pixels = pretrained(transformers.BlipImageProcessor, folder, what)
    check_processor(pixels, folder, ("BlipImageProcessor",))
    size = size_of(pixels, "size", ("height", "width"), folder)
    if set(size.values()) != {image_size}:
        raise CheckpointError(
            f"the image processor in {folder} resizes to {size}, the model reads squares of {image_size}"
        )
    return words, resampling(pixels, folder), Scaling.of(pixels, folder)


def _sha256(folder: Path) -> str:
    """Of everything in the folder that shapes the features: weights, configuration, tokenizer, processor."""
    parts = sorted(file for pattern in PARTS for file in folder.glob(pattern))
    return checkpoints.files_sha256([*weight_files(folder), *parts])
