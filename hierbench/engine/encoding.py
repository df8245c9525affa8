"""From ids and strings to tangent features: look in the store, encode what is missing, check it, keep it.

Encoding is what an evaluation costs. Images are read, decoded and brought to size in worker processes while
the model works on the batch before; every content is encoded once, whatever it is called; what is encoded
goes to the store every few seconds, so that a killed run goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate
from torch.utils.data import Dataset as TorchDataset

from hierbench.contracts import (
    Dataset,
    EmbeddingRequests,
    Embeddings,
    Fit,
    ModelAdapter,
    ModelCard,
)
from hierbench.data.images import decode
from hierbench.engine.contents import content_id, content_ids, cores
from hierbench.engine.store import EmbeddingStore
from hierbench.errors import EncodingError, HierbenchError, explained

if TYPE_CHECKING:
    from hierbench.engine.session import Session

Features = tuple[np.ndarray, np.ndarray]  # of a job: (images, D) and (texts, D), float32

log = logging.getLogger(__name__)

TEXTS_AT_ONCE = 1024  # sorted strings handed to an adapter together
FLUSH_SECONDS = 20.0  # what a killed run may lose …
FLUSH_ROWS = 8192  # … at most
AHEAD = 2  # batches that each worker process prepares in advance


# --------------------------------------------------------------------------------- what there is to encode


@dataclass(frozen=True)
class Job:
    """Whole batches to encode: cut once, so that several processes sharing them give the bits of one."""

    fit: Fit
    images: tuple[tuple[tuple[str, bytes], ...], ...]  # batches of (image id, content id)
    texts: tuple[tuple[str, ...], ...]  # batches of strings

    def part(self, number: int, of: int) -> Job:
        """Every `of`-th batch, from batch `number` on."""
        return Job(self.fit, self.images[number::of], self.texts[number::of])


@dataclass(frozen=True)
class Work:
    """A request with what the store knew of it. Rows that are still unknown are zero."""

    requests: EmbeddingRequests
    fit: Fit
    image_contents: list[bytes]  # content id of each requested image
    text_contents: list[bytes]
    image_features: np.ndarray  # (images, D) float32
    text_features: np.ndarray  # (texts, D) float32
    image_known: np.ndarray  # (images,) bool
    text_known: np.ndarray  # (texts,) bool

    @property
    def missing_images(self) -> dict[bytes, str]:
        """Content -> the first image id that has it, for every content to encode."""
        missing: dict[bytes, str] = {}
        for row in np.flatnonzero(~self.image_known):
            missing.setdefault(self.image_contents[row], self.requests.images[row])
        return missing

    @property
    def missing_texts(self) -> list[str]:
        """Strings to encode, sorted, so that common beginnings are neighbours."""
        return sorted({self.requests.texts[row] for row in np.flatnonzero(~self.text_known)})

    def job(self, batch_size: int) -> Job:
        """What is missing, in batches."""
        images = [(image_id, content) for content, image_id in self.missing_images.items()]
        return Job(self.fit, _batches(images, batch_size), _batches(self.missing_texts, TEXTS_AT_ONCE))

    def complete(self, job: Job, image_features: np.ndarray, text_features: np.ndarray) -> Embeddings:
        """The embeddings, given the job's features in the order of its batches."""
        images = [content for batch in job.images for _, content in batch]
        texts = [content_id(text) for batch in job.texts for text in batch]
        _fill(self.image_features, self.image_known, self.image_contents, images, image_features)
        _fill(self.text_features, self.text_known, self.text_contents, texts, text_features)
        return Embeddings(
            self.requests, torch.from_numpy(self.image_features), torch.from_numpy(self.text_features)
        )


def prepare(
    session: Session, dataset: Dataset, requests: EmbeddingRequests, fit: Fit, contents: dict[str, bytes]
) -> Work:
    """Look up a request in the session's store. `contents`: content ids of the dataset's images, as far as known."""
    image_contents = content_ids(dataset, requests.images, contents, session.progress)
    text_contents = [content_id(text) for text in requests.texts]
    found = []
    sections = _sections(session, fit)
    for section, wanted in zip(sections, (image_contents, text_contents), strict=True):
        if section is None:
            shape = (len(wanted), session.card.embedding_dim)
            found.append((np.zeros(shape, np.float32), np.zeros(len(wanted), bool)))
        else:
            found.append(section.get(wanted))
    (images, image_known), (texts, text_known) = found
    return Work(requests, fit, image_contents, text_contents, images, texts, image_known, text_known)


# ---------------------------------------------------------------------------------------------- encoding


def encode(session: Session, dataset: Dataset, job: Job) -> Features:
    """Encode a job -> (images, D) and (texts, D) float32, in the order of its batches; keeps them in the store.

    Raises as `Session.embed`; what was encoded until then is in the store.
    """
    adapter, card, progress = session.adapter, session.card, session.progress
    image_section, text_section = _sections(session, job.fit)
    image_ids = [[image_id for image_id, _ in batch] for batch in job.images]
    with (
        progress.bar(f"{card.name}: images", sum(map(len, image_ids))) as advance,
        contextlib.closing(_pixels(session, dataset, job)) as pixels,  # ends its processes
    ):
        stream = _stream(pixels, adapter.encode_images, image_ids, card, "image")
        contents = [[content for _, content in batch] for batch in job.images]
        images = _collect(stream, image_ids, contents, card, image_section, advance)
    with progress.bar(f"{card.name}: texts", sum(map(len, job.texts))) as advance:
        stream = _stream(map(list, job.texts), adapter.encode_texts, job.texts, card, "text")
        contents = [[content_id(text) for text in batch] for batch in job.texts]
        texts = _collect(stream, job.texts, contents, card, text_section, advance)
    return images, texts


def _stream(
    batches: Iterable[Any],
    encode: Callable[[Any], Tensor],
    names: Sequence[Sequence[str]],
    card: ModelCard,
    what: str,
) -> Iterator[np.ndarray]:
    """(b, D) float32 features of each batch, one batch behind: a GPU has the next to work on already."""
    waiting = None
    for batch, labels in zip(batches, names, strict=True):
        try:
            started = _start(batch, encode, labels, card, what)
        except Exception:
            if waiting:  # what came before the failure is good
                yield waiting()
            raise
        if waiting:
            yield waiting()
        waiting = started
    if waiting:
        yield waiting()


def _start(
    batch: Any, encode: Callable[[Any], Tensor], labels: Sequence[str], card: ModelCard, what: str
) -> Callable[[], np.ndarray]:
    """Set the model to work on a batch; returns a function that waits for the features and checks them."""
    if isinstance(batch, Exception):  # a worker's
        raise batch
    with torch.inference_mode(), full_float32():
        try:
            features = encode(batch)
        except torch.OutOfMemoryError as error:
            advice = (
                f"use --batch-size {max(1, len(labels) // 2)}" if what == "image" else "free memory there"
            )
            raise EncodingError(
                f"{card.name}: out of memory at {len(labels)} {what}s a batch: {advice}"
            ) from error
        except HierbenchError:
            raise
        except Exception as error:
            raise EncodingError(f"{card.name}: encode_{what}s failed: {explained(error)}") from error
        promised = (len(labels), card.embedding_dim)
        if not isinstance(features, Tensor) or features.shape != promised:
            got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise EncodingError(
                f"{card.name}: encode_{what}s returned {got} for {len(labels)} {what}s, the card promises {promised}"
            )
        on_gpu = features.is_cuda
        host = features.detach().float().to("cpu", non_blocking=on_gpu)
        copied = torch.cuda.Event() if on_gpu else None
        if copied:
            copied.record()

    def finish() -> np.ndarray:
        if copied:
            copied.synchronize()
        rows = host.numpy()
        if not np.isfinite(rows).all():
            first = labels[int(np.flatnonzero(~np.isfinite(rows).all(1))[0])]
            raise EncodingError(
                f"{card.name}: the embedding of {what} {_short(first)} holds NaN or infinite values"
            )
        return rows

    return finish


def _collect(
    stream: Iterator[np.ndarray],
    labels: Sequence[Sequence[str]],
    contents: Sequence[Sequence[bytes]],
    card: ModelCard,
    section: Any,
    advance: Callable[[int], None],
) -> np.ndarray:
    """All features of a stream, (n, D); on the way they go to the store."""
    features = np.empty((sum(map(len, labels)), card.embedding_dim), np.float32)
    done = 0
    with _Shards(section) as shards:
        for rows, names, ids in zip(stream, labels, contents, strict=True):
            features[done : done + len(rows)] = rows
            done += len(rows)
            shards.add(ids, names, rows)
            advance(len(rows))
    return features


class _Shards:
    """Passes rows on to a section of the store every few seconds, and when the work ends, however it ends."""

    def __init__(self, section: Any):
        self.section = section
        self._reset()

    def add(self, ids: Sequence[bytes], labels: Sequence[str], rows: np.ndarray) -> None:
        self.ids += ids
        self.labels += labels
        self.rows.append(rows)
        if len(self.ids) >= FLUSH_ROWS or time.monotonic() - self.since >= FLUSH_SECONDS:
            self._flush()

    def __enter__(self) -> _Shards:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()

    def _flush(self) -> None:
        if self.section is not None and self.ids:
            try:
                self.section.put(self.ids, self.labels, np.concatenate(self.rows))
            except (
                OSError
            ) as error:  # a full disk or a read-only cache: slower next time, but no reason to stop
                log.warning(
                    f"embeddings are not kept: cannot write {self.section.folder}: {error.strerror or error}"
                )
                self.section = None
        self._reset()

    def _reset(self) -> None:
        self.ids: list[bytes] = []
        self.labels: list[str] = []
        self.rows: list[np.ndarray] = []
        self.since = time.monotonic()


# ------------------------------------------------------------------------------------------------ pixels


class _PixelBatches(TorchDataset):
    """Batch i read, decoded and brought to size: a (b, 3, H, W) tensor, or the exception that prevents it.

    Exceptions are handed over as values: raised in a worker, they would arrive wrapped in its traceback.
    """

    def __init__(self, adapter: ModelAdapter, dataset: Dataset, job: Job):
        self.adapter, self.dataset, self.job = adapter, dataset, job

    def __len__(self) -> int:
        return len(self.job.images)

    def __getitem__(self, number: int) -> Tensor | Exception:
        image_id = None
        try:
            pixels = []
            for image_id, _ in self.job.images[number]:
                where = f"{image_id} of {self.dataset.name}"
                image = decode(self.dataset.images.read(image_id), where)
                pixels.append(self.adapter.preprocess(image, self.job.fit))
            return default_collate(pixels)  # a stack, in a worker made in shared memory at once
        except HierbenchError as error:
            return error.with_traceback(None)
        except Exception as error:
            name = self.adapter.card.name
            failure = EncodingError(f"{name}: image {image_id} cannot be preprocessed: {explained(error)}")
            failure.add_note(traceback.format_exc())
            return failure


def _pixels(session: Session, dataset: Dataset, job: Job) -> Generator[Tensor | Exception]:
    """The job's pixel batches in order, prepared ahead by worker processes, on the GPU where there is one."""
    adapter, device = session.adapter, session.device
    workers = _workers(adapter.card, job, device, session.workers)
    on_gpu = device.startswith("cuda")
    loader = DataLoader(
        _PixelBatches(adapter, dataset, job),
        batch_size=None,
        collate_fn=_as_it_is,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,  # adapters need not be picklable
        prefetch_factor=AHEAD if workers else None,
        pin_memory=on_gpu,
        generator=torch.Generator(),  # leaves the global one alone
    )
    for pixels in loader:
        yield pixels.to(device, non_blocking=True) if on_gpu and isinstance(pixels, Tensor) else pixels


def _workers(card: ModelCard, job: Job, device: str, asked: int | None) -> int:
    """How many worker processes prepare images; none where a single batch is to be made, or without fork.

    Fewer than asked for where /dev/shm, through which pixels travel, is small.
    """
    if not sys.platform.startswith("linux") or len(job.images) < 2:
        return 0
    if asked is None:
        asked = min(16, cores()) if device.startswith("cuda") else max(1, cores() // 2)
    asked = min(asked, len(job.images))
    batch_bytes = len(job.images[0]) * 3 * card.image_size**2 * 4
    shared = Path("/dev/shm")
    room = shutil.disk_usage(shared).free // (2 * AHEAD * batch_bytes) if shared.is_dir() else 0
    if room < asked:
        log.warning(
            f"/dev/shm has room for the batches of {room} of {asked} worker processes: "
            "images are prepared more slowly (docker run --shm-size, or a smaller --batch-size)"
        )
    return min(asked, room)


# ------------------------------------------------------------------------------------------------ shared


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """float32 is float32: convolutions on CUDA would use TF32 by default."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def _sections(session: Session, fit: Fit) -> tuple[Any, Any]:
    """The store's sections of images and of texts; None where nothing is kept."""
    store, card = session.store, session.card
    if store is None or (card.sha256 is None and isinstance(store, EmbeddingStore)):
        return None, None
    kind = session.device.partition(":")[0]
    return store.section(card, fit, kind), store.section(card, "text", kind)


def _fill(
    features: np.ndarray, known: np.ndarray, wanted: list[bytes], contents: list[bytes], encoded: np.ndarray
) -> None:
    """Put encoded rows where they are wanted."""
    row_of = {content: row for row, content in enumerate(contents)}
    places = np.flatnonzero(~known)
    features[places] = encoded[[row_of[wanted[place]] for place in places]]


def _batches(items: Sequence[Any], size: int) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(items[start : start + size]) for start in range(0, len(items), size))


def _as_it_is(item: Any) -> Any:
    return item


def _short(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "…")
