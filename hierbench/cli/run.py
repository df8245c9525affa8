"""`hierbench run`: measure models on tasks, print the table, say where the files are."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from hierbench.cli._run_config import check_names, line_wins, own_files, places, preset
from hierbench.cli._shared import (
    Interrupted,
    complain,
    missing_data,
    output_folder,
    print_json,
    print_listing,
    print_table,
    save_tables,
    say,
    say_missing,
)
from hierbench.cli.options import (
    HOW,
    WHAT,
    WHERE,
    Adapter,
    BatchSize,
    Checkpoint,
    Data,
    DataDir,
    Device,
    DryRun,
    Dtype,
    DtypeName,
    Family,
    Force,
    Json,
    Limit,
    Manifest,
    Models,
    Name,
    NoCache,
    Offline,
    Prompts,
    PromptsName,
    Protocol,
    ProtocolName,
    TaskFile,
    Workers,
    option,
    out_option,
)
from hierbench.cli.telling import telling
from hierbench.errors import UsageError

Suite = Annotated[str | None, option(WHAT, "A set of tasks (default: argent).", metavar="NAME")]
Tasks = Annotated[list[str] | None, option(WHAT, "A task, instead of a suite; repeatable.", metavar="NAME")]
NewRun = Annotated[Path | None, out_option("runs/TIME")]
Compile = Annotated[bool, option(HOW, "Compile the image encoder.", "--compile")]
Retrain = Annotated[bool, option(WHAT, "Train the built-in models first, on this machine.", "--retrain")]
QuietRun = Annotated[
    bool, option(WHERE, "Print the table, and nothing but errors beside it.", "-q", "--quiet")
]
LogFile = Annotated[
    Path | None,
    option(WHERE, "Add what is told on the way to a file, with times.", "--log-file", metavar="FILE"),
]
Config = Annotated[
    Path | None,
    option(
        WHAT,
        "Options from a YAML file; the line wins.",
        "--config",
        metavar="FILE",
        callback=preset,
        is_eager=True,
    ),
]


def run(
    context: typer.Context,
    models: Models = None,
    family: Family = None,
    checkpoint: Checkpoint = None,
    name: Name = None,
    suite: Suite = None,
    task: Tasks = None,
    config: Config = None,
    adapter: Adapter = None,
    manifest: Manifest = None,
    task_file: TaskFile = None,
    data: Data = None,
    data_dir: DataDir = None,
    out: NewRun = None,
    device: Device = "auto",
    batch_size: BatchSize = None,
    dtype: DtypeName = Dtype.auto,
    limit: Limit = None,
    workers: Workers = None,
    protocol: ProtocolName = Protocol.released,
    prompts: PromptsName = Prompts.default,
    no_cache: NoCache = False,
    offline: Offline = False,
    force: Force = False,
    compile: Compile = False,
    dry_run: DryRun = False,
    retrain: Retrain = False,
    quiet: QuietRun = False,
    log_file: LogFile = None,
    as_json: Json = False,
) -> int:
    """Measure models on tasks and print the table.

    \b
    hierbench run                          built-in models on the built-in world
    hierbench run --retrain                trains these models first, an hour or more on two cores
    hierbench run hycoclip-vit-b           a released checkpoint, suite argent
    hierbench run hycoclip-vit-b --suite all --data-dir DIR     every task whose data is in DIR
    hierbench run --family hycoclip --checkpoint FILE --data imagenet=DIR
    hierbench run --config study.yaml      what the options hold, from a file
    """
    chosen: dict[str, Any] = {"models": models, "family": family, "checkpoint": checkpoint, "name": name}
    chosen = line_wins(context, {**chosen, "suite": suite, "task": task, "data": data})
    suite, task, data = (chosen.pop(kind) for kind in ("suite", "task", "data"))
    own_files(context, adapter, manifest, task_file)
    wanted = chosen_models(**chosen)
    check_names(context, wanted, suite, task)
    if retrain and (wanted or dry_run):
        raise UsageError("--retrain trains the built-in models: leave out MODEL, --checkpoint and --dry-run")
    suite = suite or (None if task else "argent" if wanted else "miniature")
    what = {"models": wanted or _builtin(), "tasks": task or None, "suite": suite}
    where = {**places(context, data, data_dir), "out": out}
    how = {"device": device, "batch_size": batch_size, "dtype": dtype.to_measure, "limit": limit}
    how |= {"workers": workers, "cache": not no_cache, "offline": offline, "force": force, "compile": compile}
    arguments = {**what, **where, **how, "protocol": protocol.value, "prompts": prompts.value}
    arguments["progress"] = False if quiet else None
    with telling(quiet, log_file):
        return _plan(arguments, as_json) if dry_run else _measured(arguments, as_json, retrain, not wanted)


def _measured(arguments: dict[str, Any], as_json: bool, retrain: bool, first_steps: bool) -> int:
    """Measure into --out, or a new folder; with `retrain` models that are trained there first."""
    with output_folder(arguments["out"]) as folder:
        arguments["out"] = folder
        if retrain:
            arguments["models"] = _retrained(folder, arguments["device"])
        if os.environ.get("RANK", "0") == "0":  # under torchrun one process speaks
            suite, tasks = arguments["suite"], arguments["tasks"]
            say(
                f"hierbench: {_titles(arguments['models'])} on {f'suite {suite}' if suite else ', '.join(tasks)}"
            )
        return _run(arguments, as_json, first_steps)


def chosen_models(
    models: Sequence[str] | None,
    family: Sequence[str] | None,
    checkpoint: Sequence[str] | None,
    name: Sequence[str] | None,
) -> list[str | tuple[str | None, ...]]:
    """The models as `runner.run` takes them: MODELs, then (family, checkpoint, name) for each --checkpoint.

    Raises UsageError where the options do not go together.
    """
    models, families, checkpoints, names = (
        list(entries or ()) for entries in (models, family, checkpoint, name)
    )
    if names and not checkpoints:
        raise UsageError("--name names the model of --checkpoint: give that as well")
    if names and len(names) != len(checkpoints):
        raise UsageError(
            f"{len(names)} --name for {len(checkpoints)} --checkpoint: give one for each, in their order"
        )
    if not checkpoints:
        return [*models, *((family,) for family in families)]
    if len(families) not in (0, 1, len(checkpoints)):
        raise UsageError(
            f"{len(families)} --family for {len(checkpoints)} --checkpoint: give one for all, or one for each"
        )
    families = families * len(checkpoints) if len(families) == 1 else families or [""] * len(checkpoints)
    names = names or [""] * len(checkpoints)
    return [
        *models,
        *(
            (family or None, file, name or None)
            for family, file, name in zip(families, checkpoints, names, strict=True)
        ),
    ]


def _builtin() -> list[str]:
    """The models bundled with the package; while there are none, a baseline that learned nothing."""
    from hierbench.models.catalog import list_models

    return [entry.name for entry in list_models() if entry.builtin] or ["random"]


def _retrained(out: Path, device: str) -> list[tuple[str, str, str]]:
    """Train every bundled family as its card says, into OUT/training/FAMILY; the models as `runner.run` takes them.

    What an earlier run into the same folder has trained, wholly or in part, is not done again.
    """
    from hierbench.models.catalog import list_models
    from hierbench.reference.configuration import resolve
    from hierbench.reference.training.launch import launch

    found = []
    bundled = [entry for entry in list_models() if entry.builtin]
    for number, entry in enumerate(bundled, 1):
        folder = out / "training" / entry.family
        weights = folder / "model.safetensors"
        if not weights.is_file():
            say(f"hierbench: training {entry.family} ({number} of {len(bundled)}) in {folder}")
            config = resolve(f"miniature/{entry.family}")
            try:
                launch(config, folder, device=device, resume=(folder / "config.yaml").is_file())
            except KeyboardInterrupt:
                raise Interrupted(
                    f"saved steps are kept in {folder}; the same command with --out {out} goes on from there"
                ) from None
        found.append((entry.family, str(weights), f"{entry.family} (retrained)"))
    return found


def _titles(models: list) -> str:
    return ", ".join(
        model if isinstance(model, str) else ":".join(filter(None, model[:2])) for model in models
    )


def _run(arguments: dict, as_json: bool, first_steps: bool) -> int:
    from hierbench.engine import processes, runner

    out = arguments["out"]
    try:
        with _stdout_for_results():
            found = runner.run(**arguments)
    except KeyboardInterrupt:
        kept = f"finished tasks lie in {out}" if (out / "results").is_dir() else "no task had finished"
        raise Interrupted(f"{kept}; the same command with --out {out} goes on from there") from None
    if processes.rank() > 0:
        return 0
    status = 1 if found.failed else 0
    if as_json:
        _print_document(out, status, found)
    else:
        show_results(out)
    for record in found.failed:
        complain(f"FAILED {record.model}: {record.task}: {record.error}")
    if not as_json:
        say_missing(found)
    if first_steps and not as_json:
        say(_next_steps())
    return status


def _stdout_for_results():
    """What adapters and libraries print goes to stderr meanwhile: stdout is for the table or the document."""
    return redirect_stdout(sys.stderr)


def show_results(out: Path) -> None:
    """Print the table of a run's folder, and write it there as table.md and table.csv."""
    from hierbench.leaderboard import checks

    table = checks.read([out])
    files = save_tables(table, out)
    say()
    print_table(table)
    say(f"\nFiles: {', '.join(map(str, files))}; one JSON a result in {out / 'results'}")


def _print_document(out: Path, status: int, found) -> None:
    import json

    from hierbench.leaderboard import checks, render

    table = checks.read([out])
    save_tables(table, out)
    records = [json.loads(record.to_json()) for record in found]
    document = {"out": str(out), "status": status, "results": records, "missing": missing_data(found)}
    print_json(document | {"table": render.as_dict(table)})


def _next_steps() -> str:
    return (
        "\nThese were the built-in models on the built-in world. With a checkpoint and data of your own:\n"
        "  hierbench run --family hycoclip --checkpoint FILE --data imagenet=DIR --data coco=DIR\n"
        "  hierbench run hycoclip-vit-b     a released checkpoint, downloaded (`hierbench models` lists them)\n"
        "  hierbench doctor                 what is here, what is missing and how to get it"
    )


def _plan(arguments: dict, as_json: bool) -> int:
    """Print what a run would do; nothing is written."""
    from hierbench.engine import planning

    arguments["out"] = arguments["out"] or Path("runs") / "TIME"
    with _stdout_for_results():
        planned = planning.plan(**arguments)
    if as_json:
        print_json({"out": str(arguments["out"]), "plan": [asdict(entry) for entry in planned]})
        return 0
    rows = [
        {
            "model": entry.model,
            "task": entry.task,
            "action": entry.action,
            "images": f"{entry.new_images:,}",
            "texts": f"{entry.new_texts:,}",
            "time": "" if entry.seconds is None else _duration(entry.seconds),
            "reason": entry.reason,
        }
        for entry in planned
    ]
    print_listing(rows, ["model", "task", "action", "images", "texts", "time", "reason"])
    total = sum(entry.seconds or 0 for entry in planned)
    print(
        f"\nImages and texts: still to encode. About {_duration(total)} of encoding, and scoring. Nothing was written."
    )
    return 0


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
