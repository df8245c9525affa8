"""Random crops and colour changes of training images, each sample from a seed of its own."""

from __future__ import annotations

import math

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2

from hierbench.reference.schema import DataConfig

ASPECTS = (3 / 4, 4 / 3)
"""Width over height of a random crop."""
GAP = 2
"""Pixels that a crop has along a side, at least, for one of the result, where an image is decoded at less than its
size: then resizing, with its filter, makes the result much as from all pixels (as `Image.thumbnail` has it)."""


class Augment:
    """PIL image and integer seed -> (3, size, size) uint8. Same seed, same pixels, whatever ran before."""

    def __init__(self, config: DataConfig, size: int):
        self._size, self._smallest = size, config.crop_scale[0]
        how = {"interpolation": v2.InterpolationMode.BICUBIC, "antialias": True}
        self._whole = config.crop_scale == (1.0, 1.0)
        steps: list[torch.nn.Module] = [
            v2.Resize((size, size), **how)
            if self._whole
            else v2.RandomResizedCrop(size, scale=config.crop_scale, ratio=ASPECTS, **how)
        ]
        if config.flip_probability:
            steps.append(v2.RandomHorizontalFlip(config.flip_probability))
        if config.colour_jitter:
            steps.append(v2.RandomApply([v2.ColorJitter(*config.colour_jitter)], config.jitter_probability))
        if config.grayscale_probability:
            steps.append(v2.RandomGrayscale(config.grayscale_probability))
        steps.append(v2.PILToTensor())
        self._transform = v2.Compose(steps)

    def __call__(self, image: Image.Image, seed: int) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed also queues seeds for every device
            return self._transform(image)

    def enough(self, width: int, height: int) -> tuple[int, int]:
        """The least size of an image of this size of which every crop has GAP · size pixels along both sides; the
        image's own where it has no more. See `hierbench.data.images.decode`.
        """
        side = float(min(width, height))
        if not self._whole:  # the shorter side of the smallest crop; where none fits it is the whole side
            side = min(side, math.sqrt(self._smallest * width * height * ASPECTS[0]))
        share = min(1.0, GAP * self._size / side)
        return math.ceil(share * width), math.ceil(share * height)
