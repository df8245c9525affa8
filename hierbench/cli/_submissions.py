"""`hierbench leaderboard submit`, `verify` and `add`: results sent to a leaderboard, checked and filed there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hierbench.cli._shared import print_json, print_listing, print_text, say
from hierbench.cli.options import WHERE, Json, Out, option, out_option

if TYPE_CHECKING:
    from hierbench.leaderboard.verification import Verdict

BOARD = Path("leaderboard/results")

Board = Annotated[
    Path,
    option(WHERE, f"The submissions filed already (default: {BOARD}).", "--against", metavar="DIR"),
]


def submit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `hierbench run --out` wrote.")],
    out: Out,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Models by their names in the results (default: all)."),
    ] = None,
    card: Annotated[
        Path | None,
        option(
            WHERE,
            "YAML: trained_on, licence, paper, homepage, contact, description.",
            "--card",
            metavar="FILE",
        ),
    ] = None,
    against: Board = BOARD,
    as_json: Json = False,
) -> None:
    """Pack a run's results for a public leaderboard.

    Records, per-item outcomes and cards, no images and no weights; PATH is a folder, or a file if it ends in .zip.
    """
    from hierbench.leaderboard import packing

    packed = packing.pack(run, out, names or (), card, against)
    if as_json:
        left_out = [{"model": model, "task": task, "why": why} for model, task, why in packed.left_out]
        print_json(
            {"bundle": str(packed.path), "submissions": _document(packed.verdicts), "left_out": left_out}
        )
    else:
        _print(packed.verdicts)
        for model, task, why in packed.left_out:
            print_text(f"left out: {task} of {model}: {why}")
    say(f"written: {packed.path}")


def verify(
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE", help="A bundle, a zip of one, or one model's folder.")
    ],
    against: Board = BOARD,
    as_json: Json = False,
) -> int:
    """Compute every figure of a bundle anew from its items.

    Says what differs; the exit status is 1 where a bundle is not sound.
    """
    from hierbench.leaderboard import verification

    verdicts = [verdict for bundle in bundles for verdict in verification.verify(bundle, against)]
    sound = all(verdict.sound for verdict in verdicts)
    if as_json:
        print_json({"sound": sound, "submissions": _document(verdicts)})
    else:
        _print(verdicts)
    return 0 if sound else 1


def add(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle, or a zip of one.")],
    out: Annotated[Path, out_option(str(BOARD))] = BOARD,
    replace: Annotated[
        bool, option(WHERE, "Put it in the place of what is filed of the same model.", "--replace")
    ] = False,
    as_json: Json = False,
) -> None:
    """File a bundle in a leaderboard's folder, if it verifies."""
    from hierbench.leaderboard import submissions, verification

    with submissions.opened(bundle) as folders:
        verdicts = [verification.check(folder, out) for folder in folders]
        verification.refuse(verdicts, bundle)
        places = submissions.add(folders, out, replace)
    if as_json:
        print_json({"filed": [str(place) for place in places], "submissions": _document(verdicts)})
        return
    _print(verdicts)
    say(f"filed: {', '.join(map(str, places))}")


def _print(verdicts: Sequence[Verdict]) -> None:
    rows = [
        {
            "model": verdict.model,
            "tasks": verdict.tasks,
            "figures": f"{verdict.figures:,}",
            "verdict": "sound" if verdict.sound else "NOT SOUND",
        }
        for verdict in verdicts
    ]
    print_listing(rows, ["model", "tasks", "figures", "verdict"], empty="no submission")
    for verdict in verdicts:
        for problem in verdict.problems:
            print_text(f"NOT SOUND: {verdict.model}: {problem}")
        for note in verdict.notes:
            print_text(f"{verdict.model}: {note}")
    print_text("figures: computed anew from the items, with their intervals, and found equal.")


def _document(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [
        {
            "model": verdict.model,
            "sound": verdict.sound,
            "tasks": verdict.tasks,
            "figures": verdict.figures,
            "problems": list(verdict.problems),
            "notes": list(verdict.notes),
        }
        for verdict in verdicts
    ]
