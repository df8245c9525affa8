"""`hierbench data`: datasets prepared, checked, shown and exported; GRIT's raw tars into shards; one line for what is
wrong.
"""

import io
import json
import tarfile

import pytest
from PIL import Image
from shard_files import cut_short

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
    checked = hierbench("data", "grit-check", "shards", "--workers", 1)
    assert checked.status == 0
    table = [line.split() for line in checked.out.splitlines()]
    assert ["samples", "3", "13,149,251"] in table
    assert ["samples", "with", "one", "box", "100.00%", "40.68%"] in table


def test_damaged_shards_are_named_with_status_1(hierbench, tmp_path):
    raw_tar(tmp_path / "raw" / "0.tar", ["a", "b"])
    hierbench("data", "grit-prepare", "raw", "-o", "shards")
    cut_short(tmp_path / "shards" / "0.tar", -1)
    done = hierbench("data", "grit-check", "shards", "--json")
    assert done.status == 1
    assert json.loads(done.out)["damaged"] == ["shards/0.tar"]
    assert "damaged: shards/0.tar breaks off" in done.err
    missing = hierbench("data", "grit-check", "nowhere")
    assert (missing.status, missing.out) == (2, "")
    assert "no tar shards match nowhere" in missing.err


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


# ---------------------------------------------------------------------------------------------------- datasets

MANIFEST = """
title: Tiny
reader: imagefolder
tasks: [zero-shot]
fit: crop
split: test
licence: none
counts: {images: 4}
sources: [{kind: manual, reader: imagefolder, how: Ask the authors.}]
templates: ["a photo of a {}."]
classes: {cat: tabby, dog: poodle}
"""


@pytest.fixture
def tiny(tmp_path):
    """The options that make the dataset `tiny` known; its images lie in `source`."""
    (tmp_path / "tiny.yaml").write_text(MANIFEST)
    for number in range(4):
        path = tmp_path / "source" / ("cat", "dog")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (60 * number, 90, 200)).save(path)
    return ["--manifest", "tiny.yaml"]


def rows(text):
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in text.splitlines()[1:]}


def test_a_dataset_from_preparing_to_export(hierbench, tmp_path, tiny):
    missing = hierbench("data", "prepare", "tiny", *tiny)
    assert (missing.status, missing.out) == (2, "")
    assert "Ask the authors. Then run `hierbench data prepare tiny --from PATH`" in missing.err
    done = hierbench("data", "prepare", "tiny", "--from", "source", *tiny)
    assert done.status == 0, done.err
    facts = rows(done.out)
    assert (facts["images"], facts["classes"]) == ("4", "2 of 2 occur")
    again = hierbench("data", "prepare", "tiny", "--from", "source", "--workers", 1, "--json", *tiny)
    assert "is prepared already" in again.err
    document = json.loads(again.out)
    assert (document["fresh"], document["fingerprint"]) == (False, facts["fingerprint"])

    checked = hierbench("data", "verify", "tiny", "--pixels", *tiny)
    assert checked.status == 0, checked.err
    assert rows(checked.out)["fingerprint"] == facts["fingerprint"]
    assert "as it was prepared" in checked.err
    in_place = hierbench("data", "verify", "tiny", "--pixels", "--json", "--data", "tiny=source", *tiny)
    document = json.loads(in_place.out)
    assert f"pixels and labels  {document['pixels']}" in checked.out
    assert document["prepared"] is False

    shown = hierbench("data", "show", "tiny", "-o", "sheet.png", "-n", 3, *tiny)
    assert shown.status == 0, shown.err
    assert "prepared" in shown.out
    assert "cat = tabby" in shown.out
    assert Image.open(tmp_path / "sheet.png").format == "PNG"
    document = json.loads(hierbench("data", "show", "tiny", "--json", *tiny).out)
    assert (document["state"], document["classes"]["dog"]) == ("prepared", "poodle")

    assert hierbench("data", "export", "tiny", "--format", "wds", "-o", "wds", *tiny).status == 0
    assert (tmp_path / "wds" / "classnames.txt").read_text() == "tabby\npoodle\n"
    listed = json.loads(hierbench("datasets", "--json", *tiny).out)["datasets"]
    assert [row["state"] for row in listed if row["name"] == "tiny"] == ["prepared"]


def test_where_a_download_stays_is_said(hierbench, tmp_path, tiny, monkeypatch):
    from hierbench.acquire import prepare

    monkeypatch.setattr(prepare, "hub_dataset", lambda *what: tmp_path / "source")
    path = tmp_path / "tiny.yaml"
    path.write_text(path.read_text().replace("{kind: manual,", "{kind: hub, repo: org/tiny,"))
    done = hierbench("data", "prepare", "tiny", *tiny)
    assert done.status == 0, done.err
    size = sum(file.stat().st_size for file in (tmp_path / "source").rglob("*.jpg"))
    assert f"the download stays in {tmp_path / 'source'} ({size / 1000:.1f} kB): remove it when" in done.err


def test_part_of_a_dataset_and_damage_are_said(hierbench, tmp_path, tiny):
    (tmp_path / "source" / "cat" / "0.jpg").unlink()
    done = hierbench("data", "prepare", "tiny", "--from", "source", "--out", "there", *tiny)
    assert done.status == 0
    assert "not the whole test: 3 images instead of 4" in done.err
    assert "released+" not in done.err  # fewer images are no variant: results say how many there were
    assert f"--data tiny={tmp_path / 'there'}" in done.err
    shard = tmp_path / "there" / "images-00000.parquet"
    content = shard.read_bytes()
    shard.write_bytes(content.replace(b"JFIF", b"JFIG", 1))
    broken = hierbench("data", "verify", "tiny", "--data", "tiny=there", *tiny)
    assert (broken.status, broken.out) == (2, "")
    assert broken.err.count("\n") == 1
    assert "images-00000.parquet has SHA-256" in broken.err
    shard.unlink()
    listed = json.loads(hierbench("datasets", "--json", "--data", "tiny=there", *tiny).out)["datasets"]
    assert [(row["state"], row["ready"]) for row in listed if row["name"] == "tiny"] == [("damaged", False)]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["prepare", "tinny"], "did you mean tiny"),
        (["prepare", "tiny", "--from", "nowhere"], "--from nowhere: there is no such file or folder"),
        (["prepare", "miniature"], "is built in"),
        (["prepare", "tiny", "--from", "source", "--out", "source"], "exists and holds no prepared dataset"),
        (["prepare", "tiny", "--from", "tiny.yaml"], "neither a folder nor an archive"),
        (["prepare", "tiny", "--from", "source", "--workers", "-1"], "'--workers'"),
        (["verify", "tiny"], "is not on this machine: `hierbench data show tiny` says how to get it"),
        (
            ["show", "tiny", "-o", "sheet.png"],
            "is not on this machine: `hierbench data show tiny` says how to get it",
        ),
        (["show", "tiny", "--data", "tiny=source", "-o", "source/cat/0.jpg/s.png"], "cannot be written"),
        (
            ["export", "tiny", "-o", "out", "--data", "tiny=source", "--format", "zip"],
            "no export format 'zip'",
        ),
        (["export", "tiny", "-o", "source", "--data", "tiny=source"], "is not an empty folder"),
        (
            ["export", "tiny", "-o", "out", "--protocol", "x", "--data", "tiny=source"],
            "'x' is not one of 'released', 'corrected'",
        ),
    ],
)
def test_wrong_input_is_one_line(hierbench, tmp_path, tiny, words, line):
    done = hierbench("data", *words, *tiny)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("hierbench: error: ")
    assert done.err.count("\n") == 1
    assert line in done.err
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock") == [
        "source",
        "tiny.yaml",
    ]
