"""A tiny adapter, dataset and task, for tests of the engine; also imported by the scripts that tests start."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from hierbench.contracts import EmbeddingRequests, Estimate, Fit, MetricSpec, ModelCard, Scores, TaskSpec
from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.images import to_square
from hierbench.geometry import Lorentz, Sphere
from hierbench.metrics.bootstrap import Statistics, means

SIZE, DIM = 8, 6


class Adapter:
    """Features are means over quarters of the image and letter counts of the text; counts what it encodes."""

    def __init__(self, name="fake", sha256="ab" * 32, family="fake", geometry=None, dim=DIM):
        self.card = ModelCard(
            name=name, family=family, source="tests", embedding_dim=dim, image_size=SIZE, parameters=0,
            preprocessing=f"to {SIZE}", sha256=sha256,
        )  # fmt: skip
        self.geometry = geometry or Lorentz(1.0)
        self.images, self.texts, self.batches = 0, [], []
        self.lock = open(__file__)  # not picklable: workers have to do without  # noqa: SIM115

    def preprocess(self, image, fit):
        return to_square(image, SIZE, fit)

    def encode_images(self, pixels):
        self.images += len(pixels)
        self.batches.append(len(pixels))
        means = pixels.unfold(2, 4, 4).unfold(3, 4, 4).mean((4, 5)).flatten(1)  # (B, 12)
        return means[:, :DIM] - 0.5

    def encode_texts(self, texts):
        self.texts += texts
        return (
            torch.tensor([[text.count(letter) for letter in "aeiost"] for text in texts])
            .float()
            .reshape(-1, DIM)
        )


def write_images(folder: Path, count: int, seed: int = 0) -> ImageFiles:
    """`count` noisy PNG files of 12 x 10 pixels: 0000.png, 0001.png, …"""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    ids = tuple(f"{number:04d}.png" for number in range(count))
    for name in ids:
        Image.fromarray(rng.integers(0, 256, (10, 12, 3), np.uint8)).save(folder / name)
    return ImageFiles(folder, ids)


def png(color) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (10, 10), color).save(out, "PNG")
    return out.getvalue()


def dataset(images: ImageFiles, name: str = "things") -> Classification:
    """Two classes in turn."""
    labels = np.arange(len(images.ids)) % 2
    return Classification(name, images, labels, ("n1", "n2"), ("tea", "boat"), ("a {}.", "the {}."))


@dataclass(frozen=True)
class Task:
    """Mean of all features; fails or refuses where told to."""

    name: str = "mean/things"
    dataset: str = "things"
    version: int = 1
    fit: Fit = Fit.CROP
    protocol: str = "released"
    fails: bool = False
    cones: bool = False  # needs a geometry with cones
    scored: list = field(default_factory=list, compare=False)

    @property
    def spec(self):
        metrics = (MetricSpec("mean", "Mean", unit="raw"),)
        return TaskSpec(
            self.name, self.name, self.version, self.dataset, metrics, "mean", self.fit, self.protocol
        )

    def inapplicable(self, geometry):
        return "it needs cones" if self.cones and not geometry.has_cones else None

    def requests(self, data):
        prompts = [t.replace("{}", name) for name in data.class_names for t in data.templates]
        return EmbeddingRequests.of(data.images.ids, prompts)

    def statistics(self, items):
        images = items["images"]
        return Statistics(means({"mean": images["value"]}), tuple(images["image_id"]))

    def score(self, geometry, embeddings, data):
        if self.fails:
            raise ZeroDivisionError("no luck\nsecond line")
        self.scored.append(len(data.images.ids))
        values = embeddings.images(data.images.ids).mean(1).numpy()
        figure = Estimate(float(values.mean()), float(values.min()), float(values.max()))
        items = {"images": {"image_id": list(data.images.ids), "value": values, "label": data.labels}}
        return Scores({"mean": figure}, len(values), items, ("a note",))


__all__ = ["DIM", "SIZE", "Adapter", "Sphere", "Task", "dataset", "png", "write_images"]
