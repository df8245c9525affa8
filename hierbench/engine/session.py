"""A model ready to embed: the adapter under its protocol, and where and how it works. The one way to embed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hierbench.contracts import (
    Dataset,
    EmbeddingRequests,
    Embeddings,
    Fit,
    Geometry,
    ModelAdapter,
    ModelCard,
    ProtocolAware,
)
from hierbench.engine import encoding
from hierbench.engine.device import default_batch_size, resolve_device
from hierbench.engine.encoding import Features, Job, Work
from hierbench.engine.store import EmbeddingStore, MemoryStore
from hierbench.models.reference import ModelReference
from hierbench.progress import Progress, Quiet

Share = Callable[[str, Job, Callable[[Job], Features]], Features]
"""(name of the dataset, job, what encodes this process's part) -> the whole job's features, made by a team."""


@dataclass(frozen=True)
class Session:
    """An adapter with where it computes, where embeddings are kept and how images are prepared.

    `Session.of` and `Session.open` apply the protocol's rule; the bare constructor takes the adapter as it is.
    """

    adapter: ModelAdapter
    store: EmbeddingStore | MemoryStore | None = None  # None = nothing is kept
    device: str = ""  # "" = where the adapter says that it is, else the CPU
    batch_size: int | None = None  # images; None = by device
    workers: int | None = None  # processes that prepare images; None = by cores, 0 = none
    progress: Progress = field(default_factory=Quiet)
    share: Share | None = None  # how a job is divided among processes; None = this one does it all

    def __post_init__(self) -> None:
        if not self.device:
            object.__setattr__(self, "device", str(getattr(self.adapter, "device", "cpu")))

    @classmethod
    def of(
        cls,
        adapter: ModelAdapter,
        protocol: str = "released",
        *,
        compile: bool = False,
        cache: bool = True,
        **settings: Any,
    ) -> Session:
        """A session of the adapter as `protocol` has it. `cache`: keep embeddings in the user's cache, where the
        card has a hash to keep them by; otherwise they last as long as the session. `settings`: the class's fields.
        """
        if isinstance(adapter, ProtocolAware):
            adapter = adapter.under(protocol)
        if compile:
            adapter = Compiled.of(adapter)
        store = EmbeddingStore() if cache and adapter.card.sha256 else MemoryStore()
        return cls(adapter, store, **settings)

    @classmethod
    def open(
        cls,
        model: str | Path | tuple[str | Path | None, ...] | ModelReference,
        *,
        protocol: str = "released",
        device: str = "auto",
        dtype: str = "float32",
        offline: bool = False,
        **settings: Any,
    ) -> Session:
        """Load a model, as a user calls it, and open a session of it; `settings` as `of` takes them.

        Raises what `hierbench.load_model` raises, and UsageError for a device that is not here.
        """
        device = resolve_device(device)
        adapter = ModelReference.of(model).load(device, dtype, offline)
        return cls.of(adapter, protocol, device=device, **settings)

    @property
    def card(self) -> ModelCard:
        return self.adapter.card

    @property
    def geometry(self) -> Geometry:
        return self.adapter.geometry

    def embed(self, dataset: Dataset, requests: EmbeddingRequests, fit: Fit) -> Embeddings:
        """Tangent features of the requested image ids of `dataset` and of the requested strings, all finite.

        Same inputs, batch size and device give the same bits. Raises DataError for an image that cannot be read,
        EncodingError for features of another shape than the card says or that are not finite, naming the first
        such image or string.
        """
        return self.finish(dataset, self.look_up(dataset, requests, fit))[0]

    def look_up(
        self,
        dataset: Dataset,
        requests: EmbeddingRequests,
        fit: Fit,
        contents: dict[str, bytes] | None = None,
    ) -> Work:
        """What the store knows of a request. `contents`: content ids of the dataset's images, as far as known."""
        return encoding.prepare(self, dataset, requests, fit, contents if contents is not None else {})

    def finish(self, dataset: Dataset, work: Work) -> tuple[Embeddings, dict[str, int]]:
        """The embeddings, and how many images and texts had to be encoded for them. Raises as `embed`."""
        job = work.job(self.batch_size or default_batch_size(self.device))
        if self.share is not None and (job.images or job.texts):
            features = self.share(dataset.name, job, lambda part: self.encode(dataset, part))
        else:
            features = self.encode(dataset, job)
        encoded = {"images": sum(map(len, job.images)), "texts": sum(map(len, job.texts))}
        return work.complete(job, *features), encoded

    def encode(self, dataset: Dataset, job: Job) -> Features:
        """A job's features, (images, D) and (texts, D) float32, by this process. Raises as `embed`."""
        return encoding.encode(self, dataset, job)


@dataclass(frozen=True)
class Compiled:
    """An adapter whose image encoder is compiled; the given one stays as it is."""

    adapter: ModelAdapter
    card: ModelCard
    encode_images: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, adapter: ModelAdapter) -> Compiled:
        card = dataclasses.replace(adapter.card, dtype=f"{adapter.card.dtype}, compiled")  # other bits
        return cls(adapter, card, torch.compile(adapter.encode_images))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.adapter, name)
