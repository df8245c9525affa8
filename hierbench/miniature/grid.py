"""A picture of sample scenes with their captions below, to look at."""

from __future__ import annotations

import textwrap
from pathlib import Path

from hierbench.errors import OutputError, UsageError
from hierbench.files import replacing
from hierbench.miniature.captions import chain
from hierbench.miniature.scenes import SPLITS, render, scene

_COLUMNS = 5
_TILE = (2.3, 3.45)  # inches
_LINE = 38  # characters


def save_grid(path: Path, count: int, *, split: str = "test", start: int = 0) -> None:
    """Draw `count` scenes of a split from number `start` on, each above its four captions, into a PNG file.

    Raises UsageError for another kind of file or scenes that the split does not have, OutputError
    where the file cannot be written.
    """
    if split not in SPLITS:
        raise UsageError(f"no split {split!r} in the miniature: it is {', '.join(SPLITS)}")
    if count < 1 or start < 0 or start + count > SPLITS[split]:
        raise UsageError(
            f"scenes {start} to {start + count - 1}: split {split!r} has 0 to {SPLITS[split] - 1}"
        )
    if Path(path).suffix.lower() != ".png":
        raise UsageError(f"picture {path}: it becomes a PNG file, give a name in .png")
    if count > 500:
        raise UsageError(f"{count} scenes are too many for one picture: ask for at most 500")

    from matplotlib.figure import Figure

    columns = min(_COLUMNS, count)
    rows = -(-count // columns)
    figure = Figure((_TILE[0] * columns, _TILE[1] * rows), dpi=110, layout="constrained")
    for number, axes in enumerate(figure.subplots(rows, columns, squeeze=False).flat):
        axes.axis("off")
        if number >= count:
            continue
        shown = scene(split, start + number)
        axes.imshow(render(shown).pixels, interpolation="nearest")
        lines = [textwrap.fill(caption.text, _LINE, subsequent_indent="  ") for caption in chain(shown)]
        label = "\n".join([shown.id, *lines])
        axes.text(0, -0.03, label, fontsize=6.5, va="top", transform=axes.transAxes)
    try:
        with replacing(Path(path)) as temporary:
            figure.savefig(temporary, format="png")
    except OSError as error:
        raise OutputError(f"picture {path} cannot be written: {error.strerror}") from error
