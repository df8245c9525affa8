"""What a cleaning would still ask, stage by stage, and how long that takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hierbench.cleaning import select
from hierbench.cleaning.pipeline import ANSWERS, ROLES, TOP_CAPTIONS, TOP_IMAGES
from hierbench.cleaning.probe import Probes
from hierbench.cleaning.roles import Cast
from hierbench.cleaning.sources import LEVELS, Source, check_apart
from hierbench.cleaning.stages import CHUNK, Asking, Inquiry, neighbours
from hierbench.progress import Progress, Quiet


@dataclass(frozen=True)
class Estimate:
    """What a stage would still ask."""

    stage: str
    role: str
    calls: int  # answers needed in all; `at_most` where the stage before decides
    missing: int
    at_most: bool
    seconds: float | None  # None: nobody has measured how quick the answers come


def estimate(
    source: Source,
    cast: Cast,
    out: Path,
    *,
    top_captions: int = TOP_CAPTIONS,
    top_images: int = TOP_IMAGES,
    timed: int = 0,
    probe: bool = True,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Estimate]:
    """What `clean` would still ask, stage by stage, and how long that takes at the pace of earlier answers.

    `timed`: ask so many missing items of every kind first (and keep the answers), to measure the pace; roles are probed
    before, as for `clean`. How many pairs are reranked is known within bounds, how many captions are related only at
    most.
    """
    check_apart(source, Path(out))
    asking = Asking(source, cast, Path(out) / ANSWERS, top_captions, top_images)
    plan = _plan(asking)
    if timed:
        probes = Probes({role: getattr(cast, role) for role in ROLES}, asking.answers(), probe)
        for stage in plan:
            inquiry = stage.inquiries[0]
            if inquiry.missing:
                probes.before(stage.role)
            inquiry.ask((0, 1), progress or Quiet(), min(CHUNK, timed), timed)
    return [stage.estimate(processes) for stage in plan]


@dataclass(frozen=True)
class _Stage:
    """What one stage asks. `bound`: so many at most, where the stages before are yet to decide; None: what is told."""

    title: str
    role: str
    inquiries: tuple[Inquiry, ...]
    bound: int | None = None

    def estimate(self, processes: int) -> Estimate:
        answers, title = self.inquiries[0].answers, self.inquiries[0].title
        calls = self.bound or len({item.key for inquiry in self.inquiries for item in inquiry.items})
        missing = self.bound or len({item.key for inquiry in self.inquiries for item in inquiry.missing})
        pace = answers.pace(title)
        seconds = None if pace is None else pace * missing / processes
        return Estimate(self.title, self.role, calls, missing, self.bound is not None, seconds)


def _plan(asking: Asking) -> list[_Stage]:
    """The stages as far as the answers so far tell; stand-ins of the same kind for what they do not tell."""
    source = asking.source
    seen, told = asking.verify()
    images, captions = asking.embed()
    most = len(images.items) * asking.top_captions + len(captions.items) * asking.top_images
    pairs = [
        (image, (7 * image + step) % len(source.captions))
        for image in range(len(images.items))
        for step in range(asking.top_captions)
    ]
    related = [(0, c) for c in range(len(source.captions))]
    rerank = asking.rerank(pairs)
    known = done = not images.missing and not captions.missing
    if known:  # then it is known what is reranked, and once that is done, what is related
        near = neighbours(source, images.values(), captions.values(), asking.top_captions, asking.top_images)
        rerank = asking.rerank(zip(near.image.tolist(), near.caption.tolist(), strict=True))
        done = not rerank.missing and not seen.missing
        if done:
            verify = seen.values().reshape(-1, LEVELS)
            related = select.to_relate(source, verify, near, rerank.values())
    finest = source.chains[:, -1].tolist()
    relate = asking.relate((s, finest[s], c) for s, c in related)
    back = asking.relate((s, c, finest[s]) for s, c in related)
    return [
        _Stage("verify: captions of images", "verifier", (seen,)),
        _Stage("verify: order of captions", "verifier", (told,)),
        _Stage("embed: images", "embedder", (images,)),
        _Stage("embed: captions", "embedder", (captions,)),
        _Stage("rerank: captions of others", "reranker", (rerank,), None if known else most),
        _Stage("relate: what fits to what is told", "verifier", (relate, back), None if done else 2 * most),
    ]
