"""`hierbench data`: making training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hierbench.cli._shared import Interrupted, print_listing, say, sub_app

app = sub_app("Prepare data.")


@app.command("grit-prepare")
def grit_prepare(
    raw: Annotated[
        list[str],
        typer.Argument(metavar="RAW...", help="GRIT's tars from img2dataset: files, folders, globs, ranges."),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FOLDER", help="Where the shards go.")],
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes (default: one a core).")
    ] = None,
    max_boxes: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Keep at most K boxes an image, the best scored.")
    ] = None,
    min_side: Annotated[
        int, typer.Option(metavar="PIXELS", min=1, help="Drop boxes with a shorter side.")
    ] = 16,
) -> None:
    """Make training shards of GRIT: boxes cut out, unusable ones dropped and counted.

    Run it again to go on after an interruption: finished shards are kept.
    """
    import os

    from hierbench.data.grit import SUMMARY, Settings, prepare
    from hierbench.reference.training.shards import find_shards

    tars = [file for pattern in raw for file in find_shards(pattern)]
    try:
        report = prepare(tars, out, Settings(max_boxes, min_side), workers=workers or os.cpu_count() or 1)
    except KeyboardInterrupt:
        raise Interrupted(f"finished shards are kept in {out}, run the command again to go on") from None
    print_listing(report.rows(), ["what", "count", "share"])
    for name in report.damaged_tars:
        say(f"damaged: {name} breaks off; what came before is used. Fetch it again and repeat this command.")
    say(f"{report.shards} shards in {out}, the account in {out / SUMMARY}")
    say(f"train on them: hierbench train hycoclip/vit-b data.shards={out}")
