"""Reads COCO's object annotations as image labels: `annotations/instances_val2017.json` and `val2017/`."""

from __future__ import annotations

from pathlib import Path

from hierbench.data.datasets import MultiLabel
from hierbench.data.manifests import Manifest
from hierbench.data.readers import _json
from hierbench.data.readers._files import (
    captions_file,
    check_distinct,
    find_root,
    image_folder,
    images_by_name,
)
from hierbench.data.readers._multilabel import multilabel
from hierbench.errors import DataError
from hierbench.json_files import read_json

NAME = "coco-objects"


def fits(manifest: Manifest, folder: Path) -> bool:
    """Whether the annotations lie in the folder or below."""
    return find_root(folder, manifest.layout.table) is not None


def read(manifest: Manifest, folder: Path) -> MultiLabel:
    """All images of the file in its order (some hold no object); ids are file names, class ids COCO's own numbers.

    Crowds count as present. Raises DataError: no or broken annotations, an object of an unknown image or category,
    a category whose name is not that of the class, missing image files.
    """
    folder = find_root(folder, manifest.layout.table) or folder
    path = captions_file(manifest, folder)
    where = f"annotation file {path}"
    content = read_json(path, "annotation file")
    images = _json.entries(content, "images", {"id": int, "file_name": str}, where)
    annotations = _json.entries(content, "annotations", {"image_id": int, "category_id": int}, where)
    categories = _json.entries(content, "categories", {"id": int, "name": str}, where)
    check_distinct([image["id"] for image in images], "image id", where)
    name_of = {category["id"]: category["name"] for category in categories}
    found: dict[int, set[str]] = {image["id"]: set() for image in images}
    for annotation in annotations:
        image, category = annotation["image_id"], annotation["category_id"]
        if image not in found:
            raise DataError(f"{where}: an object is of an unknown image {image}")
        if category not in name_of:
            raise DataError(f"{where}: an object of image {image} has an unknown category {category}")
        found[image].add(str(category))
    for category in sorted({int(c) for classes in found.values() for c in classes}):
        meant = manifest.class_for(name_of[category])
        if meant != str(category):
            raise DataError(
                f"{where}: category {category} is called {name_of[category]!r}, which is "
                f"{'no class' if meant is None else f'class {meant}'} of {manifest.name}: fetch it again"
            )
    pictures = image_folder(manifest, folder)
    sources = images_by_name(manifest, pictures, [image["file_name"] for image in images])
    return multilabel(manifest, sources, list(found.values()))
