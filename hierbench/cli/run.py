"""`hierbench run`: measure models on tasks, print the table, say where the files are."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from hierbench.cli._shared import (
    Interrupted,
    Json,
    data_paths,
    existing_folder,
    missing_data,
    print_json,
    print_listing,
    print_table,
    register,
    save_tables,
    say,
    say_missing,
)
from hierbench.errors import HierbenchError, UsageError

WHAT, WHERE, HOW = "What to measure", "Data and output", "How to measure"


class Dtype(StrEnum):
    """Arithmetic of the encoders."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


class Protocol(StrEnum):
    """With or without the errors of the released evaluators."""

    released = "released"
    corrected = "corrected"


class Prompts(StrEnum):
    """Which prompts name the classes."""

    default = "default"
    photo = "photo"


def _option(heading: str, help_text: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=heading, show_default=False, **settings)


Family = Annotated[
    list[str] | None, _option(WHAT, "Family of --checkpoint; once, or one for each.", metavar="NAME")
]
Checkpoint = Annotated[
    list[str] | None, _option(WHAT, "Weights, in their release's layout; repeatable.", metavar="FILE")
]
Name = Annotated[
    list[str] | None, _option(WHAT, "What tables call --checkpoint; one for each.", metavar="NAME")
]
Adapter = Annotated[list[Path] | None, _option(WHAT, "A model family of yours, in Python.", metavar="FILE")]
Data = Annotated[list[str] | None, _option(WHERE, "Where a dataset lies; repeatable.", metavar="NAME=PATH")]
DataDir = Annotated[Path | None, _option(WHERE, "A folder of datasets by name.", metavar="DIR")]
Device = Annotated[str, _option(HOW, "auto, cpu, cuda, cuda:1, mps.", metavar="NAME")]
BatchSize = Annotated[int | None, _option(HOW, "Images a batch.", metavar="N", min=1)]
DtypeName = Annotated[Dtype, _option(HOW, "float32, bfloat16, float16.", metavar="NAME")]
ProtocolName = Annotated[
    Protocol, _option(HOW, "released or corrected: see `hierbench errata`.", metavar="NAME")
]
Limit = Annotated[int | None, _option(HOW, "At most N items a dataset, for a trial.", metavar="N", min=1)]
Workers = Annotated[int | None, _option(HOW, "Processes that prepare images.", metavar="N", min=0)]
NoCache = Annotated[bool, _option(HOW, "Neither read nor keep embeddings.", "--no-cache")]
Offline = Annotated[bool, _option(HOW, "Download nothing.", "--offline")]


def run(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help="Names (`hierbench models`), FAMILY:CHECKPOINT, or checkpoint files."
        ),
    ] = None,
    family: Family = None,
    checkpoint: Checkpoint = None,
    name: Name = None,
    suite: Annotated[str | None, _option(WHAT, "A set of tasks (default: argent).", metavar="NAME")] = None,
    task: Annotated[
        list[str] | None, _option(WHAT, "A task, instead of a suite; repeatable.", metavar="NAME")
    ] = None,
    adapter: Adapter = None,
    manifest: Annotated[
        list[Path] | None, _option(WHAT, "A dataset of yours, in YAML.", metavar="FILE")
    ] = None,
    data: Data = None,
    data_dir: DataDir = None,
    out: Annotated[
        Path | None, _option(WHERE, "Where results go (default: runs/TIME).", metavar="DIR")
    ] = None,
    device: Device = "auto",
    batch_size: BatchSize = None,
    dtype: DtypeName = Dtype.float32,
    limit: Limit = None,
    workers: Workers = None,
    protocol: ProtocolName = Protocol.released,
    prompts: Annotated[
        Prompts, _option(HOW, "default: each dataset's own; photo: 'a photo of a …'.", metavar="NAME")
    ] = Prompts.default,
    no_cache: NoCache = False,
    offline: Offline = False,
    force: Annotated[bool, _option(HOW, "Measure again what --out holds.", "--force")] = False,
    compile: Annotated[bool, _option(HOW, "Compile the image encoder.", "--compile")] = False,
    dry_run: Annotated[bool, _option(HOW, "List the work and its time, and stop.", "--dry-run")] = False,
    retrain: Annotated[
        bool, _option(HOW, "Train the built-in models first, on this machine.", "--retrain")
    ] = False,
    as_json: Json = False,
) -> int:
    """Measure models on tasks and print the table.

    \b
    hierbench run                          built-in models on the built-in world
    hierbench run --retrain                trains these models first, an hour or more on two cores
    hierbench run hycoclip-vit-b           a released checkpoint, suite argent
    hierbench run hycoclip-vit-b --suite all --data-dir DIR     every task whose data is in DIR
    hierbench run --family hycoclip --checkpoint FILE --data imagenet=DIR
    """
    if suite and task:
        raise UsageError("--suite and --task are both given: choose one")
    register(adapter, manifest)
    wanted = chosen_models(models or [], family, checkpoint, name)
    if retrain and (wanted or dry_run):
        raise UsageError("--retrain trains the built-in models: leave out MODEL, --checkpoint and --dry-run")
    suite = suite or (None if task else "argent" if wanted else "miniature")
    arguments = {
        "models": wanted or _builtin(),
        "tasks": task or None,
        "suite": suite,
        "data": data_paths(data),
        "data_dir": existing_folder("--data-dir", data_dir),
        "out": out or Path("runs") / time.strftime("%Y-%m-%d-%H%M%S"),
        "device": device,
        "batch_size": batch_size,
        "dtype": dtype.value,
        "limit": limit,
        "workers": workers,
        "cache": not no_cache,
        "offline": offline,
        "protocol": protocol.value,
        "prompts": prompts.value,
        "force": force,
        "compile": compile,
    }
    if dry_run:
        return _plan(arguments, as_json)
    if retrain:
        arguments["models"] = _retrained(arguments["out"], device)
    if os.environ.get("RANK", "0") == "0":  # under torchrun one process speaks
        say(f"hierbench: {_titles(arguments['models'])} on {f'suite {suite}' if suite else ', '.join(task)}")
    return _run(arguments, as_json, first_steps=not wanted)


def chosen_models(
    models: Sequence[str],
    families: Sequence[str] | None,
    checkpoints: Sequence[str] | None,
    names: Sequence[str] | None,
) -> list[str | tuple[str | None, ...]]:
    """The models as `runner.run` takes them: MODELs, then (family, checkpoint, name) for each --checkpoint.

    Raises UsageError where the options do not go together.
    """
    families, checkpoints, names = list(families or ()), list(checkpoints or ()), list(names or ())
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
    from hierbench.engine import distributed, runner

    out = arguments["out"]
    fresh = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        with _stdout_for_results():
            found = runner.run(**arguments)
    except HierbenchError:
        for folder in fresh:
            with suppress(OSError):  # nothing was done: leave no empty folders
                folder.rmdir()
        raise
    except KeyboardInterrupt:
        kept = f"finished tasks lie in {out}" if (out / "results").is_dir() else "no task had finished"
        raise Interrupted(f"{kept}; the same command with --out {out} goes on from there") from None
    if distributed.rank() > 0:
        return 0
    status = 1 if found.failed else 0
    if as_json:
        _print_document(out, status, found)
    else:
        show_results(out)
    for record in found.failed:
        say(f"FAILED {record.model}: {record.task}: {record.error}")
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
    from hierbench.leaderboard import tables

    table = tables.read([out])
    files = save_tables(table, out)
    say()
    print_table(table)
    say(f"\nFiles: {', '.join(map(str, files))}; one JSON a result in {out / 'results'}")


def _print_document(out: Path, status: int, found) -> None:
    import json

    from hierbench.leaderboard import render, tables

    table = tables.read([out])
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
    from hierbench.engine import runner

    with _stdout_for_results():
        planned = runner.plan(**arguments)
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
