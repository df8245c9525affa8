"""Datasets in memory and embeddings by formula, so that tasks can be scored without a model."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hierbench.contracts import EmbeddingRequests, Embeddings
from hierbench.data.datasets import CaptionChains, Classification, ImageFiles, Retrieval


def image_source(count):
    return ImageFiles(Path("nowhere"), tuple(f"{number:03d}.jpg" for number in range(count)))


@pytest.fixture(scope="session")
def embed():
    """embed(requests, dim=16) -> embeddings that depend on each id and string alone, whatever else is asked for.

    They lie near one plane, at all distances and in a sector of directions: entailment scores spread over [0, 1].
    """

    def vectors(names, dim):
        rows = []
        for name in names:
            generator = np.random.default_rng(list(name.encode()) or [0])
            direction = np.eye(dim)[0] + generator.uniform(0, 0.8) * np.eye(dim)[1]
            rows.append(generator.uniform(0.1, 2) * (direction + 0.05 * generator.normal(size=dim)))
        return torch.from_numpy(np.array(rows, np.float32).reshape(len(rows), dim))

    def build(requests: EmbeddingRequests, dim=16):
        return Embeddings(requests, vectors(requests.images, dim), vectors(requests.texts, dim))

    return build


@pytest.fixture
def classification():
    """classification(labels, names) -> images with these labels, two templates."""

    def build(labels, names, class_ids=None, taxonomy=None):
        return Classification(
            name="shapes",
            images=image_source(len(labels)),
            labels=np.array(labels, np.int64),
            class_ids=tuple(class_ids or names),
            class_names=tuple(names),
            templates=("a {}.", "a photo of {}."),
            taxonomy=taxonomy,
        )

    return build


@pytest.fixture
def retrieval():
    """retrieval(owner) -> one caption for each entry."""

    def build(owner):
        captions = tuple(f"caption {number}" for number in range(len(owner)))
        return Retrieval("pairs", image_source(max(owner) + 1), captions, np.array(owner, np.int64))

    return build


@pytest.fixture
def chains():
    """chains(owner, pool) -> samples of four captions that are all different, with the given images and pool."""

    def build(owner, pool=None, captions=None):
        samples = len(owner)
        captions = captions or tuple(tuple(f"s{s} level {level}" for level in "1234") for s in range(samples))
        sample_ids = tuple(str(s) for s in range(samples))
        images = image_source(max(owner) + 1)
        return CaptionChains("chains", images, sample_ids, captions, np.array(owner, np.int64), pool)

    return build
