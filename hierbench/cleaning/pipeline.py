"""The cleaning from end to end: ask stage by stage, select, write. Several processes may share the asking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hierbench.cleaning import select
from hierbench.cleaning.backends.yes_no import ENOUGH
from hierbench.cleaning.roles import Cast
from hierbench.cleaning.select import Decision, Findings, Negative, Rules
from hierbench.cleaning.sources import LEVELS, Source, check_apart
from hierbench.cleaning.stages import CHUNK, Asking, Batch, Item, neighbours
from hierbench.data.images import decode
from hierbench.errors import UsageError
from hierbench.progress import Progress, Quiet

ANSWERS = "answers"  # folder of the answers in an output folder
TOP_CAPTIONS, TOP_IMAGES = 20, 3


@dataclass(frozen=True)
class Outcome:
    """Everything that a finished cleaning knows."""

    source: Source
    rules: Rules
    asked: dict[str, Batch]  # verify, order, images, captions, rerank, follows, implies
    findings: Findings
    decisions: tuple[Decision, ...]
    pool: tuple[Negative, ...]
    top_captions: int
    top_images: int
    identities: dict[str, dict]  # role -> identity

    @property
    def kept(self) -> list[bool]:
        return [decision.kept for decision in self.decisions]

    @property
    def neither(self) -> dict[str, Any] | None:
        """How many of the verifier's answers were neither yes nor no, and the least share of probability on the two.

        Over the answers whose share is known; None where the verifier does not say (an oracle, an adapter).
        """
        shares: dict[bytes, float] = {}
        for stage in ("verify", "order", "follows", "implies"):
            batch = self.asked[stage]
            told = zip(batch.items, batch.shares().tolist(), strict=True)
            shares |= {item.key: share for item, share in told if not math.isnan(share)}
        if not shares:
            return None
        few = sum(share < ENOUGH for share in shares.values())
        return {"of": len(shares), "answers": few, "lowest_share": min(shares.values())}


@dataclass(frozen=True)
class Waiting:
    """Other shards have not answered yet: what is missing, by stage."""

    stage: str
    missing: int


@dataclass(frozen=True)
class Estimate:
    """What a stage would still ask."""

    stage: str
    role: str
    calls: int  # answers needed in all; `at_most` where the stage before decides
    missing: int
    at_most: bool
    seconds: float | None  # None: nobody has measured how quick the answers come


def clean(
    source: Source,
    cast: Cast,
    rules: Rules,
    out: Path,
    *,
    shard: tuple[int, int] = (0, 1),
    top_captions: int = TOP_CAPTIONS,
    top_images: int = TOP_IMAGES,
    chunk: int = CHUNK,
    progress: Progress | None = None,
    team: Team | None = None,
) -> Outcome | Waiting:
    """Ask what is missing and select; `Waiting` where a stage needs answers of other shards. Nothing is written but
    answers, in `out`/answers: `hierbench.cleaning.output.write` writes the rest.

    `shard` (number, of): which share of the items to ask. `team`: the processes that share the work meet after each
    stage. Raises DataError, UsageError (rules that keep nothing), EncodingError, OutputError, and what roles raise;
    what was answered until then is kept.
    """
    check_apart(source, Path(out))
    progress, team = progress or Quiet(), team or Alone()
    asking = Asking(source, cast, Path(out) / ANSWERS, top_captions, top_images)

    def answered(stage: str, *batches: Batch) -> Waiting | None:
        for batch in batches:
            batch.ask(shard, progress, chunk)
        team.meet()
        asking.refresh()
        missing = sum(len(batch.missing) for batch in batches)
        return Waiting(stage, missing) if missing else None

    seen, told = asking.verify()
    images, captions = asking.embed()
    _check_readable(source, images.share(shard), progress)
    waiting = answered("verify", seen, told)
    waiting = answered("embed", images, captions) or waiting  # both are asked before anyone waits
    if waiting:
        return waiting
    verify = seen.values().reshape(-1, LEVELS)
    near = neighbours(source, images.values(), captions.values(), top_captions, top_images)
    rerank = asking.rerank(zip(near.image.tolist(), near.caption.tolist(), strict=True))
    if waiting := answered("rerank", rerank):
        return waiting
    pairs = select.to_relate(source, verify, near, rerank.values())
    finest = source.chains[:, -1]
    follows = asking.relate((s, int(finest[s]), c) for s, c in pairs)
    implies = asking.relate((s, c, int(finest[s])) for s, c in pairs)
    if waiting := answered("relate", follows, implies):
        return waiting
    general = follows.values() * (1 - implies.values())
    findings = Findings(
        verify=verify,
        order=told.values().reshape(-1, LEVELS - 1),
        neighbours=near,
        relevance=rerank.values(),
        more_general=dict(zip(pairs, general.tolist(), strict=True)),
    )
    decisions = select.decide(source, findings, rules)
    pool = select.negatives(source, findings, [d.kept for d in decisions], rules)
    names = ("verifier", "embedder", "reranker")
    return Outcome(
        source=source,
        rules=rules,
        asked={
            "verify": seen, "order": told, "images": images, "captions": captions, "rerank": rerank,
            "follows": follows, "implies": implies,
        },
        findings=findings,
        decisions=tuple(decisions),
        pool=tuple(pool),
        top_captions=top_captions,
        top_images=top_images,
        identities={name: dict(getattr(cast, name).identity) for name in names},
    )  # fmt: skip


def _check_readable(source: Source, items: Sequence[Item], progress: Progress) -> None:
    """Decode what a model is about to see, so that a damaged image is told by name before any model is loaded."""
    with progress.bar("read: images", len(items)) as advance:
        for item in items:
            decode(item.build(), f"{source.dataset.images.ids[item.group]} of {source.dataset.name}")
            advance(1)


def estimate(
    source: Source,
    cast: Cast,
    out: Path,
    *,
    top_captions: int = TOP_CAPTIONS,
    top_images: int = TOP_IMAGES,
    probe: int = 0,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Estimate]:
    """What `clean` would still ask, stage by stage, and how long that takes at the pace of earlier answers.

    `probe`: ask so many missing items of every kind first (and keep the answers), to measure the pace. How many pairs
    are reranked is known within bounds, how many captions are related only at most.
    """
    check_apart(source, Path(out))
    asking = Asking(source, cast, Path(out) / ANSWERS, top_captions, top_images)
    seen, told = asking.verify()
    images, captions = asking.embed()
    known = images.missing == [] == captions.missing
    if known:  # then it is known what is reranked, and once that is done, what is related
        near = neighbours(source, images.values(), captions.values(), top_captions, top_images)
        pairs = list(zip(near.image.tolist(), near.caption.tolist(), strict=True))
    else:
        pairs = [
            (image, (7 * image + step) % len(source.captions))
            for image in range(len(images.items))
            for step in range(top_captions)
        ]
    rerank = asking.rerank(pairs)
    related, done = [(0, c) for c in range(len(source.captions))], known and not rerank.missing + seen.missing
    if done:
        verify = seen.values().reshape(-1, LEVELS)
        related = select.to_relate(source, verify, near, rerank.values())
    finest = source.chains[:, -1].tolist()
    relate = asking.relate((s, finest[s], c) for s, c in related)
    back = asking.relate((s, c, finest[s]) for s, c in related)
    if probe:
        for batch in (seen, told, images, captions, rerank, relate):
            batch.ask((0, 1), progress or Quiet(), min(CHUNK, probe), probe)
    most = len(images.items) * top_captions + len(captions.items) * top_images
    rows = [
        ("verify: captions of images", "verifier", [seen], None),
        ("verify: order of captions", "verifier", [told], None),
        ("embed: images", "embedder", [images], None),
        ("embed: captions", "embedder", [captions], None),
        ("rerank: captions of others", "reranker", [rerank], None if known else most),
        ("relate: what fits to what is told", "verifier", [relate, back], None if done else 2 * most),
    ]
    found = []
    for stage, role, batches, bound in rows:
        answers, title = batches[0].answers, batches[0].title
        calls = bound or len({item.key for batch in batches for item in batch.items})
        missing = bound or len({item.key for batch in batches for item in batch.missing})
        pace = answers.pace(title)
        seconds = None if pace is None else pace * missing / processes
        found.append(Estimate(stage, role, calls, missing, bound is not None, seconds))
    return found


# ---------------------------------------------------------------------------------------------- several processes


class Alone:
    """One process: nobody to meet."""

    def meet(self) -> None:
        """Nothing to wait for."""

    def end(self) -> None:
        """Nobody to part from."""


class Team(Alone):
    """The processes that torchrun started: they meet after every stage."""

    def __init__(self):
        import torch.distributed as dist

        from hierbench.engine.distributed import PATIENCE

        if not dist.is_initialized():
            dist.init_process_group("gloo", timeout=PATIENCE)

    def meet(self) -> None:
        """Wait for the others. Raises LostRankError where one has ended."""
        import torch.distributed as dist

        from hierbench.engine.distributed import LostRankError, rank

        try:
            dist.barrier()
        except RuntimeError as error:
            raise LostRankError(
                f"rank {rank()}: another process of the cleaning has ended, see its message; answers are kept"
            ) from error

    def end(self) -> None:
        """Part in peace."""
        import torch.distributed as dist

        dist.destroy_process_group()


def parse_shard(text: str) -> tuple[int, int]:
    """ "2/8" -> (2, 8): the third of eight shares. Raises UsageError."""
    number, slash, of = text.partition("/")
    if not (slash and number.isdigit() and of.isdigit() and int(number) < int(of)):
        raise UsageError(f"--shard {text}: write I/N with I from 0 to N - 1, for example 0/4")
    return int(number), int(of)
