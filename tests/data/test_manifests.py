"""Packaged manifests hold the protocol's facts; a user's manifest is checked field by field."""

import re

import open_clip
import pytest
import yaml

from hierbench.contracts import Fit
from hierbench.data import manifests
from hierbench.data.manifests import all_manifests, load_manifest, load_manifest_file, register_manifest
from hierbench.errors import DataError, UnknownNameError, UsageError

GOOD = {
    "title": "Pets of mine",
    "reader": "imagefolder",
    "tasks": ["zero-shot"],
    "fit": "crop",
    "classes": {"c1": "dog", "c2": "cat"},
    "templates": ["a photo of a {}."],
}


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(manifests, "_registered", {})


def written(folder, fields, name="mine.yaml"):
    path = folder / name
    path.write_text(fields if isinstance(fields, str) else yaml.safe_dump(fields, sort_keys=False))
    return path


# ------------------------------------------------------------------------------------------ the packaged ones


def test_the_datasets():
    names = list(all_manifests())
    assert names == sorted(names)
    assert set(names) >= {
        "coco", "hierarcaps", "hierarcaps-clean", "imagenet", "miniature", "miniature-backgrounds",
        "miniature-chains", "miniature-colours", "miniature-things",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(all_manifests()))
def test_packaged_manifests_say_what_they_owe(name):
    manifest = load_manifest(name)
    assert manifest.name == name
    assert manifest.licence
    assert manifest.counts.images
    if manifest.reader != "miniature":
        assert manifest.citation
        assert manifest.homepage.startswith("https://")
        assert manifest.obtain
    for text in (manifest.title, manifest.citation, manifest.obtain):
        assert "\n" not in text
    if "zero-shot" in manifest.tasks:
        assert manifest.prompts()
        assert len(set(manifest.class_names("corrected"))) == len(manifest.class_ids)


def test_imagenet_is_the_released_protocol():
    manifest = load_manifest("imagenet")
    assert manifest.names_hash == manifests.names_hash(manifest.class_names()) == "571ae1c583b4be7d"
    assert manifest.class_names() == tuple(open_clip.IMAGENET_CLASSNAMES)
    assert len(manifest.class_ids) == 1000
    assert manifest.class_ids[0] == "n01440764"
    assert all(re.fullmatch(r"n\d{8}", class_id) for class_id in manifest.class_ids)
    assert (manifest.fit, manifest.counts.images, manifest.taxonomy) == (Fit.CROP, 50_000, "imagenet1k")
    assert manifest.prompts() == (
        "i took a picture : itap of a {}.", "pics : a bad photo of the {}.", "pics : a origami {}.",
        "pics : a photo of the large {}.", "pics : a {} in a video game.", "pics : art of the {}.",
        "pics : a photo of the small {}.",
    )  # fmt: skip
    assert manifest.prompts("photo") == ("a photo of a {}.",)


def test_imagenet_names_told_apart_in_the_corrected_protocol():
    released, corrected = (load_manifest("imagenet").class_names(p) for p in ("released", "corrected"))
    assert released[657] == released[744] == "missile"
    assert released[836] == released[837] == "sunglasses"
    changed = {label: corrected[label] for label in range(1000) if corrected[label] != released[label]}
    assert changed == {744: "projectile", 836: "sunglass"}


def test_retrieval_is_squeezed_and_pep_cropped():
    fits = {name: load_manifest(name).fit for name in ("coco", "hierarcaps", "hierarcaps-clean")}
    assert fits == {"coco": Fit.SQUEEZE, "hierarcaps": Fit.CROP, "hierarcaps-clean": Fit.CROP}
    assert load_manifest("coco").counts.model_dump() == {"images": 5000, "captions": 25_014, "samples": None}


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="did you mean imagenet"):
        load_manifest("imagnet")
    with pytest.raises(UsageError, match="no protocol 'fixed': it is released or corrected"):
        load_manifest("imagenet").class_names("fixed")
    with pytest.raises(UsageError, match="no prompt regime 'photos': it is default or photo"):
        load_manifest("imagenet").prompts("photos")


# ----------------------------------------------------------------------------------------------- a user's own


def test_a_users_manifest(tmp_path):
    manifest = register_manifest(written(tmp_path, GOOD))
    assert manifest.name == "mine"
    assert manifest.class_ids == ("c1", "c2")
    assert load_manifest("mine") == manifest
    assert "mine" in all_manifests()
    register_manifest(tmp_path / "mine.yaml")  # twice is no harm


def test_a_name_that_is_taken(tmp_path):
    with pytest.raises(DataError, match="a dataset 'coco' exists already"):
        register_manifest(written(tmp_path, GOOD, "coco.yaml"))
    (tmp_path / "other").mkdir()
    register_manifest(written(tmp_path, GOOD))
    with pytest.raises(DataError, match="a dataset 'mine' exists already"):
        register_manifest(written(tmp_path / "other", GOOD))
    assert register_manifest(written(tmp_path, GOOD | {"name": "mine-too"}, "third.yaml")).name == "mine-too"


def without(*keys):
    return {key: value for key, value in GOOD.items() if key not in keys}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("", "expected fields .* found nothing"),
        ("- a\n- b\n", "found list"),
        ("title: [a\nreader: b", "line 2"),
        ("title: a\n\ttab: b", "line 2"),
        ("title: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("classes:\n  a: 1\n  a: 2\n", "line 3: 'a' stands there twice"),
        (without("title"), "title: Field required"),
        (GOOD | {"colour": "red"}, "colour: there is no such field"),
        (GOOD | {"layout": {"image": "x"}}, r"layout\.image: there is no such field"),
        (GOOD | {"reader": "folder"}, "reader: Input should be 'imagefolder'"),
        (GOOD | {"tasks": ["zeroshot"]}, r"tasks\.0: Input should be"),
        (GOOD | {"tasks": []}, "tasks: "),
        (GOOD | {"fit": "stretch"}, "fit: Input should be 'crop' or 'squeeze'"),
        (GOOD | {"name": "Not A Name"}, "name: String should match"),
        (GOOD | {"classes": {"c1": 3}}, r"classes\.c1: Input should be a valid string"),
        (GOOD | {"classes": {"c1": "  "}}, r"classes\.c1: "),
        (GOOD | {"classes": {1: "dog"}}, r"classes\.1\.\[key\]: Input should be a valid string"),
        (GOOD | {"templates": ["a photo"]}, "templates: 'a photo' must hold {} once"),
        (GOOD | {"templates": ["{} and {}"]}, "templates: .* once"),
        (GOOD | {"templates": ["a {} {x}"]}, "templates: .* no other brace"),
        (without("classes"), "classes, templates: the reader imagefolder needs both"),
        (GOOD | {"names_hash": "0123456789abcdef"}, "names_hash: the names hash to .* not 0123456789abcdef"),
        (GOOD | {"corrected_names": {"c3": "bird"}}, "corrected_names: c3 is not among the classes"),
        (GOOD | {"taxonomy": "imagenet1k"}, "taxonomy: .*class c1 is not a node"),
        (GOOD | {"taxonomy": "imagenet21k"}, "taxonomy: no taxonomy 'imagenet21k'"),
        (GOOD | {"counts": {"images": "many"}}, r"counts\.images: "),
        (without("classes") | {"reader": "coco-captions"}, r"layout\.table: the reader coco-captions needs"),
    ],
)
def test_bad_manifests_give_one_line_naming_file_and_field(tmp_path, fields, reason):
    path = written(tmp_path, fields)
    with pytest.raises(DataError, match=reason) as caught:
        load_manifest_file(path)
    assert str(caught.value).startswith(f"manifest {path}")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.yaml cannot be read: No such file"):
        load_manifest_file(tmp_path / "nothing.yaml")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        load_manifest_file(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("title: Söhne".encode("latin-1"))
    with pytest.raises(DataError, match=r"not UTF-8 text \(byte 8\)"):
        load_manifest_file(tmp_path / "latin.yaml")


def test_an_imagenet_manifest_with_a_changed_name_or_order_is_refused(tmp_path):
    folder = manifests.resources.files("hierbench.data_manifests")
    text = (folder / "imagenet.yaml").read_text(encoding="utf-8")
    for change in (
        text.replace("n01440764: tench", "n01440764: tenches"),
        text.replace("  n01440764: tench\n", "") + "  n01440764: tench\n",
    ):
        assert change != text
        with pytest.raises(DataError, match=r"names_hash: .* not the released protocol"):
            load_manifest_file(written(tmp_path, change, "imagenet.yaml"))


def test_a_subset_of_imagenet_may_use_its_taxonomy(tmp_path):
    few = {"n02085620": "Chihuahua", "n01440764": "tench"}
    manifest = load_manifest_file(written(tmp_path, GOOD | {"classes": few, "taxonomy": "imagenet1k"}))
    assert manifest.class_names() == ("Chihuahua", "tench")
