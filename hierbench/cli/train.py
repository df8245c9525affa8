"""`hierbench train`: train a reference model by a config."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierbench.cli._shared import output_folder, say
from hierbench.cli.options import Device, out_option

if TYPE_CHECKING:
    from hierbench.reference.schema import EvaluateConfig

Config = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG", help="A packaged name (`--list`) or a YAML file; `status DIR`, `consolidate DIR`."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Changes, e.g. train.steps=1000 model.text=L6_W384."),
]
NewRun = Annotated[Path | None, out_option("runs/train-TIME")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
Evaluate = Annotated[str | None, typer.Option(metavar="SUITE", help="Measure the finished model on a suite.")]
Bundle = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Make a bundled model with its card there, measured on --evaluate."),
]
AsList = Annotated[bool, typer.Option("--list", help="Print the packaged names.")]


def train(
    config: Config = "",
    overrides: Overrides = None,
    out: NewRun = None,
    device: Device = "auto",
    resume: Resume = False,
    evaluate: Evaluate = None,
    bundle: Bundle = None,
    as_list: AsList = False,
) -> None:
    """Train a reference model.

    \b
    hierbench train miniature/argent                      the built-in world, on a CPU
    hierbench train hycoclip/vit-b data.shards=grit       the published recipe, on a GPU
    hierbench train RUN/config.yaml --resume              go on with a run (without --resume: a new one like it)
    hierbench train status RUN                            how far it is, its losses and speed, whether a process trains
    hierbench train consolidate RUN                       one file of the newest checkpoint that several processes wrote
    torchrun --nproc-per-node 8 -m hierbench train ...    on several
    """
    from hierbench.errors import UsageError
    from hierbench.reference.configuration import packaged, resolve

    if as_list:
        print("\n".join(packaged()))
        return
    if config in OF_RUNS:
        OF_RUNS[config](overrides or [])
        return
    if not config:
        raise UsageError("name a config: `hierbench train --list` prints the packaged ones")
    if resume and out is None and Path(config).name == "config.yaml":  # the file that a run itself wrote
        out = Path(config).parent
    if resume and out is None:
        raise UsageError("--resume needs --out DIR, the folder of the run to go on with, or its config.yaml")
    if bundle is not None and not evaluate:
        raise UsageError("--bundle needs --evaluate SUITE: the model's card says what it reached")
    resolved = resolve(config, overrides or ())
    _check_suites(evaluate, resolved.train.evaluate)
    from hierbench.reference.training.launch import launch, own_folder

    begun = time.monotonic()
    out = out or own_folder(Path("runs"), "train-*")  # a restart's is known by more than the time
    with output_folder(out, "train-{}") as folder:
        final = launch(resolved, folder, device=device, resume=resume)
    if final is None:  # a process that does not lead
        return
    seconds = time.monotonic() - begun
    print(final)
    if not evaluate:
        say(f"measure it: hierbench run --family {resolved.measured_as} --checkpoint {final}")
        return
    figures = _measure(final, resolved.measured_as, evaluate, folder)
    if bundle is not None:
        from hierbench.reference import bundle as bundling

        command = shlex.join(["hierbench", "train", config, *(overrides or ())])
        notes = {"resumed": "the seconds are those of the last sitting"} if resume else {}
        made = bundling.bundle(folder, bundle, command=command, seconds=seconds, figures=figures, **notes)
        say(f"bundled: {made}")


def _tell_status(folders: list[str]) -> None:
    from hierbench.errors import UsageError
    from hierbench.reference.training import status

    if len(folders) != 1:
        raise UsageError("train status takes the folder of one run: hierbench train status RUN")
    folder = Path(folders[0]).expanduser()
    print("\n".join(status.told(status.read(folder), folder)))


def _consolidate(folders: list[str]) -> None:
    from hierbench.errors import UsageError
    from hierbench.reference.training import sharded
    from hierbench.reference.training.state import saved

    if len(folders) != 1:
        raise UsageError(
            "train consolidate takes a run's folder, or a checkpoint's: hierbench train consolidate RUN"
        )
    folder = Path(folders[0]).expanduser()
    found = saved(folder)
    print(sharded.consolidate(found[-1] if found else folder))


OF_RUNS = {"status": _tell_status, "consolidate": _consolidate}
"""What CONFIG may name besides: something to do with the folder of a run."""


def _check_suites(evaluate: str | None, midway: EvaluateConfig | None) -> None:
    """Before hours of training, not after. Raises UnknownNameError."""
    from hierbench import registry

    for name in filter(None, (evaluate, midway.suite if midway else None)):
        registry.suite(name)


def _measure(weights: Path, family: str, suite: str, folder: Path) -> dict[str, float]:
    """Run a suite on the finished weights and print its table; every figure as "task metric"."""
    from hierbench.cli.run import show_results
    from hierbench.engine.runner import run

    out = folder / "evaluation"
    found = run([(family, str(weights), folder.name)], suite=suite, out=out)
    show_results(out)
    return {
        f"{record.task} {metric}": estimate.value
        for record in found
        for metric, estimate in (record.metrics or {}).items()
    }
