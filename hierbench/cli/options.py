"""Every option that more than one command takes, declared once: the same spelling, help and type wherever it applies.

A command writes `data: Data = None` in its signature; the defaults stand there. An option of one command alone is
declared in that command. `tests/cli/test_options.py` walks all commands and holds them to this.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

WHAT, WHERE, HOW = "What to measure", "Data and output", "How to measure"


class Dtype(StrEnum):
    """Arithmetic of the encoders."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"

    @property
    def to_measure(self) -> str:
        """As the engine takes it: what is measured is measured in float32 unless asked otherwise."""
        return "float32" if self is Dtype.auto else self.value


class Protocol(StrEnum):
    """With or without the errors of the released evaluators."""

    released = "released"
    corrected = "corrected"


class Prompts(StrEnum):
    """Which prompts name the classes."""

    default = "default"
    photo = "photo"


def option(heading: str, help_text: str, *names: str, **settings: Any) -> Any:
    """An option under a heading of the help."""
    return typer.Option(*names, help=help_text, rich_help_panel=heading, show_default=False, **settings)


def out_option(default: str = "") -> Any:
    """`-o/--out`: where a command writes, with the command's own default told in the help."""
    told = f" (default: {default})" if default else ""
    return option(
        WHERE, f"The folder or file to write{told}.", "-o", "--out", metavar="PATH", show_envvar=False
    )


def form_option(forms: str) -> Any:
    """`--format`: the form of what is written; `forms` lists the command's own."""
    return option(WHERE, f"The form of what is written ({forms}).", "--format", metavar="NAME")


# ------------------------------------------------------------------------------------------------ what is measured

Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL", help="Names (`hierbench models`), FAMILY:CHECKPOINT, or checkpoint files."
    ),
]
Family = Annotated[
    list[str] | None,
    option(WHAT, "Family of --checkpoint; once, or one for each.", "--family", metavar="NAME"),
]
Checkpoint = Annotated[
    list[str] | None,
    option(WHAT, "Weights, in their release's layout; repeatable.", "--checkpoint", metavar="FILE"),
]
Name = Annotated[
    list[str] | None,
    option(WHAT, "What tables call --checkpoint; one for each.", "--name", metavar="NAME"),
]
Adapter = Annotated[
    list[Path] | None,
    option(WHAT, "A model family of yours, in Python; repeatable.", "--adapter", metavar="FILE"),
]
Manifest = Annotated[
    list[Path] | None,
    option(WHAT, "A dataset of yours, in YAML; repeatable.", "--manifest", metavar="FILE"),
]
TaskFile = Annotated[
    list[Path] | None,
    option(WHAT, "Tasks of yours, in Python; repeatable.", "--task-file", metavar="FILE"),
]

# ------------------------------------------------------------------------------------------------- data and output

Data = Annotated[
    list[str] | None,
    option(WHERE, "Where a dataset lies; repeatable.", "--data", metavar="NAME=PATH"),
]
DataDir = Annotated[Path | None, option(WHERE, "A folder of datasets by name.", "--data-dir", metavar="DIR")]
Out = Annotated[Path, out_option()]
Force = Annotated[bool, option(WHERE, "Do again what is done already.", "--force")]
Json = Annotated[bool, option(WHERE, "Print one JSON document and nothing else.", "--json")]

# ------------------------------------------------------------------------------------------------ how it is measured

Device = Annotated[str, option(HOW, "auto, cpu, cuda, cuda:1, mps.", "--device", metavar="NAME")]
DtypeName = Annotated[
    Dtype,
    option(
        HOW,
        "auto (float32; `clean`: bfloat16 on CUDA), float32, bfloat16, float16.",
        "--dtype",
        metavar="NAME",
    ),
]
BatchSize = Annotated[
    int | None, option(HOW, "Images or prompts at a time.", "--batch-size", metavar="N", min=1)
]
Workers = Annotated[
    int | None,
    option(HOW, "Processes that read images (default: by the cores).", "--workers", metavar="N", min=0),
]
Limit = Annotated[
    int | None, option(HOW, "At most N items of each dataset, for a trial.", "--limit", metavar="N", min=1)
]
Count = Annotated[int, option(HOW, "How many to take.", "-n", "--count", metavar="N", min=1)]
ProtocolName = Annotated[
    Protocol,
    option(HOW, "released or corrected: see `hierbench errata`.", "--protocol", metavar="NAME"),
]
PromptsName = Annotated[
    Prompts,
    option(HOW, "default: each dataset's own; photo: 'a photo of a …'.", "--prompts", metavar="NAME"),
]
NoCache = Annotated[bool, option(HOW, "Neither read nor keep embeddings and measurements.", "--no-cache")]
Offline = Annotated[bool, option(HOW, "Download nothing.", "--offline")]
DryRun = Annotated[bool, option(HOW, "Tell the work and its time, and stop.", "--dry-run")]
Layout = Annotated[
    str | None, option(WHERE, "Which columns (default: the run's own layout).", "--layout", metavar="NAME")
]
Published = Annotated[bool, option(WHERE, "Add the figures printed in the layout's paper.", "--published")]
