"""`hierbench errata`: the errors known in the released evaluators, and how much they move a model's figures."""

from __future__ import annotations

from typing import Annotated

from hierbench.cli._shared import (
    data_paths,
    existing_folder,
    missing_data,
    print_json,
    print_listing,
    print_text,
    register,
    say,
    say_missing,
)
from hierbench.cli.options import (
    WHAT,
    Adapter,
    BatchSize,
    Checkpoint,
    Data,
    DataDir,
    Device,
    Dtype,
    DtypeName,
    Family,
    Json,
    Limit,
    Models,
    Name,
    NoCache,
    Offline,
    Workers,
    option,
)
from hierbench.cli.run import chosen_models
from hierbench.errors import UsageError


def errata(
    models: Models = None,
    measure: Annotated[
        bool, option(WHAT, "Run the tasks concerned under both protocols.", "--measure")
    ] = False,
    family: Family = None,
    checkpoint: Checkpoint = None,
    name: Name = None,
    adapter: Adapter = None,
    data: Data = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    batch_size: BatchSize = None,
    dtype: DtypeName = Dtype.auto,
    limit: Limit = None,
    workers: Workers = None,
    no_cache: NoCache = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Errors known in the released evaluators.

    With --measure, how much those that the protocol `corrected` mends move a model's figures.

    \b
    hierbench errata
    hierbench errata --measure uncha-vit-b --data-dir DIR
    """
    register(adapter)
    wanted = chosen_models(models, family, checkpoint, name)
    if not measure:
        if wanted:
            raise UsageError("a model goes with --measure: hierbench errata --measure MODEL")
        return _list(as_json)
    if len(wanted) != 1:
        raise UsageError(
            "--measure takes one model: hierbench errata --measure MODEL, or --family and --checkpoint"
        )
    options = {
        "data": data_paths(data),
        "data_dir": existing_folder("--data-dir", data_dir),
        "batch_size": batch_size,
        "limit": limit,
        "workers": workers,
        "cache": not no_cache,
        "offline": offline,
    }
    return _measure(wanted[0], device, dtype.to_measure, options, as_json)


def _list(as_json: bool) -> int:
    from dataclasses import asdict

    from hierbench.errata import errata, protocols

    if as_json:
        print_json({"protocols": protocols(), "errata": [asdict(erratum) for erratum in errata()]})
        return 0
    for name, what in protocols().items():
        print_text(what, f"--protocol {name}", 22)
    for number, erratum in enumerate(errata(), 1):
        print(f"\n{number}. {erratum.title}")
        mended = "mended by --protocol corrected" if erratum.mended else "stated only"
        print_text(f"{erratum.id} ({mended})", "   Id", 14)
        for label in ("what", "where", "effect", "released", "corrected"):
            print_text(getattr(erratum, label), f"   {label.capitalize()}", 14)
    return 0


def _measure(model: str | tuple, device: str, dtype: str, options: dict, as_json: bool) -> int:
    from contextlib import redirect_stdout
    from dataclasses import asdict
    from sys import stderr

    from hierbench.engine.device import resolve_device
    from hierbench.leaderboard import effects
    from hierbench.models.reference import ModelReference

    with redirect_stdout(stderr):  # what libraries print; stdout is for the table or the document
        adapter = ModelReference.of(model).load(resolve_device(device), dtype, options["offline"])
        found, records = effects.measure(adapter, **options)
    failed = [record for record in records if record.error]
    if as_json:
        figures = [asdict(effect) for effect in found]
        print_json({"model": adapter.card.name, "effects": figures, "missing": missing_data(records)})
    else:
        print(f"{adapter.card.name}: what the mended errors of the released evaluators make of its figures\n")
        measured = [effect for effect in found if effect.metric]
        columns = ["erratum", "task", "metric", "released", "corrected", "difference", "95 %"]
        print_listing([_row(effect) for effect in measured], columns, empty="(nothing was measured)")
        for effect in measured:
            if effect.note:
                print_text(f"{effect.task}, {effect.metric}: {effect.note}.")
        spared = {effect.erratum: effect.note for effect in found if not effect.metric and not effect.status}
        for erratum, note in spared.items():
            print_text(f"{erratum}: {note}.")
        say_missing(records)
    for record in failed:
        say(f"FAILED {record.task}: {record.error}")
    return 1 if failed else 0


def _row(effect) -> dict[str, str]:
    scale, digits = (100 if effect.unit == "fraction" else 1), (3 if effect.unit == "raw" else 2)

    def shown(value: float | None, sign: str = "") -> str:
        return "" if value is None else f"{round(value * scale, digits) + 0.0:{sign}.{digits}f}"

    bounds = "" if effect.low is None else f"{shown(effect.low, '+')} … {shown(effect.high, '+')}"
    return {
        "erratum": effect.erratum,
        "task": effect.task,
        "metric": effect.metric,
        "released": shown(effect.released),
        "corrected": shown(effect.corrected),
        "difference": shown(effect.difference, "+"),
        "95 %": bounds,
    }
