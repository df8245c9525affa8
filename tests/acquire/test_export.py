"""Exports that other programs read; contact sheets; pixel fingerprints of two sources of one dataset."""

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from hierbench.acquire import export as exporting
from hierbench.acquire.export import export, extension, folder_names
from hierbench.acquire.prepare import prepare
from hierbench.acquire.verify import _digests, verify
from hierbench.data import prepared
from hierbench.data.contact_sheet import CELL, GAP, contact_sheet, said_of, write_contact_sheet
from hierbench.data.datasets import Classification, ImageFiles, Retrieval
from hierbench.data.images import decode
from hierbench.data.locate import Locations
from hierbench.data.manifests import Manifest, all_manifests, load_manifest
from hierbench.data.readers import imagefolder, open_dataset, open_folder, wds
from hierbench.errors import DataError, UsageError
from hierbench.progress import choose


def opened(name, folder, **options):
    return open_dataset(name, Locations({name: folder}), **options)


def pixel_fingerprint(record):
    """As `verify` says it, of a dataset that lies nowhere as well."""
    return prepared.as_fingerprint(_digests(record, True, 1, choose(False))[1])


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
        "class_ids.txt", "classnames.txt", "dataset_type.txt", "test", "variant.txt",
        "zeroshot_classification_templates.txt",
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
    assert names == [
        "a_abbey/a.JPEG", "a_abbey/a_1.jpeg", "b/00001.png", "b/b.jpg", "classes.tsv", "variant.txt",
    ]  # fmt: skip
    assert (tmp_path / "out" / "classes.tsv").read_text() == "a_abbey\ta/abbey\nb\tb\n"
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
        written = verify(name, Locations({name: tmp_path / str(number)}), pixels=True)
        assert in_place.pixels == written.pixels
        prints.append(written.pixels)
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


# ----------------------------------------------------------------------------- every export is read back


EVERY = sorted(all_manifests())


def something_of(name, layouts, folder):
    """A few images of any dataset: of the built-in world, or a small source in the official layout."""
    if load_manifest(name).reader == "miniature":
        return open_dataset(name, Locations()).limited(24)
    return opened(name, layouts.build(name, folder).folder)


def said(data):
    """What a dataset says of each image, by its bytes: classes, captions, neither ids nor order."""
    found = {}
    for row, image_id in enumerate(data.images.ids):
        content = data.images.read(image_id)
        if isinstance(data, Classification):
            told = data.class_ids[data.labels[row]]
        elif isinstance(data, Retrieval):
            told = tuple(c for c, owner in zip(data.captions, data.owner, strict=True) if owner == row)
        else:
            ignored = data.ignored[row] if data.ignored is not None else [False] * data.num_classes
            told = tuple(
                zip(data.class_ids, data.present[row].tolist(), list(map(bool, ignored)), strict=True)
            )
        found.setdefault(content, []).append(told)
    return found


@pytest.mark.parametrize("form", ["wds", "imagefolder"])
@pytest.mark.parametrize("name", EVERY)
def test_every_export_of_every_dataset_is_read_back(name, form, layouts, tmp_path):
    manifest = load_manifest(name)
    if "hierarcaps" in manifest.reader or name == "miniature-chains":
        chains = open_dataset("miniature-chains", Locations())
        with pytest.raises(UsageError, match=r"holds chains of captions|has no single label"):
            export(chains, form, tmp_path / "out")
        return
    if "which-caption" in manifest.tasks:
        choices = open_dataset("miniature-choices", Locations())
        with pytest.raises(UsageError, match=r"holds choices of captions|has no single label"):
            export(choices, form, tmp_path / "out")
        return
    data = something_of(name, layouts, tmp_path / "source")
    if form == "imagefolder" and not isinstance(data, Classification):
        with pytest.raises(UsageError, match="has no single label an image: export it with --format wds"):
            export(data, form, tmp_path / "out")
        return
    export(data, form, tmp_path / "out")
    if manifest.reader == "miniature":  # built in: opened by its name it is never read from disk
        back = {"wds": wds, "imagefolder": imagefolder}[form].read(manifest, tmp_path / "out")
    else:
        back = opened(name, tmp_path / "out")
        assert back.variant == data.variant
    assert said(back) == said(data)
    if not isinstance(data, Retrieval):
        assert back.class_ids == data.class_ids


def test_class_ids_that_no_file_system_takes_are_read_back(layouts, tmp_path):
    odd = ("707-320", "F-16A/B", "con", "a:b", "A_B", "a/b", ".hidden", "dot.", "Eurofighter Typhoon", "é")
    assert folder_names(odd) == [
        "707-320", "F-16A_B", "_con", "a_b", "A_B_4", "a_b_5", "_.hidden", "dot", "Eurofighter Typhoon", "é",
    ]  # fmt: skip
    assert (
        load_manifest("aircraft").class_for("F-16A_B") == "F-16A/B"
    )  # folders say so without the table, too
    fields = {"name": "odd", "title": "Odd", "reader": "imagefolder", "tasks": ["zero-shot"], "fit": "crop",
              "templates": ["{}"], "classes": {class_id: f"name {k}" for k, class_id in enumerate(odd)}}  # fmt: skip
    manifest = Manifest.model_validate(fields)
    for k, class_id in enumerate(odd):
        layouts.put(tmp_path / "in" / f"{k}.jpg", layouts.jpeg(k))
        assert class_id in manifest.classes
    images = ImageFiles(tmp_path / "in", tuple(f"{k}.jpg" for k in range(len(odd))))
    data = Classification("odd", images, np.arange(len(odd)), odd, tuple(manifest.classes.values()), ("{}",))
    for form in ("imagefolder", "wds"):
        export(data, form, tmp_path / form)
        assert said(open_folder(manifest, tmp_path / form)) == said(data)
    table = tmp_path / "imagefolder" / "classes.tsv"
    whole = table.read_text()
    for content, reason in (
        (whole.partition("\n")[2], "has folders that are none of its 10 classes|names 9 classes, odd has 10"),
        (whole.replace("707-320\n", "poodle\n"), "line 1: no folder and class id of odd"),
    ):
        table.write_text(content)
        with pytest.raises(DataError, match=reason):
            open_folder(manifest, tmp_path / "imagefolder")


def test_an_export_keeps_what_sets_it_apart(layouts, tmp_path):
    """Caltech-101's sorted split read back must not pass for the released one; its files look like official ones."""
    data = opened("caltech101", layouts.build("caltech101", tmp_path / "c").folder)
    assert data.variant == "sorted-split"
    for form in ("wds", "imagefolder"):
        export(data, form, tmp_path / form)
        back = opened("caltech101", tmp_path / form)
        assert (len(back.images.ids), back.variant) == (len(data.images.ids), "sorted-split")


def test_several_labels_of_others_do_not_say_what_to_ignore(layouts, tmp_path):
    """CLIP Benchmark's shards of VOC have no third value for difficult objects: another figure; they are not read."""
    voc = opened("voc2007", layouts.build("voc2007", tmp_path / "v").folder)
    export(voc, "wds", tmp_path / "out")
    assert opened("voc2007", tmp_path / "out").ignored.tolist() == voc.ignored.tolist()
    (tmp_path / "out" / "variant.txt").unlink()
    with pytest.raises(DataError, match=r"has no ImageSets/Main/test\.txt"):
        opened("voc2007", tmp_path / "out")


def test_captions_keep_all_but_their_line_feeds(layouts, tmp_path):
    flickr = opened("flickr30k", layouts.build("flickr30k", tmp_path / "f").folder)
    odd = ("a\u2028b\x0bc\x85d", " two\r\nlines\n", *flickr.captions[2:])
    export(replace(flickr, captions=odd), "wds", tmp_path / "out")
    assert opened("flickr30k", tmp_path / "out").captions[:2] == ("a\u2028b\x0bc\x85d", " two lines")


def test_what_killed_exports_left_is_swept(food, layouts, tmp_path):
    child = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    dead = int(child.stdout)
    for number in (dead, os.getppid()):
        layouts.put(tmp_path / f".out.{number}.exporting" / "x", b"x")
    export(food, "wds", tmp_path / "out")
    assert [path.name for path in tmp_path.glob(".*.exporting")] == [f".out.{os.getppid()}.exporting"]
