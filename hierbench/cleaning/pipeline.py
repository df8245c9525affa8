"""The cleaning from end to end: ask stage by stage, select, write. Several processes may share the asking."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hierbench.cleaning import select
from hierbench.cleaning.backends.yes_no import ENOUGH
from hierbench.cleaning.probe import Probes
from hierbench.cleaning.roles import Cast
from hierbench.cleaning.select import Decision, Findings, Negative, Rules
from hierbench.cleaning.sources import LEVELS, Source, check_apart
from hierbench.cleaning.stages import CHUNK, Asking, Inquiry, Item, neighbours
from hierbench.data.images import decode
from hierbench.errors import UsageError
from hierbench.progress import Progress, Quiet

ANSWERS = "answers"  # folder of the answers in an output folder
TOP_CAPTIONS, TOP_IMAGES = 20, 3
ROLES = ("verifier", "embedder", "reranker")
FEW, FLAT, MOST = 20, 0.02, 0.9
"""A warning: at least FEW scores with a standard deviation below FLAT; more than MOST of all dropped for one cause."""


@dataclass(frozen=True)
class Outcome:
    """Everything that a finished cleaning knows."""

    source: Source
    rules: Rules
    asked: dict[str, Inquiry]  # verify, order, images, captions, rerank, follows, implies
    findings: Findings
    decisions: tuple[Decision, ...]
    pool: tuple[Negative, ...]
    top_captions: int
    top_images: int
    identities: dict[str, dict]  # role -> identity
    probes: dict[str, Any]  # role -> what its probe saw, or why there was none

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

    @property
    def warnings(self) -> list[str]:
        """What makes the outcome doubtful, a line each: scores that hardly vary, one cause for nearly all drops."""
        found = []
        for stage, role in (("verify", "verifier"), ("rerank", "reranker")):
            scores = self.asked[stage].values()
            if len(scores) >= FEW and scores.std() < FLAT:
                found.append(
                    f"{stage}: the {len(scores):,} scores of {self.identities[role]['model']} hardly vary "
                    f"({scores.min():.3f} to {scores.max():.3f}): does it play the {role}?"
                )
        causes = Counter(decision.cause for decision in self.decisions if not decision.kept)
        cause, dropped = (causes.most_common(1) or [("", 0)])[0]
        if self.rules.keep is None and dropped > MOST * len(self.decisions):
            found.append(
                f"{dropped:,} of {len(self.decisions):,} samples are dropped for one cause, {cause}: "
                "see audit.html before the result is used"
            )
        return found


@dataclass(frozen=True)
class Waiting:
    """Other shards have not answered yet: what is missing, by stage."""

    stage: str
    missing: int


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
    team: Alone | None = None,
    probe: bool = True,
) -> Outcome | Waiting:
    """Ask what is missing and select; `Waiting` where a stage needs answers of other shards. Nothing is written but
    answers, in `out`/answers: `hierbench.cleaning.output.write` writes the rest.

    `shard` (number, of): which share of the items to ask. `team`: the processes that share the work meet after each
    stage. `probe`: whether a role is probed before its first question (`hierbench.cleaning.probe`).
    Raises DataError, UsageError (rules that keep nothing), EncodingError, OutputError, JudgeError (a role that does
    not pass its probe), and what roles raise; what was answered until then is kept.
    """
    check_apart(source, Path(out))
    progress, team = progress or Quiet(), team or Alone()
    asking = Asking(source, cast, Path(out) / ANSWERS, top_captions, top_images)
    players = {role: getattr(cast, role) for role in ROLES}
    probes = Probes(players, asking.answers(), probe)

    def answered(stage: str, role: str, *batches: Inquiry) -> Waiting | None:
        if any(batch.share(shard) for batch in batches):
            probes.before(role)
        for batch in batches:
            batch.ask(shard, progress, chunk)
        team.meet()
        asking.refresh()
        missing = sum(len(batch.missing) for batch in batches)
        return Waiting(stage, missing) if missing else None

    _check_readable(source, asking.embed()[0].share(shard), progress)
    found = _ask(asking, answered)
    if isinstance(found, Waiting):
        return found
    asked, findings = found
    decisions = select.decide(source, findings, rules)
    pool = select.negatives(source, findings, [d.kept for d in decisions], rules)
    return Outcome(
        source=source,
        rules=rules,
        asked=asked,
        findings=findings,
        decisions=tuple(decisions),
        pool=tuple(pool),
        top_captions=top_captions,
        top_images=top_images,
        identities={role: dict(player.identity) for role, player in players.items()},
        probes=probes.record(),
    )


def _ask(
    asking: Asking, answered: Callable[..., Waiting | None]
) -> Waiting | tuple[dict[str, Inquiry], Findings]:
    """All stages: the batches, answered, by name, and what they say; `Waiting` for the first that lacks answers."""
    source = asking.source
    seen, told = asking.verify()
    images, captions = asking.embed()
    waiting = answered("verify", "verifier", seen, told)
    waiting = answered("embed", "embedder", images, captions) or waiting  # both are asked before anyone waits
    if waiting:
        return waiting
    verify = seen.values().reshape(-1, LEVELS)
    near = neighbours(source, images.values(), captions.values(), asking.top_captions, asking.top_images)
    rerank = asking.rerank(zip(near.image.tolist(), near.caption.tolist(), strict=True))
    if waiting := answered("rerank", "reranker", rerank):
        return waiting
    pairs = select.to_relate(source, verify, near, rerank.values())
    finest = source.chains[:, -1]
    follows = asking.relate((s, int(finest[s]), c) for s, c in pairs)
    implies = asking.relate((s, c, int(finest[s])) for s, c in pairs)
    if waiting := answered("relate", "verifier", follows, implies):
        return waiting
    general = follows.values() * (1 - implies.values())
    findings = Findings(
        verify=verify,
        order=told.values().reshape(-1, LEVELS - 1),
        neighbours=near,
        relevance=rerank.values(),
        more_general=dict(zip(pairs, general.tolist(), strict=True)),
    )
    asked = {
        "verify": seen, "order": told, "images": images, "captions": captions, "rerank": rerank, "follows": follows,
        "implies": implies,
    }  # fmt: skip
    return asked, findings


def _check_readable(source: Source, items: Sequence[Item], progress: Progress) -> None:
    """Decode what a model is about to see, so that a damaged image is told by name before any model is loaded."""
    with progress.bar("read: images", len(items)) as advance:
        for item in items:
            decode(item.build(), f"{source.dataset.images.ids[item.group]} of {source.dataset.name}")
            advance(1)


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

        from hierbench.engine.processes import LostRankError, rank

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
