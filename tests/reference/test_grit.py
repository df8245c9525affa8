"""GRIT's raw tars to training shards: what is cut out, what is dropped and counted, what a killed run leaves."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hierbench.errors import DataError, OutputError, UsageError
from hierbench.reference.schema import DataConfig
from hierbench.reference.training import grit
from hierbench.reference.training.batches import Batches
from hierbench.reference.training.grit import Settings, prepare
from hierbench.reference.training.shards import Stream, find_shards, parse_grit, read_stream

ROOT = Path(__file__).resolve().parents[2]
CAPTION = "A red dog and the sea"
DOG, SEA = [0, 9], [14, 21]  # their places in it


def picture(width=80, height=40):
    """Left half red, right half blue."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = pixels[:, width // 2 :, 2] = 250
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def sample(key, nouns=(), expressions=(), caption=CAPTION, image=None, **replaced):
    told = {"caption": caption, "noun_chunks": list(nouns), "ref_exps": list(expressions), "key": key}
    members = {
        "jpg": picture() if image is None else image,
        "txt": str(caption).encode(),
        "json": json.dumps(told).encode(),
    } | replaced
    return [(f"{key}.{suffix}", content) for suffix, content in members.items() if content is not None]


def raw_tar(path, *samples):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in (member for members in samples for member in members):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def good(key):
    return sample(key, [[*DOG, 0.0, 0.0, 0.5, 1.0, 0.9]], [[*SEA, 0.5, 0.0, 1.0, 1.0, 0.8]])


@pytest.fixture
def raw(tmp_path):
    """Four raw tars with three good samples each."""
    for shard in range(4):
        raw_tar(tmp_path / "raw" / f"{shard:05d}.tar", *(good(f"{shard:05d}{row:04d}") for row in range(3)))
    return [tmp_path / "raw" / f"{shard:05d}.tar" for shard in range(4)]


def read(folder):
    tally = Counter()
    shards = find_shards(str(folder))
    count = json.loads((folder / "report.json").read_text())["samples"]
    samples = list(islice(read_stream(shards, Stream(0, 1), parse_grit, seed=0, tally=tally), count))
    assert not tally
    return {sample.key: sample for sample in samples}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def test_boxes_are_cut_out_with_their_phrases(raw, tmp_path):
    report = prepare(raw, tmp_path / "out")
    assert (report.shards, report.samples, report.boxes) == (4, 12, 24)
    assert report.dropped_samples == report.dropped_boxes == {}
    samples = read(tmp_path / "out")
    assert len(samples) == 12
    one = samples["000020001"]
    assert (one.caption, one.image) == (CAPTION, picture())
    (dog, dog_phrase), (sea, sea_phrase) = one.parts
    assert (dog_phrase, sea_phrase) == ("A red dog", "the sea")
    for content, channel in ((dog, 0), (sea, 2)):
        crop = np.asarray(Image.open(io.BytesIO(content)))
        assert crop.shape == (40, 40, 3)
        colour = crop[:, 8:-8].mean((0, 1))  # away from the edge, where JPEG blends
        assert colour[channel] > 230
        assert np.delete(colour, channel).max() < 20


def test_batches_read_the_result(raw, tmp_path):
    prepare(raw, tmp_path / "out")
    config = DataConfig(kind="grit", shards=str(tmp_path / "out"), boxes=2, shuffle_buffer=4, workers=0)
    batch = next(iter(Batches(config, image_size=32, rows=6)))
    assert batch.pixels.shape == (6 * 3, 3, 32, 32)
    assert batch.part_valid.all()
    assert not batch.skipped


BOX = [0.0, 0.0, 0.5, 1.0, 0.9]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ([*DOG, 0.2, 0.0, 0.2, 1.0, 0.9], "no area"),
        ([*DOG, 0.6, 0.0, 0.2, 1.0, 0.9], "no area"),
        ([*DOG, 1.1, 0.0, 1.4, 1.0, 0.9], "outside the image"),
        ([*DOG, -0.5, 0.0, -0.1, 1.0, 0.9], "outside the image"),
        ([*DOG, 0.0, 0.0, 0.1, 1.0, 0.9], "too small"),  # 8 of 80 pixels
        ([9, 10, *BOX], "empty phrase"),  # a space
        ([4, 4, *BOX], "empty phrase"),
        ([0, 99, *BOX], "phrase outside the caption"),
        ([-3, 9, *BOX], "phrase outside the caption"),
        ([0.5, 9, *BOX], "phrase outside the caption"),
        ([*DOG, 0.0, 0.0, 0.5, 1.0], "malformed"),
        ([*DOG, 0.0, float("nan"), 0.5, 1.0, 0.9], "malformed"),
        ([*DOG, 0.0, 0.0, 10**400, 1.0, 0.9], "malformed"),
        ([*DOG, "0", 0.0, 0.5, 1.0, 0.9], "malformed"),
        ("a string", "malformed"),
        (None, "malformed"),
    ],
)
def test_unusable_boxes_are_dropped_and_counted(tmp_path, entry, reason):
    path = raw_tar(tmp_path / "0.tar", sample("a", [[*SEA, *BOX], entry]))
    report = prepare([path], tmp_path / "out")
    assert (report.samples, report.boxes, report.dropped_boxes) == (1, 1, {reason: 1})
    assert [phrase for _, phrase in read(tmp_path / "out")["a"].parts] == ["the sea"]


def test_boxes_that_reach_over_the_edge_are_cut_at_it(tmp_path):
    path = raw_tar(tmp_path / "0.tar", sample("a", [[0.0, 9.0, -0.25, -0.1, 0.51, 1.2, 0.9]]))
    prepare([path], tmp_path / "out")
    ((crop, _),) = read(tmp_path / "out")["a"].parts
    assert Image.open(io.BytesIO(crop)).size == (41, 40)  # every pixel that the box touches


def test_equal_boxes_with_equal_phrases_are_one(tmp_path):
    again = [*DOG, 0.001, 0.0, 0.499, 1.0, 0.5]  # the same pixels
    other = [*DOG, 0.0, 0.0, 0.75, 1.0, 0.5]
    path = raw_tar(tmp_path / "0.tar", sample("a", [[*DOG, *BOX], other], [again, [*SEA, *BOX]]))
    report = prepare([path], tmp_path / "out")
    assert (report.boxes, report.dropped_boxes) == (3, {"duplicate": 1})
    assert [phrase for _, phrase in read(tmp_path / "out")["a"].parts] == [
        "A red dog",
        "A red dog",
        "the sea",
    ]


def test_max_boxes_keeps_the_best_scored_in_their_order(tmp_path):
    boxes = [[*DOG, 0.0, 0.0, right, 1.0, score] for right, score in ((0.3, 0.7), (0.5, 0.2), (0.9, 0.8))]
    path = raw_tar(tmp_path / "0.tar", sample("a", boxes))
    report = prepare([path], tmp_path / "out", Settings(max_boxes=2))
    assert (report.boxes, report.dropped_boxes) == (2, {"more than max_boxes": 1})
    widths = [Image.open(io.BytesIO(crop)).width for crop, _ in read(tmp_path / "out")["a"].parts]
    assert widths == [24, 72]


def test_unusable_samples_are_dropped_and_counted(tmp_path):
    path = raw_tar(
        tmp_path / "0.tar",
        good("a"),
        sample("b", image=picture()[:300]),
        sample("c", image=b""),
        sample("d", jpg=None),
        sample("e", json=None),
        sample("f", json=b"{not json"),
        sample("g", json=b"[1, 2]"),
        sample("h", json=b'{"caption": "x", "noun_chunks": 7}'),
        sample("i", caption="  "),
        sample("j", caption=None),
        sample("k", [[*DOG, 0.2, 0.0, 0.2, 1.0, 0.9]]),
        sample("l", json=json.dumps({"caption": "no boxes"}).encode()),
    )
    report = prepare([path], tmp_path / "out")
    assert report.samples == 1
    assert report.dropped_samples == {
        "damaged image": 2, "no image": 1, "no json": 1, "unreadable json": 3, "no caption": 2,
        "no usable box": 2,
    }  # fmt: skip
    assert report.dropped_boxes == {"no area": 1}
    recorded = json.loads((tmp_path / "out" / "report.json").read_text())
    assert recorded["dropped_samples"] == report.dropped_samples
    rows = {row["what"]: (row["count"], row["share"]) for row in report.rows()}
    assert rows["samples written"] == (1, "8.33%")
    assert rows["samples dropped: unreadable json"] == (3, "25.00%")


def test_a_tar_that_breaks_off_gives_what_is_whole(raw, tmp_path):
    content = raw[1].read_bytes()
    with tarfile.open(raw[1]) as archive:
        json_of_second = archive.getmembers()[5]
    raw[1].write_bytes(content[: json_of_second.offset_data + 10])
    raw[2].write_bytes(b"no tar at all" * 100)
    report = prepare(raw, tmp_path / "out")
    assert report.damaged_tars == ("00001.tar", "00002.tar")
    assert (report.shards, report.samples) == (3, 7)
    assert not (tmp_path / "out" / "00002.tar").exists()  # an empty shard would stop a reader
    assert len(read(tmp_path / "out")) == 7
    raw[1].write_bytes(content)  # fetched again: made again
    assert prepare(raw, tmp_path / "out").samples == 9


def test_workers_change_nothing(raw, tmp_path):
    prepare(raw, tmp_path / "one")
    prepare(raw, tmp_path / "two", workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


KILLED = """
import os, sys
from pathlib import Path
from hierbench.reference.training import grit
write, seen = grit._prepared, []
def count_and_die(*arguments):
    seen.append(1)
    if len(seen) == 8:  # in the middle of the third tar
        os.kill(os.getpid(), 9)
    return write(*arguments)
grit._prepared = count_and_die
grit.prepare({raw!r}, Path({out!r}))
"""


def test_killed_and_resumed_is_as_never_killed(raw, tmp_path, monkeypatch):
    prepare(raw, tmp_path / "straight")
    out = tmp_path / "broken"
    code = KILLED.format(raw=[str(path) for path in raw], out=str(out))
    killed = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert killed.returncode == -9, killed.stderr[-2000:]
    assert sorted(path.name for path in out.glob("[0-9]*")) == [
        "00000.json", "00000.tar", "00001.json", "00001.tar",
    ]  # fmt: skip
    assert len(list(out.glob(".*.tmp"))) == 1
    first = (out / "00000.tar").stat().st_mtime_ns
    made = []
    make = grit._make
    monkeypatch.setattr(grit, "_make", lambda path, *others: (made.append(path.stem), make(path, *others))[1])
    prepare(raw, out)
    assert made == ["00002", "00003"]
    assert contents(out) == contents(tmp_path / "straight")
    assert (out / "00000.tar").stat().st_mtime_ns == first


def test_the_folder_can_grow(raw, tmp_path):
    prepare(raw[:2], tmp_path / "out")
    assert prepare(raw[2:], tmp_path / "out").samples == 12
    prepare(raw, tmp_path / "other")
    assert contents(tmp_path / "out") == contents(tmp_path / "other")


# --------------------------------------------------------------------------------------------------- refusals


def test_a_folder_holds_shards_of_one_kind(raw, tmp_path):
    prepare(raw[:1], tmp_path / "out", Settings(max_boxes=1))
    with pytest.raises(UsageError, match=r"max_boxes 1, .* not .*max_boxes 2.*choose another folder"):
        prepare(raw, tmp_path / "out", Settings(max_boxes=2))


def test_names_that_clash(raw, tmp_path):
    other = raw_tar(tmp_path / "elsewhere" / "00000.tar", good("a"))
    with pytest.raises(UsageError, match=r"would give one shard 00000\.tar"):
        prepare([*raw, other], tmp_path / "out")
    with pytest.raises(UsageError, match="lies in the output folder"):
        prepare(raw, raw[0].parent)
    assert raw[0].stat().st_size > 0


def test_nothing_usable(tmp_path):
    path = raw_tar(tmp_path / "0.tar", sample("a"))
    with pytest.raises(DataError, match=r"no usable sample in 1 raw tar.*no usable box"):
        prepare([path], tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.tar"))


def test_a_full_disk(raw, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    with pytest.raises(OutputError, match=r"00000\.tar could not be written: No space left on device"):
        prepare(raw, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


def test_an_output_folder_that_cannot_be(raw, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write to"):
        prepare(raw, tmp_path / "file")


def test_a_killed_worker(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(grit, "_prepared", lambda *arguments: os.kill(os.getpid(), 9))
    with pytest.raises(OutputError, match=r"a worker process was killed .* run again to go on"):
        prepare(raw, tmp_path / "out", workers=2)


def test_two_runs_in_one_folder(raw, tmp_path):
    with grit._alone(tmp_path / "out"), pytest.raises(OutputError, match="another process is preparing"):
        prepare(raw, tmp_path / "out")


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_boxes_are_of_the_stored_pixels_and_parts_are_turned_like_the_whole(tmp_path, orientation):
    """A box around the red left half of the stored pixels shows red, whichever way the camera was held."""
    stored = np.zeros((40, 80, 3), np.uint8)
    stored[:, :40, 0] = 255  # left half red, right half blue
    stored[:, 40:, 2] = 255
    stored[:20, :40, 1] = 255  # its upper part yellow
    exif = Image.Exif()
    exif[274] = orientation
    buffer = io.BytesIO()
    Image.fromarray(stored).save(buffer, "JPEG", quality=100, subsampling=0, exif=exif)
    made = sample("0", [[*DOG, 0.0, 0.0, 0.5, 1.0, 0.9]], image=buffer.getvalue())
    report = prepare([raw_tar(tmp_path / "raw" / "0.tar", made)], tmp_path / "out", Settings(min_side=4))
    assert report.turned == (orientation != 1)
    assert ("samples turned upright (EXIF)" in [row["what"] for row in report.rows()]) == (orientation != 1)
    with tarfile.open(tmp_path / "out" / "0.tar") as archive:
        part = np.asarray(Image.open(archive.extractfile("0.parent000.jpg")).convert("RGB")).astype(int)
    turns = {1: 0, 3: 2, 6: 3, 8: 1}[orientation]  # quarter turns against the clock that bring it upright
    expected = np.rot90(stored[:, :40], turns).astype(int)
    assert part.shape == expected.shape
    assert np.abs(part - expected).mean() < 12
