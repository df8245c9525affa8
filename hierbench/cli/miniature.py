"""`hierbench miniature`: a look at the built-in world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hierbench.cli._shared import say, sub_app
from hierbench.cli.options import out_option

app = sub_app("The built-in world of drawn scenes.")


@app.command()
def show(
    count: Annotated[int, typer.Argument(metavar="N", min=1, help="How many scenes.")] = 20,
    out: Annotated[Path, out_option("grid.png")] = Path("grid.png"),
    split: Annotated[str, typer.Option(metavar="NAME", help="train, test or pool.")] = "test",
    start: Annotated[int, typer.Option(metavar="N", min=0, help="The first scene's number.")] = 0,
) -> None:
    """Draw sample scenes with their captions, from general to full, into one picture."""
    from hierbench.miniature.grid import save_grid

    save_grid(out, count, split=split, start=start)
    say(f"written: {out}")
