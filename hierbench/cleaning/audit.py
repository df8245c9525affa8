"""The audit page: every decision with its image, captions, scores and reason, and how the scores are distributed.

One HTML file without anything from outside: images are small and inline, so it can be mailed.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from importlib import resources

import numpy as np
from jinja2 import Environment
from markupsafe import Markup

from hierbench.cleaning import select
from hierbench.cleaning.pipeline import Outcome
from hierbench.cleaning.sources import LEVELS
from hierbench.data.images import decode

SIDE = 168  # longer side of the inline images, pixels
BINS = 25
WIDTH, HEIGHT = 300, 96  # of a histogram, pixels

Group = tuple[str, np.ndarray]  # name, values


def page(outcome: Outcome) -> str:
    """The page as HTML."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    text = (resources.files("hierbench.cleaning") / "audit.html.j2").read_text(encoding="utf-8")
    source, rules = outcome.source, outcome.rules
    kept = np.array(outcome.kept)
    return environment.from_string(text).render(
        about=source.about,
        rules=rules,
        counts={"samples": len(kept), "kept": int(kept.sum()), "dropped": int((~kept).sum())},
        roles=outcome.identities,
        neither=outcome.neither,
        planted=select.against_truth(source.faults, outcome.kept) if source.faults else None,
        groups=_names(outcome),
        histograms=_histograms(outcome),
        samples=_samples(outcome),
        pool=[(source.captions[n.caption], n.degree, n.relevance) for n in outcome.pool],
        levels=LEVELS,
    )


def _samples(outcome: Outcome) -> list[dict]:
    source, rules = outcome.source, outcome.rules
    dataset = source.dataset
    small = [thumbnail(dataset.images.read(image_id), image_id) for image_id in dataset.images.ids]
    faults = source.faults or [None] * len(outcome.decisions)
    return [
        {
            "id": decision.sample_id,
            "image": small[owner],
            "captions": [
                {"text": caption, "truth": truth, "order": order}
                for caption, truth, order in zip(chain, decision.verify, (*decision.order, None), strict=True)
            ],
            "truth": min(decision.verify),
            "order": min(decision.order),
            "ambiguity": decision.ambiguity[rules.ambiguity_level - 1],
            "quality": decision.quality,
            "kept": decision.kept,
            "reason": decision.reason,
            "rival": None
            if decision.rival is None
            else {
                "text": source.captions[decision.rival.caption],
                "id": dataset.sample_ids[decision.rival.sample],
                "strength": decision.rival.strength,
            },
            "fault": fault,
        }
        for decision, chain, owner, fault in zip(
            outcome.decisions, dataset.captions, dataset.owner.tolist(), faults, strict=True
        )
    ]


def thumbnail(content: bytes, where: str) -> Markup:
    """An image as an inline JPEG of at most SIDE pixels. Raises DataError for one that cannot be read."""
    image = decode(content, where)
    image.thumbnail((SIDE, SIDE))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=82)
    return Markup("data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode())


def _names(outcome: Outcome) -> tuple[str, str]:
    return ("faultless", "faulty (planted)") if outcome.source.faults else ("kept", "dropped")


def _histograms(outcome: Outcome) -> list[tuple[str, Markup]]:
    """Title and picture of each score, parted by what was planted, or else by what was decided."""
    found, rules, source = outcome.findings, outcome.rules, outcome.source
    good = np.array([fault is None for fault in source.faults] if source.faults else outcome.kept)
    degrees, best = select.reach(source, found)
    at = rules.ambiguity_level - 1
    ambiguity = np.array([d.ambiguity[at] for d in outcome.decisions])
    quality = np.array([d.quality for d in outcome.decisions])
    exact = rules.keep is not None
    cut = min((d.quality for d in outcome.decisions if d.kept), default=None)

    def parted(values: np.ndarray) -> list[Group]:
        return list(zip(_names(outcome), (values[good], values[~good]), strict=True))

    panels = [
        (f"truth of level {level + 1}", parted(found.verify[:, level]), None if exact else rules.min_verify)
        for level in range(LEVELS)
    ]
    panels += [
        (
            "least order: follows from the next finer",
            parted(found.order.min(1)),
            None if exact else rules.min_order,
        ),
        (f"ambiguity at level {at + 1}", parted(ambiguity), None if exact else rules.max_ambiguity),
        ("quality", parted(quality), cut if exact else None),
        ("similarity of images and captions of others", [("pairs", found.neighbours.similarity)], None),
        ("relevance of other samples' captions", [("pairs", found.relevance)], None),
        ("best relevance of a caption to images of others", [("captions", best)], rules.max_negative),
    ]
    drawn = [(title, histogram(groups, threshold)) for title, groups, threshold in panels]
    last = max((n.degree for n in outcome.pool), default=None)
    top = float(max(1, degrees.max()))
    drawn.append(("retrieval degree of captions", histogram([("captions", degrees)], last, top)))
    return drawn


def histogram(groups: Sequence[Group], threshold: float | None, top: float = 1.0) -> Markup:
    """Stacked bars over [0, top] as SVG; heights are square roots of counts, so that few are seen beside many."""
    edges = np.linspace(0, top, BINS + 1)
    counts = np.stack([np.histogram(np.clip(values, 0, top), edges)[0] for _, values in groups])
    total = counts.sum(0)
    tallest = max(1.0, float(np.sqrt(total.max())))
    step, parts = WIDTH / BINS, []
    classes = ("g0", "g1") if len(groups) > 1 else ("all",)
    for place in range(BINS):
        if not total[place]:
            continue
        height, base = HEIGHT * np.sqrt(total[place]) / tallest, float(HEIGHT)
        told = ", ".join(f"{name}: {n}" for (name, _), n in zip(groups, counts[:, place], strict=True))
        span = f"{edges[place]:.3g} to {edges[place + 1]:.3g}"
        for group, count in enumerate(counts[:, place]):
            tall = height * count / total[place]
            base -= tall
            if count:
                parts.append(
                    f'<rect class="{classes[group]}" x="{place * step + 0.5:.1f}" y="{base:.1f}" '
                    f'width="{step - 1:.1f}" height="{tall:.1f}"><title>{span}: {told}</title></rect>'
                )
    if threshold is not None:
        x = WIDTH * min(max(threshold / top, 0), 1)
        side = ("end", x - 3) if x > WIDTH / 2 else ("start", x + 3)
        parts.append(
            f'<line class="cut" x1="{x:.1f}" x2="{x:.1f}" y1="-8" y2="{HEIGHT}"/>'
            f'<text class="cut" x="{side[1]:.1f}" y="0" text-anchor="{side[0]}">{threshold:.3g}</text>'
        )
    for value in (0, top / 2, top):
        anchor = "start" if value == 0 else "end" if value == top else "middle"
        parts.append(
            f'<text x="{WIDTH * value / top:.0f}" y="{HEIGHT + 13}" text-anchor="{anchor}">{value:g}</text>'
        )
    box = f"0 -12 {WIDTH} {HEIGHT + 28}"
    axis = f'<line class="axis" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
    return Markup(f'<svg viewBox="{box}" role="img">{axis}{"".join(parts)}</svg>')
