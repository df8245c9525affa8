"""Stamps of image sources: the same while the files stay as they are, another or none once one of them changes."""

import os
import time

import pytest

from hierbench.acquire.prepare import prepare
from hierbench.data import stamps
from hierbench.data.locate import Locations
from hierbench.data.manifests import load_manifest
from hierbench.data.readers import open_dataset

CONTAINERS = ("", ".bin", ".jpg", ".parquet", ".tar")  # what holds images
SOURCES = ("cifar10", "cifar10-binary", "stl10", "pets", "parquet", "wds", "tfds", "prepared")


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Times of change count as settled at once."""
    monkeypatch.setattr(stamps, "SETTLED_NS", -(10**12))


def source(kind, folder, layouts):
    """Name of a dataset and its folder in one of the layouts."""
    if kind in ("cifar10", "cifar10-binary", "stl10", "pets"):
        layouts.build(kind, folder)
        return kind.removesuffix("-binary"), folder
    samples = layouts.some("Abyssinian", "american_bulldog", each=2)
    if kind == "prepared":
        layouts.write_imagefolder(folder / "source", samples)
        prepare("pets", [folder / "source"], folder / "prepared")
        return "pets", folder / "prepared"
    write = {"parquet": layouts.write_hf_parquet, "wds": layouts.write_wds}.get(kind)
    names = load_manifest("pets").class_ids
    if write is None:
        return "pets", layouts.write_tfds(folder, "oxford_iiit_pet", samples, names)
    return "pets", write(folder, samples, names)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_stamp_changes_with_the_files(kind, layouts, tmp_path):
    name, folder = source(kind, tmp_path / "data", layouts)

    def stamp():
        images = open_dataset(name, Locations({name: folder})).images
        return images.stamp(images.ids)

    first = stamp()
    assert first is not None
    assert stamp() == first
    later = time.time() + 10
    for path in folder.rglob("*"):
        if path.is_file() and (path.suffix in CONTAINERS or ".tfrecord-" in path.name):
            os.utime(path, (later, later))
    assert stamp() not in (first, None)


def test_what_else_it_is_about_and_where_the_files_lie_count(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"same")
    os.link(one, two)
    assert stamps.stamp_of([one]) != stamps.stamp_of([two])
    assert stamps.stamp_of([one]) != stamps.stamp_of([one], "sha256")
    assert stamps.stamp_of([one, tmp_path / "absent"]) is None


def test_a_file_just_written_has_none(tmp_path, monkeypatch):
    monkeypatch.undo()
    path = tmp_path / "file"
    path.write_bytes(b"new")
    assert stamps.stamp_of([path]) is None
