"""An account of training shards: how many samples and boxes they hold, beside what is public of GRIT.

Reads the archives' headers and texts, not the images: a damaged image is found, and counted, when it is trained on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hierbench.errors import DataError, UsageError
from hierbench.pool import each
from hierbench.progress import Progress, choose
from hierbench.reference.training.remote import is_remote
from hierbench.reference.training.shards import parse_grit, told_samples

PUBLISHED = {"shards": 2_051, "samples": 13_149_251, "boxes": 25_185_017, "one": 0.4068}
"""Of GRIT as HyCoCLIP's authors processed it; `one` is the share of samples with one box."""


@dataclass(frozen=True)
class Account:
    """What prepared shards hold. `by_boxes`: number of boxes -> samples; `unusable`: reason -> how many."""

    shards: int
    by_boxes: dict[int, int]
    unusable: dict[str, int]
    damaged: tuple[str, ...]

    @property
    def samples(self) -> int:
        """Usable samples: training without boxes sees all, training with boxes those that have one."""
        return sum(self.by_boxes.values())

    @property
    def boxes(self) -> int:
        """Boxes of all usable samples."""
        return sum(boxes * samples for boxes, samples in self.by_boxes.items())

    def rows(self) -> list[dict[str, Any]]:
        """The account as a table: what, here, published (of the whole corpus)."""
        one, none = self.by_boxes.get(1, 0), self.by_boxes.get(0, 0)
        mean = PUBLISHED["boxes"] / PUBLISHED["samples"]
        rows = [
            ("shards", f"{self.shards:,}", f"{PUBLISHED['shards']:,}"),
            ("samples", f"{self.samples:,}", f"{PUBLISHED['samples']:,}"),
            ("boxes", f"{self.boxes:,}", f"{PUBLISHED['boxes']:,}"),
            ("boxes a sample", f"{self.boxes / self.samples:.3f}" if self.samples else "", f"{mean:.3f}"),
            (
                "samples with one box",
                f"{one / self.samples:.2%}" if self.samples else "",
                f"{PUBLISHED['one']:.2%}",
            ),
            ("samples without a box", f"{none:,}", ""),
            *((f"unusable: {reason}", f"{count:,}", "") for reason, count in sorted(self.unusable.items())),
        ]
        return [{"what": what, "here": here, "published": published} for what, here, published in rows]


def count(shards: Sequence[str], *, workers: int = 0, progress: Progress | bool | None = None) -> Account:
    """Count the samples and boxes of prepared shards (files), in so many processes.

    Raises UsageError for URLs, DataError where no shard holds a usable sample.
    """
    for shard in shards:
        if is_remote(shard):
            raise UsageError(f"{shard}: shards are counted on disk, fetch them first")
    by_boxes: Counter[int] = Counter()
    unusable: Counter[str] = Counter()
    damaged = []
    with choose(progress).bar("shards", len(shards)) as advance:
        for shard, samples, faults in each(
            _count, shards, workers, "run the command again, with fewer --workers"
        ):
            by_boxes.update(samples)
            unusable.update(faults)
            if faults["damaged shard"] or faults["damaged member"]:
                damaged.append(shard)
            advance(1)
    if not by_boxes:
        raise DataError(
            f"no usable sample in {len(shards)} shard(s) such as {shards[0]}: {dict(unusable) or 'empty'}"
        )
    return Account(len(shards), dict(sorted(by_boxes.items())), dict(unusable), tuple(sorted(damaged)))


def _count(shard: str) -> tuple[str, Counter[int], Counter[str]]:
    tally: Counter[str] = Counter()
    return shard, Counter(len(sample.parts) for sample in told_samples(shard, parse_grit, tally)), tally
