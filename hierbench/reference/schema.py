"""What a training config may say: every key with its type and range, and the relations between keys.

Every field can be overridden on the command line as `SECTION.KEY=VALUE`; an unknown key is an error. The bounds are far
beyond any model of the field: they stand for "a slip of the pen", before a number fills the memory or the night.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from hierbench.reference.dual_encoder import IMAGENET_MEAN, IMAGENET_STD
from hierbench.reference.encoders import image_heads, text_heads
from hierbench.reference.layouts import LAYOUTS, Layout
from hierbench.reference.objectives.tiles import TILE_MIB

MAX_TOKENS = 16_384  # patches of an image: attention holds their square
MAX_PARAMETERS = 4e9  # of a tower; the largest ViT of timm has 1.9e9
MAX_BATCH_BYTES = 1 << 36  # of a batch's pixels, over all processes


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("Input should be a number, not true or false")
    return value


_Number = BeforeValidator(_no_truth)
Count = Annotated[int, _Number, Field(ge=0, le=100_000_000)]
Positive = Annotated[int, _Number, Field(ge=1, le=100_000_000)]
Width = Annotated[int, _Number, Field(ge=1, le=8192)]
Layers = Annotated[int, _Number, Field(ge=1, le=128)]
Share = Annotated[float, _Number, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f]+$")]
Name = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9_+=@-][A-Za-z0-9_.+=@-]*$")]
Mean = Annotated[float, _Number, Field(ge=-100, le=100)]
Std = Annotated[float, _Number, Field(ge=1e-3, le=100)]
Strength = Annotated[float, _Number, Field(ge=0, le=10)]
Momentum = Annotated[float, _Number, Field(ge=0, lt=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class VisionSizes(TypedDict, total=False):
    """What replaces the sizes of the named ViT."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[misc]

    embed_dim: Width
    depth: Layers
    patch_size: Annotated[int, _Number, Field(ge=1, le=1024)]
    mlp_ratio: Annotated[float, _Number, Field(gt=0, le=16)]


class ModelConfig(_Strict):
    """The two towers; see `DualEncoder.create`."""

    layout: Layout
    vision: Text = "vit_small_patch16_224"
    vision_sizes: VisionSizes = Field(default_factory=lambda: VisionSizes())
    image_size: Annotated[int, _Number, Field(ge=8, le=2048)] = 224
    text: Annotated[str, Field(max_length=20)] = "L12_W512"
    embed_dim: Width = 512
    pixel_mean: tuple[Mean, Mean, Mean] = IMAGENET_MEAN
    pixel_std: tuple[Std, Std, Std] = IMAGENET_STD

    @model_validator(mode="after")
    def _consistent(self) -> ModelConfig:
        named = re.search(r"patch(\d{1,4})", self.vision)
        patch = self.vision_sizes.get("patch_size", int(named[1]) if named else None)
        if patch:
            if patch > self.image_size or self.image_size % patch:
                raise ValueError(
                    f"image_size={self.image_size} is no multiple of the patches' {patch} pixels"
                )
            if (self.image_size // patch) ** 2 > MAX_TOKENS:
                raise ValueError(
                    f"{patch}-pixel patches cut an image into more than {MAX_TOKENS:,}: take larger ones"
                )
        if width := self.vision_sizes.get("embed_dim"):
            if width % 4:
                raise ValueError(f"vision_sizes.embed_dim={width} is no multiple of 4, as positions need")
            _check_size("vision_sizes", width, self.vision_sizes.get("depth", 1), image_heads)
        text = re.fullmatch(r"L(\d{1,4})_W(\d{1,5})", self.text)
        if not text:
            raise ValueError(f"text={self.text} is not of the form L12_W512 (layers, width)")
        layers, width = int(text[1]), int(text[2])
        if not (1 <= layers <= 128 and 1 <= width <= 8192):
            raise ValueError(f"text={self.text}: 1 to 128 layers of width 1 to 8192")
        _check_size("text", width, layers, text_heads)
        return self


def _check_size(tower: str, width: int, layers: int, heads: Any) -> None:
    """Refuse a width that cannot be split into heads, and a tower that no machine holds."""
    heads(width)  # raises UsageError
    if 12 * width**2 * layers > MAX_PARAMETERS:
        raise ValueError(
            f"{tower}: {layers} layers of width {width} have more than {MAX_PARAMETERS:.0e} weights"
        )


class DataConfig(_Strict):
    """Where samples come from and how images are augmented."""

    kind: Literal["miniature", "grit", "pairs"] = "grit"  # pairs: plain image-caption tars
    shards: Text | None = None  # "folder/{00000..01999}.tar", a glob, or a folder of .tar files
    # part images per sample: 0 none, 1 one random box (HyCoCLIP), more for UNCHA
    boxes: Annotated[int, _Number, Field(ge=0, le=64)] = 0
    # area share of the random resized crop; (1, 1): none, the whole image is squeezed
    crop_scale: tuple[Share, Share] = (0.5, 1.0)
    # brightness, contrast, saturation, hue
    colour_jitter: (
        tuple[Strength, Strength, Strength, Annotated[float, _Number, Field(ge=0, le=0.5)]] | None
    ) = None
    jitter_probability: Share = 0.8
    flip_probability: Share = 0.0  # mirrored images contradict "left of" captions
    grayscale_probability: Share = 0.0
    # of the miniature alone: shares of caption levels 1 to 4; over how many first steps the share of samples with
    # the finest captions and phrases falls from all to none, the others following those levels; the share of samples
    # that show the box of one thing, with its phrase for a caption
    caption_levels: tuple[Share, Share, Share, Share] = (0.1, 0.2, 0.2, 0.5)
    full_caption_steps: Count = 0
    close_ups: Share = 0.0
    # decode a JPEG at a half, a quarter or an eighth of its size where crops need no more: a little other pixels
    draft: bool = True
    shuffle_buffer: Annotated[int, _Number, Field(ge=1, le=1_000_000)] = 4000
    workers: Annotated[int, _Number, Field(ge=0, le=256)] = 4

    @model_validator(mode="after")
    def _consistent(self) -> DataConfig:
        if self.kind != "miniature" and not self.shards:
            raise ValueError(f"data.kind={self.kind} needs data.shards=PATTERN")
        if self.kind == "pairs" and self.boxes:
            raise ValueError("data.kind=pairs has no boxes: set data.boxes=0 or data.kind=grit")
        if sum(self.caption_levels) <= 0:
            raise ValueError("data.caption_levels are shares: not all 0")
        low, high = self.crop_scale
        if not 0 < low <= high <= 1:
            raise ValueError("data.crop_scale must be 0 < low <= high <= 1")
        return self


class EvaluateConfig(_Strict):
    """A suite on the weights of every so many steps, while training goes on."""

    suite: Text
    every: Positive
    weights: Literal["model", "ema"] = "model"  # ema: the running average that train.ema keeps


class TrainConfig(_Strict):
    """Optimisation and bookkeeping. Defaults are the GRIT recipe of the lineage (HyCoCLIP appendix)."""

    steps: Positive = 500_000
    batch_size: Annotated[int, _Number, Field(ge=2, le=131_072)] = 768  # over all processes
    # per process; smaller than its share = cached gradients
    micro_batch: Annotated[int, _Number, Field(ge=1, le=131_072)] | None = None
    learning_rate: Annotated[float, _Number, Field(gt=0, le=100)] = 5e-4
    betas: tuple[Momentum, Momentum] = (0.9, 0.98)
    weight_decay: Annotated[float, _Number, Field(ge=0, le=100)] = 0.2
    decay_gains_and_biases: bool = False  # the released helper decays them by mistake
    warmup_steps: Count = 4_000
    clip_norm: Annotated[float, _Number, Field(gt=0, le=1e9)] | None = None
    precision: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    max_nonfinite_steps: Count = 100  # skipped in a row or not; one more ends the run
    # what a tile of the contrastive terms' matrices of pairs may fill; smaller tiles take more time
    loss_tile_mib: Annotated[int, _Number, Field(ge=1, le=1_000_000)] = TILE_MIB
    compile: bool = False
    checkpoint_activations: bool = (
        False  # layer by layer computed again in the backward pass: less memory, more time
    )
    seed: Annotated[int, _Number, Field(ge=0, lt=1 << 32)] = 0
    log_every: Positive = 50
    save_every: Positive = 5_000
    keep_states: Annotated[int, _Number, Field(ge=1, le=100_000)] = 2  # training states kept for --resume
    stop_diverged: bool = True  # `watch.Watch`: a loss that explodes, or is back where it began, ends the run
    evaluate: EvaluateConfig | None = None
    wandb: Text | None = None  # a project of Weights & Biases
    # full: each of several processes holds a share of the weights, their gradients and moments (FSDP2)
    sharding: Literal["none", "full"] = "none"
    # decay of a running average of the weights, kept beside them: 0.9999 is that of the last 10,000 steps or so
    ema: Annotated[float, _Number, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if self.warmup_steps >= self.steps:
            raise ValueError(f"train.warmup_steps={self.warmup_steps} must be below train.steps={self.steps}")
        if self.sharding == "full" and self.precision == "float16":
            raise ValueError("train.sharding=full has no train.precision=float16: take bfloat16 or float32")
        if self.evaluate and self.evaluate.weights == "ema" and self.ema is None:
            raise ValueError("train.evaluate.weights=ema needs the average that train.ema=0.9999 keeps")
        return self


class ReferenceConfig(_Strict):
    """A reference model and how it is trained."""

    family: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    model: ModelConfig
    objective: list[dict[str, Any]] = Field(
        min_length=1, max_length=64
    )  # checked by `objectives.build_terms`
    data: DataConfig = Field(default_factory=lambda: DataConfig(kind="miniature"))
    train: TrainConfig = Field(default_factory=TrainConfig)
    # what a run adds to the config that it records: its name, how many processes it began with, and torchrun's id of
    # the launch that began it
    name: Name | None = None
    processes: Positive | None = None
    launch: Text | None = None

    @property
    def measured_as(self) -> str:
        """The model family that measures a trained model: the config's, or one of its layout for one of its own."""
        families = LAYOUTS[self.model.layout].families
        return self.family if self.family in families else families[0]

    @model_validator(mode="after")
    def _consistent(self) -> ReferenceConfig:
        layouts = [name for name, spec in LAYOUTS.items() if self.family in spec.families]
        layout = layouts[0] if layouts else self.model.layout
        if self.model.layout != layout:  # the file could not be measured as that family's
            raise ValueError(
                f"family {self.family} has model.layout={layout}, not {self.model.layout}: "
                "name another family, or take its layout"
            )
        images = self.train.batch_size * (1 + self.data.boxes)
        if images * 3 * self.model.image_size**2 > MAX_BATCH_BYTES:
            raise ValueError(
                f"a batch of {images:,} images of {self.model.image_size} pixels fills more than "
                f"{MAX_BATCH_BYTES >> 30} GiB: lower train.batch_size, data.boxes or model.image_size"
            )
        return self
