"""Exports that other programs read; contact sheets; pixel fingerprints of two sources of one dataset."""

import shutil
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from hierbench.acquire import export as exporting
from hierbench.acquire.export import export, extension
from hierbench.acquire.prepare import prepare
from hierbench.acquire.verify import pixel_fingerprint, verify
from hierbench.data.contact_sheet import CELL, GAP, contact_sheet, said_of, write_contact_sheet
from hierbench.data.datasets import Classification, Retrieval
from hierbench.data.images import decode
from hierbench.data.locate import Locations
from hierbench.data.manifests import load_manifest
from hierbench.data.readers import open_dataset, open_folder
from hierbench.errors import DataError, UsageError


def opened(name, folder, **options):
    return open_dataset(name, Locations({name: folder}), **options)


def members(path):
    with tarfile.open(path) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}


@pytest.fixture
def food(layouts, tmp_path):
    return opened("food101", layouts.build("food101", tmp_path / "food101").folder)


# ------------------------------------------------------------------------------------------------- WebDataset


def test_wds_of_a_classification_set(food, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "SHARD_IMAGES", 2)
    out = tmp_path / "out"
    count = export(food, "wds", out)
    assert count == len(food.images.ids)
    shards = -(-count // 2)
    assert (out / "test" / "nshards.txt").read_text() == f"{shards}\n"
    assert sorted(path.name for path in out.iterdir()) == [
        "class_ids.txt", "classnames.txt", "dataset_type.txt", "test", "zeroshot_classification_templates.txt",
    ]  # fmt: skip
    found = {}
    for shard in range(shards):
        found |= members(out / "test" / f"{shard}.tar")
    for row, image_id in enumerate(food.images.ids):
        assert found[f"s{row:07d}.jpg"] == food.images.read(image_id)
        assert found[f"s{row:07d}.cls"] == b"%d" % food.labels[row]
    assert (out / "classnames.txt").read_text().splitlines() == list(food.class_names)
    assert (out / "zeroshot_classification_templates.txt").read_text().splitlines()[0] == "food : {c}."
    assert (out / "class_ids.txt").read_text().splitlines() == list(food.class_ids)
    assert (out / "dataset_type.txt").read_text() == "classification\n"


def test_clip_benchmark_reads_it(food, tmp_path):
    builder = pytest.importorskip("clip_benchmark.datasets.builder", exc_type=ImportError)
    export(food, "wds", tmp_path / "out")
    data = builder.build_wds_dataset("wds/x", lambda image: np.asarray(image), "test", str(tmp_path / "out"))
    assert data.classes == list(food.class_names)
    assert data.templates == [template.replace("{}", "{c}") for template in food.templates]
    samples = list(data)
    assert [label for _, label in samples] == food.labels.tolist()
    for (pixels, _), image_id in zip(samples, food.images.ids, strict=True):
        np.testing.assert_array_equal(pixels, np.asarray(decode(food.images.read(image_id), "x")))


def test_clip_benchmark_reads_captions_and_several_labels(layouts, tmp_path):
    builder = pytest.importorskip("clip_benchmark.datasets.builder", exc_type=ImportError)
    flickr = opened("flickr30k", layouts.build("flickr30k", tmp_path / "f").folder)
    flickr = replace(flickr, captions=(flickr.captions[0] + "\nand more ", *flickr.captions[1:]))
    export(flickr, "wds", tmp_path / "1")
    data = builder.build_wds_dataset("wds/x", lambda image: image.size, "test", str(tmp_path / "1"))
    expected = [[] for _ in flickr.images.ids]
    for caption, image in zip(flickr.captions, flickr.owner, strict=True):
        expected[image].append(caption.replace("\n", " "))
    assert [captions for _, captions in data] == expected
    voc = opened("voc2007", layouts.build("voc2007", tmp_path / "v").folder)
    export(voc, "wds", tmp_path / "2")
    data = builder.build_wds_dataset("wds/x", lambda image: image.size, "test", str(tmp_path / "2"))
    np.testing.assert_array_equal([labels for _, labels in data], voc.present)
    assert len(data.classes) == 20


def test_our_own_reader_reads_it_back(food, tmp_path):
    export(food, "wds", tmp_path / "wds")
    export(food, "imagefolder", tmp_path / "folders")
    for folder in ("wds", "folders"):
        back = opened("food101", tmp_path / folder)  # the released names of two classes are exchanged
        assert pixel_fingerprint(back) == pixel_fingerprint(food)


# ------------------------------------------------------------------------------------------------- ImageFolder


def test_imagefolder_keeps_names_and_tells_equal_ones_apart(layouts, tmp_path):
    class Images:
        ids = ("x/a.JPEG", "y/a.jpeg", "test_batch/00001", "z/b.gif")

        def read(self, image_id):
            return {"test_batch/00001": layouts.png(1), "z/b.gif": layouts.jpeg(2)}.get(
                image_id, layouts.jpeg(0)
            )

    data = Classification("d", Images(), np.array([0, 0, 1, 1]), ("a/abbey", "b"), ("abbey", "b"), ("{}",))
    assert export(data, "imagefolder", tmp_path / "out") == 4
    names = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*"))
    assert names == ["a_abbey/a.JPEG", "a_abbey/a_1.jpeg", "b/00001.png", "b/b.jpg"]
    assert (tmp_path / "out" / "b" / "00001.png").read_bytes() == layouts.png(1)


def test_torchvision_reads_an_imagefolder(food, tmp_path):
    from torchvision.datasets import ImageFolder

    export(food, "imagefolder", tmp_path / "out")
    data = ImageFolder(tmp_path / "out")
    used = sorted({food.class_ids[label] for label in food.labels})
    assert data.classes == used
    assert len(data) == len(food.images.ids)


def test_extensions_by_content(layouts):
    assert [extension(content) for content in (layouts.jpeg(0), layouts.png(0), b"GIF89a", b"BM..", b"??")] == [
        "jpg", "png", "gif", "bmp", "jpg",
    ]  # fmt: skip
    assert extension(b"RIFF\x00\x00\x00\x00WEBPVP8 ") == "webp"


def test_what_is_refused_leaves_nothing(food, layouts, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(UsageError, match="no export format 'tfds': it is wds or imagefolder"):
        export(food, "tfds", tmp_path / "out")
    with pytest.raises(UsageError, match="full exists and is not an empty folder"):
        export(food, "wds", tmp_path / "full")
    captioned = Retrieval("flickr30k", food.images, ("a",), np.array([0]))
    with pytest.raises(UsageError, match="no single label an image"):
        export(captioned, "imagefolder", tmp_path / "out")
    (food.images.folder / food.images.ids[-1]).unlink()
    for form in ("wds", "imagefolder"):
        with pytest.raises(DataError, match="cannot be read"):
            export(food, form, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["food101", "full"]


# ---------------------------------------------------------------------------------------------- contact sheets


def test_a_sheet_shows_the_images_and_says_their_labels(food, tmp_path):
    sheet = contact_sheet(food, 4)
    assert sheet.height > CELL
    assert sheet.width == GAP + 2 * (CELL + GAP)
    first = np.asarray(sheet)[GAP : GAP + CELL, GAP : GAP + CELL]
    assert (first != 255).any()
    below = np.asarray(sheet)[GAP + CELL : GAP + CELL + 24, GAP : GAP + CELL]
    assert (below < 100).any()  # letters
    assert said_of(food, 0) == [food.class_names[food.labels[0]]]
    write_contact_sheet(food, tmp_path / "sheet.png", 1000)
    assert Image.open(tmp_path / "sheet.png").format == "PNG"
    with pytest.raises(UsageError, match="at least 1"):
        contact_sheet(food, 0)


def test_what_sheets_say_of_captions_and_of_several_labels(layouts, tmp_path):
    voc = opened("voc2007", layouts.build("voc2007", tmp_path / "v").folder)
    assert said_of(voc, 0) == [
        ", ".join(n for n, there in zip(voc.class_names, voc.present[0], strict=True) if there)
    ]
    flickr = opened("flickr30k", layouts.build("flickr30k", tmp_path / "f").folder)
    assert said_of(flickr, 0) == [
        c.strip() for c, o in zip(flickr.captions, flickr.owner, strict=True) if o == 0
    ]
    contact_sheet(voc)
    contact_sheet(flickr)


# ------------------------------------------------------------------------------- two sources of one dataset


def second_source(layouts, name, built, folder):
    """Another source of the same images and labels: other layout, ids, order of images and numbers of labels."""
    first = opened(name, built.folder)
    samples = [
        layouts.Sample(f"x/{row:03d}.png", first.images.read(image_id), label)
        for row, (image_id, label) in enumerate(
            zip(first.images.ids, (first.class_ids[k] for k in first.labels), strict=True)
        )
    ]
    ids = first.class_ids
    if name in ("cifar10", "cub2011", "pets"):
        return layouts.write_wds(folder, samples[::-1], sorted(ids, reverse=True))
    if name in ("food101", "stl10", "dtd"):
        return layouts.write_hf_parquet(folder, samples[::-1], sorted(ids, key=len))
    return layouts.write_imagefolder(folder, samples[::-1], lambda class_id: class_id.replace("/", "_"))


@pytest.mark.parametrize(
    "name", ["cifar10", "stl10", "food101", "cub2011", "dtd", "pets", "aircraft", "flowers102", "cars"]
)
def test_two_independent_sources_give_one_fingerprint(name, layouts, tmp_path):
    built = layouts.build(name, tmp_path / "official")
    second = second_source(layouts, name, built, tmp_path / "second")
    prints = []
    for number, folder in enumerate((built.folder, second)):
        prepare(name, [folder], tmp_path / str(number))
        in_place = verify(name, Locations({name: folder}), pixels=True)
        prepared = verify(name, Locations({name: tmp_path / str(number)}), pixels=True)
        assert in_place.pixels == prepared.pixels
        prints.append(prepared.pixels)
    assert prints[0] == prints[1]
    data = opened(name, second)
    swapped = replace(data, labels=np.roll(data.labels, 1))
    assert pixel_fingerprint(swapped) != prints[0]


def test_cifar_in_its_two_official_forms(layouts, tmp_path):
    for name in ("cifar10", "cifar100"):
        folders = [
            layouts.build(f"{name}{form}", tmp_path / f"{name}{form}").folder for form in ("", "-binary")
        ]
        python, binary = (pixel_fingerprint(opened(name, folder)) for folder in folders)
        assert python == binary


def test_captions_from_two_sources(layouts, tmp_path):
    built = layouts.build("flickr30k", tmp_path / "official")
    second = layouts.write_wds(tmp_path / "wds", built.samples[::-1])
    assert pixel_fingerprint(opened("flickr30k", second)) == pixel_fingerprint(
        opened("flickr30k", built.folder)
    )


def test_a_zip_and_its_folder(layouts, tmp_path):
    built = layouts.build("eurosat", tmp_path / "official")
    archive = shutil.make_archive(tmp_path / "EuroSAT", "zip", built.folder)
    prepare("eurosat", [archive], tmp_path / "out")
    manifest = load_manifest("eurosat")
    assert pixel_fingerprint(open_folder(manifest, tmp_path / "out")) == pixel_fingerprint(
        open_folder(manifest, built.folder)
    )
