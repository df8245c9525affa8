"""JSON files: what is read, and every fault as one line that names the file."""

import os

import pytest

from hierbench.errors import DataError, OutputError
from hierbench.json_files import known_json, read_json, write_json


def test_what_is_written_is_read(tmp_path):
    document = {"name": "日本", "rows": [1, 2.5, None, True]}
    write_json(tmp_path / "deep" / "a.json", document)
    assert read_json(tmp_path / "deep" / "a.json", "record") == document
    assert known_json(tmp_path / "deep" / "a.json") == document
    (tmp_path / "bom.json").write_bytes(b"\xef\xbb\xbf[1]")
    assert read_json(tmp_path / "bom.json", "record") == [1]
    assert known_json(tmp_path / "bom.json") is None  # no mapping


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "line 1: not JSON"),
        (b'{\n"a": [\n}', "line 3: not JSON"),
        (b'{\n"a": "\xff"}', "line 2: not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "line 1: not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b"1" * 5000, "a number of thousands of digits"),
        (None, "cannot be read: No such file"),
    ],
    ids=["empty", "broken", "latin-1", "utf-16", "deep", "long number", "none"],
)
def test_every_fault_is_one_line_with_its_place(tmp_path, content, told):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OutputError, match=told) as caught:
        read_json(path, "record", OutputError, "clean again")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert known_json(path) is None


def test_a_fifo_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(DataError, match="is a FIFO"):
        read_json(tmp_path / "a.json", "record")
    assert known_json(tmp_path / "a.json") is None
