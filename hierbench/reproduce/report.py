"""What a study found, for readers, all from its JSON: a table beside the paper's, claims with verdicts, a picture."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hierbench.errors import HierbenchError, OutputError, one_line
from hierbench.files import regular_file, replacing
from hierbench.reproduce.verdicts import FAILS, HOLDS, SCHEMA, UNKNOWN

Result = Mapping[str, Any]

RESULT, TABLE, PICTURE = "result.json", "table.md", "figure.svg"
PAPER: dict[str, Any] = {"color": "#777777", "marker": "D", "ls": "", "mfc": "none", "ms": 4}
HERE: dict[str, Any] = {"color": "#1f5fa8", "marker": "o", "ls": "-", "ms": 4}


def write(result: Result, folder: Path) -> list[Path]:
    """`result.json`, `table.md` and `figure.svg` in a folder. Raises OutputError."""
    texts = {RESULT: json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n"}
    texts[TABLE] = markdown(result)
    try:
        for name, text in texts.items():
            with replacing(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
        with replacing(folder / PICTURE) as temporary:
            draw(result, temporary)
    except OSError as error:
        raise OutputError(
            f"cannot write to {folder}: {error.strerror or error}: free space or choose another --out"
        ) from error
    return [folder / name for name in (TABLE, RESULT, PICTURE)]


def read(path: Path) -> dict[str, Any]:
    """A `result.json`. Raises OutputError for a file that is none."""
    try:
        content = json.loads(regular_file(path, "result").read_text(encoding="utf-8"))
    except (OSError, ValueError, HierbenchError) as error:
        raise OutputError(f"result {path} cannot be read: {one_line(error)}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA or "claims" not in content:
        raise OutputError(f"{path} is no result of `hierbench reproduce`: give its {RESULT}")
    return content


# -------------------------------------------------------------------------------------------------------- tables


def lines(result: Result, spread: bool = True) -> list[dict[str, str]]:
    """The paper's lines: "paper / here" in a column a measure; groups are lines of their own."""
    titles = [measure["title"] for measure in result["measures"].values()]
    told = []
    for group in result["lines"]:
        told.append({"line": group["group"]} | dict.fromkeys(titles, ""))
        for line in group["lines"]:
            here = result["rows"].get(line["row"], {"figures": {}, "degenerate": {}})
            told.append({"line": line["label"]})
            for name, measure in result["measures"].items():
                told[-1][measure["title"]] = _cell(
                    line["paper"].get(name), here, name, measure["unit"], spread
                )
    return told


def claims(result: Result) -> list[dict[str, str]]:
    """The paper's claims with what the miniature says of each."""
    return [
        {
            "the paper says": claim["says"],
            "by": result["measures"][claim["measure"]]["title"],
            "paper": _printed(result, claim),
            "here": _difference(claim),
            "verdict": claim["verdict"],
        }
        for claim in result["claims"]
    ]


def summary(result: Result) -> str:
    """How many of the claims hold: "Of 44 claims 20 hold, 6 do not hold, 18 cannot be told."."""
    count = Counter(claim["verdict"] for claim in result["claims"])
    return (
        f"Of {len(result['claims'])} claims {count[HOLDS]} hold, {count[FAILS]} do not hold, "
        f"{count[UNKNOWN]} cannot be told."
    )


def notes(result: Result) -> list[str]:
    """How the figures came about, and how to read them."""
    done, of = result["trainings"]["done"], result["trainings"]["of"]
    seeds = len(result["seeds"])
    batch = next(iter(result["rows"].values()))["config"]["train"]["batch_size"]
    part = "" if done == of else f" {done} of {of} trainings are done: the table is a part."
    limit = f", measured on at most {result['limit']:,} items" if result["limit"] else ""
    told = [
        f"Here: the miniature's models, trained on the built-in world for {result['steps']:,} steps of {batch}, "
        f"{seeds} seed{'s' if seeds > 1 else ''}{limit}; {result['setting']}.{part}",
        "Cells: paper / here, here the mean over seeds (± their standard deviation). The figures differ in kind (other "
        "data, sizes, tasks); what compares is which row is ahead.",
        "Verdicts: by the 95 % interval of the paired difference, first row minus second, with the variance over seeds "
        "and over test items; signs are such that positive is better. Each claim is judged by itself: of twenty that "
        "are neither true nor false, one would be called by chance.",
        *result["notes"],
    ]
    if any(row["degenerate"] for row in result["rows"].values()):
        told.append("†: most comparisons of this figure are ties, so it says little by itself.")
    return told


def markdown(result: Result) -> str:
    """The whole report."""
    measures = result["measures"].values()
    headings = [
        f"{measure['paper']} / {measure['title']} {'↑' if measure['better'] == 'higher' else '↓'}"
        for measure in measures
    ]
    verdicts = claims(result)
    parts = [
        f"# {result['title']}, on the miniature",
        f"`{result['command']}`",
        f"Source of the paper's figures and claims: {result['source']}.",
        "\n".join(f"- {note}" for note in notes(result)),
        "## Table",
        _table(["", *headings], [list(line.values()) for line in lines(result)], len(measures)),
        "## Claims",
        summary(result),
        _table([name.capitalize() for name in verdicts[0]], [list(v.values()) for v in verdicts], 0)
        if verdicts
        else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell(printed: float | None, row: Mapping[str, Any], measure: str, unit: str, spread: bool) -> str:
    paper = "–" if printed is None else f"{printed:.{2 if unit == 'raw' else 1}f}"
    figure = row["figures"].get(measure)
    if figure is None:
        return f"{paper} / –"
    sd = "" if figure["sd"] is None or not spread else f" ±{_short(figure['sd'])}"
    return f"{paper} / {_short(figure['mean'])}{'†' if measure in row['degenerate'] else ''}{sd}"


def _printed(result: Result, claim: Mapping[str, Any]) -> str:
    """The paper's difference, positive where the first row is better."""
    if claim["paper"] is None:
        return "–"
    first, second = claim["paper"]
    sign = 1 if result["measures"][claim["measure"]]["better"] == "higher" else -1
    return f"{sign * (first - second):+.2f}"


def _difference(claim: Mapping[str, Any]) -> str:
    if not claim["by_seed"]:
        return "–"
    bounds = f" [{claim['low']:+.2f}, {claim['high']:+.2f}]"
    return f"{claim['advantage']:+.2f}{bounds}" + (" (one seed)" if len(claim["by_seed"]) == 1 else "")


def _short(value: float) -> str:
    """Two digits after the point below ten, else one."""
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}"


def _table(headings: list[str], rows: list[list[str]], numbers: int) -> str:
    """A Markdown table; the last `numbers` columns stand to the right."""
    left = len(headings) - numbers
    aligned = [":--"] * left + ["--:"] * numbers
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [headings, aligned, *rows])


# -------------------------------------------------------------------------------------------------------- picture


def draw(result: Result, path: Path) -> None:
    """A picture of the paper's lines (SVG): a panel a measure, the paper's figures on a scale above, the miniature's on
    one below, further right is better. Lines that nothing here stands for are left out.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = [[line for line in group["lines"] if line["row"] in result["rows"]] for group in result["lines"]]
    groups = [group for group in groups if group]
    lines = [line for group in groups for line in group]
    gaps = [number for number, group in enumerate(groups) for _ in group]  # half a line between groups
    places = [place + 0.6 * gap for place, gap in enumerate(gaps)]
    with matplotlib.rc_context({"svg.hashsalt": "hierbench", "svg.fonttype": "none", "font.size": 8}):
        count = len(result["measures"])
        figure, axes = pyplot.subplots(
            1, count, sharey=True, figsize=(1.8 + 1.4 * count, 1.1 + 0.24 * len(places)), squeeze=False
        )
        for axis, name in zip(axes[0], result["measures"], strict=True):
            _panel(axis, result, name, lines, places)
        axes[0][0].set_yticks(places, [line["label"] for line in lines])
        axes[0][0].invert_yaxis()
        told = {"the paper (scale above)": PAPER, "the miniature: mean over seeds, 95 % interval": HERE}
        handles = [pyplot.Line2D([], [], **style) for style in told.values()]
        figure.legend(handles, list(told), loc="lower center", ncols=2, frameon=False)
        figure.tight_layout(rect=(0, 0.06, 1, 1))
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)


def _panel(axis: Any, result: Result, name: str, lines: list[Any], places: list[float]) -> None:
    """One measure: the paper's figures on the scale above, the miniature's on the one below."""
    measure = result["measures"][name]
    above = axis.twiny()
    printed = [
        (line["paper"][name], place)
        for line, place in zip(lines, places, strict=True)
        if name in line["paper"]
    ]
    if printed:
        above.plot(*zip(*printed, strict=True), **PAPER)
    for line, place in zip(lines, places, strict=True):
        figure = result["rows"][line["row"]]["figures"].get(name)
        if figure is None:
            continue
        axis.plot([figure["mean"]], [place + 0.3], **HERE)
        if figure["low"] is not None:
            axis.plot([figure["low"], figure["high"]], [place + 0.3] * 2, color=HERE["color"], lw=1)
    for scale in (axis, above):
        scale.margins(x=0.15)
        scale.tick_params(axis="x", labelsize=6, length=2)
        scale.locator_params(axis="x", nbins=4)
        if measure["better"] == "lower":
            scale.invert_xaxis()  # to the right is better
    above.tick_params(axis="x", colors=PAPER["color"])
    axis.tick_params(axis="x", colors=HERE["color"])
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", lw=0.3)
    axis.set_title(measure["title"], fontsize=8)
