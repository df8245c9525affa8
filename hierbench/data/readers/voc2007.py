"""Reads PASCAL VOC 2007: `VOC2007/ImageSets/Main/test.txt`, `Annotations/000001.xml`, `JPEGImages/000001.jpg`.

As in the challenge's own classification lists, a class whose objects in an image are all marked `difficult` counts
there neither as present nor as absent (development kit, readme, section 4.2).
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from hierbench.data.datasets import MultiLabel
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import find_root, listed_images, needed, read_bytes, read_lines
from hierbench.data.readers._labels import class_ids_of
from hierbench.data.readers._multilabel import multilabel
from hierbench.errors import DataError

NAME = "voc2007"
MARKS = ("ImageSets/Main/test.txt", "ImageSets/Main", "Annotations")


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the lists or the annotations lie in the folder or below."""
    return find_root(folder, MARKS) is not None


def read(manifest: Manifest, folder: Path) -> MultiLabel:
    """The test images in the order of the list; ids are file names.

    Raises DataError: list, annotation or image missing, damaged XML, a class that is unknown.
    """
    root = find_root(folder, MARKS) or folder
    path = needed(manifest, root, "ImageSets/Main/test.txt")
    numbers = [line for _, line in read_lines(path, "test list")]
    folder = needed(manifest, root, "Annotations")
    objects = [_objects(folder / f"{number}.xml") for number in numbers]
    meaning = class_ids_of(manifest, (name for found in objects for name, _ in found), str(folder))
    easy = [{meaning[name] for name, difficult in found if not difficult} for found in objects]
    every = [{meaning[name] for name, _ in found} for found in objects]
    images = listed_images(manifest, needed(manifest, root, "JPEGImages"), [f"{n}.jpg" for n in numbers])
    hard = [all_ - some for all_, some in zip(every, easy, strict=True)]
    return multilabel(manifest, images, easy, ignored=hard)


def _objects(path: Path) -> list[tuple[str, bool]]:
    """Name and difficulty of the objects of one image; parts of objects (head, hand) are passed over."""
    try:
        tree = ElementTree.fromstring(read_bytes(path, "annotation file"))
    except ElementTree.ParseError as error:
        raise DataError(f"annotation file {path} is not XML ({error}): fetch it again") from error
    found = []
    for thing in tree.findall("object"):
        name, difficult = thing.findtext("name"), thing.findtext("difficult", "0").strip()
        if name is None or difficult not in ("0", "1"):
            raise DataError(f"annotation file {path} has an object without name, or difficult is not 0 or 1")
        found.append((name.strip(), difficult == "1"))
    return found
