"""What a training run is told about its data and its loop; the model and objective sections are `reference.build`'s.

Every field can be overridden on the command line as `data.KEY=VALUE` or `train.KEY=VALUE`; an unknown key is an error.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataConfig(_Strict):
    """Where samples come from and how images are augmented."""

    kind: Literal["miniature", "grit", "pairs"] = "grit"  # pairs: plain image-caption tars
    shards: str | None = None  # "folder/{00000..01999}.tar", a glob, or a folder of .tar files
    boxes: int = Field(0, ge=0)  # part images per sample: 0 none, 1 one random box (HyCoCLIP), more for UNCHA
    # area share of the random resized crop; (1, 1): none, the whole image is squeezed
    crop_scale: tuple[float, float] = (0.5, 1.0)
    colour_jitter: tuple[float, float, float, float] | None = None  # brightness, contrast, saturation, hue
    jitter_probability: float = Field(0.8, ge=0, le=1)
    flip_probability: float = Field(0.0, ge=0, le=1)  # mirrored images contradict "left of" captions
    grayscale_probability: float = Field(0.0, ge=0, le=1)
    # of the miniature alone: shares of caption levels 1 to 4; over how many first steps the share of samples with
    # the finest captions and phrases falls from all to none, the others following those levels; the share of samples
    # that show the box of one thing, with its phrase for a caption
    caption_levels: tuple[float, float, float, float] = (0.1, 0.2, 0.2, 0.5)
    full_caption_steps: int = Field(0, ge=0)
    close_ups: float = Field(0.0, ge=0, le=1)
    shuffle_buffer: int = Field(4000, ge=1)
    workers: int = Field(4, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> DataConfig:
        if self.kind != "miniature" and not self.shards:
            raise ValueError(f"data.kind={self.kind} needs data.shards=PATTERN")
        if self.kind == "pairs" and self.boxes:
            raise ValueError("data.kind=pairs has no boxes: set data.boxes=0 or data.kind=grit")
        if min(self.caption_levels) < 0 or sum(self.caption_levels) <= 0:
            raise ValueError("data.caption_levels are shares: none below 0, not all 0")
        low, high = self.crop_scale
        if not 0 < low <= high <= 1:
            raise ValueError("data.crop_scale must be 0 < low <= high <= 1")
        return self


class TrainConfig(_Strict):
    """Optimisation and bookkeeping. Defaults are the GRIT recipe of the lineage (HyCoCLIP appendix)."""

    steps: int = Field(500_000, ge=1)
    batch_size: int = Field(768, ge=2)  # over all processes
    micro_batch: int | None = Field(None, ge=1)  # per process; smaller than its share = cached gradients
    learning_rate: float = Field(5e-4, gt=0)
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = Field(0.2, ge=0)
    decay_gains_and_biases: bool = False  # the released helper decays them by mistake
    warmup_steps: int = Field(4_000, ge=0)
    clip_norm: float | None = Field(None, gt=0)
    precision: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    max_nonfinite_steps: int = Field(100, ge=0)  # skipped in a row or not; one more ends the run
    compile: bool = False
    seed: int = 0
    log_every: int = Field(50, ge=1)
    save_every: int = Field(5_000, ge=1)
    keep_states: int = Field(2, ge=1)  # training states kept for --resume

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if self.warmup_steps >= self.steps:
            raise ValueError(f"train.warmup_steps={self.warmup_steps} must be below train.steps={self.steps}")
        return self
