"""`hierbench data grit-prepare`: raw tars in, shards, a table and one line for what is wrong."""

import io
import json
import tarfile

import pytest
from PIL import Image

from hierbench.reference.training.shards import find_shards


def raw_tar(path, keys):
    path.parent.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    Image.new("RGB", (60, 60), (9, 90, 200)).save(buffer, "JPEG")
    boxes = [[0, 5, 0, 0, 0.5, 1, 0.9], [0, 5, 0.2, 0.2, 0.9, 0.9, 0.5], [0, 5, 0.5, 0, 0.5, 1, 0.8]]
    told = json.dumps({"caption": "a dog runs", "noun_chunks": boxes, "ref_exps": []}).encode()
    with tarfile.open(path, "w") as archive:
        for key in keys:
            for suffix, content in (("jpg", buffer.getvalue()), ("json", told)):
                info = tarfile.TarInfo(f"{key}.{suffix}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def test_shards_and_a_table(hierbench, tmp_path):
    raw_tar(tmp_path / "raw" / "00000.tar", ["a", "b"])
    raw_tar(tmp_path / "raw" / "00001.tar", ["c"])
    done = hierbench("data", "grit-prepare", "raw", "-o", "shards", "--max-boxes", 1, "--workers", 2)
    assert done.status == 0
    table = [line.split() for line in done.out.splitlines()]
    assert ["samples", "written", "3", "100.00%"] in table
    assert ["boxes", "dropped:", "no", "area", "3", "33.33%"] in table
    assert ["boxes", "dropped:", "more", "than", "max_boxes", "3", "33.33%"] in table
    assert "2 shards in shards" in done.err
    assert "data.shards=shards" in done.err
    assert len(find_shards("shards")) == 2
    again = hierbench("data", "grit-prepare", "raw/{00000..00001}.tar", "-o", "shards", "--max-boxes", 1)
    assert again.out == done.out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nowhere", "-o", "out"], "no tar shards match nowhere"),
        (["raw", "-o", "raw"], "lies in the output folder"),
        (["raw", "-o", "raw/0.tar"], "cannot write to raw/0.tar"),
        (["raw", "raw", "-o", "out"], "would give one shard 0.tar"),
        (["raw"], "Missing option '-o'"),
        (["raw", "-o", "out", "--max-boxes", "0"], "'--max-boxes'"),
    ],
)
def test_what_it_refuses_it_refuses_in_one_line(hierbench, tmp_path, words, line):
    raw_tar(tmp_path / "raw" / "0.tar", ["a"])
    before = (tmp_path / "raw" / "0.tar").read_bytes()
    done = hierbench("data", "grit-prepare", *words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("hierbench: error: ")
    assert done.err.count("\n") == 1
    assert line in done.err
    assert (tmp_path / "raw" / "0.tar").read_bytes() == before
