"""Readers of ImageNet folders, COCO captions and HierarCaps, on tiny sources in their true layout and on real ones."""

import csv
import io
import json
import os
import pickle

import numpy as np
import pytest
from PIL import Image

from hierbench.data.images import decode
from hierbench.data.locate import Locations
from hierbench.data.manifests import load_manifest
from hierbench.data.readers import imagefolder, open_dataset
from hierbench.errors import DataError, MissingDataError, UnknownNameError, UsageError

FISH, DOG, CAT = "n01440764", "n02085620", "n02123045"


def image_bytes(colour=(200, 30, 30), kind="JPEG"):
    buffer = io.BytesIO()
    Image.new("RGB", (24, 16), colour).save(buffer, kind)
    return buffer.getvalue()


def put(path, content=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image_bytes() if content is None else content)
    return path


def opened(name, path, **options):
    return open_dataset(name, Locations({name: path}), **options)


def one_line(caught):
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------------------------------- where there is none


def test_what_is_not_there_says_how_to_get_it():
    with pytest.raises(
        MissingDataError, match="coco is not on this machine: `hierbench data prepare coco` gets it"
    ) as caught:
        open_dataset("coco", Locations())
    assert one_line(caught).endswith("--data coco=PATH")


def test_a_wrong_path_is_an_error_and_not_a_reason_to_skip(tmp_path):
    for path, reason in (
        (tmp_path / "nowhere", "does not exist"),
        (put(tmp_path / "file"), "is not a folder"),
    ):
        with pytest.raises(DataError, match=f"dataset coco: {path} {reason}") as caught:
            opened("coco", path)
        assert not isinstance(caught.value, MissingDataError)


def test_unknown_dataset_protocol_and_prompts(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean coco"):
        open_dataset("cocoo", Locations())
    with pytest.raises(UsageError, match="no protocol"):
        opened("coco", tmp_path, protocol="mended")
    with pytest.raises(UsageError, match="no prompt regime"):
        opened("coco", tmp_path, prompts="long")


# ------------------------------------------------------------------------------------------------ imagefolder


@pytest.fixture
def imagenet(tmp_path):
    for name in (f"{CAT}/b.JPEG", f"{FISH}/z.jpg", f"{FISH}/a.PNG", f"{DOG}/deep/er/x.WebP"):
        put(tmp_path / name)
    for name in (
        f"{FISH}/notes.txt",
        f"{FISH}/.hidden.jpg",
        f"{FISH}/._a.PNG",
        ".git/x.jpg",
        "README.md",
        "top.jpg",
    ):
        put(tmp_path / name)
    return tmp_path


def test_imagefolder(imagenet):
    data = opened("imagenet", imagenet)
    assert data.images.ids == (f"{FISH}/a.PNG", f"{FISH}/z.jpg", f"{DOG}/deep/er/x.WebP", f"{CAT}/b.JPEG")
    names = [data.class_names[label] for label in data.labels]
    assert names == ["tench", "tench", "Chihuahua", "tabby cat"]
    assert [data.class_ids[label] for label in data.labels] == [FISH, FISH, DOG, CAT]
    assert data.labels.dtype == np.int64
    assert data.num_classes == 1000
    assert data.taxonomy == "imagenet1k"
    assert data.images.read(f"{FISH}/z.jpg") == image_bytes()
    assert pickle.loads(pickle.dumps(data.images)) == data.images  # workers get a copy


def test_protocol_and_prompts_reach_the_dataset(imagenet):
    assert opened("imagenet", imagenet).class_names[744] == "missile"
    data = opened("imagenet", imagenet, protocol="corrected", prompts="photo")
    assert (data.class_names[744], data.templates) == ("projectile", ("a photo of a {}.",))


def test_a_folder_that_holds_val(imagenet, tmp_path_factory):
    whole = tmp_path_factory.mktemp("ilsvrc")
    os.symlink(imagenet, whole / "val")
    put(whole / "train" / FISH / "t.JPEG")
    assert opened("imagenet", whole).images.ids == opened("imagenet", imagenet).images.ids


def test_links_are_followed_and_circles_end(imagenet, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    put(elsewhere / "far.jpg")
    os.symlink(elsewhere, imagenet / "n01443537")  # a class folder that is a link
    os.symlink(elsewhere / "far.jpg", imagenet / FISH / "link.jpg")
    os.symlink(imagenet, imagenet / FISH / "upwards")
    os.symlink(imagenet / DOG, imagenet / DOG / "deep" / "again")
    ids = opened("imagenet", imagenet).images.ids
    assert set(ids) - {"n01443537/far.jpg", f"{FISH}/link.jpg"} >= {f"{FISH}/a.PNG"}
    assert "n01443537/far.jpg" in ids
    assert f"{FISH}/link.jpg" in ids
    assert sum(name.startswith(DOG) for name in ids) == 1


def test_files_are_listed_without_asking_for_their_status(imagenet, monkeypatch):
    asked = []
    for call in ("stat", "lstat"):
        true = getattr(os, call)
        monkeypatch.setattr(
            os, call, lambda path, *a, true=true, **k: asked.append(str(path)) or true(path, *a, **k)
        )
    imagefolder.read(load_manifest("imagenet"), imagenet)
    assert not [path for path in asked if path.lower().endswith((".jpg", ".jpeg", ".png", ".webp"))]


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda folder: None, "has no class folders such as n01440764/"),
        (lambda folder: put(folder / "a.JPEG"), "has no class folders such as n01440764/"),
        (lambda folder: (folder / FISH).mkdir(), "no images in the class folders"),
        (lambda folder: put(folder / FISH / "a.txt"), "no images in the class folders"),
        (lambda folder: [put(folder / name / "a.jpg") for name in (FISH, "cats", "n0144")],
         "folders that are none of its 1000 classes: cats, n0144:"),
        (lambda folder: [put(folder / f"n9999999{i}" / "a.jpg") for i in range(8)],
         "n99999990, n99999991, n99999992 and 5 more"),
    ],
)  # fmt: skip
def test_folders_that_are_no_imagenet(tmp_path, prepare, reason):
    prepare(tmp_path)
    with pytest.raises(DataError, match=reason) as caught:
        opened("imagenet", tmp_path)
    assert str(tmp_path) in one_line(caught)


@pytest.mark.skipif(os.name == "nt", reason="file names are bytes only on POSIX")
def test_a_file_name_that_is_not_utf8(imagenet):
    try:
        put(imagenet / FISH / os.fsdecode(b"caf\xe9.jpg"))
    except OSError:
        pytest.skip("this file system wants UTF-8")
    with pytest.raises(DataError, match="is not Unicode text: rename"):
        opened("imagenet", imagenet)


def test_images_that_vanish_or_are_empty_are_named_when_read(imagenet):
    data = opened("imagenet", imagenet)
    (imagenet / FISH / "z.jpg").unlink()
    put(imagenet / FISH / "a.PNG", b"")
    with pytest.raises(DataError, match=r"z\.jpg cannot be read: No such file"):
        data.images.read(f"{FISH}/z.jpg")
    with pytest.raises(DataError, match=r"a\.PNG is empty"):
        data.images.read(f"{FISH}/a.PNG")


def test_limited_keeps_labels_with_images(imagenet):
    few = opened("imagenet", imagenet).limited(2)
    assert few.images.ids == (f"{FISH}/a.PNG", f"{DOG}/deep/er/x.WebP")
    assert [few.class_ids[label] for label in few.labels] == [FISH, DOG]


# ------------------------------------------------------------------------------------------------------- COCO


def coco(folder, change=lambda content: content):
    content = {
        "info": {},
        "images": [{"id": 9, "file_name": "000000000009.jpg"}, {"id": 7, "file_name": "000000000007.jpg"}],
        "annotations": [
            {"id": 1, "image_id": 7, "caption": "A dog. "},
            {"id": 2, "image_id": 9, "caption": "Ein Hündchen"},
            {"id": 3, "image_id": 7, "caption": "a  poodle\n"},
        ],
    }
    changed = change(content)
    content = content if changed is None else changed
    for name in ("000000000007.jpg", "000000000009.jpg", "000000000011.jpg"):
        put(folder / "val2017" / name)
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    put(folder / "annotations" / "captions_val2017.json", text)
    return folder


def test_coco(tmp_path):
    data = opened("coco", coco(tmp_path))
    assert data.images.ids == ("000000000009.jpg", "000000000007.jpg")
    assert data.captions == ("A dog. ", "Ein Hündchen", "a  poodle\n")  # as written
    assert data.owner.tolist() == [1, 0, 1]
    assert decode(data.images.read("000000000007.jpg"), "x").size == (24, 16)
    few = data.limited(1)
    assert (few.images.ids, few.captions, few.owner.tolist()) == (
        ("000000000009.jpg",),
        ("Ein Hündchen",),
        [0],
    )


def edit(key, position, **fields):
    return lambda content: content[key][position].update(fields)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (edit("images", 0, file_name="gone.jpg"), r"1 of 2 images are missing in .*val2017, first gone\.jpg"),
        (edit("images", 0, file_name="../val2017/000000000009.jpg"), "1 of 2 images are missing"),
        (edit("images", 1, id=9), "repeated image id 9"),
        (edit("images", 1, file_name="000000000009.jpg"), r"repeated image file 000000000009\.jpg"),
        (edit("annotations", 1, id=3), "repeated annotation id 3"),
        (edit("annotations", 1, image_id=8), "annotation 2 is of an unknown image 8"),
        (edit("annotations", 1, image_id=7), r"1 images have no caption: 000000000009\.jpg"),
        (edit("annotations", 1, caption=" "), "caption of annotation 2 is empty"),
        (edit("annotations", 1, caption=None), r"annotations\[1\] has no proper 'caption'"),
        (edit("annotations", 1, caption="a \ud800 dog"), "caption 'a .* dog' is not Unicode text"),
        (edit("images", 1, id=None), r"images\[1\] has no proper 'id'"),
        (lambda content: content["images"].append(7), r"images\[2\] has no proper 'id'"),
        (lambda content: content.update(annotations=[]), "holds no captions"),
        (lambda content: content.update(annotations={}), "no list 'annotations'"),
        (lambda content: content.pop("images"), "no list 'images'") ,
        (lambda content: b"[]", "no list 'images'"),
        (lambda content: b"", "line 1: not JSON"),
        (lambda content: b'{\n"images": [\n}', "line 3: not JSON"),
        (lambda content: b"[" * 100_000, "nested too deeply"),
        (lambda content: '{"info":\n"caf\xe9"}'.encode("latin-1"), "line 2: not UTF-8"),
    ],
)  # fmt: skip
def test_damaged_coco(tmp_path, change, reason):
    def changed(content):
        result = change(content)
        return result if isinstance(result, bytes) else None

    with pytest.raises(DataError, match=reason) as caught:
        opened("coco", coco(tmp_path, changed))
    assert str(tmp_path) in one_line(caught)


def test_coco_without_its_parts(tmp_path):
    with pytest.raises(DataError, match=r"has no file annotations/captions_val2017\.json"):
        opened("coco", tmp_path)
    coco(tmp_path)
    (tmp_path / "val2017").rename(tmp_path / "val")
    with pytest.raises(DataError, match="has no image folder val2017/"):
        opened("coco", tmp_path)


# ------------------------------------------------------------------------------------------------- HierarCaps


ROWS = [
    ("0", "animal => dog => small dog => A small dog, asleep", "http://x/val2014/one.jpg"),
    ("1", "plant => tree => old tree => An old tree.", "http://x/val2014/two.jpg"),
    ("17", "animal => dog => wet dog => A \"wet\" dog\u2028here", "http://x/val2014/one.jpg"),
]  # fmt: skip


def table(path, rows, head=("id", "captions", "image_url")):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def hierarcaps(folder, rows=ROWS, images=("one.jpg", "two.jpg"), name="hierarcaps_test.csv"):
    table(folder / name, rows)
    for image in images:
        put(folder / "test_imgs" / image)
    return folder


def test_hierarcaps(tmp_path):
    data = opened("hierarcaps", hierarcaps(tmp_path))
    assert data.sample_ids == ("0", "1", "17")
    assert data.captions[0] == ("animal", "dog", "small dog", "A small dog, asleep")
    assert data.captions[2][3] == 'A "wet" dog\u2028here'
    assert data.images.ids == ("one.jpg", "two.jpg")
    assert data.owner.tolist() == [0, 1, 0]  # two rows share an image
    assert data.pool is None
    assert data.images.read("two.jpg") == image_bytes()


@pytest.mark.parametrize("layout", ["images", "assets/test_imgs"])
def test_hierarcaps_other_layouts(tmp_path, layout):
    hierarcaps(tmp_path)
    (tmp_path / layout).parent.mkdir(exist_ok=True)
    (tmp_path / "test_imgs").rename(tmp_path / layout)
    if layout.startswith("assets"):  # as in the authors' repository
        (tmp_path / "data").mkdir()
        (tmp_path / "hierarcaps_test.csv").rename(tmp_path / "data" / "hierarcaps_test.csv")
    assert opened("hierarcaps", tmp_path).images.ids == ("one.jpg", "two.jpg")


def test_byte_order_mark_is_no_part_of_the_heading(tmp_path):
    path = hierarcaps(tmp_path) / "hierarcaps_test.csv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(opened("hierarcaps", tmp_path).captions) == 3


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("5", "animal => dog => small dog", "http://x/one.jpg"), "row 2: 3 caption levels where 4"),
        (("5", "a => b => c => d => e", "http://x/one.jpg"), "row 2: 5 caption levels where 4"),
        (("5", "a =>  => c => d", "http://x/one.jpg"), "row 2: 3 caption levels where 4"),
        (("5", "", "http://x/one.jpg"), "row 2: 0 caption levels where 4"),
        (("0", "a => b => c => d", "http://x/one.jpg"), "row 2: the id '0' stands in row 1 already"),
        (("5", "a => b => c => d", "http://x/gone.jpg"), r"1 of 2 images are missing .* first gone\.jpg"),
        (("5", "a => b => c => d", "http://x/"), "row 2: the image_url 'http://x/' names no file"),
        (("5", "a => b => c => d"), "row 2: other than 3 columns"),
        (("5", "a => b => c => d", "http://x/one.jpg", "more"), "row 2: other than 3 columns"),
    ],
)
def test_damaged_rows(tmp_path, row, reason):
    with pytest.raises(DataError, match=reason) as caught:
        opened("hierarcaps", hierarcaps(tmp_path, [ROWS[0], row]))
    assert str(tmp_path) in one_line(caught)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has no column id, captions, image_url"),
        (b"id,caption,image_url\r\n1,a,b\r\n", "has no column captions"),
        (b"id,captions,image_url\r\n", "has no rows"),
        (b'id,captions,image_url\r\n1,"a => b', "after line 1: not CSV"),
        (b"id,captions,image_url\r\n1,caf\xe9 => b => c => d,x/one.jpg\r\n", "line 2: not UTF-8 text"),
        (b"id,captions,image_url\r\n1," + b"a" * 200_000 + b",x/one.jpg\r\n", "not CSV"),
    ],
)
def test_damaged_tables(tmp_path, content, reason):
    put(hierarcaps(tmp_path) / "hierarcaps_test.csv", content)
    with pytest.raises(DataError, match=reason) as caught:
        opened("hierarcaps", tmp_path)
    assert "hierarcaps_test.csv" in one_line(caught)


def test_hierarcaps_without_its_parts(tmp_path):
    with pytest.raises(DataError, match=r"has no file hierarcaps_test\.csv or data/hierarcaps_test\.csv"):
        opened("hierarcaps", tmp_path)
    table(tmp_path / "hierarcaps_test.csv", ROWS)
    with pytest.raises(DataError, match="has no image folder test_imgs or images"):
        opened("hierarcaps", tmp_path)


# ------------------------------------------------------------------------------------------ the cleaned split


def clean(folder, pool=("a car", "a boat"), images=()):
    hierarcaps(folder, ROWS[:2], images, "split.csv")
    table(folder / "pool.csv", [(caption,) for caption in pool], ("caption",))
    return folder


def test_cleaned_split_with_images_of_its_own(tmp_path):
    data = opened("hierarcaps-clean", clean(tmp_path, images=("one.jpg", "two.jpg")))
    assert data.pool == ("a car", "a boat")
    assert len(data.captions) == 2
    assert data.images.ids == ("one.jpg", "two.jpg")
    assert data.limited(1).pool == data.pool


def test_cleaned_split_with_the_images_of_hierarcaps(tmp_path):
    folder = clean(tmp_path / "clean")
    with pytest.raises(
        MissingDataError, match=r"no test_imgs or .* serve instead: dataset hierarcaps is not"
    ):
        opened("hierarcaps-clean", folder)
    whole = hierarcaps(tmp_path / "whole")
    where = Locations({"hierarcaps-clean": folder, "hierarcaps": whole})
    assert open_dataset("hierarcaps-clean", where).images.read("one.jpg") == image_bytes()
    (whole / "test_imgs").rename(whole / "pictures")
    with pytest.raises(DataError, match=r"dataset hierarcaps: .* has no image folder"):
        open_dataset("hierarcaps-clean", where)


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        ((), "has no rows"),
        (("a car", " "), "row 2: the caption is empty"),
        (("a car", "a boat", "a car"), "row 3: the caption of row 1 again"),
    ],
)
def test_damaged_pools(tmp_path, pool, reason):
    with pytest.raises(DataError, match=reason) as caught:
        opened("hierarcaps-clean", clean(tmp_path, pool, ("one.jpg", "two.jpg")))
    assert "pool.csv" in one_line(caught)


def test_no_pool(tmp_path):
    (clean(tmp_path, images=("one.jpg", "two.jpg")) / "pool.csv").unlink()
    with pytest.raises(DataError, match=r"pool\.csv cannot be read: No such file"):
        opened("hierarcaps-clean", tmp_path)


# ----------------------------------------------------------------------------------------- the built-in world


@pytest.mark.parametrize(
    "name",
    ["miniature-things", "miniature-colours", "miniature-backgrounds", "miniature", "miniature-chains"],
)
def test_the_miniature_opens_without_a_path_and_has_what_its_manifest_counts(name):
    manifest, data = load_manifest(name), open_dataset(name, Locations())
    counts = {"images": len(data.images.ids), "captions": None, "samples": None}
    if hasattr(data, "captions"):
        counts["captions"] = sum(len(c) if isinstance(c, tuple) else 1 for c in data.captions)
    if hasattr(data, "sample_ids"):
        counts["samples"] = len(data.sample_ids)
    assert manifest.counts.model_dump(exclude={"per_class"}) == counts
    assert getattr(data, "class_ids", ()) == manifest.class_ids
    assert decode(data.images.read(data.images.ids[0]), name).mode == "RGB"


# ---------------------------------------------------------------------------------------------- the real ones


@pytest.mark.shared
def test_real_imagenet(shared_data):
    data = opened("imagenet", shared_data / "imagenet_val_sample")
    assert data.labels.tolist() == list(range(1000))
    assert data.images.ids[0] == "n01440764/n01440764_00000001.JPEG"
    assert decode(data.images.read(data.images.ids[500]), "x").mode == "RGB"


@pytest.mark.shared
def test_real_coco(shared_data):
    data = opened("coco", shared_data / "coco_captions_sample")
    assert (len(data.images.ids), len(data.captions)) == (1000, 4709)
    assert set(data.owner.tolist()) == set(range(1000))
    assert data.captions[0] == "A banana replacing the phone on an answering machine"
    assert data.images.ids[data.owner[0]] == "000000012667.jpg"


@pytest.mark.shared
def test_real_hierarcaps(shared_data):
    data = opened("hierarcaps", shared_data / "hierarcaps")
    assert len(data.sample_ids) == len(data.images.ids) == 1000
    strings = [caption for levels in data.captions for caption in levels]
    assert (len(strings), len(set(strings))) == (4000, 3132)
    assert data.captions[1][:3] == ("bird", "blue bird", "blue bird sitting on top of branch")
    assert data.images.ids[data.owner[1]] == "COCO_val2014_000000100489.jpg"
