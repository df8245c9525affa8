"""Preparing: what is written reads back as the source did; nothing half prepared counts; what is refused, and how."""

import http.server
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from hierbench.acquire import counting, prepare, shards
from hierbench.acquire.verify import verify
from hierbench.cache import cache_dir
from hierbench.data import manifests, prepared
from hierbench.data.datasets import Classification, ImageFiles
from hierbench.data.locate import Locations, describe
from hierbench.data.manifests import load_manifest
from hierbench.data.readers import open_dataset
from hierbench.errors import DataError, MissingDataError, OutputError, UsageError

ROOT = Path(__file__).resolve().parents[2]
CLASSES = ("cat", "dog", "fish")
MANIFEST = """
title: Tiny
reader: imagefolder
tasks: [zero-shot]
fit: crop
split: test
counts: {images: 12, per_class: 4}
templates: ["a photo of a {}."]
classes: {cat: tabby, dog: poodle, fish: carp}
"""


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("HIERBENCH_DATA", raising=False)


@pytest.fixture
def manifest(tmp_path):
    """manifest(more YAML, name) -> the manifest `tiny` or another, known to this test alone."""

    def add(more="", name="tiny"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(MANIFEST + more)
        manifests._registered[name] = path
        manifests._read.cache_clear()
        return load_manifest(name)

    add()
    return add


@pytest.fixture
def source(tmp_path, layouts, manifest):
    """An ImageFolder of `tiny`: twelve JPEGs."""
    for number in range(12):
        layouts.put(tmp_path / "source" / CLASSES[number % 3] / f"{number:02d}.jpg", layouts.jpeg(number))
    return tmp_path / "source"


def one_line(caught):
    assert "\n" not in str(caught.value)
    return str(caught.value)


def hidden(folder):
    return sorted(path.name for path in folder.iterdir() if path.name[0] == "." and path.suffix != ".lock")


# ------------------------------------------------------------------------------------------------- what is made


def test_a_folder_prepared_reads_as_the_folder_did(source):
    done = prepare.prepare("tiny", [source])
    assert (done.fresh, done.folder) == (True, cache_dir() / "datasets" / "tiny")
    assert hidden(done.folder.parent) == []
    before, after = (open_dataset("tiny", where) for where in (Locations({"tiny": source}), Locations()))
    assert after.facts() == before.facts()
    assert (after.class_names, after.templates, after.variant) == (before.class_names, before.templates, "")
    assert [after.images.read(i) for i in after.images.ids] == [
        before.images.read(i) for i in before.images.ids
    ]
    info = json.loads((done.folder / "dataset.json").read_text())
    assert (info["schema"], info["name"], info["complete"], info["split"]) == (1, "tiny", True, "test")
    assert info["counts"] == {"images": 12, "per_class": {"cat": 4, "dog": 4, "fish": 4}}
    assert info["source"] == {"kind": "folder", "places": [str(source)]}
    table = pq.read_table(done.folder / "images-00000.parquet")
    assert table.column_names == ["id", "image", "label"]
    assert table.column("label").to_pylist()[:4] == ["cat"] * 4
    assert describe("tiny", Locations()).state == "prepared"


def test_the_bytes_do_not_depend_on_the_number_of_processes(source, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_ROWS", 5)
    made = [prepare.prepare("tiny", [source], tmp_path / f"w{n}", workers=n).folder for n in (1, 3)]
    names = [sorted(path.name for path in folder.iterdir()) for folder in made]
    assert names[0] == names[1] == ["dataset.json", *(f"images-{n:05d}.parquet" for n in range(3))]
    for name in names[0]:
        assert (made[0] / name).read_bytes() == (made[1] / name).read_bytes()


def test_the_fingerprint_knows_neither_order_nor_shards_but_every_bit(source, tmp_path, monkeypatch, layouts):
    first = prepare.prepare("tiny", [source], tmp_path / "1").info
    monkeypatch.setattr(shards, "SHARD_ROWS", 1)
    assert prepare.prepare("tiny", [source], tmp_path / "2").info.fingerprint == first.fingerprint
    (source / "cat" / "00.jpg").rename(source / "cat" / "0.jpg")
    moved = prepare.prepare("tiny", [source], tmp_path / "3").info
    assert moved.fingerprint != first.fingerprint
    layouts.put(source / "cat" / "0.jpg", layouts.jpeg(99))
    assert prepare.prepare("tiny", [source], tmp_path / "4").info.fingerprint not in (
        moved.fingerprint, first.fingerprint,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["coco", "coco-karpathy", "flickr30k", "voc2007", "coco-objects", "simco", "cifar10"]
)
def test_every_kind_of_dataset_keeps_order_annotation_and_bytes(name, layouts, tmp_path):
    built = layouts.build(name, tmp_path / "source")
    done = prepare.prepare(name, [built.folder], workers=2)
    before, after = (open_dataset(name, where) for where in (Locations({name: built.folder}), Locations()))
    assert type(after) is type(before)
    assert after.facts() == before.facts()
    for image_id in before.images.ids:
        assert after.images.read(image_id) == before.images.read(image_id)
    assert done.info.complete == (name == "simco")  # whose manifest knows no counts
    assert after.variant == before.variant == built.variant


def test_caption_chains_keep_their_order_and_their_pool(tmp_path, layouts, monkeypatch):
    folder = tmp_path / "chains"
    text = "id,captions,image_url\n" + "".join(
        f"{n},animal => dog => a dog {n} => a brown dog {n},http://x/{n % 2}.jpg\n" for n in (5, 3, 4)
    )
    layouts.put(folder / "hierarcaps_test.csv", text)
    layouts.put(folder / "pool.csv", "caption\na cat\na bird\n")
    for number in range(2):
        layouts.put(folder / "images" / f"{number}.jpg", layouts.jpeg(number))
    path = tmp_path / "chained.yaml"
    path.write_text(
        "title: Chained\nreader: hierarcaps\ntasks: [pep-v2]\nfit: crop\n"
        "layout: {table: [hierarcaps_test.csv], images: [images], pool: pool.csv}\n"
    )
    manifests._registered["chained"] = path
    prepare.prepare("chained", [folder])
    before, after = (
        open_dataset("chained", where) for where in (Locations({"chained": folder}), Locations())
    )
    assert after.facts() == before.facts()
    assert (after.sample_ids, after.pool) == (("5", "3", "4"), ("a cat", "a bird"))


def test_what_is_prepared_is_left_alone_unless_forced(source, layouts):
    first = prepare.prepare("tiny", [source])
    layouts.put(source / "cat" / "00.jpg", layouts.jpeg(50))
    again = prepare.prepare("tiny", [source])
    assert (again.fresh, again.info) == (False, first.info)
    forced = prepare.prepare("tiny", [source], force=True)
    assert forced.fresh
    assert forced.info.fingerprint != first.info.fingerprint
    assert hidden(forced.folder.parent) == []
    assert open_dataset("tiny", Locations()).images.read("cat/00.jpg") == layouts.jpeg(50)


def test_a_folder_in_use_is_refused(source, manifest, tmp_path):
    out = prepare.prepare("tiny", [source], tmp_path / "out").folder
    manifest(name="other")
    for force in (False, True):
        with pytest.raises(UsageError, match=r"out holds the prepared dataset tiny: choose another folder"):
            prepare.prepare("other", [source], out, force=force)
        with pytest.raises(UsageError, match="exists and holds no prepared dataset"):
            prepare.prepare("tiny", [source], source, force=force)
    (tmp_path / "empty").mkdir()
    assert prepare.prepare("tiny", [source], tmp_path / "empty").fresh
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="holds no prepared dataset"):
        prepare.prepare("tiny", [source], tmp_path / "file")
    with pytest.raises(OutputError, match="cannot write to"):
        prepare.prepare("tiny", [source], tmp_path / "file" / "out")


def test_two_at_once_into_one_folder(source, tmp_path):
    with (
        prepare._alone(tmp_path / "out"),
        pytest.raises(UsageError, match="another process is preparing") as caught,
    ):
        prepare.prepare("tiny", [source], tmp_path / "out")
    assert "--out" in one_line(caught)
    assert prepare.prepare("tiny", [source], tmp_path / "out").fresh


def test_what_makes_no_sense(source, tmp_path):
    with pytest.raises(UsageError, match="built in"):
        prepare.prepare("miniature")
    with pytest.raises(UsageError, match=r"--from .*nowhere: there is no such"):
        prepare.prepare("tiny", [tmp_path / "nowhere"])
    with pytest.raises(UsageError, match="give one folder"):
        prepare.prepare("tiny", [source, source])


# -------------------------------------------------------------------------------------------------- interrupted

KILLED = """
import os, sys
from pathlib import Path
from hierbench.data import manifests
from hierbench.acquire import prepare, shards
manifests.register_manifest(sys.argv[1])
shards.SHARD_ROWS = 2
make, seen = shards._make_shard, []
def count_and_die(*arguments):
    if len(seen) == 3:
        os.kill(os.getpid(), 9)
    seen.append(make(*arguments))
    return seen[-1]
shards._make_shard = count_and_die
prepare.prepare("tiny", [Path(sys.argv[2])], Path(sys.argv[3]))
"""


def test_a_killed_preparation_counts_as_nothing_and_goes_on(source, tmp_path, monkeypatch):
    out = tmp_path / "data" / "tiny"
    words = [sys.executable, "-c", KILLED, tmp_path / "tiny.yaml", source, out]
    killed = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    assert not out.exists()
    where = Locations(data_dir=tmp_path / "data")
    assert describe("tiny", where).state == "missing"
    with pytest.raises(MissingDataError):
        open_dataset("tiny", where)
    staging = out.with_name(".tiny.preparing")
    finished = sorted((staging / "prepared").glob("*.parquet"))
    assert len(finished) == 3
    (staging / "prepared" / ".images-00003.parquet.1.tmp").write_bytes(b"half")
    content = finished[1].read_bytes()
    finished[1].write_bytes(content[:-1] + b"?")  # the disk lied

    monkeypatch.setattr(shards, "SHARD_ROWS", 2)
    written, write = [], shards.write_rows
    monkeypatch.setattr(shards, "write_rows", lambda *a: written.append(list(a[-1])) or write(*a))
    resumed = prepare.prepare("tiny", [source], out)
    assert written == [[2, 3], [6, 7], [8, 9], [10, 11]]
    assert hidden(out.parent) == []
    whole = prepare.prepare("tiny", [source], tmp_path / "whole")
    assert resumed.info == whole.info
    for shard in whole.info.shards:
        assert (out / shard.name).read_bytes() == (whole.folder / shard.name).read_bytes()
    assert verify("tiny", where).prepared


def test_shards_of_another_source_are_not_taken(source, tmp_path, monkeypatch, layouts):
    monkeypatch.setattr(shards, "SHARD_ROWS", 2)
    make, calls = shards._make_shard, []

    def fails(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        return make(*arguments)

    monkeypatch.setattr(shards, "_make_shard", fails)
    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\): free some"):
        prepare.prepare("tiny", [source], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    shutil.copytree(source, tmp_path / "second")
    layouts.put(tmp_path / "second" / "cat" / "00.jpg", layouts.jpeg(77))
    monkeypatch.setattr(shards, "_make_shard", make)
    prepare.prepare("tiny", [tmp_path / "second"], tmp_path / "out")
    data = open_dataset("tiny", Locations({"tiny": tmp_path / "out"}))
    assert data.images.read("cat/00.jpg") == layouts.jpeg(77)


def test_an_unpacked_archive_is_not_unpacked_again(source, tmp_path, monkeypatch):
    first = shutil.make_archive(tmp_path / "one", "zip", source, "cat")
    second = shutil.make_archive(tmp_path / "two", "gztar", source, ".")
    unpack, unpacked = prepare.archives.unpack, []

    def fails_once(archive, *rest):
        unpacked.append(Path(archive).name)
        if len(unpacked) == 2:
            raise OSError(28, "No space left on device")
        return unpack(archive, *rest)

    monkeypatch.setattr(prepare.archives, "unpack", fails_once)
    both = [Path(first), Path(second)]
    with pytest.raises(OutputError):
        prepare.prepare("tiny", both)
    assert prepare.prepare("tiny", both).info.counts.images == 12
    assert unpacked == ["one.zip", "two.tar.gz", "two.tar.gz"]
    assert hidden(cache_dir() / "datasets") == []


# --------------------------------------------------------------------------------------------------- archives


def test_archives_files_and_folders_of_archives(source, tmp_path):
    whole = prepare.prepare("tiny", [source], tmp_path / "0").info
    inner = shutil.make_archive(tmp_path / "inner" / "images", "gztar", source)
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    parts = [Path(shutil.make_archive(downloads / name, "tar", source, name)) for name in CLASSES]
    (downloads / "readme.txt").write_text("read me")
    wrapped = Path(shutil.make_archive(tmp_path / "outer", "zip", tmp_path / "inner"))
    for number, given in enumerate(
        ([Path(inner)], [*parts, downloads / "readme.txt"], [downloads], [wrapped]), 1
    ):
        info = prepare.prepare("tiny", given, tmp_path / str(number)).info
        assert info.fingerprint == whole.fingerprint
    assert hidden(tmp_path) == []
    assert len(list(downloads.iterdir())) == 4  # as it was
    assert info.source.kind == "archives"


def test_archives_that_are_refused_leave_nothing(source, tmp_path):
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.add(source / "cat", "cat")
        info = tarfile.TarInfo("../escaped.jpg")
        archive.addfile(info)
    with zipfile.ZipFile(tmp_path / "cut.zip", "w") as archive:
        archive.write(source / "cat" / "00.jpg", "cat/00.jpg")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "cut.zip").read_bytes()[:-40])
    for name, reason in (("bad.tar", r"'\.\./escaped\.jpg' has `\.\.`"), ("cut.zip", "is damaged")):
        with pytest.raises(DataError, match=reason) as caught:
            prepare.prepare("tiny", [tmp_path / name], tmp_path / "out")
        one_line(caught)
        assert not (tmp_path / "out").exists()
        assert hidden(tmp_path) == []
    with pytest.raises(DataError, match="neither a folder nor an archive"):
        prepare.prepare("tiny", [source / "cat" / "00.jpg"], tmp_path / "out")
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "cut.zip", tmp_path / "copy")
    with pytest.raises(UsageError, match=r"two files are called cut\.zip"):
        prepare.prepare("tiny", [tmp_path / "cut.zip", tmp_path / "copy" / "cut.zip"])


def test_too_little_disk(source, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(DataError, match=r"takes about [\d,]+ bytes in .*, where 1,000 are free") as caught:
        prepare.prepare("tiny", [source], tmp_path / "out")
    assert "--out" in one_line(caught)
    archive = shutil.make_archive(tmp_path / "one", "zip", source)
    with pytest.raises(DataError, match=r"one\.zip needs"):
        prepare.prepare("tiny", [Path(archive)], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert hidden(tmp_path) == []


# ------------------------------------------------------------------------------------------------------ counts


def test_too_few_images_and_a_class_too_few_are_said_and_recorded(source, tmp_path):
    shutil.rmtree(source / "fish")
    (source / "cat" / "00.jpg").unlink()
    info = prepare.prepare("tiny", [source], tmp_path / "out").info
    assert not info.complete
    assert info.differences == (
        "7 images instead of 12",
        "2 classes differ: cat 3 instead of 4, fish 0 instead of 4",
    )
    assert info.variant == ""
    status = describe("tiny", Locations({"tiny": tmp_path / "out"}))
    assert (status.state, status.note) == ("prepared", "; ".join(info.differences))


def test_too_many_images(source, tmp_path, layouts):
    layouts.put(source / "cat" / "more.jpg", layouts.jpeg(70))
    info = prepare.prepare("tiny", [source], tmp_path / "out").info
    assert (info.complete, info.variant) == (False, "other-split")
    assert info.differences[1] == "1 class differs: cat 5 instead of 4"


def test_a_class_too_many(source, tmp_path, layouts):
    layouts.put(source / "horse" / "h.jpg", layouts.jpeg(70))
    with pytest.raises(DataError, match="horse"):
        prepare.prepare("tiny", [source], tmp_path / "out")
    assert hidden(tmp_path) == []


def record(manifest, labels, ids=("a", "b")):
    return Classification(
        "tiny",
        ImageFiles(Path("."), ids),
        np.array(labels),
        manifest.class_ids,
        manifest.class_names(),
        ("{}",),
    )


@pytest.mark.parametrize(
    ("labels", "ids", "reason"),
    [
        ([0, 3], ("a", "b"), "the label 3 of image b is outside 0 … 2"),
        ([-1, 0], ("a", "b"), "the label -1 of image a is outside 0 … 2"),
        ([0, 1], ("a", "a"), "image id 'a' stands there twice"),
        ([0, 1, 2], ("a", "b"), "3 labels for 2 images"),
        ([], (), "holds no images"),
    ],
)
def test_what_no_part_of_the_dataset_can_be(manifest, labels, ids, reason):
    with pytest.raises(DataError, match=reason):
        counting.check(manifest(), record(manifest(), labels, ids))


def test_an_image_that_is_gone_stops_it(source, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SAMPLED", 1)
    (source / "fish" / "11.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"11\.jpg is empty"):
        prepare.prepare("tiny", [source], tmp_path / "out", workers=2)
    assert not (tmp_path / "out").exists()


# --------------------------------------------------------------------------------------------------- downloads


@pytest.fixture
def web(tmp_path):
    """Serves `files` by name; `cut` bytes of the first answer."""
    served = SimpleNamespace(files={}, cut=None, asked=[])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name, wanted = self.path.rpartition("/")[2], self.headers.get("Range")
            served.asked.append((name, wanted))
            if name not in served.files:
                return self.send_error(404)
            start = int(wanted[6:-1]) if wanted else 0
            body = served.files[name][start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"x"')
            self.end_headers()
            cut, served.cut = served.cut, 0 if served.cut else None
            self.wfile.write(body if cut is None else body[:cut])

        def log_message(self, *arguments):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{running.server_port}/data"
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    yield served
    running.shutdown()
    running.server_close()


def test_sources_are_tried_in_turn_and_downloads_kept(source, web, manifest):
    web.files["b.tgz"] = Path(shutil.make_archive(source.parent / "b", "gztar", source)).read_bytes()
    manifest(
        f"sources:\n- {{kind: url, reader: imagefolder, files: [{{url: {web.url}/gone.zip}}]}}\n"
        f"- {{kind: url, reader: imagefolder, files: [{{url: {web.url}/b.tgz}}], variant: mirror}}\n"
    )
    assert "`hierbench data prepare tiny` downloads" in describe("tiny", Locations()).obtain
    done = prepare.prepare("tiny")
    assert done.info.source.places == (f"{web.url}/b.tgz",)
    assert (done.info.variant, done.info.complete) == ("mirror", True)
    assert "HTTP 404" in done.notes[0]
    kept = cache_dir() / "downloads" / "tiny" / "b.tgz"
    assert kept.read_bytes() == web.files["b.tgz"]
    web.asked.clear()
    prepare.prepare("tiny", force=True)
    assert web.asked == [("gone.zip", None)]


def test_a_download_that_was_cut_goes_on(source, web, manifest):
    content = Path(shutil.make_archive(source.parent / "b", "zip", source)).read_bytes()
    web.files["b.zip"], web.cut = content, 1000
    manifest(f"sources:\n- {{kind: url, reader: imagefolder, files: [{{url: {web.url}/b.zip}}]}}\n")
    with pytest.raises(DataError, match="1,000 bytes are kept") as caught:
        prepare.prepare("tiny")
    assert "By hand: Then run `hierbench data prepare tiny --from PATH`" in one_line(caught)
    assert not (cache_dir() / "datasets" / "tiny").exists()
    web.cut = None
    assert prepare.prepare("tiny").info.complete
    assert web.asked[-1] == ("b.zip", "bytes=1000-")


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ("md5: " + "a" * 32, "has MD5 .* instead of aaaa"),
        ("sha256: " + "a" * 64, "has SHA-256 .* instead of aaaa"),
        ("size: 17", "the manifest of tiny says 17"),
    ],
)
def test_a_file_that_is_not_the_published_one(source, web, manifest, known, reason):
    web.files["b.zip"] = Path(shutil.make_archive(source.parent / "b", "zip", source)).read_bytes()
    manifest(
        f"sources:\n- {{kind: url, reader: imagefolder, files: [{{url: {web.url}/b.zip, {known}}}]}}\n"
        "- {kind: manual, reader: imagefolder, how: Ask the authors.}\n"
    )
    with pytest.raises(DataError, match=reason) as caught:
        prepare.prepare("tiny")
    assert "By hand: Ask the authors." in one_line(caught)
    assert not list((cache_dir() / "downloads" / "tiny").glob("b.zip*[!k]"))
    assert hidden(cache_dir() / "datasets") == []


def test_a_source_that_cannot_be_opened_is_followed_by_the_next(source, web, manifest, layouts, tmp_path):
    other = layouts.put(tmp_path / "other" / "readme.txt", "not this").parent
    web.files["other.zip"] = Path(shutil.make_archive(tmp_path / "other", "zip", other)).read_bytes()
    web.files["page.zip"] = b"<html>Please log in</html>"
    web.files["b.zip"] = Path(shutil.make_archive(source.parent / "b", "zip", source)).read_bytes()
    urls = [f"{web.url}/{name}.zip" for name in ("page", "other", "b")]
    more = "sources:\n" + "".join(
        f"- {{kind: url, reader: imagefolder, files: [{{url: {u}}}]}}\n" for u in urls
    )
    manifest(more)
    done = prepare.prepare("tiny")
    assert done.info.source.places == (urls[2],)
    assert done.info.complete
    folder = cache_dir() / "downloads" / "tiny"
    assert done.downloads == (folder / "b.zip",)
    page, readme = done.notes
    assert page.startswith(f"{folder / 'page.zip'} is damaged")
    assert (
        f"{folder / 'other.zip'} has no class folders" in readme
    )  # not the hidden folder it was unpacked into
    assert not (folder / "page.zip").exists()  # an error page must not be what the next run opens
    del web.files["b.zip"], web.files["other.zip"]
    (folder / "b.zip").unlink()
    with pytest.raises(
        DataError, match=r"page\.zip .*; .*other\.zip .*HTTP 404.*; .*b\.zip .*HTTP 404.*By hand"
    ):
        prepare.prepare("tiny", force=True)
    assert prepare.prepare("tiny").info == done.info  # what was there before stays


def test_datasets_share_an_archive(source, web, manifest):
    web.files["b.zip"] = Path(shutil.make_archive(source.parent / "b", "zip", source)).read_bytes()
    more = f"sources:\n- {{kind: url, reader: imagefolder, files: [{{url: {web.url}/b.zip}}]}}\n"
    manifest(more)
    manifest(more, "twin")
    first = prepare.prepare("tiny")
    assert prepare.prepare("twin").downloads == first.downloads
    assert len(web.asked) == 1
    first.downloads[0].write_bytes(b"damaged")
    assert prepare.prepare("twin", force=True).info.complete
    assert len(web.asked) == 2


def test_what_is_wrong_in_an_archive_is_said_of_the_archive(source, tmp_path):
    (source / "cat" / "extra").mkdir()
    os.rename(source / "cat", source / "kangaroo")
    archive = shutil.make_archive(tmp_path / "b", "zip", source)
    with pytest.raises(DataError) as caught:
        prepare.prepare("tiny", [Path(archive)], out=tmp_path / "out")
    assert f"{archive} has folders that are none of its 3 classes: kangaroo" in one_line(caught)
    assert ".preparing" not in str(caught.value)


def test_what_no_program_can_fetch(manifest):
    manifest("sources:\n- {kind: manual, reader: imagefolder, how: Ask the authors.}\n")
    with pytest.raises(
        MissingDataError, match=r"Ask the authors\. Then run `hierbench data prepare tiny --from PATH`"
    ):
        prepare.prepare("tiny")


def test_the_hub(source, manifest, monkeypatch, tmp_path):
    snapshot = tmp_path / "models" / "snapshots" / "abc123"
    shutil.copytree(source, snapshot)
    asked = []
    monkeypatch.setattr(prepare, "hub_dataset", lambda *what: asked.append(what) or snapshot)
    manifest("sources:\n- {kind: hub, reader: imagefolder, repo: org/tiny, patterns: ['*.jpg']}\n")
    info = prepare.prepare("tiny").info
    assert (info.source.kind, info.source.places, info.source.revision) == ("hub", ("org/tiny",), "abc123")
    prepare.prepare("tiny", force=True)
    assert asked == [
        ("org/tiny", None, ("*.jpg",)),
        ("org/tiny", "abc123", ("*.jpg",)),
    ]  # pinned by the first


# ----------------------------------------------------------------------------------------------------- reading


@pytest.fixture
def made(source, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_ROWS", 5)
    monkeypatch.setattr(prepared, "GROUP_ROWS", 2)
    monkeypatch.setattr(prepared, "GROUPS_KEPT", 2)
    prepare.prepare("tiny", [source])
    return open_dataset("tiny", Locations())


def expected(source, image_id):
    return (source / image_id).read_bytes()


def test_random_access_from_threads_pickles_and_forks(made, source):
    images = made.images
    backwards = list(reversed(images.ids)) * 3
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(images.read, backwards)) == [expected(source, i) for i in backwards]
    assert len(images._groups) <= 2
    copy = pickle.loads(pickle.dumps(images))
    assert copy == images
    assert copy.read(images.ids[7]) == expected(source, images.ids[7])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(images.read, backwards) == [expected(source, i) for i in backwards]


def test_prepared_with_another_manifest(made, manifest):
    manifest("corrected_names: {dog: hound}\n")
    assert open_dataset("tiny", Locations(), protocol="corrected").class_names[1] == "hound"
    path = cache_dir() / "datasets" / "tiny" / "dataset.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"name": "other"}))
    with pytest.raises(DataError, match="holds the prepared dataset other, not tiny"):
        open_dataset("tiny", Locations())


def without_dog(folder):
    file = manifests._registered["tiny"]
    file.write_text(file.read_text().replace("dog: poodle, ", "").replace("images: 12, per_class: 4", ""))
    manifests._read.cache_clear()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (
            lambda f: (f / "images-00001.parquet").unlink(),
            r"images-00001\.parquet is missing: prepare it again",
        ),
        (lambda f: os.truncate(f / "images-00001.parquet", 300), "has 300 bytes instead of"),
        (lambda f: (f / "dataset.json").write_text("{"), r"dataset\.json, line 1: not JSON"),
        (
            lambda f: (f / "dataset.json").write_text("{}"),
            "has schema None, this version of hierbench reads 1",
        ),
        (lambda f: (f / "dataset.json").write_text('{"schema": 1}'), r"dataset\.json is damaged \(name: "),
        (without_dog, "the label 'dog' is none of the manifest's 2 classes"),
    ],
)
def test_damage_is_one_line_when_opened(made, damage, reason):
    damage(cache_dir() / "datasets" / "tiny")
    with pytest.raises(DataError, match=reason) as caught:
        open_dataset("tiny", Locations())
    one_line(caught)


def test_the_state_of_what_is_damaged(made, source):
    (cache_dir() / "datasets" / "tiny" / "images-00000.parquet").unlink()
    status = describe("tiny", Locations())
    assert (status.state, status.ready) == ("damaged", False)
    with pytest.raises(DataError, match="is missing"):
        prepare.prepare("tiny", [source])
    assert prepare.prepare("tiny", [source], force=True).fresh
    assert describe("tiny", Locations()).state == "prepared"
    assert describe("tiny", Locations({"tiny": source})).state == "in place"


# ----------------------------------------------------------------------------------------------------- verify


def flip(path, text):
    content = path.read_bytes()
    place = content.index(text)
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def test_verify_reads_all_and_says_what_differs(made, source):
    folder = cache_dir() / "datasets" / "tiny"
    info = prepared.load(folder)
    good = verify("tiny", Locations(), pixels=True, workers=2)
    assert (good.prepared, good.fingerprint, good.counts) == (True, info.fingerprint, info.counts)
    in_place = verify("tiny", Locations({"tiny": source}), pixels=True)
    assert (in_place.prepared, in_place.fingerprint) == (False, info.fingerprint)
    assert in_place.pixels == good.pixels
    flip(folder / "images-00001.parquet", b"JFIF")
    with pytest.raises(
        DataError, match=r"damaged: images-00001\.parquet has SHA-256 .* instead of .*--force"
    ):
        verify("tiny", Locations())
    with pytest.raises(DataError, match="damaged"):
        verify("tiny", Locations(), workers=2)


def test_verify_compares_counts_and_content_with_the_record(made):
    path = cache_dir() / "datasets" / "tiny" / "dataset.json"
    document = json.loads(path.read_text())
    for change, reason in (
        ({"counts": {"images": 13}}, "other counts"),
        ({"fingerprint": "0" * 64}, "has the fingerprint .* says 0000000000000000"),
    ):
        path.write_text(json.dumps(document | change))
        with pytest.raises(DataError, match=reason):
            verify("tiny", Locations())


def test_memory_stays_with_a_row_group(tmp_path, manifest):
    """The whole dataset would be 24 MB; writing it must not hold more than a few row groups."""
    tracker = SimpleNamespace(now=0, most=0)

    class Big(bytes):
        def __new__(cls, content):
            tracker.now += 1
            tracker.most = max(tracker.most, tracker.now)
            return super().__new__(cls, content)

        def __del__(self):
            tracker.now -= 1

    class Images:
        ids = tuple(f"{n}" for n in range(24))

        def read(self, image_id):
            return Big(bytes(1 << 20))

    data = Classification("tiny", Images(), np.zeros(24, np.int64), ("cat",), ("cat",), ("{}",))
    with (tmp_path / "x.parquet").open("wb") as file:
        sink = shards._Hashing(file)
        shards.write_rows(sink, data, "classification", prepared.annotation(data), range(24))
    assert tracker.most <= 4
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups == 12
    assert sink.size == (tmp_path / "x.parquet").stat().st_size


# ------------------------------------------------------------------------------------------------- leftovers


def test_what_dead_preparations_left_is_swept_and_what_lives_is_not(source, tmp_path, layouts):
    data = tmp_path / "data"
    old = time.time() - prepare.ABANDONED_SECONDS - 60
    for name in ("dead", "recent", "held", "finished"):
        layouts.put(data / f".{name}.preparing" / "unpacked" / "1.jpg", b"x")
        if name in ("dead", "held"):
            folder = data / f".{name}.preparing"
            for path in (folder / "unpacked" / "1.jpg", folder / "unpacked", folder):
                os.utime(path, (old, old))
    layouts.put(data / "finished" / prepared.RECORD, "{}")
    with prepare._alone(data / "held"):
        prepare.prepare("tiny", [source], data / "tiny")
        left = sorted(path.name for path in data.glob(".*.preparing"))
    assert left == [".held.preparing", ".recent.preparing"]
    layouts.put(data / ".tiny.preparing" / "old" / "x", b"x")  # its preparation came to an end
    assert not prepare.prepare("tiny", [source], data / "tiny").fresh
    assert sorted(path.name for path in data.glob(".*.preparing")) == [".recent.preparing"]


def test_a_bomb_among_archives_leaves_nothing(source, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cat/0.jpg", bytes(80 << 20))
    with pytest.raises(DataError, match=r"x\.zip may be a decompression bomb") as caught:
        prepare.prepare("tiny", [tmp_path / "x.zip"], tmp_path / "data" / "tiny")
    one_line(caught)
    assert hidden(tmp_path / "data") == []
