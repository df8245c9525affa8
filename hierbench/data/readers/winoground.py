"""Reads Winoground: `data/examples.jsonl`, a question a line, and a folder of images (`data/images.zip`, unpacked).

A line has `id`, `image_0`, `image_1`, `caption_0`, `caption_1` and `collapsed_tag` (Object, Relation, Both).
"""

from __future__ import annotations

import json
from pathlib import Path

from hierbench.data.datasets import CaptionChoices
from hierbench.data.manifests import Manifest
from hierbench.data.readers._choices import Question, choices
from hierbench.data.readers._files import captions_file, find_root, image_folder, images_by_name, read_lines
from hierbench.errors import DataError

NAME = "winoground"
FIELDS = ("image_0", "image_1", "caption_0", "caption_1", "collapsed_tag")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the list of questions lies in the folder or below."""
    return find_root(folder, manifest.layout.table) is not None


def read(manifest: Manifest, folder: Path) -> CaptionChoices:
    """The questions in file order; image ids are file names. Raises DataError with the line of what is wrong."""
    folder = find_root(folder, manifest.layout.table) or folder
    path = captions_file(manifest, folder)
    questions = []
    for number, line in read_lines(path, "captions file"):
        where = f"captions file {path}, line {number}"
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise DataError(f"{where}: not JSON: fetch it again") from error
        if not isinstance(entry, dict) or not all(isinstance(entry.get(field), str) for field in FIELDS):
            raise DataError(f"{where}: it needs {', '.join(FIELDS)}")
        images = tuple(_file(entry[f"image_{place}"]) for place in "01")
        captions = tuple(entry[f"caption_{place}"] for place in "01")
        kind = entry["collapsed_tag"].lower()
        if kind not in manifest.kinds:
            raise DataError(f"{where}: the collapsed_tag is {kind!r}, none of {', '.join(manifest.kinds)}")
        questions.append(Question(str(entry.get("id", number)), kind, images, captions, str(path)))
    names = list(dict.fromkeys(image for question in questions for image in question.images))
    return choices(manifest, images_by_name(manifest, image_folder(manifest, folder), names), questions)


def _file(name: str) -> str:
    return name if name.endswith(".png") else f"{name}.png"
