"""Temporary files of the dead go, those of the living stay; what is replaced is on the disk before its name is."""

import errno
import os
import subprocess
import sys

import pytest

from hierbench import files
from hierbench.errors import DataError, OutputError
from hierbench.files import check_writable, locked, regular_file, replacing, sweep, temporary_name

LEAVES = """
import os, sys
from pathlib import Path
from hierbench.files import replacing
with replacing(Path(sys.argv[1]) / "deep" / "record.json") as temporary:
    temporary.write_text("half")
    os._exit(9)
"""


def test_what_a_killed_process_left_is_swept(tmp_path):
    assert subprocess.run([sys.executable, "-c", LEAVES, str(tmp_path)]).returncode == 9
    [left] = (tmp_path / "deep").iterdir()
    mine, other, old = (tmp_path / name for name in (temporary_name("a"), ".b.12.ab.tmp", ".c.12.ab.tmp"))
    for path in (mine, other, old, tmp_path / "kept.tmp"):
        path.write_text("xy")
    os.utime(old, (0, 0))
    assert sweep(tmp_path) == len("half") + len("xy")
    assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [mine.name, other.name, "deep", "kept.tmp"]
    )


def test_in_a_folder_that_is_held_every_temporary_file_and_folder_goes(tmp_path):
    inside = tmp_path / temporary_name("step")
    inside.mkdir()
    (inside / "weights").write_text("half")
    (tmp_path / ".b.12.ab.tmp").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").write_text("kept")
    assert sweep(tmp_path, ".*.tmp") == 0
    assert sweep(tmp_path, ".*.tmp", held=True) >= len("half")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize(("durable", "synced"), [(True, ["file", "folder"]), (False, [])])
def test_file_and_folder_are_synced_around_the_rename(tmp_path, monkeypatch, durable, synced):
    seen = []
    path = tmp_path / "x"
    monkeypatch.setattr(
        files, "sync", lambda what: seen.append(("folder" if what.is_dir() else "file", path.exists()))
    )
    with replacing(path, durable=durable) as temporary:
        temporary.write_text("whole")
    assert [kind for kind, _ in seen] == synced
    assert [renamed for _, renamed in seen] == [False, True][: len(seen)]


def test_a_lock_that_another_process_holds_is_not_waited_for_longer_than_asked(tmp_path):
    holder = subprocess.Popen(
        [
            sys.executable, "-c",
            "import sys; from pathlib import Path; from hierbench.files import locked\n"
            "with locked(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()",
            str(tmp_path / "lock"),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(TimeoutError, match="another process holds"), locked(tmp_path / "lock", timeout=0):
        pass
    holder.kill()
    holder.communicate()
    with locked(tmp_path / "lock", timeout=60):  # the system frees it
        pass


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(DataError, match="is a FIFO, not a file"):
        regular_file(tmp_path / "fifo")
    with pytest.raises(DataError, match=r"a\\x00b' cannot be a file's name"):
        regular_file(tmp_path / "a\0b")


def test_an_output_folder_is_tried_and_nothing_stays(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    check_writable(tmp_path / "new" / "deep")
    check_writable(tmp_path)
    for out, why in (("file", "it is a file"), ("file/below", "Not a directory")):
        with pytest.raises(OutputError) as caught:
            check_writable(tmp_path / out)
        assert str(caught.value) == f"cannot write to {tmp_path / out} ({why}): choose another --out"
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(files.Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(full))
    with pytest.raises(OutputError, match=r"\(No space left on device\): choose another --out$"):
        check_writable(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
