"""What a look at a model's geometry comes to: a table's row, a verdict in words, and a document."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hierbench.analysis.depth import Depth
from hierbench.analysis.geometry import Look
from hierbench.analysis.groups import IMAGES
from hierbench.contracts import Estimate, MetricSpec

NEARLY_FLAT = 0.1  # a circle longer than in flat space by less than this part of it
NOTHING = "–"
LEGEND = (
    "r: median radius, general → specific → images. Circle: how much longer one is there than in flat space. Depth: "
    "Spearman's correlation with the level, of the radius and of what the direction tells. 2δ/diam: Gromov's, 0 for a "
    "tree. Mixed: radii shuffled. * beyond chance: its 95 % interval leaves out 0 (2δ: points in random directions). "
    "– no such thing."
)

HEADINGS = {
    "equalised": "radii\nequal",
    "shuffled": "radii\nmixed",
    "shuffled_within": "mixed\nwithin",
    "flat_cosine": "flat\ncos",
    "flat_euclidean": "flat\nEucl",
}
SPARED = ("mixed\nwithin", "zero\nscores", "half-\nspaces", "radii\nmixed", "circle\n+%", "2δ/\ndiam")
"""Headings that are left out where the screen has no room for all, in this order."""


def row(model: str, look: Look) -> dict[str, str]:
    """Heading -> cell, of one model on one dataset."""
    *groups, images = look.places
    cells = {f"on {look.dataset}": model}
    ends = {place.group: place for place in (groups[0], groups[-1], images)}.values()
    radii = [None if place.radius is None else f"{place.radius['p50']:.2f}" for place in ends]
    first, last = groups[0].group, groups[-1].group
    kind, _, number = last.rpartition(" ")
    levels = f"{first.split()[-1]}→{number}→images" if first != last else f"{first}→images"
    unit = ("r" if "curvature" in look.missing else "√κ·r") + (f" by {kind}" if first != last else "")
    cells[f"{unit}\n{levels}"] = NOTHING if None in radii else "→".join(map(str, radii))
    cells["circle\n+%"] = _percent(curving(look))
    cells["half-\nspaces"] = _percent(half_spaces(look))
    cells["zero\nscores"] = _percent(look.zeros)
    if look.direction is not None:
        cells["depth:\nradius"] = _correlation(look.radius)
        cells["depth:\ndirect."] = _correlation(look.direction)
    found = look.hyperbolicity.get(look.items)
    cells["2δ/\ndiam"] = f"{found.delta.value:.2f}{_mark(found.difference)}" if found else NOTHING
    if look.headline is None:
        return cells
    cells[f"{look.headline.title}\nas is"] = scaled(look.headline, look.figures[look.headline.name].value)
    for change in look.changes:
        if change.figure == look.headline.name:
            value = scaled(look.headline, change.difference.value, "+")
            cells[HEADINGS[change.reading]] = f"{value}{_mark(change.difference)}"
    return cells


def table(looks: Mapping[str, Look], width: int) -> tuple[list[dict[str, str]], list[str]]:
    """Rows of one dataset's models that fit a screen, and the headings that there was no room for."""
    rows = [row(model, look) for model, look in looks.items()]
    headings = max(([*cells] for cells in rows), key=len)
    for cells in rows:
        cells[headings[0]] = _cut(cells[headings[0]], width // 3)
    left_out: list[str] = []

    def wide() -> int:
        return sum(
            1 + max(len(line) for text in (h, *(one.get(h, "") for one in rows)) for line in text.split("\n"))
            for h in headings
        )

    for heading in SPARED:
        if wide() > width and heading in headings:
            headings.remove(heading)
            left_out.append(heading.replace("-\n", "-").replace("/\n", "/").replace("\n", " "))
    return [{h: one.get(h, NOTHING) for h in headings} for one in rows], left_out


def summary(looks: Mapping[str, Look]) -> str:
    """One dataset's models together: where depth is, whom radii help, and whether flat space serves as well."""
    short = dict(zip(looks, _shortly(list(looks)), strict=True))
    where: dict[str, list[str]] = {}
    for model, look in looks.items():
        if look.direction:
            where.setdefault(_where(look), []).append(short[model])
    told = [f"Depth: {_grouped(where)}."] if where else []
    title = next((look.headline.title for look in looks.values() if look.headline), None)
    if title is None:
        return " ".join([*told, "Nothing to change: there are no radii."])
    effects: dict[str, list[str]] = {words: [] for _, *both in EFFECTS for words in both}
    for model, look in looks.items():
        for words, value in _effects(look).items():
            effects[words].append(f"{short[model]} {value}")
    return " ".join([*told, f"{title}: {_grouped(effects) or 'no change is shown'}."])


EFFECTS = (
    ("equalised", "radii help", "radii hurt"),
    ("flat_cosine", "cosine is worse", "cosine is better"),
    ("flat_euclidean", "Euclidean is worse", "Euclidean is better"),
)
"""Readings with what it means that they make the headline figure worse, and better."""


def _effects(look: Look) -> dict[str, str]:
    """What is shown to change the headline figure -> by how much."""
    if look.headline is None:
        return {}
    changes = {change.reading: change for change in look.changes if change.figure == look.headline.name}
    found = {}
    for reading, lost, won in EFFECTS:
        if told := _effect(look.headline, changes[reading].difference, f"{lost}|{{}}", f"{won}|{{}}"):
            words, _, value = told.partition("|")
            found[words] = value
    return found


def _grouped(groups: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{words} ({_listed(names)})" for words, names in groups.items() if names)


def _where(look: Look) -> str:
    """Where depth is shown, in a few words."""
    direction = look.direction is not None and look.direction.shown > 0
    if look.radius is None:
        return f"{'' if direction else 'not '}in the direction, without radii"
    if look.radius.shown < 0:
        return "the wrong way round in the radius" + (", in the direction" if direction else "")
    return {
        (1, True): "in radius and direction",
        (1, False): "in the radius",
        (0, True): "in the direction",
        (0, False): "not shown",
    }[look.radius.shown, direction]


def _cut(name: str, most: int) -> str:
    """A name of at most `most` letters, its middle left out where it has more."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[len(name) - (most - most // 2 - 1) :]}"


def _shortly(names: Sequence[str]) -> list[str]:
    """Names without what they all begin with, up to a dash or slash."""
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    common = "".join(letters[0] for letters in same) if len(names) > 1 else ""
    start = max(common.rfind("-"), common.rfind("/")) + 1
    return [name[start:] for name in names]


def verdict(look: Look) -> list[str]:
    """Everything that is shown, sentence by sentence, and no more than the intervals say."""
    return [
        _of_space(look),
        *_of_cones(look),
        *([of_depth(look)] if look.direction else []),
        *_of_trees(look),
        *look.sentences,
        *(f"Not told: {what}: {why}." for what, why in look.missing.items()),
    ]


def conclusion(look: Look) -> str:
    """Where depth is, and what the headline figure owes to radii and to the model's own space."""
    parts = [of_depth(look)] if look.direction else []
    if look.headline is None:
        return " ".join([*parts, f"Nothing is changed: {look.missing['changes']}."])
    changes = {change.reading: change for change in look.changes if change.figure == look.headline.name}
    told = [
        _effect(look.headline, changes["equalised"].difference, "radii help it by {}", "radii hurt it by {}")
    ]
    if told[0] is None:
        told = ["no effect of radii is shown"]
    for name, what in (("flat_cosine", "cosine"), ("flat_euclidean", "Euclidean distance")):
        found = _effect(
            look.headline, changes[name].difference, what + " is worse by {}", what + " is better by {}"
        )
        told.append(found or f"{what} is not told apart")
    return " ".join([*parts, f"{look.headline.title}: {', '.join(told)}."])  # type: ignore[arg-type]


def of_depth(look: Look) -> str:
    """Where depth is: in the radius, in the direction, in both, in neither."""
    if look.direction is None:
        return ""
    direction = look.direction.shown > 0
    if look.radius is None:
        return f"Depth {'is' if direction else 'is not shown'} in the direction; there are no radii."
    if look.radius.shown < 0:
        start = "Depth is in the direction; " if direction else "In the direction depth is not shown; "
        return f"{start}in the radius it is the wrong way round: general {look.items} lie farther out."
    return {
        (1, True): "Depth is in the radius and in the direction.",
        (1, False): "Depth is in the radius; in the direction it is not shown.",
        (0, True): "Depth is in the direction; in the radius it is not shown.",
        (0, False): "Depth is shown neither in the radius nor in the direction.",
    }[look.radius.shown, direction]


def document(model: str, look: Look) -> dict[str, Any]:
    """One model on one dataset, for JSON."""
    told = dataclasses.asdict(look)
    for name in ("radius", "direction"):
        if found := getattr(look, name):
            told[name]["shown"] = found.shown
    told["headline"] = look.headline and look.headline.name
    told["geometry"] = dict(look.geometry)
    return {"model": model, **told, "conclusion": conclusion(look), "verdict": verdict(look)}


def half_spaces(look: Look) -> float | None:
    """Share of the items' cones that are half-spaces, images left out."""
    places = [place for place in look.places if place.group != IMAGES and place.half_spaces is not None]
    if not places:
        return None
    return sum(p.points * (p.half_spaces or 0.0) for p in places) / sum(p.points for p in places)


def curving(look: Look) -> float | None:
    """How much longer than in flat space a circle is, at the median radius of the outermost group."""
    return max((place.excess for place in look.places if place.excess is not None), default=None)


def scaled(metric: MetricSpec, value: float, sign: str = "") -> str:
    """A figure as it is printed: fractions in percent."""
    scale, digits = (100, 1) if metric.unit == "fraction" else (1, 3 if metric.unit == "raw" else 1)
    return f"{round(scale * value, digits) + 0.0:{sign}.{digits}f}"


def _of_space(look: Look) -> str:
    radii = [
        f"{place.radius['p50']:.2f} ({place.group})" for place in look.places if place.radius is not None
    ]
    if not radii:
        return f"Space: {look.missing['radius']}."
    longer = curving(look)
    if longer is None:
        return f"Space: median radii {_listed(radii)}; it has no curvature to use."
    start = f"Space: median √κ·radius {_listed(radii)}; "
    start += f"a circle there is at most {100 * longer:.1f} % longer than in flat space"
    return f"{start}: nearly flat." if longer < NEARLY_FLAT else f"{start}."


def _of_cones(look: Look) -> list[str]:
    share = half_spaces(look)
    if share is None or look.zeros is None:
        return []
    return [
        f"Cones: {100 * share:.1f} % of the {look.items}' are half-spaces; {100 * look.zeros:.1f} % of the entailment "
        f"scores of {look.items} against images are 0."
    ]


def _of_trees(look: Look) -> list[str]:
    told = []
    for name, found in look.hyperbolicity.items():
        difference = found.difference
        how = "as tree-like as far as can be told as"
        if _mark(difference):
            how = "more tree-like than" if difference.value < 0 else "less tree-like than"
        told.append(
            f"2δ/diameter of {name} {found.delta.value:.2f}: {how} points of the same radii in random directions "
            f"({found.random.value:.2f})."
        )
    return told


def _effect(metric: MetricSpec, difference: Estimate, worse: str, better: str) -> str | None:
    """In words, what losing something does to a figure; None where no effect is shown."""
    if not _mark(difference):
        return None
    lost = (difference.value < 0) == bool(metric.higher_is_better)
    return (worse if lost else better).format(scaled(metric, abs(difference.value)))


def _mark(found: Estimate) -> str:
    shown = found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)
    return "*" if shown else ""


def _correlation(found: Depth | None) -> str:
    return NOTHING if found is None else f"{found.correlation.value:+.2f}{'*' if found.shown else ''}"


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None else f"{value:{form}}"


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f}"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)
