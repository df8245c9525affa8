"""A picture of a dataset: samples in a grid, each with its label or captions."""

from __future__ import annotations

import functools
import io
import textwrap
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from hierbench.data.datasets import (
    AnyDataset,
    CaptionChains,
    CaptionChoices,
    Classification,
    MultiLabel,
    spread,
)
from hierbench.data.images import decode
from hierbench.errors import UsageError
from hierbench.files import replacing

CELL = 176  # pixels, both sides of a picture
GAP = 12
LINE = 15  # pixels of a line of text
LINES = 4
LETTERS = 27  # a line of text holds about so many


def contact_sheet(record: AnyDataset, count: int = 20) -> Image.Image:
    """At most `count` images, evenly spread over the dataset, scaled into squares, with what is said of them.

    Raises DataError for an image that cannot be read, UsageError for a count below one.
    """
    if count < 1:
        raise UsageError(f"a contact sheet of {count} images: give at least 1")
    rows = spread(len(record.images.ids), count).tolist()
    texts = [_lines(said_of(record, row)) for row in rows]
    across = max(1, min(len(rows), round((len(rows) * 1.4) ** 0.5)))
    down = -(-len(rows) // across)
    height = CELL + GAP // 2 + max(map(len, texts)) * LINE
    sheet = Image.new("RGB", (GAP + across * (CELL + GAP), GAP + down * (height + GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (row, lines) in enumerate(zip(rows, texts, strict=True)):
        left = GAP + number % across * (CELL + GAP)
        top = GAP + number // across * (height + GAP)
        image_id = record.images.ids[row]
        picture = _fitted(decode(record.images.read(image_id), f"{image_id} of {record.name}"))
        sheet.paste(picture, (left + (CELL - picture.width) // 2, top + (CELL - picture.height) // 2))
        for place, line in enumerate(lines):
            draw.text((left, top + CELL + GAP // 2 + place * LINE), line, "black", _font())
    return sheet


def write_contact_sheet(record: AnyDataset, path: Path, count: int = 20) -> None:
    """`contact_sheet` as a PNG file, whole or not at all."""
    buffer = io.BytesIO()
    contact_sheet(record, count).save(buffer, "PNG")
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getvalue())


def said_of(record: AnyDataset, row: int) -> list[str]:
    """What a dataset says of an image: the class's name, the names present, the captions from general to specific."""
    if isinstance(record, Classification):
        label = int(record.labels[row])
        return [record.class_names[label]]
    if isinstance(record, MultiLabel):
        return [
            ", ".join(record.class_names[label] for label in np.flatnonzero(record.present[row])) or "(none)"
        ]
    if isinstance(record, CaptionChoices):  # the first question on it: true, then false
        said = (texts for shown, texts in zip(record.shown, record.captions, strict=True) if row in shown)
        return [f"{'+' if place == 0 else '-'} {text}" for place, text in enumerate(next(said, ()))]
    items = np.flatnonzero(record.owner == row)
    if isinstance(record, CaptionChains):
        return [text for item in items[:1] for text in record.captions[item]]
    return [record.captions[item].strip() for item in items]


def _fitted(picture: Image.Image) -> Image.Image:
    scale = CELL / max(picture.size)
    size = [max(1, round(side * scale)) for side in picture.size]
    smooth = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST  # tiny images: their pixels
    return picture.resize(size, smooth)


def _lines(texts: list[str]) -> list[str]:
    """The first lines of several texts; each text begins a line of its own."""
    lines = [line for text in texts for line in textwrap.wrap(text, LETTERS) or [""]]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], lines[LINES - 1][: LETTERS - 1] + "…"]
    return lines


@functools.cache
def _font() -> ImageFont.FreeTypeFont:
    """matplotlib's DejaVu, which has more than Latin letters."""
    import matplotlib

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", 12)
