"""Which samples stay, and which captions serve as negatives: pure rules over the stages' scores.

The paper (ARGENT §4) keeps pairs "with strong alignment and low ambiguity"; its thresholds are not public. Ours:

*Alignment.* Each of the four captions must be true of the image, and each must follow from the next finer one.

*Ambiguity.* A caption of another image is a **rival** of a sample when it is true of the sample's image and is not
merely a more general statement than the sample's finest caption. "animal" fits the photograph of a brown dog, but it
is more general than "a brown dog on a sofa", so it is no rival; a caption that says the same as the finest one, or
says something else that is true, is. What a generic first caption shares with many images thus counts against nobody.
Strength of a rival c of sample s, in [0, 1]:

    relevance(image of s, c) · truth(c, its own image) · (1 − P(finest of s ⇒ c) · (1 − P(c ⇒ finest of s)))

The second factor: a caption that is wrong where it stands will not stay in the benchmark, so nobody competes with it.
Ambiguity at level l is the strongest rival among captions of level l or finer. The rule looks at level 3 by default:
photographs show more than four captions tell, and a stray "chair" (levels 1 and 2) is true of many.

*Quality* of a sample, by which exact counts choose: the least of its four truths, its three orders and 1 − ambiguity.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hierbench.cleaning.sources import LEVELS, Source
from hierbench.cleaning.stages import Neighbours
from hierbench.errors import UsageError

DOUBT = 0.1
"""Below this a caption's relevance times truth is taken as its strength: what it says is not asked."""


@dataclass(frozen=True)
class Rules:
    """Thresholds in [0, 1], or with `keep` the exact number of samples; `negatives`: captions of the pool.

    `max_negative`: how well a caption of the pool may fit an image that it is compared with.
    """

    min_verify: float = 0.5
    min_order: float = 0.5
    max_ambiguity: float = 0.5
    max_negative: float = 0.5
    ambiguity_level: int = 3
    keep: int | None = None
    negatives: int = 100

    def __post_init__(self):
        for name in ("min_verify", "min_order", "max_ambiguity", "max_negative"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(
                    f"--{name.replace('_', '-')} {getattr(self, name)}: choose a number from 0 to 1"
                )
        if not 1 <= self.ambiguity_level <= LEVELS:
            raise UsageError(f"--ambiguity-level {self.ambiguity_level}: choose 1 to {LEVELS}")
        for name in ("keep", "negatives"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UsageError(f"--{name} {getattr(self, name)}: choose at least 1")


@dataclass(frozen=True)
class Rival:
    """The strongest rival of a sample at the rules' level."""

    caption: int  # place
    sample: int  # whose it is
    level: int
    relevance: float
    more_general: float  # P(finest ⇒ c) · (1 − P(c ⇒ finest))
    strength: float


@dataclass(frozen=True)
class Decision:
    """What is found about one sample, and what follows."""

    sample_id: str
    verify: tuple[float, ...]  # truth of each level
    order: tuple[float, ...]  # level l follows from level l + 1
    ambiguity: tuple[float, ...]  # at each level: rivals of this level or finer
    rival: Rival | None
    quality: float
    kept: bool
    cause: str  # truth, order, ambiguity, or tie (as good as the last one kept); empty where kept
    reason: str  # the same in words


@dataclass(frozen=True)
class Findings:
    """Scores of all stages, as arrays: what the rules are applied to."""

    verify: np.ndarray  # (samples, 4)
    order: np.ndarray  # (samples, 3)
    neighbours: Neighbours
    relevance: np.ndarray  # (pairs,) of the neighbours
    more_general: Mapping[tuple[int, int], float]  # (sample, caption) -> as in `Rival`


@dataclass(frozen=True)
class Negative:
    """A caption of the pool: how many images retrieve it, and its best score with an image of others."""

    caption: int
    degree: int
    relevance: float


def normal(caption: str) -> str:
    """A caption without case, punctuation, articles and spare spaces: duplicates are compared so."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", caption).casefold())
    return " ".join(word for word in words if word not in ("a", "an", "the"))


def to_relate(
    source: Source, verify: np.ndarray, near: Neighbours, relevance: np.ndarray
) -> list[tuple[int, int]]:
    """(sample, caption) pairs whose captions must be compared: what may be a rival, and is no duplicate."""
    own = _own_forms(source)
    form = [normal(caption) for caption in source.captions]
    return [
        (sample, caption)
        for sample, caption, pair, truth in _candidates(source, verify, near)
        if relevance[pair] * max(truth.values())[0] >= DOUBT and form[caption] not in own[sample]
    ]


def decide(source: Source, found: Findings, rules: Rules) -> list[Decision]:
    """A decision for every sample. Raises UsageError for rules that keep nothing, or more than there is."""
    samples = len(source.chains)
    if rules.keep is not None and rules.keep > samples:
        raise UsageError(f"--keep {rules.keep}: there are only {samples} samples")
    ambiguity, rivals = _ambiguity(source, found, rules.ambiguity_level)
    at_level = ambiguity[:, rules.ambiguity_level - 1]
    quality = np.min(np.column_stack([found.verify, found.order, 1 - at_level]), axis=1)
    if rules.keep is None:
        kept = (
            (found.verify.min(1) >= rules.min_verify)
            & (found.order.min(1) >= rules.min_order)
            & (at_level <= rules.max_ambiguity)
        )
        if not kept.any():
            raise UsageError(
                f"the thresholds keep none of {samples:,} samples: at best a sample has its least truth at "
                f"{found.verify.min(1).max():.3g} (--min-verify {rules.min_verify:g}), its least order at "
                f"{found.order.min(1).max():.3g} (--min-order {rules.min_order:g}), ambiguity "
                f"{at_level.min():.3g} (--max-ambiguity {rules.max_ambiguity:g}); all answers are kept"
            )
        limits, last = rules, None
    else:
        ranked = sorted(
            range(samples), key=lambda row: (-quality[row], _by_id(source.dataset.sample_ids[row]))
        )
        kept = np.zeros(samples, bool)
        kept[ranked[: rules.keep]] = True
        last = float(quality[ranked[rules.keep - 1]])
        limits = None
    decisions = []
    for row, sample_id in enumerate(source.dataset.sample_ids):
        cause = reason = ""
        if not kept[row]:
            cause, reason = _reason(source, found, float(at_level[row]), rivals[row], row, limits, last)
        decisions.append(
            Decision(
                sample_id=sample_id,
                verify=tuple(found.verify[row].tolist()),
                order=tuple(found.order[row].tolist()),
                ambiguity=tuple(ambiguity[row].tolist()),
                rival=rivals[row],
                quality=float(quality[row]),
                kept=bool(kept[row]),
                cause=cause,
                reason=reason,
            )
        )
    return decisions


def negatives(source: Source, found: Findings, kept: Sequence[bool], rules: Rules) -> list[Negative]:
    """The pool: captions of any sample that fit no image (relevance at most `rules.max_negative`), by retrieval degree,
    then by best relevance, then by place; lowest first.

    Degree and relevance are over images that have no such caption (by normal form) themselves. PEP compares a pool
    caption with every kept image that does not have this very string; so a caption with a twin of the same normal form,
    but other letters, among a kept sample's is left out. Raises UsageError where too few are left.
    """
    form = [normal(caption) for caption in source.captions]
    twins: dict[str, dict[int, set[str]]] = {}  # normal form -> kept image -> strings
    for row, chain in enumerate(source.dataset.captions):
        if kept[row]:
            for caption in chain:
                of_form = twins.setdefault(form[source.position[caption]], {})
                of_form.setdefault(int(source.dataset.owner[row]), set()).add(caption)
    degree, best = reach(source, found)
    usable = [
        place
        for place, caption in enumerate(source.captions)
        if best[place] <= rules.max_negative
        and all(caption in strings for strings in twins.get(form[place], {}).values())
    ]
    pool: dict[str, Negative] = {}
    for place in sorted(usable, key=lambda c: (degree[c], best[c], c)):
        pool.setdefault(form[place], Negative(place, int(degree[place]), float(best[place])))
    if len(pool) < rules.negatives:
        raise UsageError(
            f"--negatives {rules.negatives}: only {len(pool)} captions fit no image better than --max-negative "
            f"{rules.max_negative:g}: ask for fewer or raise that; all answers are kept"
        )
    return list(pool.values())[: rules.negatives]


def reach(source: Source, found: Findings) -> tuple[np.ndarray, np.ndarray]:
    """(captions,) retrieval degree and best relevance of each caption, over images without such a caption (by normal
    form) of their own."""
    form = [normal(caption) for caption in source.captions]
    images_of: dict[str, set[int]] = {}  # normal form -> images that have it
    for chain, image in zip(source.dataset.captions, source.dataset.owner.tolist(), strict=True):
        for caption in chain:
            images_of.setdefault(form[source.position[caption]], set()).add(image)
    degree, best = np.zeros(len(form), np.int64), np.zeros(len(form))
    near = found.neighbours
    for image, caption, rank, score in zip(
        near.image.tolist(),
        near.caption.tolist(),
        near.by_image.tolist(),
        found.relevance.tolist(),
        strict=True,
    ):
        if image not in images_of[form[caption]]:
            degree[caption] += rank >= 0
            best[caption] = max(best[caption], score)
    return degree, best


# --------------------------------------------------------------------------------------------------- ambiguity


def _candidates(source: Source, verify: np.ndarray, near: Neighbours):
    """(sample, caption, pair, truth): `truth` maps a level to the best (truth, sample) of other images' captions."""
    samples_of: dict[int, list[int]] = {}
    for row, image in enumerate(source.dataset.owner.tolist()):
        samples_of.setdefault(image, []).append(row)
    places: dict[int, list[tuple[int, int]]] = {}
    for row, chain in enumerate(source.chains.tolist()):
        for level, caption in enumerate(chain, 1):
            places.setdefault(caption, []).append((row, level))
    owner = source.dataset.owner
    for pair, (image, caption) in enumerate(zip(near.image.tolist(), near.caption.tolist(), strict=True)):
        truth: dict[int, tuple[float, int]] = {}
        for row, level in places[caption]:
            if owner[row] != image:
                told = (float(verify[row, level - 1]), -row)
                truth[level] = max(truth.get(level, told), told)
        if truth:
            for sample in samples_of.get(image, ()):
                yield sample, caption, pair, {level: (v, -row) for level, (v, row) in truth.items()}


def _ambiguity(source: Source, found: Findings, at: int) -> tuple[np.ndarray, list[Rival | None]]:
    """(samples, LEVELS) and the strongest rival at level `at`."""
    own = _own_forms(source)
    form = [normal(caption) for caption in source.captions]
    ambiguity = np.zeros((len(source.chains), LEVELS))
    rivals: list[Rival | None] = [None] * len(source.chains)
    for sample, caption, pair, truth in _candidates(source, found.verify, found.neighbours):
        finest = form[source.chains[sample, -1]]
        if form[caption] == finest:
            general = 0.0
        elif form[caption] in own[sample]:
            general = 1.0
        else:
            general = found.more_general.get((sample, caption), 0.0)
        relevance = float(found.relevance[pair])
        for level, (true, row) in truth.items():
            strength = relevance * true * (1 - general)
            ambiguity[sample, :level] = np.maximum(ambiguity[sample, :level], strength)
            strongest = rivals[sample]
            if level >= at and strength > 0 and (strongest is None or strength > strongest.strength):
                rivals[sample] = Rival(caption, row, level, relevance, general, strength)
    return ambiguity, rivals


def _own_forms(source: Source) -> list[set[str]]:
    """Normal forms of each sample's captions."""
    return [{normal(caption) for caption in chain} for chain in source.dataset.captions]


# ------------------------------------------------------------------------------------------------------ reasons


def _reason(
    source: Source, found: Findings, ambiguity: float, rival: Rival | None, row: int, limits: Rules | None,
    last: float | None,
) -> tuple[str, str]:  # fmt: skip
    """Why a sample is dropped: the kind of its worst finding; its findings in words, the worst first.

    `limits`: the thresholds; None where exact counts choose, then `last` is the quality of the last one kept.
    """
    truth, order = found.verify[row], found.order[row]
    level, before = int(truth.argmin()) + 1, int(order.argmin()) + 1
    named = ""
    if rival is not None:
        named = f": “{source.captions[rival.caption]}” of {source.dataset.sample_ids[rival.sample]} fits too"
    if limits is None:
        worth = {"truth": truth.min(), "order": order.min(), "ambiguity": 1 - ambiguity}
        cause = min(worth, key=worth.__getitem__)
        if worth[cause] >= last:
            return "tie", f"as good as the last one kept (quality {last:.3g}), which comes before it by id"
        told = {
            "truth": f"truth of level {level} is {truth.min():.3g}",
            "order": f"level {before} follows from level {before + 1} with {order.min():.3g}",
            "ambiguity": f"ambiguous ({ambiguity:.3g}){named}",
        }
        return cause, f"{told[cause]}; the last one kept has quality {last:.3g}"
    findings = [
        (truth.min(), "truth", f"level {level} does not describe the image ({truth.min():.3g})",
         truth.min() < limits.min_verify),
        (order.min(), "order", f"level {before} does not follow from level {before + 1} ({order.min():.3g})",
         order.min() < limits.min_order),
        (1 - ambiguity, "ambiguity", f"ambiguous ({ambiguity:.3g}){named}", ambiguity > limits.max_ambiguity),
    ]  # fmt: skip
    worst = sorted((f[0], place, *f[1:3]) for place, f in enumerate(findings) if f[3])
    return worst[0][2], "; ".join(text for *_, text in worst)


def _by_id(sample_id: str) -> list[tuple[int, int, str]]:
    """Ids in the order that people expect: numbers as numbers."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", sample_id)
        if part
    ]


def against_truth(faults: Sequence[str | None], kept: Sequence[bool]) -> dict[str, object]:
    """How well planted faults were found: precision and recall of what was dropped, and found of planted by fault."""
    faulty = np.array([fault is not None for fault in faults])
    dropped = ~np.asarray(kept, bool)
    right = int((faulty & dropped).sum())
    by_fault: dict[str, list[int]] = {}
    for fault, gone in zip(faults, dropped.tolist(), strict=True):
        if fault is not None:
            counts = by_fault.setdefault(fault, [0, 0])
            counts[0] += gone
            counts[1] += 1
    return {
        "precision": right / max(1, int(dropped.sum())),
        "recall": right / max(1, int(faulty.sum())),
        "faulty": int(faulty.sum()),
        "dropped": int(dropped.sum()),
        "found_by_fault": {name: f"{a} of {b}" for name, (a, b) in sorted(by_fault.items())},
    }
