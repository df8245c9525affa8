"""CLIP models in transformers' layout, as a folder or a hub name (the HierarCaps fine-tuned ones, say)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import open_clip
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
    PROCESSOR_FILES,
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
SETTINGS = (
    "config.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
    *PROCESSOR_FILES,
)  # fmt: skip
CLIP_VOCABULARY = 49408


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> HfClipAdapter:
    """`checkpoint` is a folder with config.json and weights, or a hub name ORG/REPO, perhaps with @REVISION.

    A folder without tokenizer or image processor files gets those of OpenAI's CLIP, and the card's notes say
    so. Code that comes with a repository is never run. Raises CheckpointError, UsageError.
    """
    if not checkpoint:
        raise UsageError("hf_clip needs a folder in transformers' layout or a hub name, hf_clip:ORG/REPO")
    folder = _folder(checkpoint)
    _check_kind(folder)
    check_weight_dtypes(folder)
    model = ready(_model(folder), device, dtype, checkpoint)
    config: Any = model.config  # declared as if its parts could be missing
    text, vision = config.text_config, config.vision_config
    tokenize, tokenizer = _tokenizer(folder, text.max_position_embeddings, text.vocab_size)
    pooled = _pooled_token(text.eos_token_id, tokenize, folder)
    pixels, processor = _pixels(folder, vision.image_size)
    card = ModelCard(
        name=name or _name(checkpoint),
        family="hf_clip",
        source=checkpoint,
        embedding_dim=config.projection_dim,
        image_size=pixels.side,
        parameters=sum(p.numel() for p in model.parameters()),
        preprocessing=pixels.words(),
        sha256=_folder_sha256(folder),
        dtype=dtype,
        notes={"tokenizer": tokenizer, "image processor": processor, "pooled token": pooled},
    )
    return HfClipAdapter(card, Sphere(), model, tokenize, pixels, torch.device(device))


@dataclass(frozen=True)
class HfClipAdapter:
    """A transformers CLIPModel; features are its projected ones before normalisation."""

    card: ModelCard
    geometry: Geometry
    model: transformers.CLIPModel
    tokenize: Callable[[list[str]], list[list[int]]]
    pixels: Pixels
    device: torch.device

    def preprocess(self, image: Image.Image, fit: Fit) -> Tensor:
        """RGB image -> (3, H, W) in [0, 1]."""
        return self.pixels.read(image, fit)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, D)."""
        with arithmetic(self.device, self.card.dtype):
            pixels = pixels.to(self.device, torch.float32, non_blocking=True)
            return _features(self.model.get_image_features(pixel_values=self.pixels.scaling(pixels)))

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """-> (len(texts), D). The tower is causal, so each batch is padded to its own longest text only."""
        features = torch.empty(len(texts), self.card.embedding_dim, device=self.device)
        ids = self.tokenize(list(texts)) if len(texts) else []
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        with arithmetic(self.device, self.card.dtype):
            for start in range(0, len(order), TEXT_BATCH):
                rows = order[start : start + TEXT_BATCH]
                longest = len(ids[rows[-1]])
                # Padded with the end token: the feature is taken at the first of them.
                batch = torch.tensor([ids[row] + [ids[row][-1]] * (longest - len(ids[row])) for row in rows])
                features[rows] = _features(self.model.get_text_features(input_ids=batch.to(self.device)))
        return features


@dataclass(frozen=True)
class Pixels:
    """How an image becomes the model's square: resize to `shorter` (None = squeeze), cut out `side`."""

    side: int
    shorter: int | None
    resample: str
    scaling: Scaling

    def read(self, image: Image.Image, fit: Fit) -> Tensor:
        """RGB image -> (3, side, side) in [0, 1]."""
        if fit == Fit.SQUEEZE or self.shorter is None:
            return to_square(image, self.side, Fit.SQUEEZE, self.resample)
        square = to_square(image, self.shorter, Fit.CROP, self.resample)
        margin = (self.shorter - self.side) // 2
        return square[:, margin : margin + self.side, margin : margin + self.side].contiguous()

    def words(self) -> str:
        """For the card."""
        how = "squeezed" if self.shorter is None else f"shorter side to {self.shorter}, centre crop"
        return f"{how} to {self.side} ({self.resample}), {self.scaling.words()}"


def _features(output: Any) -> Tensor:
    """transformers 5 wraps what transformers 4 returned as it was."""
    return (output if isinstance(output, Tensor) else output.pooler_output).float()


def _folder(checkpoint: str) -> Path:
    path = Path(checkpoint).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise CheckpointError(f"{path} is a file: hf_clip reads a folder with config.json and weights")
    name = HUB_NAME.fullmatch(checkpoint)
    if not name:
        raise CheckpointError(f"no folder {path}, and no hub name of the form ORG/REPO either")
    return checkpoints.hub_snapshot(name[1], name[2])


def _name(checkpoint: str) -> str:
    hub = HUB_NAME.fullmatch(checkpoint)
    return Path(hub[1] if hub and not Path(checkpoint).is_dir() else checkpoint).expanduser().resolve().name


def _check_kind(folder: Path) -> None:
    """Refuse what is no CLIP before anything is built."""
    kind = read_config(folder).get("model_type")
    if kind != "clip":
        raise CheckpointError(f"{folder} holds a model of type {kind!r}: hf_clip reads the type 'clip' only")


def _model(folder: Path) -> transformers.CLIPModel:
    model, wrong = pretrained_model(transformers.CLIPModel, folder)
    for kind, names in wrong.items():
        if names:
            raise CheckpointError(
                f"{folder} does not fit CLIPModel: {kind.replace('_', ' ')} {', '.join(names[:5])}"
                + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            )
    return model


def _tokenizer(folder: Path, context: int, vocabulary: int) -> tuple[Callable, str]:
    """(texts -> token ids with start and end, at most `context` each; where the tokenizer came from)."""
    if (folder / "tokenizer.json").is_file() or (folder / "vocab.json").is_file():
        own = pretrained(transformers.AutoTokenizer, folder, "the tokenizer in", trust_remote_code=False)
        return partial(_own_ids, own, context), "the folder's own"
    if vocabulary != CLIP_VOCABULARY:
        raise CheckpointError(f"{folder} has no tokenizer, and its vocabulary is not CLIP's: copy one there")
    return partial(
        _clip_ids, open_clip.SimpleTokenizer(context_length=context)
    ), "OpenAI CLIP's, as the folder has none"


def _own_ids(tokenizer: Any, context: int, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, truncation=True, max_length=context)["input_ids"]


def _clip_ids(tokenizer: open_clip.SimpleTokenizer, texts: list[str]) -> list[list[int]]:
    padded = tokenizer(texts)  # the end token has the highest id
    return [row[: end + 1] for row, end in zip(padded.tolist(), padded.argmax(1).tolist(), strict=True)]


OLD_END_TOKEN = 2
"""In configs from before transformers 4.31: the feature is read at a text's largest id instead."""


def _pooled_token(end: int, tokenize: Callable[[list[str]], list[list[int]]], folder: Path) -> str:
    """Where the text tower reads its feature, for the card, as `transformers.CLIPTextModel` has it.

    Raises CheckpointError where the tokenizer never writes the token that the model looks for: transformers would
    read every text at its first token.
    """
    (ids,) = tokenize(["a dog"])
    if end == OLD_END_TOKEN:
        return f"the largest id of a text: {max(ids)}, which ends it, unless an added token in it is larger"
    if end not in ids:
        raise CheckpointError(
            f"{folder}: config.json says that texts are read at the token {end} (text_config.eos_token_id), but the "
            f"tokenizer ends them with {ids[-1]}: mend the one or the other"
        )
    return f"the first {end} of a text, its end token"


def _pixels(folder: Path, image_size: int) -> tuple[Pixels, str]:
    """(the folder's image processor in our terms, where it came from)."""
    if not any((folder / file).is_file() for file in PROCESSOR_FILES):
        processor = transformers.CLIPImageProcessor(
            size={"shortest_edge": image_size}, crop_size={"height": image_size, "width": image_size}
        )
        origin = "OpenAI CLIP's, as the folder has none"
    else:
        processor = pretrained(transformers.CLIPImageProcessor, folder, "the image processor in")
        origin = "the folder's own"
    check_processor(processor, folder, ("CLIPImageProcessor", "CLIPFeatureExtractor"))
    size = size_of(processor, "size", ("shortest_edge", "height", "width"), folder)
    crop = size_of(processor, "crop_size", ("height", "width"), folder)
    shorter = size.get("shortest_edge")
    target = crop if processor.do_center_crop else size
    side = target.get(
        "height"
    )  # without a crop, a shortest edge alone would leave images as oblong as they are
    square = side == target.get("width") == image_size
    resized = min(size.values(), default=0) if shorter is None else shorter
    if not square or resized < image_size or (shorter is None and set(size.values()) != {image_size}):
        cut = f"cut to {crop}" if processor.do_center_crop else "not cut"
        raise CheckpointError(
            f"the image processor in {folder} resizes to {size}, {cut}: the model reads squares of {image_size}"
        )
    return Pixels(image_size, shorter, resampling(processor, folder), Scaling.of(processor, folder)), origin


def _folder_sha256(folder: Path) -> str:
    """Of everything in the folder that shapes the features: weights, configuration, tokenizer, processor.

    Weights alone would not do: a mended config.json or another tokenizer makes other features.
    """
    files = [*weight_files(folder), *(folder / name for name in SETTINGS if (folder / name).is_file())]
    return checkpoints.files_sha256(files)
