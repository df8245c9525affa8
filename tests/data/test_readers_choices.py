"""SugarCrepe, Winoground and ARO in their true layouts, and what is refused of them."""

import io
import json

import pytest
from PIL import Image

from hierbench.data import prepared
from hierbench.data.locate import Locations
from hierbench.data.manifests import load_manifest
from hierbench.data.readers import open_dataset
from hierbench.errors import DataError, MissingDataError


def picture(path, colour=(10, 200, 30), size=(20, 16)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def opened(name, folder, **more):
    return open_dataset(name, Locations({name: folder, **more}))


def entry_of(name, caption):
    return json.dumps({"0": {"filename": name, "caption": caption, "negative_caption": "b"}})


@pytest.fixture
def sugarcrepe(tmp_path):
    for kind in load_manifest("sugarcrepe").kinds:
        questions = {
            str(n): {
                "filename": f"00{n}.jpg",
                "caption": f"true {kind} {n}",
                "negative_caption": f"false {kind} {n}",
            }
            for n in range(2)
        }
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{kind}.json").write_text(json.dumps(questions))
    for n in range(2):
        picture(tmp_path / "coco" / "val2017" / f"00{n}.jpg")
    return tmp_path


def test_sugarcrepe_borrows_the_images_of_coco(sugarcrepe):
    data = opened("sugarcrepe", sugarcrepe, coco=sugarcrepe / "coco")
    kinds = load_manifest("sugarcrepe").kinds
    assert data.images.ids == ("000.jpg", "001.jpg")
    assert data.kinds == tuple(kind for kind in kinds for _ in range(2))
    assert data.sample_ids[:3] == ("replace_obj/0", "replace_obj/1", "replace_att/0")
    assert data.captions[1] == ("true replace_obj 1", "false replace_obj 1")
    assert data.shown[1] == (1,)
    with pytest.raises(MissingDataError, match="the images of another dataset serve instead"):
        opened("sugarcrepe", sugarcrepe / "data")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("{", r"swap_att.json, line 1: not JSON"),
        ("[]", r"swap_att.json is no mapping of questions"),
        ('{"0": {"filename": "000.jpg", "caption": "a"}}', r"swap_att.json, question 0: it needs filename"),
        (entry_of("000.jpg", " "), "question swap_att/0: a caption is empty"),
        (entry_of("009.jpg", "a"), "1 of 3 images are missing"),
        (entry_of("../x.jpg", "a"), "1 of 3 images are missing"),
    ],
)  # fmt: skip
def test_bad_questions_of_sugarcrepe(sugarcrepe, change, reason):
    (sugarcrepe / "data" / "swap_att.json").write_text(change)
    with pytest.raises(DataError, match=reason) as told:
        opened("sugarcrepe", sugarcrepe, coco=sugarcrepe / "coco")
    assert "\n" not in str(told.value)


def test_a_kind_that_is_not_there(sugarcrepe):
    (sugarcrepe / "data" / "add_att.json").unlink()
    with pytest.raises(DataError, match=r"add_att\.json"):
        opened("sugarcrepe", sugarcrepe, coco=sugarcrepe / "coco")


def winoground(folder, lines):
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "examples.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    for n in range(2):
        for i in range(2):
            picture(folder / "data" / "images" / f"ex_{n}_img_{i}.png")
    return folder


def example(n, **more):
    return {
        "id": n, "image_0": f"ex_{n}_img_0", "image_1": f"ex_{n}_img_1", "caption_0": f"a{n} b", "caption_1": f"b a{n}",
        "tag": "Noun", "collapsed_tag": "Object", **more,
    }  # fmt: skip


def test_winoground(tmp_path):
    data = opened("winoground", winoground(tmp_path, [example(0), example(1, collapsed_tag="Both")]))
    assert data.images.ids == ("ex_0_img_0.png", "ex_0_img_1.png", "ex_1_img_0.png", "ex_1_img_1.png")
    assert data.shown == ((0, 1), (2, 3))
    assert data.captions == (("a0 b", "b a0"), ("a1 b", "b a1"))
    assert data.kinds == ("object", "both")
    assert data.sample_ids == ("0", "1")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([example(0, caption_1=3)], "line 1: it needs image_0"),
        ([example(0), example(1, collapsed_tag="Odd")], "line 2: the collapsed_tag is 'odd', none of object"),
        ([example(0), example(0)], "repeated question 0"),
        ([example(7)], "2 of 2 images are missing"),
        (["text"], "line 1: it needs"),
    ],
)
def test_bad_lines_of_winoground(tmp_path, lines, reason):
    with pytest.raises(DataError, match=reason):
        opened("winoground", winoground(tmp_path, lines))


def entry(**more):
    return {
        "image_path": "7.jpg", "bbox_x": 4, "bbox_y": 2, "bbox_w": 8, "bbox_h": 6, "relation_name": "to the left of",
        "true_caption": "the cat is to the left of the dog", "false_caption": "the dog is to the left of the cat",
        **more,
    }  # fmt: skip


def test_aro_shows_the_part_in_the_box(tmp_path):
    whole = Image.new("RGB", (20, 16), (255, 0, 0))
    whole.paste((0, 0, 255), (4, 2, 12, 8))
    (tmp_path / "images").mkdir()
    whole.save(tmp_path / "images" / "7.jpg", quality=100, subsampling=0)
    (tmp_path / "visual_genome_relation.json").write_text(json.dumps([entry(), entry(bbox_x=0, bbox_w=99)]))
    data = opened("aro-relation", tmp_path)
    assert data.images.ids == ("7.jpg#4,2,8,6", "7.jpg#0,2,99,6")
    assert data.kinds == ("to the left of",) * 2
    assert data.captions[0][0] == "the cat is to the left of the dog"
    part = Image.open(io.BytesIO(data.images.read("7.jpg#4,2,8,6")))
    assert part.size == (8, 6)
    assert part.getpixel((4, 3))[2] > 200
    assert data.images.stamp(data.images.ids[:1]) == data.images.stamp(data.images.ids[:1])
    with pytest.raises(DataError, match="no prepared form"):
        prepared.kind_of(data)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, "is no list of questions"),
        ([], "holds no questions"),
        ([entry(bbox_w=0)], "question 0: it needs bbox_x"),
        ([entry(bbox_x="4")], "question 0: it needs bbox_x"),
        ([entry(bbox_x=True)], "question 0: it needs bbox_x"),
        ([entry(true_caption=None)], "question 0: it needs image_path"),
        ([entry(relation_name=None)], "question 0: it needs relation_name, or attributes"),
        ([entry(image_path="8.jpg")], "1 of 1 images are missing"),
    ],
)  # fmt: skip
def test_bad_questions_of_aro(tmp_path, content, reason):
    picture(tmp_path / "images" / "7.jpg")
    (tmp_path / "visual_genome_relation.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=reason):
        opened("aro-relation", tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"bbox_x": 40}, "lies outside"),
        ({"bbox_x": -1}, "lies outside"),
        ({"bbox_w": 10**9}, "is far larger than"),
    ],
)
def test_a_box_outside_its_image(tmp_path, change, reason):
    picture(tmp_path / "images" / "7.jpg")
    (tmp_path / "visual_genome_relation.json").write_text(json.dumps([entry(**change)]))
    data = opened("aro-relation", tmp_path)
    with pytest.raises(DataError, match=rf"{reason}.* image 7\.jpg"):
        data.images.read(data.images.ids[0])
