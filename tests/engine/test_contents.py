"""Content ids kept between runs: used while nothing has changed, never once something has."""

import os
import time

import pytest

from hierbench.data import stamps
from hierbench.data.datasets import ImageFiles, subset
from hierbench.engine import contents
from hierbench.miniature.datasets import MiniatureImages


@pytest.fixture
def old(images):
    """The images, written an hour ago as far as their times tell."""
    past = time.time() - 3600
    for image_id in images.ids:
        os.utime(images.folder / image_id, (past, past))
    return images


@pytest.fixture
def settled(monkeypatch):
    """Times of change count as settled at once."""
    monkeypatch.setattr(stamps, "SETTLED_NS", -(10**12))


def ids_of(images):
    return {image_id: bytes([row]) * 32 for row, image_id in enumerate(images.ids)}


def test_kept_while_nothing_changes(old, settled):
    assert contents.remembered(old) == {}
    contents.remember(old, ids_of(old))
    assert contents.remembered(old) == ids_of(old)
    assert contents.remembered(ImageFiles(old.folder, old.ids[::-1])) == {}  # other images, in another order
    some = subset(old, [1, 5])
    contents.remember(some, ids_of(old))
    assert contents.remembered(some) == {i: ids_of(old)[i] for i in some.ids}


@pytest.mark.parametrize("change", ["bytes", "bytes and time", "gone", "cut"])
def test_forgotten_when_a_file_changes(old, settled, change):
    contents.remember(old, ids_of(old))
    path = old.folder / old.ids[3]
    before, content = path.stat(), path.read_bytes()
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-1] if change == "cut" else bytes(len(content)))
        if (
            change == "bytes and time"
        ):  # only the time of change of the file's entry tells, and nobody can set it
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert contents.remembered(old) == {}


def test_files_just_written_are_not_kept(images):
    contents.remember(images, ids_of(images))
    assert contents.remembered(images) == {}


def test_a_damaged_file_is_no_answer(old, settled):
    contents.remember(old, ids_of(old))
    path = contents._path(old)
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[32:], b"\1" + whole[1:]):
        path.write_bytes(damaged)
        assert contents.remembered(old) == {}


def test_a_source_without_a_stamp_is_read_each_time(fakes):
    class Bare:
        ids = ("a",)

        def read(self, image_id):
            return b""

    contents.remember(Bare(), {"a": bytes(32)})
    assert contents.remembered(Bare()) == {}


def test_the_built_in_world_goes_by_its_code():
    world = MiniatureImages(("test-0", "test-1"))
    contents.remember(world, {"test-0": bytes(32), "test-1": bytes(32)})
    assert contents.remembered(world).keys() == set(world.ids)
