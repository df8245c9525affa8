"""`hierbench reproduce`: a paper's ablation in small, its claims put to the test on the built-in world."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hierbench.cli._shared import Interrupted, output_folder, print_json, print_listing, print_text, say
from hierbench.cli.options import WHAT, Device, DryRun, Json, Limit, option, out_option

if TYPE_CHECKING:
    from hierbench.reproduce.work import Plan


Study = Annotated[str, typer.Argument(metavar="STUDY", help="A packaged study (`--list`) or a YAML file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Changes of every row's training config."),
]
Rows = Annotated[
    str | None, option(WHAT, "These rows alone, and the claims about them.", "--rows", metavar="A,B,…")
]
Seeds = Annotated[str, option(WHAT, "The seeds of every row (default: 0,1,2).", "--seeds", metavar="N,N,…")]
STEPS = "How many steps (of each training; default: the study's)."
Steps = Annotated[int | None, option(WHAT, STEPS, "--steps", metavar="N", min=1, max=10_000_000)]
NewRun = Annotated[Path | None, out_option("runs/reproduce-TIME")]
AtATime = Annotated[int, option(WHAT, "Trainings at a time.", "--processes", metavar="N", min=1, max=64)]
AsList = Annotated[bool, typer.Option("--list", help="Print the packaged names.")]


def reproduce(
    study: Study = "",
    overrides: Overrides = None,
    rows: Rows = None,
    seeds: Seeds = "0,1,2",
    steps: Steps = None,
    out: NewRun = None,
    device: Device = "auto",
    limit: Limit = None,
    processes: AtATime = 1,
    dry_run: DryRun = False,
    as_list: AsList = False,
    as_json: Json = False,
) -> None:
    """Train a paper's ablation in small and judge its claims.

    \b
    hierbench reproduce --list                                        the studies
    hierbench reproduce argent-table3 --dry-run                       the work and its time
    hierbench reproduce argent-table3 --out runs/table3 --processes 2

    Prints the paper's table with the figures found here, and each of its claims: holds, does not hold, cannot be told.
    Leaves table.md, result.json and figure.svg in --out. The same command goes on after an interruption, and started
    several times on one --out the commands share the work.
    """
    from hierbench.errors import UsageError

    if as_list:
        _list(as_json)
        return
    if not study:
        raise UsageError("name a study: `hierbench reproduce --list` prints the packaged ones")
    from hierbench.reproduce.work import Plan

    asked: dict[str, Any] = {
        "rows": None if rows is None else tuple(part for part in rows.replace(" ", "").split(",") if part),
        "seeds": _numbers(seeds),
        "steps": steps,
        "overrides": tuple(overrides or ()),
        "device": device,
        "limit": limit,
    }
    if dry_run:
        _tell_the_work(Plan(study, (out or Path("runs/none")).expanduser(), **asked), processes, as_json)
        return
    assert Plan(study, Path(), **asked).trainings  # what is wrong is told before a folder is made
    with output_folder(out, "reproduce-{}") as folder:
        failures = _do(Plan(study, folder, **asked), processes, as_json)
    if failures:
        raise typer.Exit(1)


def _do(plan: Plan, processes: int, as_json: bool) -> list[str]:
    from hierbench.reproduce import report, verdicts
    from hierbench.reproduce.team import work_together
    from hierbench.reproduce.work import Training

    command = _command(plan)

    def seed_done(training: Training) -> None:
        """A whole seed is a whole table: written as soon as there is one."""
        if all(plan.measured(other) for other in plan.trainings if other.seed == training.seed):
            report.write(verdicts.tell(plan, command), plan.out)

    try:
        failures = work_together(plan, processes, after=seed_done)
    except KeyboardInterrupt:
        raise Interrupted(f"the same command with --out {plan.out} goes on where it stopped") from None
    result = verdicts.tell(plan, command)
    files = report.write(result, plan.out)
    if as_json:
        print_json(result)
    else:
        print(result["title"] + "\n")
        lines = report.lines(result, spread=False)
        print_listing(lines, list(lines[0]))
        print()
        if listed := report.claims(result):
            print_listing(listed, list(listed[0]))
            print("\n" + report.summary(result))
        for note in report.notes(result):
            print_text(note, "- ")
    say("\nFiles: " + ", ".join(map(str, files)))
    for failure in failures:
        say(f"failed: {failure}")
    return failures


def _tell_the_work(plan: Plan, processes: int, as_json: bool) -> None:
    from hierbench.reproduce.work import estimate

    told = estimate(plan)
    if as_json:
        print_json(told)
        return
    print_listing(told, ["rows", "seed", "training", "steps_left", "seconds"], empty="all is done")
    seconds = sum(entry["seconds"] for entry in told)
    beside = f", by {processes} processes that have a core each in about {_time(seconds / processes)}"
    print(f"\nAbout {_time(seconds)} of training{beside if processes > 1 else ''}; measuring comes on top.")


def _list(as_json: bool) -> None:
    from hierbench.reproduce.study import read_study, studies

    found = [read_study(name) for name in studies()]
    entries = [
        {"study": s.name, "rows": len(s.rows), "claims": sum(len(c.by) for c in s.claims), "of": s.title}
        for s in found
    ]
    if as_json:
        print_json(entries)
    else:
        print_listing(entries, ["study", "rows", "claims", "of"])


def _numbers(text: str) -> tuple[int, ...]:
    from hierbench.errors import UsageError

    parts = [part.strip() for part in text.split(",")]
    if wrong := next((part for part in parts if not (part.isascii() and part.isdigit())), None):
        raise UsageError(f"--seeds {text[:60]}: whole numbers with commas between them, not {wrong[:20]!r}")
    if not all(parts) or any(len(part) > 12 for part in parts):
        raise UsageError(f"--seeds {text[:60]}: whole numbers with commas between them")
    return tuple(map(int, parts))


def _command(plan: Plan) -> str:
    """What makes these figures anew, wherever they are kept."""
    words = ["hierbench", "reproduce", plan.name, *plan.overrides, "--steps", plan.trained_steps]
    words += [
        "--seeds",
        ",".join(map(str, plan.seeds)),
        *(["--rows", ",".join(plan.rows)] if plan.rows else []),
    ]
    words += ["--limit", plan.limit] if plan.limit else []
    return shlex.join(map(str, words))


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds > 5400 else f"{max(1, round(seconds / 60))} min"
