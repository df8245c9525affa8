"""Training batches: samples drawn, augmented, tokenised and packed in worker processes, in an order that can resume.

Step s of a run always holds the same samples with the same augmentation, whatever happened before: what a step takes
of shards is cut into as many shares as the run had processes when it began, each share is made by its reader `s mod
workers`, and a resumed run starts every reader where it stood. Another number of processes later shares the same rows
out otherwise: each takes of every share the rows that are its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from hierbench.data.images import Enough, decode
from hierbench.errors import DataError, HierbenchError, one_line
from hierbench.reference.packing import Pack, pack
from hierbench.reference.schema import DataConfig
from hierbench.reference.tokenizer import tokenize
from hierbench.reference.training.augment import Augment
from hierbench.reference.training.scenes import draw_showing
from hierbench.reference.training.shards import (
    RawSample,
    Stream,
    find_shards,
    parse_grit,
    parse_pair,
    read_stream,
    shuffled,
)

if TYPE_CHECKING:
    from hierbench.miniature.datasets import TrainingSample

MAX_DAMAGED_IN_A_ROW = 1000


@dataclass(frozen=True)
class TrainingBatch:
    """What one process trains on in one step: b samples with P part slots each.

    The parts stand behind the b whole images and captions, slot after slot: part p of sample i is row b + p·b + i, and
    where slots are empty, which hold nothing to encode, `places` says where the features of each row lie.
    """

    pixels: Tensor  # (R, 3, H, W) uint8: R = b·(1 + P) less the empty slots
    texts: tuple[Pack, ...]  # of R captions; several, about alike, where the step is cut into micro-batches
    part_valid: Tensor | None  # (b, P) bool
    # (b·(1 + P),) int64: which of the R each row is, an empty slot its whole item; None = no slot is empty
    places: Tensor | None = None
    skipped: Counter = field(default_factory=Counter)  # what could not be used since the readers' last batch
    consumed: dict[int, int] = field(
        default_factory=dict
    )  # reader -> raw samples it had read after this batch
    text_lengths: tuple[int, ...] = ()  # tokens of each caption and phrase, for the count of operations

    def pin_memory(self) -> TrainingBatch:
        """The batch in pinned memory, which a device copies without waiting: DataLoader asks for it by this name."""
        valid, places = self.part_valid, self.places
        return replace(
            self,
            pixels=self.pixels.pin_memory(),
            texts=tuple(texts.pin_memory() for texts in self.texts),
            part_valid=None if valid is None else valid.pin_memory(),
            places=None if places is None else places.pin_memory(),
        )

    def to(self, device: torch.device) -> TrainingBatch:
        """The batch on `device`, copied without waiting."""
        valid, places = self.part_valid, self.places
        return replace(
            self,
            pixels=self.pixels.to(device, non_blocking=True),
            texts=tuple(texts.to(device) for texts in self.texts),
            part_valid=None if valid is None else valid.to(device, non_blocking=True),
            places=None if places is None else places.to(device, non_blocking=True),
        )

    def spread(self, features: Tensor) -> Tensor:
        """(R, D) features of what was encoded -> (b·(1 + P), D) of all rows. Those of empty slots are masked later."""
        return features if self.places is None else features.index_select(0, self.places)


@dataclass(frozen=True)
class Drawn:
    """One sample after its random choices: an image, a caption, up to P parts."""

    image: Image.Image
    caption: str
    parts: tuple[tuple[Image.Image, str], ...]
    seed: int  # of its augmentation


@dataclass(frozen=True)
class Piece:
    """The rows of a share of a step's samples that belong to one process."""

    share: int
    rows: slice


def pieces(rank: int, world: int, shares: int, batch: int) -> list[Piece]:
    """What process `rank` of `world` takes of a step's `batch` samples, which lie in `shares` equal shares one after
    another: as many consecutive rows as every process, with the shares that they lie in. Both numbers divide `batch`.
    """
    rows, size = batch // world, batch // shares
    first, end = rank * rows, (rank + 1) * rows
    return [
        Piece(share, slice(max(first - share * size, 0), min(end - share * size, size)))
        for share in range(first // size, -(-end // size))
    ]


class Batches(IterableDataset):
    """Endless TrainingBatches of one process, of `rows` samples each, from step `start` on.

    `pack_step`: what texts are padded to a multiple of (`packing.pack`).
    `consumed` says how many raw samples each reader of shards had read when the run was interrupted; `shares`, in how
    many shares its steps are read: as many as it had processes when it began, by default `world`.
    """

    def __init__(
        self,
        config: DataConfig,
        *,
        image_size: int,
        rows: int,
        micro_batch: int | None = None,
        pack_step: int = 1,
        rank: int = 0,
        world: int = 1,
        shares: int | None = None,
        seed: int = 0,
        start: int = 0,
        consumed: Mapping[int, int] | None = None,
    ):
        self.config, self.rows, self.seed, self.start = config, rows, seed, start
        self.micro_batch, self.pack_step = micro_batch, pack_step
        self.rank, self.world, self.consumed = rank, world, dict(consumed or {})
        self.shares = shares or world
        self.augment = Augment(config, image_size)
        self.image_size = image_size
        self.shards = find_shards(config.shards) if config.kind != "miniature" and config.shards else None

    def __iter__(self) -> Iterator[TrainingBatch]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        if self.shards is None:
            samples = self._miniature(self.start + worker, workers)
            while True:
                yield self._collate(list(islice(samples, self.rows)))
        # readers keep their identity over resumes
        yield from self._of_shards(self.shards, (self.start + worker) % workers, workers)

    def _of_shards(self, shards: Sequence[str], worker: int, workers: int) -> Iterator[TrainingBatch]:
        """Batches of every `workers`-th step: of each share that this process takes rows of, its reader `worker`.

        A share is read whole by every process that takes some of its rows: which samples of it can be used is known
        only then.
        """
        size = self.rows * self.world // self.shares
        mine = pieces(self.rank, self.world, self.shares, self.rows * self.world)
        readers = []
        for piece in mine:
            stream, tally = Stream(worker + piece.share * workers, self.shares * workers), Counter[str]()
            readers.append((piece, stream.index, self._from_shards(shards, stream, tally), tally))
        while True:
            samples: list[Drawn] = []
            consumed, skipped = {}, Counter[str]()
            for piece, reader, given, tally in readers:
                taken = list(islice(given, size))
                samples += [sample for _, sample in taken[piece.rows]]
                consumed[reader] = taken[-1][0]
                if piece.rows.start == 0:  # of those that share it one counts
                    skipped += tally
                tally.clear()
            yield replace(self._collate(samples), consumed=consumed, skipped=skipped)

    # ------------------------------------------------------------------------------------------------ sources

    def _miniature(self, step: int, workers: int) -> Iterator[Drawn]:
        from hierbench.miniature import TRAINING_SAMPLES, training_sample

        while True:
            full = 1 - step / self.config.full_caption_steps if self.config.full_caption_steps else 0.0
            first = (step * self.world + self.rank) * self.rows
            for position in range(first, first + self.rows):
                epoch, place = divmod(position, TRAINING_SAMPLES)
                index = int(_permutation(TRAINING_SAMPLES, self.seed, epoch)[place])
                draw = random.Random(f"{self.seed}:{position}")
                yield self._draw_miniature(training_sample(index), draw, full)
            step += workers

    def _draw_miniature(self, sample: TrainingSample, draw: random.Random, full_share: float) -> Drawn:
        showing = draw_showing(sample, draw, self.config, full_share)
        pixels = sample.pixels if showing.close_up is None else sample.crop(showing.close_up)
        parts = tuple((Image.fromarray(sample.crop(at)), phrase.text) for at, phrase in showing.parts)
        return Drawn(Image.fromarray(pixels), showing.caption.text, parts, draw.getrandbits(62))

    def _from_shards(
        self, shards: Sequence[str], stream: Stream, tally: Counter
    ) -> Iterator[tuple[int, Drawn]]:
        """Samples with the number of raw samples read up to each, damaged ones skipped and counted."""
        parse = parse_grit if self.config.kind == "grit" else parse_pair
        raw = read_stream(shards, stream, parse, seed=self.seed, tally=tally)
        raw = shuffled(raw, self.config.shuffle_buffer, self.seed * 1_000_003 + stream.index)
        begin = self.consumed.get(stream.index, 0)
        for _ in islice(raw, begin):
            pass
        tally.clear()  # what was skipped on the way is counted already
        damaged = 0
        for position, sample in enumerate(raw, begin):
            drawn = self._draw_raw(sample, random.Random(f"{self.seed}:{stream.index}:{position}"), tally)
            if drawn is not None:
                damaged = 0
                yield position + 1, drawn
                continue
            damaged += 1
            if damaged > MAX_DAMAGED_IN_A_ROW:
                raise DataError(f"{damaged} unusable samples in a row in {self.config.shards}: {dict(tally)}")

    def _draw_raw(self, sample: RawSample, draw: random.Random, tally: Counter) -> Drawn | None:
        enough = self.augment.enough if self.config.draft else None
        image = _decoded(sample.image, tally, "damaged image", enough)
        if image is None:
            return None
        chosen = draw.sample(sample.parts, len(sample.parts)) if self.config.boxes else ()
        parts: list[tuple[Image.Image, str]] = []
        for content, phrase in chosen:
            if len(parts) == self.config.boxes:
                break
            part = _decoded(content, tally, "damaged box", enough)
            if part is not None:
                parts.append((part, phrase))
        if self.config.boxes and not parts:
            tally["no usable box"] += 1
            return None
        return Drawn(image, sample.caption, tuple(parts), draw.getrandbits(62))

    # ------------------------------------------------------------------------------------------------ batches

    def _collate(self, samples: list[Drawn]) -> TrainingBatch:
        slots = self.config.boxes
        images = [self.augment(sample.image, sample.seed) for sample in samples]
        captions = [sample.caption for sample in samples]
        valid = torch.zeros(len(samples), slots, dtype=torch.bool)
        for slot in range(slots):
            for row, sample in enumerate(samples):
                if slot < len(sample.parts):
                    image, phrase = sample.parts[slot]
                    images.append(self.augment(image, sample.seed + slot + 1))
                    captions.append(phrase)
                    valid[row, slot] = True
        tokens = tokenize(captions)
        pieces = -(-self.rows // (self.micro_batch or self.rows))  # in every process as many
        texts = tuple(pack(tokens[run], step=self.pack_step) for run in runs(len(tokens), pieces))
        return TrainingBatch(
            torch.stack(images),
            texts,
            valid if slots else None,
            places_of(valid),
            text_lengths=tuple(map(len, tokens)),
        )


def runs(count: int, pieces: int) -> list[slice]:
    """`count` rows cut into so many runs of about as many rows each, as `Tensor.tensor_split` cuts them."""
    size, longer = divmod(count, pieces)
    starts = [index * size + min(index, longer) for index in range(pieces + 1)]
    return [slice(start, end) for start, end in pairwise(starts)]


def places_of(valid: Tensor) -> Tensor | None:
    """(b, P) bool, which part slots are filled -> the `places` of a TrainingBatch."""
    if valid.all():
        return None
    filled = valid.T.flatten()  # slot after slot
    whole = torch.arange(len(valid))
    behind = len(valid) - 1 + filled.cumsum(0)
    return torch.cat([whole, torch.where(filled, behind, whole.repeat(valid.shape[1]))])


def loader(batches: Batches, workers: int, device: torch.device) -> Iterator[TrainingBatch]:
    """The batches through worker processes, a few prepared ahead.

    Raises DataError, with a worker's own message where it met bad data or cannot read on.
    """
    prepared = DataLoader(
        _Told(batches),
        batch_size=None,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        prefetch_factor=4 if workers else None,
    )
    try:
        for batch in prepared:
            if isinstance(batch, str):
                raise DataError(batch)
            yield batch
    except RuntimeError as error:
        if not (workers and str(error).startswith(("DataLoader worker", "unable to", "Pin memory thread"))):
            raise
        raise DataError(
            f"a data worker has ended ({one_line(error, 120)}), perhaps for want of memory: "
            "lower data.workers or data.shuffle_buffer"
        ) from error


class _Told(IterableDataset):
    """Batches, and in place of an error that the user can mend its message: DataLoader would add a traceback to it."""

    def __init__(self, batches: Batches):
        self.batches = batches

    def __iter__(self) -> Iterator[TrainingBatch | str]:
        try:
            yield from self.batches
        except HierbenchError as error:
            yield one_line(error)
        except OSError as error:
            yield f"training data cannot be read: {error.filename or ''}: {error.strerror or error}"


def _decoded(content: bytes, tally: Counter, fault: str, enough: Enough | None) -> Image.Image | None:
    try:
        return decode(content, fault, enough)
    except DataError:
        tally[fault] += 1
        return None


_permutations: dict[tuple[int, int, int], np.ndarray] = {}


def _permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    """The order of an epoch's samples; the last one used is kept."""
    key = (count, seed, epoch)
    if key not in _permutations:
        _permutations.clear()
        _permutations[key] = np.random.Generator(np.random.PCG64([seed, epoch])).permutation(count)
    return _permutations[key]
