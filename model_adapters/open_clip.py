"""Every model and weight tag that open_clip knows (OpenAI's included), hub repositories, and local files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import open_clip
import torch
from open_clip.convert import convert_state_dict
from open_clip.model import convert_to_custom_text_state_dict
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL import Image
from torch import Tensor, nn

from hierbench.contracts import Fit, Geometry, ModelCard
from hierbench.errors import CheckpointError, UsageError, one_line
from hierbench.geometry import Sphere
from hierbench.model_adapters._foreign import arithmetic, quietly, ready, state_sha256
from hierbench.models import checkpoints
from hierbench.names import lookup
from hierbench.reference.checkpoint import check_entries, read_state

TEXT_BATCH = 256
RANDOM_SEED = 0  # of MODEL/random


def load(
    checkpoint: str | None = None, *, name: str | None = None, device: str = "cpu", dtype: str = "float32"
) -> OpenClipAdapter:
    """`checkpoint` is one of

    MODEL/TAG        a name and tag of `open_clip.list_pretrained()`, such as ViT-B-32/openai
    MODEL/random     untrained weights, always the same ones
    MODEL@FILE       weights of a local file, read with the preprocessing and the activation that all tags of the
                     architecture share (CLIP's and the architecture's own where it has no tags)
    MODEL/TAG@FILE   weights of a local file, read as those of a tag are
    hf-hub:ORG/REPO  a hub repository in open_clip's layout; local-dir:FOLDER a folder in it

    Raises UnknownNameError (with the nearest names), UsageError, CheckpointError.
    """
    if not checkpoint:
        raise UsageError(
            "open_clip needs MODEL/TAG, MODEL/random, MODEL@FILE, MODEL/TAG@FILE or hf-hub:ORG/REPO"
        )
    if checkpoint.startswith(("hf-hub:", "local-dir:")):
        found = _from_repository(checkpoint)
    elif "@" in checkpoint:
        found = _from_file(*checkpoint.split("@", 1))
    else:
        found = _from_tag(checkpoint)
    model: Any = ready(found.model, device, dtype, found.source)
    config = PreprocessCfg(**open_clip.get_model_preprocess_cfg(model))
    side = _side(config.size, checkpoint)
    tokenizer = _attempt(checkpoint, lambda: open_clip.get_tokenizer(found.architecture))
    with arithmetic(torch.device(device), "float32"):
        dim = model.encode_text(tokenizer([""]).to(device)).shape[-1]
    card = ModelCard(
        name=name or found.name,
        family="open_clip",
        source=found.source,
        embedding_dim=dim,
        image_size=side,
        parameters=sum(p.numel() for p in model.parameters()),
        # The architecture belongs here: one file gives other features under another (with the quick GELU, say).
        preprocessing=f"{found.architecture}{', quick GELU' if found.quick_gelu else ''}: "
        f"{config.resize_mode} to {side} ({config.interpolation}), mean {_short(config.mean)}, "
        f"std {_short(config.std)}",
        sha256=found.sha256,
        dtype=dtype,
        notes={"architecture": found.architecture, "quick_gelu": found.quick_gelu},
    )
    return OpenClipAdapter(card, Sphere(), model, tokenizer, config, torch.device(device))


@dataclass(frozen=True)
class OpenClipAdapter:
    """An open_clip model; features are what its towers give before normalisation."""

    card: ModelCard
    geometry: Geometry
    model: Any  # of open_clip's classes
    tokenizer: Callable[[list[str]], Tensor]
    config: PreprocessCfg
    device: torch.device

    def preprocess(self, image: Image.Image, fit: Fit) -> Tensor:
        """RGB image -> (3, H, W) in [0, 1]: CROP is the model's own transform, SQUEEZE resizes both sides."""
        config = replace(self.config, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))  # normalised when encoded
        if fit == Fit.SQUEEZE:
            config = replace(config, resize_mode="squash")
        return image_transform_v2(config, is_train=False)(image)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, D)."""
        with arithmetic(self.device, self.card.dtype):
            pixels = pixels.to(self.device, torch.float32, non_blocking=True)
            mean, std = (
                torch.tensor(values, device=self.device).view(3, 1, 1)
                for values in (self.config.mean, self.config.std)
            )
            return self.model.encode_image((pixels - mean) / std).float()

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """-> (len(texts), D), in batches of TEXT_BATCH."""
        parts = []
        with arithmetic(self.device, self.card.dtype):
            for start in range(0, len(texts), TEXT_BATCH):
                tokens = self.tokenizer(list(texts[start : start + TEXT_BATCH])).to(self.device)
                parts.append(self.model.encode_text(tokens).float())
        return torch.cat(parts) if parts else torch.empty(0, self.card.embedding_dim)


@dataclass(frozen=True)
class _Found:
    """A model that open_clip built, and what its card says."""

    model: nn.Module
    architecture: str  # what get_tokenizer takes
    name: str
    source: str
    sha256: str
    quick_gelu: bool


def _from_tag(reference: str) -> _Found:
    if reference.replace("/", "-") in open_clip.list_models():  # OpenAI writes ViT-B/32
        raise UsageError(
            f"open_clip model {reference} needs weights: {_choices(reference.replace('/', '-'))}"
        )
    architecture, _, tag = reference.rpartition("/")
    architecture = _architecture(architecture or tag)
    if tag == "random":
        return _untrained(architecture)
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if not tags:
        raise UsageError(f"open_clip has no weights for {architecture}: {_choices(architecture)}")
    lookup(f"tag of open_clip model {architecture}", tag, dict.fromkeys(tags))
    config = open_clip.get_pretrained_cfg(architecture, tag)
    quick = _quick_gelu(architecture, config)
    file = Path(_attempt(reference, lambda: open_clip.download_pretrained(config)))
    model = _create(reference, architecture, pretrained=tag, force_quick_gelu=quick)
    source = config.get("hf_hub") or config.get("url") or str(file)
    return _Found(model, architecture, f"{architecture}-{tag}", source, checkpoints.sha256(file), quick)


def _from_file(reference: str, file: str) -> _Found:
    path = Path(file).expanduser()
    if reference.replace("/", "-") in open_clip.list_models():  # OpenAI writes ViT-B/32
        architecture, tag = reference.replace("/", "-"), ""
    else:
        before, _, after = reference.rpartition("/")
        architecture, tag = (_architecture(before), after) if before else (_architecture(after), "")
    if not path.is_file():
        raise CheckpointError(f"no file {path}: give the weights of {architecture} as {reference}@FILE")
    preprocess, quick = _as_tags_have_it(architecture, tag, file)
    model = _create(
        str(path),
        architecture,
        pretrained_image=False,
        pretrained_text=False,
        force_quick_gelu=quick,
        force_preprocess_cfg=preprocess,
    )
    _fill(model, path)
    return _Found(model, architecture, path.stem, str(path), checkpoints.sha256(path), quick)


TAG_SETTINGS = ("mean", "std", "interpolation", "resize_mode", "quick_gelu")


def _as_tags_have_it(architecture: str, tag: str, file: str) -> tuple[dict[str, object], bool]:
    """(preprocessing, quick GELU) of weights from a file: a tag's, or what all tags of the architecture share.

    Nothing in a file tells them. Raises UsageError, with tags to choose from, where tags differ.
    """
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if tag:
        lookup(f"tag of open_clip model {architecture}", tag, dict.fromkeys(tags))
    by_settings: dict[str, tuple[str, dict[str, object]]] = {}
    for name in [tag] if tag else tags:
        config = open_clip.get_pretrained_cfg(architecture, name)
        settings = {key: config[key] for key in TAG_SETTINGS if config.get(key) is not None}
        settings["quick_gelu"] = _quick_gelu(architecture, config)
        told = str({key: tuple(v) if isinstance(v, list) else v for key, v in sorted(settings.items())})
        by_settings.setdefault(told, (name, settings))
    if len(by_settings) > 1:
        variants = [settings for _, settings in by_settings.values()]
        differ = [key for key in TAG_SETTINGS if len({str(settings.get(key)) for settings in variants}) > 1]
        choices = " or ".join(f"{architecture}/{name}@{file}" for name, _ in by_settings.values())
        raise UsageError(
            f"open_clip's weights for {architecture} differ in {', '.join(differ)}, and a file does not say which it "
            f"needs: say whose it has, {choices}"
        )
    if not by_settings:
        return {}, _quick_gelu(architecture, {})
    ((_, settings),) = by_settings.values()
    return {key: value for key, value in settings.items() if key != "quick_gelu"}, bool(
        settings["quick_gelu"]
    )


def _quick_gelu(architecture: str, config: Mapping[str, object]) -> bool:
    """Weights trained with the quick GELU are offered under names without it too, where open_clip only warns."""
    return bool(config.get("quick_gelu") or open_clip.get_model_config(architecture).get("quick_gelu"))


def _fill(model: nn.Module, path: Path) -> None:
    """Put a file's weights into the model, every entry accounted for and nothing resized. Raises CheckpointError."""
    if path.suffix in (".npz", ".npy"):  # SigLIP's releases
        _attempt(str(path), lambda: open_clip.load_checkpoint(model, str(path)))
        return
    state = {name: value for name, value in read_state(path).items() if name not in NO_WEIGHTS}
    own = model.state_dict()
    state = _attempt(str(path), lambda: convert_state_dict(model, state))
    if "positional_embedding" in state and "positional_embedding" not in own:
        state = convert_to_custom_text_state_dict(state)
    if "logit_bias" in own and "logit_bias" not in state:
        state["logit_bias"] = torch.zeros_like(own["logit_bias"])  # trained without one
    for name in ("logit_scale", "logit_bias"):
        if name in state and name in own and state[name].numel() == 1:
            state[name] = state[name].reshape(own[name].shape)  # a scalar or a vector of one
    if POSITION_IDS not in own:
        state.pop(POSITION_IDS, None)
    check_entries(own, state, str(path))
    model.load_state_dict(state, strict=True)


NO_WEIGHTS = ("input_resolution", "context_length", "vocab_size")
"""What the state dicts of OpenAI's archives hold besides."""

POSITION_IDS = "text.transformer.embeddings.position_ids"
"""Of old transformers versions."""


FOLDER_WEIGHTS = (
    "open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin",
    "open_clip_pytorch_model.pth", "model.safetensors", "pytorch_model.bin", "pytorch_model.pth", "model.pth",
)  # fmt: skip
"""Where open_clip looks for a folder's weights, in its order."""


def _from_repository(reference: str) -> _Found:
    kind, _, place = reference.partition(":")
    model = _create(
        reference, reference, load_weights=False, pretrained_image=False, pretrained_text=False
    )  # weights are read below, as those of any file
    if kind == "local-dir":
        file = next(
            (found for name in FOLDER_WEIGHTS if (found := Path(place).expanduser() / name).is_file()), None
        )
        if file is None:
            raise CheckpointError(f"{place} has no weights: expected {' or '.join(FOLDER_WEIGHTS)}")
    else:
        file = Path(_attempt(reference, lambda: open_clip.download_pretrained_from_hf(place)))
    _fill(model, file)
    config = _attempt(reference, lambda: open_clip.get_model_config(reference))
    name = place.rstrip("/").rpartition("/")[2]
    return _Found(model, reference, name, reference, state_sha256(model), bool(config.get("quick_gelu")))


def _untrained(architecture: str) -> _Found:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(RANDOM_SEED)
        model = _create(architecture, architecture, pretrained_text=False)
    quick = _quick_gelu(architecture, {})
    source = f"untrained, seed {RANDOM_SEED}"
    return _Found(model, architecture, f"{architecture}-random", source, state_sha256(model), quick)


def _architecture(name: str) -> str:
    """The name as open_clip lists it. Raises UnknownNameError with the nearest ones."""
    name = name.replace("/", "-")
    lookup("open_clip model", name, dict.fromkeys(open_clip.list_models()))
    return name


def _choices(architecture: str) -> str:
    tags = [*open_clip.list_pretrained_tags_by_model(architecture), "random"]
    return f"{architecture}/TAG with TAG one of {', '.join(tags)}, or {architecture}@FILE"


def _create(what: str, architecture: str, **options: Any) -> nn.Module:
    return _attempt(what, lambda: open_clip.create_model(architecture, **options))


def _attempt(what: str, call: Callable[[], Any]) -> Any:
    """`call()`, any failure of the library or the network as one CheckpointError."""
    try:
        with quietly():
            return call()
    except Exception as error:
        reason = one_line(error)
        hint = ""
        if any(word in reason for word in ("download", "connect", "Connection", "offline", "resolve host")):
            hint = "; connect once to fetch it, or give a local file as MODEL@FILE"
        raise CheckpointError(f"open_clip cannot load {what}: {reason}{hint}") from error


def _side(size: int | Sequence[int], what: str) -> int:
    height, width = (size, size) if isinstance(size, int) else size
    if height != width:
        raise CheckpointError(
            f"open_clip model {what} reads {height} x {width} pixels; only squares are supported"
        )
    return height


def _short(values: Sequence[float]) -> str:
    return "/".join(f"{value:.5g}" for value in values)
