"""Reads ARO's relations and attributions: one JSON list over images of Visual Genome, each question on a part of one.

An entry has `image_path`, `bbox_x`, `bbox_y`, `bbox_w`, `bbox_h`, `true_caption`, `false_caption`, and `relation_name`
or `attributes`, a pair. The released evaluator shows the model the part in the box alone.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hierbench.data.datasets import CaptionChoices, ImageFiles
from hierbench.data.manifests import Manifest
from hierbench.data.readers._choices import Question, choices
from hierbench.data.readers._files import captions_file, find_root, image_folder, images_by_name
from hierbench.errors import DataError
from hierbench.json_files import read_json

NAME = "aro"
BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
MOST = 10  # times an image's side that a box may have: what lies beyond the image is drawn black
TEXT = ("image_path", "true_caption", "false_caption")


@dataclass(frozen=True)
class Crops:
    """Parts of images; an id is the file's name, #, and left, top, width, height."""

    whole: ImageFiles
    ids: tuple[str, ...]

    def read(self, image_id: str) -> bytes:
        """The part as a PNG. Raises DataError for a file that is no image, or a box outside of it."""
        name, _, box = image_id.rpartition("#")
        left, top, width, height = map(int, box.split(","))
        from hierbench.data.images import decode  # torch, which lists of datasets do without

        picture = decode(self.whole.read(name), name)
        if not (0 <= left < picture.width and 0 <= top < picture.height):
            raise DataError(
                f"the box {box} lies outside of image {name} ({picture.width} x {picture.height})"
            )
        if (
            width > MOST * picture.width or height > MOST * picture.height
        ):  # a few of the released reach beyond the rim
            raise DataError(
                f"the box {box} is far larger than image {name} ({picture.width} x {picture.height})"
            )
        buffer = io.BytesIO()
        picture.crop((left, top, left + width, top + height)).save(buffer, "PNG")
        return buffer.getvalue()

    def stamp(self, ids: Sequence[str]) -> bytes | None:
        """That of the whole images: see `hierbench.data.stamps`."""
        return self.whole.stamp(tuple(dict.fromkeys(image_id.rpartition("#")[0] for image_id in ids)))


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the list of questions lies in the folder or below."""
    return find_root(folder, manifest.layout.table) is not None


def read(manifest: Manifest, folder: Path) -> CaptionChoices:
    """The questions in file order; a question's kind is its relation or its pair of attributes. Raises DataError."""
    folder = find_root(folder, manifest.layout.table) or folder
    path = captions_file(manifest, folder)
    content = read_json(path, "captions file")
    if not isinstance(content, list):
        raise DataError(f"captions file {path} is no list of questions: is it the right file?")
    questions = []
    for number, entry in enumerate(content):
        where = f"captions file {path}, question {number}"
        if not isinstance(entry, dict) or not all(isinstance(entry.get(field), str) for field in TEXT):
            raise DataError(f"{where}: it needs {', '.join(TEXT)}")
        box = [side for field in BOX if type(side := entry.get(field)) is int]
        if len(box) < len(BOX) or min(box[2:]) < 1:
            raise DataError(f"{where}: it needs {', '.join(BOX)}, whole numbers, and a box with a size")
        name, true, false = (entry[field] for field in TEXT)
        image = f"{name}#{','.join(map(str, box))}"
        questions.append(Question(str(number), _kind(entry, where), (image,), (true, false), str(path)))
    parts = tuple(dict.fromkeys(question.images[0] for question in questions))
    files = tuple(dict.fromkeys(part.rpartition("#")[0] for part in parts))
    whole = images_by_name(manifest, image_folder(manifest, folder), files)
    return choices(manifest, Crops(whole, parts), questions)


def _kind(entry: dict, where: str) -> str:
    attributes = entry.get("attributes")
    if isinstance(attributes, list) and len(attributes) == 2 and all(isinstance(a, str) for a in attributes):
        return "_".join(attributes)
    if isinstance(entry.get("relation_name"), str):
        return entry["relation_name"]
    raise DataError(f"{where}: it needs relation_name, or attributes, a pair")
