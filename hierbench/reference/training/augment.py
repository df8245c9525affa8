"""Random crops and colour changes of training images, each sample from a seed of its own."""

from __future__ import annotations

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2

from hierbench.reference.schema import DataConfig


class Augment:
    """PIL image and integer seed -> (3, size, size) uint8. Same seed, same pixels, whatever ran before."""

    def __init__(self, config: DataConfig, size: int):
        how = {"interpolation": v2.InterpolationMode.BICUBIC, "antialias": True}
        whole = config.crop_scale == (1.0, 1.0)
        steps: list[torch.nn.Module] = [
            v2.Resize((size, size), **how)
            if whole
            else v2.RandomResizedCrop(size, scale=config.crop_scale, **how)
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
