"""Sources that look whole and are not: each would give a wrong number without a word; it is refused or read right."""

import io
import json
import os
import socket
import tarfile
import unicodedata

import numpy as np
import pytest
from PIL import Image

from hierbench.data.images import decode
from hierbench.data.locate import Locations
from hierbench.data.manifests import load_manifest
from hierbench.data.readers import open_dataset, open_folder
from hierbench.errors import DataError

CIFAR = load_manifest("cifar10").class_ids
PETS = load_manifest("pets").class_ids


def opened(name, folder):
    return open_dataset(name, Locations({name: folder}))


def refused(name, folder, reason):
    with pytest.raises(DataError, match=reason) as caught:
        opened(name, folder)
    assert "\n" not in str(caught.value)


def tar(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


# ------------------------------------------------------------------------------ a table of another length


@pytest.mark.parametrize("kind", ["wds", "hf-parquet", "tfds"])
@pytest.mark.parametrize("change", ["short", "long"])
def test_a_table_with_a_name_too_few_or_too_many_shifts_labels(layouts, tmp_path, kind, change):
    """The fifth name is lost (or there twice), and no image is of the last class: every label is in range."""
    samples = layouts.some(*CIFAR[:9], each=1)
    names = [*CIFAR[:4], *CIFAR[5:]] if change == "short" else [*CIFAR[:5], "goat", *CIFAR[5:]]
    if kind == "wds":
        layouts.write_wds(tmp_path, samples, CIFAR)
        (tmp_path / "classnames.txt").write_text("\n".join(names))
    elif kind == "tfds":
        layouts.write_tfds(tmp_path, "cifar10", samples, CIFAR)
        (tmp_path / "label.labels.txt").write_text(layouts.lines(names))
    else:
        layouts.write_hf_parquet(tmp_path, [s for s in samples if s.label in names], names)
    refused(
        "cifar10", tmp_path, f"are {len(names)}, the dataset has 10 classes: a name is missing or too many"
    )


@pytest.mark.parametrize("name", ["cifar10", "cifar10-binary", "stl10", "cars"])
def test_official_tables_too(layouts, tmp_path, name):
    dataset = load_manifest(name.removesuffix("-binary"))
    assert opened(dataset.name, layouts.build(name, tmp_path / "whole").folder).num_classes == len(
        dataset.classes
    )
    builder = {"cifar10": layouts.cifar10, "cifar10-binary": layouts.cifar10_binary, "stl10": layouts.stl10,
               "cars": layouts.cars}[name]  # fmt: skip
    (tmp_path / "long").mkdir()
    refused(dataset.name, builder(tmp_path / "long", [*dataset.class_ids, "goat"]).folder, "the dataset has")


# ------------------------------------------------------------------------------------ one row a caption


def test_parquet_with_a_row_a_caption(tmp_path):
    """40 images x 5 captions are 40 images, by their file names, by numbers or by their bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    order = [(image, k) for k in range(5) for image in range(40)]  # rows of an image lie far apart
    columns = {
        "image": [{"bytes": b"image %d" % image, "path": None} for image, _ in order],
        "caption": [f"caption {k} of {image}" for image, k in order],
    }
    for number, extra in enumerate(({}, {"filename": "{}.jpg"}, {"image_id": ""})):
        more = {
            name: [pattern.format(i) if pattern else i for i, _ in order] for name, pattern in extra.items()
        }
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(pa.table(columns | more), folder / "test-00000-of-00001.parquet", row_group_size=7)
        data = opened("flickr30k", folder)
        assert len(data.images.ids) == 40
        assert [data.images.read(i) for i in data.images.ids] == [b"image %d" % i for i in range(40)]
        assert data.captions[:6] == (*(f"caption {k} of 0" for k in range(5)), "caption 0 of 1")
        assert data.owner.tolist() == [image for image in range(40) for _ in range(5)]
    assert data.images.ids[0] == "test/00000"
    assert opened("flickr30k", tmp_path / "1").images.ids[:2] == ("0.jpg", "1.jpg")
    pq.write_table(
        pa.table(columns | {"filename": ["a.jpg"] * 200}), tmp_path / "1" / "test-00000-of-00001.parquet"
    )
    refused("flickr30k", tmp_path / "1", r"rows 0 and 1 are both of 'a\.jpg', with different images")


def test_parquet_whose_rows_repeat_all_captions(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"bytes": b"x", "path": None}] * 2 + [{"bytes": b"y", "path": None}]
    table = pa.table({"image": rows, "caption": [["a", "b"], ["a", "b"], ["c", "d"]]})
    pq.write_table(table, tmp_path / "test.parquet")
    data = opened("flickr30k", tmp_path)
    assert (data.captions, data.owner.tolist()) == (("a", "b", "c", "d"), [0, 0, 1, 1])


# ------------------------------------------------------------------------------------------- "of N"


def test_parquet_files_left_over_or_missing(layouts, tmp_path):
    samples = layouts.some(*PETS[:3], each=4)
    data = layouts.write_hf_parquet(tmp_path, samples, PETS, shards=3) / "data"
    assert len(opened("pets", tmp_path).images.ids) == 12
    whole = (data / "test-00001-of-00003.parquet").read_bytes()
    (data / "test-00001-of-00003.parquet").unlink()
    refused("pets", tmp_path, r"shard 1 of 3 is missing in .* \(1 in all\)")
    (data / "test-00001-of-00003.parquet").write_bytes(whole)
    (data / "test-00000-of-00002.parquet").write_bytes(whole)
    refused("pets", tmp_path, "has shards of 2 and of 3: some are left over")
    (data / "test-00000-of-00002.parquet").rename(data / "test.parquet")
    refused("pets", tmp_path, r"test\.parquet lies among files numbered")


def test_webdataset_shards_left_over_or_missing(layouts, tmp_path):
    layouts.write_wds(tmp_path, layouts.some(*PETS[:3], each=4), PETS, shards=3)
    (tmp_path / "test" / "2.tar").rename(tmp_path / "test" / "7.tar")
    assert len(opened("pets", tmp_path).images.ids) == 12
    (tmp_path / "test" / "1.tar").unlink()
    refused("pets", tmp_path, "has 2 shards, its nshards.txt says '3'")


def test_tfds_shards_left_over_or_short(layouts, tmp_path):
    layouts.write_tfds(tmp_path, "pets", layouts.some(*PETS[:3], each=4), PETS, shards=3)
    first = tmp_path / "pets-test.tfrecord-00000-of-00003"
    (tmp_path / "pets-test.tfrecord-00000-of-00002").write_bytes(first.read_bytes())
    refused("pets", tmp_path, "has shards of 2 and of 3: some are left over")
    (tmp_path / "pets-test.tfrecord-00000-of-00002").unlink()
    content = first.read_bytes()
    first.write_bytes(content + content)
    refused("pets", tmp_path, r"has 8 examples, dataset_info\.json says 4")


# --------------------------------------------------------------------------------- line feeds alone


def test_captions_and_names_end_at_line_feeds_alone(layouts, tmp_path):
    odd = ("one\u2028two", "three\x0bfour", "five\x85six", "seven\x1ceight\x0cnine")
    members = [("a.jpg", layouts.jpeg(0)), ("a.txt", "\r\n".join(odd).encode())]
    tar(tmp_path / "wds" / "test" / "0.tar", members)
    assert opened("flickr30k", tmp_path / "wds").captions == odd
    made = layouts.build("dtd", tmp_path / "dtd")
    path = made.folder / "dtd" / "labels" / "test1.txt"
    strange = "banded/banded_\u2028 9.jpg"
    layouts.put(made.folder / "dtd" / "images" / strange, layouts.jpeg(3))
    path.write_text(f"{strange}\n{path.read_text()}", encoding="utf-8")
    assert opened("dtd", made.folder).images.ids[0] == strange
    made = layouts.build("pets", tmp_path / "pets")
    path = made.folder / "annotations" / "test.txt"
    layouts.put(made.folder / "images" / "Abyssinian\u3000_7.jpg", layouts.jpeg(3))
    path.write_text("Abyssinian\u3000_7 1 1 1\n", encoding="utf-8")
    assert opened("pets", made.folder).images.ids == ("Abyssinian\u3000_7.jpg",)


# ---------------------------------------------------------------------------------------- WebDataset keys


def test_keys_that_repeat_are_refused(layouts, tmp_path):
    members = [
        (f"{key}.{suffix}", layouts.jpeg(k) if suffix == "jpg" else b"%d" % k)
        for k, key in enumerate(("0001", "0002", "0001"))
        for suffix in ("jpg", "cls")
    ]
    (tmp_path / "classnames.txt").write_text("\n".join(PETS))
    tar(tmp_path / "test" / "0.tar", members)
    refused("pets", tmp_path, r"holds 0001\.jpg twice, or two samples of that key")
    tar(tmp_path / "test" / "0.tar", sorted(members[:4], key=lambda member: member[0][::-1]))
    data = opened("pets", tmp_path)  # parts of a sample may lie apart
    assert [PETS[label] for label in data.labels] == list(PETS[:2])


def test_folders_with_a_dot_and_descriptions_of_macos(layouts, tmp_path):
    members = [
        ("README", b"text"), ("./._v1.0", b"x"), ("v1.0/._1.jpg", b"x"), ("v1.0/1.jpg", layouts.jpeg(1)),
        ("v1.0/1.cls", b"0"), ("__MACOSX/v1.0/._1.cls", b"x"), ("v1.1/1.JPG", layouts.jpeg(2)), ("v1.1/1.cls", b"3"),
    ]  # fmt: skip
    tar(tmp_path / "test" / "0.tar", members)
    (tmp_path / "classnames.txt").write_text("\n".join(PETS))
    data = opened("pets", tmp_path)
    assert data.images.ids == ("0/v1.0/1.jpg", "0/v1.1/1.jpg")
    assert [data.images.read(i) for i in data.images.ids] == [layouts.jpeg(1), layouts.jpeg(2)]
    assert data.labels.tolist() == [0, 3]


# ------------------------------------------------------------------------------------------ float samples


def encoded(samples, kind="TIFF"):
    buffer = io.BytesIO()
    Image.fromarray(samples).save(buffer, kind)
    return buffer.getvalue()


def test_float_samples_are_scaled_by_their_range():
    ramp = np.array([[0, 0.25, 0.5], [0.75, 0.998, 1]], np.float32)
    shown = np.asarray(decode(encoded(ramp), "x"))
    assert shown[..., 0].tolist() == [[0, 64, 128], [191, 254, 255]]  # round(255 v)
    assert (shown == shown[..., :1]).all()
    deep = np.asarray(decode(encoded(np.array([[0, 255, 256, 65535]], np.uint16), "PNG"), "x"))
    assert deep[0, :, 0].tolist() == [0, 0, 1, 255]


@pytest.mark.parametrize(
    "samples",
    [
        np.array([[0, 200.5]], np.float32),
        np.array([[-0.1, 1]], np.float32),
        np.array([[0, np.nan]], np.float32),
        np.array([[0, 70_000]], np.int32),
        np.array([[-1, 7]], np.int32),
    ],
)
def test_samples_beyond_their_range_are_refused(samples):
    with pytest.raises(DataError, match=r"image x has samples from .* where 0 to (1|65535) is expected"):
        decode(encoded(samples), "x")


# ---------------------------------------------------------------------------------------- Unicode forms


@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
def test_file_names_in_another_unicode_form_are_found(layouts, tmp_path, on_disk):
    other = {"NFC": "NFD", "NFD": "NFC"}[on_disk]
    name = "caf\u00e9_1.jpg"
    layouts.put(tmp_path / "flickr30k_images" / unicodedata.normalize(on_disk, name), layouts.jpeg(1))
    told = unicodedata.normalize(other, name)
    entry = {"filename": told, "split": "test", "sentences": [{"raw": "a cup"}]}
    layouts.put(tmp_path / "dataset_flickr30k.json", json.dumps({"images": [entry]}))
    data = opened("flickr30k", tmp_path)
    assert data.images.ids == (told,)  # as the table has it, on every machine
    assert data.images.read(told) == layouts.jpeg(1)
    if unicodedata.normalize(other, name) in os.listdir(tmp_path / "flickr30k_images"):
        pytest.skip("this file system normalises names itself")
    entry["filename"] = "caf\u00e9_2.jpg"
    layouts.put(tmp_path / "dataset_flickr30k.json", json.dumps({"images": [entry]}))
    refused("flickr30k", tmp_path, r"first café_2\.jpg \('caf\\xe9_2\.jpg'\)")


def test_two_files_whose_names_look_alike(layouts, tmp_path):
    for form in ("e\u0301\u0323", "e\u0323\u0301"):  # the same letter, accents in two orders; NFC has a third
        layouts.put(tmp_path / "flickr30k_images" / f"{form}.jpg", layouts.jpeg(1))
    told = unicodedata.normalize("NFC", "e\u0301\u0323.jpg")
    entry = {"filename": told, "split": "test", "sentences": [{"raw": "a cup"}]}
    layouts.put(tmp_path / "dataset_flickr30k.json", json.dumps({"images": [entry]}))
    if len(os.listdir(tmp_path / "flickr30k_images")) == 1:
        pytest.skip("this file system normalises names itself")
    refused(
        "flickr30k", tmp_path, r"holds 'e\\u0301\\u0323\.jpg' and 'e\\u0323\\u0301\.jpg', one name in two"
    )


# -------------------------------------------------------------------------------- no files to be read to an end


def test_pipes_and_sockets_among_the_data_do_not_hang(layouts, tmp_path):
    folder = layouts.build("food101", tmp_path / "food").folder
    data = opened("food101", folder)
    image = data.images.folder / data.images.ids[0]
    image.unlink()
    os.mkfifo(image)
    with pytest.raises(DataError, match="is a FIFO, not a file"):
        data.images.read(data.images.ids[0])
    table = folder / "food-101" / "meta" / "test.txt"
    table.unlink()
    os.mkfifo(table)
    refused("food101", folder, "test list .* is a FIFO, not a file")
    for name, write in (("wds", layouts.write_wds), ("parquet", layouts.write_hf_parquet)):
        made = write(tmp_path / name, layouts.some(*PETS[:2]), PETS, shards=1)
        (shard,) = [path for path in made.rglob("*") if path.suffix in (".tar", ".parquet")]
        shard.unlink()
        os.mkfifo(shard)
        refused("pets", made, "is a FIFO, not a file")
    mat = layouts.build("flowers102", tmp_path / "f").folder / "setid.mat"
    mat.unlink()
    here = os.getcwd()
    os.chdir(mat.parent)  # a socket's path must be short
    try:
        socket.socket(socket.AF_UNIX).bind(mat.name)
    finally:
        os.chdir(here)
    refused("flowers102", mat.parent, "is a socket, not a file")


# ---------------------------------------------------------------------------------------- unfinished cleanings


def test_an_unfinished_cleaning_is_no_dataset(layouts, tmp_path):
    layouts.put(tmp_path / "test_imgs" / "1.jpg", layouts.jpeg(1))
    (tmp_path / "split.csv").write_text("id,captions,image_url\n1,a => b => c => d,http://x/1.jpg\n")
    (tmp_path / "pool.csv").write_text("caption\nz\n")
    manifest = load_manifest("hierarcaps-clean")
    assert len(open_folder(manifest, tmp_path).captions) == 1  # a copy without what the cleaning knows
    (tmp_path / "answers").mkdir()
    refused(
        manifest.name,
        tmp_path,
        "is not finished .*`hierbench clean hierarcaps -o .*` with the options as before",
    )
    (tmp_path / "manifest.json").write_text("{}")
    assert len(opened(manifest.name, tmp_path).captions) == 1
