"""Hyper3-CLIP: a timm ViT and transformers' CLIP text tower, lifted onto a hyperboloid.

Layout and settings as in the authors' public code (github.com/Hyper3Labs/hyper3-clip, MIT). It reads two layouts, and
so does this: its own (`config.yaml`, three temperatures) and that of its earlier releases (`config.json`, one). What is
trained beside the towers (temperatures, query pooling) takes no part in embedding and is passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timm
import torch
import transformers
from PIL import Image
from torch import Tensor, nn

from hierbench.contracts import Fit, Geometry, ModelCard
from hierbench.data.images import to_square
from hierbench.errors import CheckpointError, GeometryError, UsageError, one_line
from hierbench.geometry import Lorentz
from hierbench.json_files import read_json
from hierbench.model_adapters._foreign import HUB_NAME, Scaling, arithmetic, quietly, ready
from hierbench.models import checkpoints
from hierbench.reference.checkpoint import check_entries, read_state
from hierbench.reference.tokenizer import END, tokenize
from hierbench.yaml_files import read_yaml

PAPER = "Hyper3-CLIP: Hierarchy-Conditioned Hyperbolic Vision-Language Training, arXiv:2608.29313"
TEXT_BATCH = 256
WEIGHTS = "model.safetensors"
CONFIGS = ("config.yaml", "config.json")
TEXT, OLD_TEXT = "text_encoder.backbone.", "text_encoder.backbone.text_model."  # transformers 5, and 4
UNUSED = re.compile(r"query_pooling\..+|(\w+_)?logit_(scale|bias)|.+\.position_ids")
HEAD_WIDTH = 64  # of every CLIP text tower
SCALINGS = {
    "imagenet": Scaling((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": Scaling((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "siglip": Scaling((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> Hyper3Adapter:
    """`checkpoint` is a folder with model.safetensors and config.yaml or config.json, a file of weights that has such a
    configuration beside it, or a hub name ORG/REPO, perhaps with @REVISION. Raises CheckpointError, UsageError.
    """
    if not checkpoint:
        raise UsageError("hyper3_clip needs a folder, a file of weights or a hub name, hyper3_clip:ORG/REPO")
    weights, config = _files(checkpoint)
    settings = Settings.of(config)
    state = _state(weights)
    model = _model(state, settings, str(weights))
    geometry = _geometry(model, settings, str(weights))
    patches: Any = model.vision_encoder["backbone"].patch_embed
    card = ModelCard(
        name=name or _name(checkpoint),
        family="hyper3_clip",
        source=checkpoint,
        embedding_dim=model.image_proj.out_features,
        image_size=patches.img_size[0],
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        preprocessing=f"{patches.img_size[0]} px bicubic, {SCALINGS[settings.scaling].words()}",
        tokenizing=f"{model.context} tokens, end token kept",
        sha256=checkpoints.files_sha256([weights, config]),
        dtype=dtype,
        paper=PAPER,
        notes={
            "curvature": geometry.curvature,
            "visual scale": model.visual_alpha.exp().item(),
            "textual scale": model.textual_alpha.exp().item(),
            "image tower": f"{settings.vision}, {settings.pooling(state)} pooling",
            "text tower": settings.text,
        },
    )
    scaling = SCALINGS[settings.scaling]
    return Hyper3Adapter(
        card, geometry, ready(model, device, dtype, checkpoint), scaling, torch.device(device)
    )


@dataclass(frozen=True)
class Settings:
    """What a configuration says of the towers that their weights do not show."""

    vision: str = "vit_base_patch16_224"  # a timm name
    layer_norm: bool = False  # torch's ε of 1e-5 in place of timm's 1e-6
    text: str = "openai/clip-vit-base-patch32"
    curvature: float = 1.0  # at the start of training: what it is clamped about
    scaling: str = "imagenet"

    @classmethod
    def of(cls, path: Path) -> Settings:
        """From config.yaml (perhaps under `model`, and `data`) or config.json. Raises CheckpointError."""
        if path.suffix == ".json":
            told = read_json(path, "configuration", CheckpointError)
        else:
            told = read_yaml(path, "configuration", CheckpointError)
        if not isinstance(told, Mapping):
            raise CheckpointError(f"{path} holds no fields: not a configuration of Hyper3-CLIP")
        model, data = (
            part if isinstance(part, Mapping) else {} for part in (told.get("model", told), told.get("data"))
        )
        found = cls(
            str(model.get("vision_backbone", cls.vision)),
            model.get("vision_norm_layer") == "layer_norm",
            str(model.get("text_model_name", cls.text)),
            _number(model.get("curv_init", cls.curvature), path),
            str(data.get("image_normalization") or cls.scaling),
        )
        if found.scaling not in SCALINGS:
            raise CheckpointError(
                f"{path}: image_normalization is {found.scaling!r}, none of {', '.join(SCALINGS)}"
            )
        if not timm.is_model(found.vision):
            raise CheckpointError(
                f"{path}: vision_backbone is {found.vision!r}, which timm does not know: not offered"
            )
        if not found.text.startswith("openai/clip-"):
            raise CheckpointError(f"{path}: text_model_name is {found.text!r}: openai/clip-… are offered")
        if model.get("text_pooling", "auto") not in ("auto", "pooler") or model.get(
            "normalize_encoder_features"
        ):
            raise CheckpointError(
                f"{path}: text_pooling or normalize_encoder_features asks for what is not offered"
            )
        return found

    def pooling(self, state: Mapping[str, Tensor]) -> str:
        """How timm makes one feature of an image's tokens, which the names of the last norm tell."""
        return "avg" if "vision_encoder.backbone.fc_norm.weight" in state else "token"


class Towers(nn.Module):
    """Both towers and what follows them, under the names of the released files."""

    def __init__(self, vision: nn.Module, text: nn.Module, widths: tuple[int, int], embed_dim: int):
        super().__init__()
        self.vision_encoder = nn.ModuleDict({"backbone": vision})
        self.text_encoder = nn.ModuleDict({"backbone": text})
        self.image_proj = nn.Linear(widths[0], embed_dim)
        self.text_proj = nn.Linear(widths[1], embed_dim)
        self.visual_alpha, self.textual_alpha, self.log_curv = (
            nn.Parameter(torch.zeros(())) for _ in range(3)
        )

    @property
    def context(self) -> int:
        """Tokens a text has at most."""
        config: Any = self.text_encoder["backbone"].config
        return config.max_position_embeddings

    def image_tangents(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) normalised -> (B, D)."""
        return self.image_proj(self.vision_encoder["backbone"](pixels)).float() * self.visual_alpha.exp()

    def text_tangents(self, tokens: Tensor) -> Tensor:
        """(B, T) ids, each text filled up with END -> (B, D)."""
        pooled = self.text_encoder["backbone"](input_ids=tokens).pooler_output
        return self.text_proj(pooled).float() * self.textual_alpha.exp()


@dataclass(frozen=True)
class Hyper3Adapter:
    """Hyper3-CLIP; features are tangents, scaled, as the released evaluators average them over prompts."""

    card: ModelCard
    geometry: Geometry
    model: Towers
    scaling: Scaling
    device: torch.device

    def preprocess(self, image: Image.Image, fit: Fit) -> Tensor:
        """RGB image -> (3, H, W) in [0, 1]."""
        return to_square(image, self.card.image_size, fit)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, D)."""
        with arithmetic(self.device, self.card.dtype):
            pixels = pixels.to(self.device, torch.float32, non_blocking=True)
            return self.model.image_tangents(self.scaling(pixels))

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """-> (len(texts), D). The tower is causal, so each batch is padded to its own longest text only."""
        features = torch.empty(len(texts), self.card.embedding_dim, device=self.device)
        ids = tokenize(texts, context=self.model.context)
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        with arithmetic(self.device, self.card.dtype):
            for start in range(0, len(order), TEXT_BATCH):
                rows = order[start : start + TEXT_BATCH]
                longest = len(ids[rows[-1]])
                batch = torch.tensor([ids[row] + [END] * (longest - len(ids[row])) for row in rows])
                features[rows] = self.model.text_tangents(batch.to(self.device))
        return features


def _files(checkpoint: str) -> tuple[Path, Path]:
    """(weights, configuration)."""
    path = Path(checkpoint).expanduser()
    if not path.exists():
        hub = HUB_NAME.fullmatch(checkpoint)
        if not hub:
            raise CheckpointError(f"no folder or file {path}, and no hub name of the form ORG/REPO either")
        path = checkpoints.hub_snapshot(hub[1], hub[2])
    weights = path / WEIGHTS if path.is_dir() else path
    if not weights.exists():
        raise CheckpointError(f"{path} has no {WEIGHTS}: give the file of weights itself")
    config = next((found for name in CONFIGS if (found := weights.with_name(name)).exists()), None)
    if config is None:
        raise CheckpointError(
            f"beside {weights} stands no {' or '.join(CONFIGS)}, which says how the towers are built"
        )
    return weights, config


def _name(checkpoint: str) -> str:
    path = Path(checkpoint).expanduser()
    hub = None if path.exists() else HUB_NAME.fullmatch(checkpoint)
    path = Path(hub[1]) if hub else path.resolve()
    return path.stem if path.is_file() else path.name


def _number(value: Any, path: Path) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise CheckpointError(f"{path}: curv_init is {value!r}: expected a number above 0")
    return float(value)


def _state(weights: Path) -> dict[str, Tensor]:
    """The entries that embed, under the names of transformers 5."""
    state = {name: value for name, value in read_state(weights).items() if not UNUSED.fullmatch(name)}
    return {TEXT + name.removeprefix(OLD_TEXT) if name.startswith(OLD_TEXT) else name: value
            for name, value in state.items()}  # fmt: skip


def _model(state: Mapping[str, Tensor], settings: Settings, where: str) -> Towers:
    """Every entry accounted for. Raises CheckpointError."""
    try:
        words, positions = (
            state[f"{TEXT}embeddings.{kind}_embedding.weight"] for kind in ("token", "position")
        )
        inner = state[f"{TEXT}encoder.layers.0.mlp.fc1.weight"]
        image_proj, text_proj = state["image_proj.weight"], state["text_proj.weight"]
    except KeyError as error:
        raise CheckpointError(f"checkpoint {where} is no Hyper3-CLIP: it has no {error}") from error
    if (
        image_proj.ndim != 2
        or text_proj.ndim != 2
        or words.ndim != 2
        or state.get("log_curv", words[0, 0]).ndim
    ):
        raise CheckpointError(f"checkpoint {where} has other projections, or several curvatures: not offered")
    layers = {name.split(".")[4] for name in state if name.startswith(f"{TEXT}encoder.layers.")}
    norm: dict[str, Any] = {"norm_layer": nn.LayerNorm} if settings.layer_norm else {}
    try:
        with quietly():
            vision: Any = timm.create_model(
                settings.vision, pretrained=False, num_classes=0, global_pool=settings.pooling(state), **norm
            )
            text = transformers.CLIPTextModel(
                transformers.CLIPTextConfig(
                    vocab_size=len(words),
                    hidden_size=words.shape[1],
                    intermediate_size=len(inner),
                    num_hidden_layers=len(layers),
                    num_attention_heads=max(words.shape[1] // HEAD_WIDTH, 1),
                    max_position_embeddings=len(positions),
                    hidden_act="quick_gelu",
                    eos_token_id=END,
                )
            )
        vision.patch_embed.img_size  # noqa: B018 - towers without patches are not offered
        model = Towers(vision, text, (image_proj.shape[1], text_proj.shape[1]), len(image_proj))
    except Exception as error:  # the libraries raise nearly anything
        raise CheckpointError(f"checkpoint {where} is of another architecture: {one_line(error)}") from error
    expected = {
        TEXT + name.removeprefix(OLD_TEXT) if name.startswith(OLD_TEXT) else name: (name, value)
        for name, value in model.state_dict().items()
    }
    check_entries({name: value for name, (_, value) in expected.items()}, state, where)
    model.load_state_dict({own: state[name] for name, (own, _) in expected.items()}, strict=True)
    return model.float()


def _geometry(model: Towers, settings: Settings, where: str) -> Lorentz:
    """Its curvature is kept within a tenth and ten times of what training began with, as the released code has it."""
    try:
        learned = model.log_curv.exp().item()
        return Lorentz(min(max(learned, settings.curvature / 10), settings.curvature * 10))
    except GeometryError as error:
        raise CheckpointError(f"checkpoint {where}: {error}") from error
