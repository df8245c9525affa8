"""Reads SugarCrepe: a JSON file for each kind of change (`data/swap_att.json`) over the images of COCO val 2017.

A file maps a key to `filename`, `caption` (true of the image) and `negative_caption` (false of it).
"""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import CaptionChoices
from hierbench.data.locate import Locations
from hierbench.data.manifests import Manifest
from hierbench.data.readers._choices import Question, choices
from hierbench.data.readers._files import find_root, images_by_name, needed
from hierbench.data.readers._lent import pictures
from hierbench.errors import DataError
from hierbench.json_files import read_json

NAME = "sugarcrepe"
FIELDS = ("filename", "caption", "negative_caption")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the first kind's file lies in the folder or below."""
    return find_root(folder, _places(manifest.kinds[0])) is not None


def read(manifest: Manifest, folder: Path, locations: Locations | None = None) -> CaptionChoices:
    """The questions of every kind that the manifest names, in its order and that of the files; images are file names.

    Raises DataError, naming file and key: no file of a kind, an entry of another form; MissingDataError where the
    images' dataset is not there.
    """
    folder = find_root(folder, _places(manifest.kinds[0])) or folder
    questions = []
    for kind in manifest.kinds:
        path = needed(manifest, folder, *_places(kind))
        content = read_json(path, "captions file")
        if not isinstance(content, dict) or not content:
            raise DataError(f"captions file {path} is no mapping of questions: is it the right file?")
        for key, entry in content.items():
            if not isinstance(entry, dict) or not all(isinstance(entry.get(field), str) for field in FIELDS):
                raise DataError(f"captions file {path}, question {key}: it needs {', '.join(FIELDS)}")
            name, true, false = (entry[field] for field in FIELDS)
            questions.append(Question(f"{kind}/{key}", kind, (name,), (true, false), str(path)))
    names = list(dict.fromkeys(image for question in questions for image in question.images))
    source = images_by_name(manifest, pictures(manifest, folder, locations or Locations()), names)
    return choices(manifest, source, questions)


def _places(kind: str) -> tuple[str, str]:
    return f"data/{kind}.json", f"{kind}.json"
