"""Digests of large files: kept between runs while the file stays as it is, computed anew once it may have changed."""

import hashlib
import os

import pytest

from hierbench.acquire import download
from hierbench.cache import cache_dir
from hierbench.data import stamps


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A file that counts as large and as settled."""
    monkeypatch.setattr(download, "KEPT_FROM", 4)
    monkeypatch.setattr(stamps, "SETTLED_NS", -(10**12))
    path = tmp_path / "model.pth"
    path.write_bytes(b"weights")
    return path


def anew(path):
    """As a later process asks."""
    download._computed_digest.cache_clear()
    return download.sha256(path)


def kept():
    return list((cache_dir() / "digests").glob("*"))


def test_a_kept_digest_spares_reading(weights, monkeypatch):
    digest = hashlib.sha256(b"weights").hexdigest()
    assert anew(weights) == digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("the file was read"))
    assert anew(weights) == digest


@pytest.mark.parametrize("keep_time", [True, False])
def test_a_changed_file_is_read_again(weights, keep_time):
    anew(weights)
    before = weights.stat()
    weights.write_bytes(b"WEIGHTS")
    if keep_time:  # the time of change of the file's entry tells, and nobody can set it
        os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert anew(weights) == hashlib.sha256(b"WEIGHTS").hexdigest()


def test_another_file_in_its_place_is_read(weights, tmp_path):
    anew(weights)
    other = tmp_path / "other"
    other.write_bytes(b"another")
    os.replace(other, weights)
    assert anew(weights) == hashlib.sha256(b"another").hexdigest()


@pytest.mark.parametrize("damage", ["", "ab", "no hex", "0" * 62])
def test_a_damaged_entry_is_no_answer(weights, damage):
    digest = anew(weights)
    for entry in kept():
        entry.write_text(damage)
    assert anew(weights) == digest


def test_small_files_and_those_just_written_leave_no_entry(weights, monkeypatch):
    monkeypatch.setattr(download, "KEPT_FROM", 100)
    anew(weights)
    monkeypatch.setattr(download, "KEPT_FROM", 4)
    monkeypatch.setattr(stamps, "SETTLED_NS", 10**12)
    anew(weights)
    assert kept() == []
