"""Packaged manifests hold the protocol's facts; a user's manifest is checked field by field."""

import hashlib
import re
from collections import Counter
from random import Random
from urllib.parse import urlsplit

import open_clip
import pytest
import yaml

from hierbench.contracts import Fit
from hierbench.data import manifests
from hierbench.data.manifests import all_manifests, load_manifest, load_manifest_file, register_manifest
from hierbench.data.readers import READERS
from hierbench.errors import DataError, UnknownNameError, UsageError

GOOD = {
    "title": "Pets of mine",
    "reader": "imagefolder",
    "tasks": ["zero-shot"],
    "fit": "crop",
    "classes": {"c1": "dog", "c2": "cat"},
    "templates": ["a photo of a {}."],
}


LEVELLED = {"tasks": ["zero-shot", "levels"], "taxonomy": {"top": {"a": ["c1"], "b": ["c2"]}}}


# dataset: classes, test images, hash of the released names, number of templates, the first, the last
SIXTEEN = {
    "imagenet": (1000, 50_000, "571ae1c583b4be7d", 7,
                 "i took a picture : itap of a {}.", "pics : a photo of the small {}."),
    "cifar10": (10, 10_000, "bb3914949cecedee", 18, "a photo of a {}.", "a photo of the big {}."),
    "cifar100": (100, 10_000, "60ae3a3ac1355fcf", 18, "a photo of a {}.", "a photo of the big {}."),
    "sun397": (397, 19_850, "dd1277b1cfcf09ba", 2, "a photo of a {}.", "a photo of the {}."),
    "caltech101": (102, 6_084, "acab5878fda7c0c1", 34, "a photo of a {}.", "a doodle of the {}."),
    "stl10": (10, 8_000, "08b234ce7b11dbd3", 2, "a photo of a {}.", "a photo of the {}."),
    "food101": (101, 25_250, "9c0eeb5a368baacb", 2, "food : {}.", "food porn : {}."),
    "cub2011": (200, 5_794, "a7bc058a7a945cf8", 4, "bird pics : {}.", "bird photography : {}."),
    "cars": (196, 8_041, "93d089469409bbd0", 8, "a photo of a {}.", "a photo of my old {}."),
    "aircraft": (100, 3_333, "e1c9e72060e63d52", 2,
                 "a photo of a {}, a type of aircraft.", "a photo of the {}, a type of aircraft."),
    "pets": (37, 3_669, "325452254a1c260e", 1, "a photo of a {}, a type of pet.", "a photo of a {}, a type of pet."),
    "flowers102": (102, 6_149, "5429e1ef6e0e5aa3", 1, "flowers : {}.", "flowers : {}."),
    "dtd": (47, 1_880, "681d23b9cd3c2ede", 6, "pics : {} texture.", "pics : this {} thing."),
    "eurosat": (10, 5_000, "ee2e41b9973e7206", 3,
                "a centered satellite photo of {}.", "a centered satellite photo of the {}."),
    "resisc45": (45, 25_200, "3c2177013901f0ef", 18, "satellite imagery of {}.", "aerial view of the {}."),
    "country211": (211, 21_100, "027b30d283f3a153", 5, "a photo i took in {}.", "a photo showing the country of {}."),
}  # fmt: skip
FROM_THE_TABLE = ("comco", "simco")  # neither classes nor counts are published
UNCOUNTED = (*FROM_THE_TABLE, "sugarcrepe")


def written(folder, fields, name="mine.yaml"):
    path = folder / name
    path.write_text(fields if isinstance(fields, str) else yaml.safe_dump(fields, sort_keys=False))
    return path


# ------------------------------------------------------------------------------------------ the packaged ones


def test_the_datasets():
    names = list(all_manifests())
    assert names == sorted(names)
    assert set(names) == {
        *SIXTEEN, "sun397-tfds", "coco", "coco-karpathy", "flickr30k", "voc2007", "coco-objects", *FROM_THE_TABLE,
        "hierarcaps", "hierarcaps-clean", "miniature", "miniature-backgrounds", "miniature-chains",
        "miniature-colours", "miniature-objects", "miniature-things", "miniature-words", "miniature-choices",
        "sugarcrepe", "winoground", "aro-relation", "aro-attribution",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(all_manifests()))
def test_packaged_manifests_say_what_they_owe(name):
    manifest = load_manifest(name)
    assert manifest.name == name
    assert manifest.licence
    assert manifest.counts.images or manifest.counts.samples or name in UNCOUNTED
    if manifest.reader != "miniature":
        assert manifest.citation
        assert manifest.homepage.startswith("https://")
        assert manifest.obtain
        assert manifest.sources
        assert any(not source.variant for source in manifest.sources)
    for source in manifest.sources:
        assert source.reader in READERS
        assert source.kind != "url" or source.reader == manifest.reader
        assert "\n" not in source.how
        assert not source.variant or re.fullmatch("[a-z-]+", source.variant)
        for file in source.files:
            url = urlsplit(file.url)
            assert url.scheme in ("http", "https")
            assert "." in url.netloc
            assert "." in url.path.rpartition("/")[2]  # ends in a file's name
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


@pytest.mark.parametrize("name", [*SIXTEEN, "sun397-tfds"])
def test_the_sixteen_are_the_released_protocol(name):
    manifest = load_manifest(name)
    classes, images, released, templates, first, last = SIXTEEN[name.removesuffix("-tfds")]
    assert manifests.names_hash(manifest.class_names()) == manifest.names_hash == released
    assert len(manifest.class_ids) == len(manifest.class_names()) == classes
    assert manifest.counts.images == (21_750 if name == "sun397-tfds" else images)
    prompts = manifest.prompts()
    assert (len(set(prompts)), len(prompts), prompts[0], prompts[-1]) == (templates, templates, first, last)
    assert manifest.fit == Fit.CROP


def test_prompts_that_go_through_the_articles():
    assert load_manifest("cifar10").prompts()[7:11] == (
        "a photo of a small {}.", "a photo of a big {}.", "a photo of the {}.", "a blurry photo of the {}.",
    )  # fmt: skip
    assert load_manifest("caltech101").prompts()[16:20] == (
        "a doodle of a {}.", "a photo of the {}.", "a painting of the {}.", "the plastic {}.",
    )  # fmt: skip
    assert load_manifest("resisc45").prompts()[5:8] == (
        "aerial view of {}.", "satellite imagery of a {}.", "aerial imagery of a {}.",
    )  # fmt: skip


def test_counts_a_class():
    for name, (classes, images, *_) in SIXTEEN.items():
        each = load_manifest(name).counts.per_class
        if isinstance(each, int):
            assert each * classes == images
        elif each:
            assert sum(each.values()) == images
            assert list(each) == list(load_manifest(name).class_ids)
    named = {name: load_manifest(name).counts.per_class for name in ("caltech101", "sun397-tfds")}
    assert named["caltech101"]["BACKGROUND_Google"] == 437
    assert named["caltech101"]["airplanes"] == 770
    assert sum(named["sun397-tfds"].values()) == 21_750


def test_counts_that_follow_from_the_order_in_which_tfds_keeps_examples():
    """By the MD5 of the split's name and the key, as core/hashing.py of tensorflow-datasets has it."""
    sizes = dict.fromkeys(load_manifest("eurosat").class_ids, 3000) | {"Pasture": 2000}
    sizes |= dict.fromkeys(("Highway", "Industrial", "PermanentCrop", "River"), 2500)
    files = {
        "eurosat": {f"{c}_{c}_{n}.jpg": c for c, most in sizes.items() for n in range(1, most + 1)},
        "resisc45": {
            f"{c}_{c}_{n:03d}.jpg": c for c in load_manifest("resisc45").class_ids for n in range(1, 701)
        },
    }
    assert {name: len(keys) for name, keys in files.items()} == {"eurosat": 27_000, "resisc45": 31_500}
    for name, part in (("eurosat", slice(10_000, 15_000)), ("resisc45", slice(6_300, None))):
        order = sorted(files[name], key=lambda key: hashlib.md5(f"train{key}".encode()).digest())
        assert Counter(files[name][key] for key in order[part]) == load_manifest(name).counts.per_class


def test_corrected_names_of_food_and_scenes():
    food, scenes = load_manifest("food101"), load_manifest("sun397")
    assert food.class_ids[16:18] == ("cheesecake", "cheese_plate")
    assert food.class_names()[16:18] == ("cheese plate", "cheesecake")
    assert food.class_names("corrected")[16:18] == ("cheesecake", "cheese plate")
    assert scenes.class_ids[206:208] == ("j/jail/indoor", "j/jail_cell")
    assert scenes.class_names()[206:208] == ("jail cell", "jail indoor")
    assert scenes.class_names("corrected")[206:208] == ("jail indoor", "jail cell")
    for manifest, said in ((food, lambda i: i), (scenes, lambda i: i[2:].replace("/", " "))):
        names = manifest.class_names("corrected")
        assert names == tuple(said(class_id).replace("_", " ") for class_id in manifest.class_ids)
    assert load_manifest("sun397-tfds").classes == scenes.classes
    others = set(SIXTEEN) - {"food101", "sun397", "imagenet"}
    assert not any(load_manifest(name).corrected_names for name in others)


def test_no_released_names_but_imagenets_are_ties():
    ties = {
        name: sorted(word for word, times in Counter(load_manifest(name).class_names()).items() if times > 1)
        for name in SIXTEEN
    }
    assert {name: words for name, words in ties.items() if words} == {"imagenet": ["missile", "sunglasses"]}


def test_caltechs_thirteen_changes():
    manifest = load_manifest("caltech101")
    changed = {c: n for c, n in manifest.classes.items() if n != c.lower().replace("_", " ")}
    assert changed == {
        "airplanes": "airplane", "BACKGROUND_Google": "background", "car_side": "side of a car",
        "cougar_body": "body of a cougar cat", "cougar_face": "face of a cougar cat",
        "crocodile_head": "head of a crocodile", "Faces": "off-center face", "Faces_easy": "centered face",
        "flamingo_head": "head of a flamingo", "Leopards": "leopard", "Motorbikes": "motorbike",
        "snoopy": "snoopy (cartoon beagle)", "yin_yang": "yin and yang symbol",
    }  # fmt: skip


def test_class_ids_are_the_layouts_own():
    some = {
        "sun397": ("a/abbey", "y/youth_hostel"), "cub2011": ("001.Black_footed_Albatross", "200.Common_Yellowthroat"),
        "cars": ("AM General Hummer SUV 2000", "smart fortwo Convertible 2012"), "aircraft": ("707-320", "Yak-42"),
        "pets": ("Abyssinian", "yorkshire_terrier"), "flowers102": ("1", "102"), "dtd": ("banded", "zigzagged"),
        "eurosat": ("AnnualCrop", "SeaLake"), "country211": ("AD", "ZW"), "voc2007": ("aeroplane", "tvmonitor"),
        "coco-objects": ("1", "90"),
    }  # fmt: skip
    for name, (first, last) in some.items():
        ids = load_manifest(name).class_ids
        assert (ids[0], ids[-1]) == (first, last)
    assert len(load_manifest("coco-objects").class_ids) == 80
    assert load_manifest("flowers102").class_ids == tuple(str(number) for number in range(1, 103))
    assert load_manifest("country211").classes["NO"] == "Norway"  # YAML takes a bare NO for false
    for name in ("country211", "cub2011"):
        assert list(load_manifest(name).class_ids) == sorted(load_manifest(name).class_ids)


@pytest.mark.parametrize("name", sorted(all_manifests()))
def test_every_id_and_every_name_of_its_own_leads_to_the_class(name):
    manifest = load_manifest(name)
    told_apart = {
        "n03773504",
        "n04356056",
    }  # missile and sunglasses are the released names of two classes each
    for class_id, word in zip(manifest.class_ids, manifest.class_names("corrected"), strict=True):
        assert manifest.class_for(class_id) == class_id
        assert manifest.class_for(class_id.upper().replace("_", " ")) == class_id
        if class_id not in told_apart:
            assert manifest.class_for(word) == class_id


@pytest.mark.parametrize("name", sorted(SIXTEEN))
def test_the_order_of_a_sources_labels_changes_no_corrected_name(name):
    manifest = load_manifest(name)
    named = dict(zip(manifest.class_ids, manifest.class_names("corrected"), strict=True))
    for seed in range(3):
        source = list(named)  # the classes as some source numbers them, by ids and by the corrected names
        Random(seed).shuffle(source)
        for said in (lambda class_id: class_id, named.__getitem__):
            words = [said(class_id) for class_id in source]
            met = [manifest.class_for(word) for word in words]
            assert [named[got] for got in met if got] == [
                named[c] for c, got in zip(source, met, strict=True) if got
            ]
            assert met.count(None) <= (2 if name == "imagenet" else 0)


@pytest.mark.parametrize(
    ("name", "alias", "class_id"),
    [
        ("sun397", "/a/abbey", "a/abbey"),  # TFDS
        ("sun397", "apartment_building/outdoor", "a/apartment_building/outdoor"),  # torchvision
        ("sun397", "jail indoor", "j/jail/indoor"),  # not the class that released names so
        ("sun397", "jail_cell", "j/jail_cell"),
        ("food101", "cheesecake", "cheesecake"),
        ("food101", "Cheese Plate", "cheese_plate"),
        ("caltech101", "background_google", "BACKGROUND_Google"),  # TFDS
        ("caltech101", "faces_easy", "Faces_easy"),
        ("caltech101", "faces", "Faces"),
        ("caltech101", "off-center face", "Faces"),  # clip-benchmark
        ("pets", "Staffordshire Bull Terrier", "staffordshire_bull_terrier"),  # torchvision
        ("eurosat", "annual crop land", "AnnualCrop"),
        ("eurosat", "SeaLake", "SeaLake"),
        ("aircraft", "F-16A-B", "F-16A/B"),
        ("cars", "Ram C-V Cargo Van Minivan 2012", "Ram C/V Cargo Van Minivan 2012"),
        ("cifar100", "aquarium fish", "aquarium_fish"),
        ("cifar100", "cra", "crab"),  # the Hub
        ("flowers102", "pink-yellow dahlia?", "60"),  # TFDS
        ("flowers102", "pink primrose", "1"),
        ("country211", "United States", "US"),
        ("cub2011", "Artic Tern", "141.Artic_Tern"),
        ("voc2007", "diningtable", "diningtable"),
        ("voc2007", "dining table", "diningtable"),
        ("imagenet", "great white shark", "n01484850"),
        ("imagenet", "projectile", "n04008634"),
        ("imagenet", "missile", None),  # the released name of two classes
        ("imagenet", "sunglasses", None),
        ("imagenet", "", None),
        ("cifar10", "car", None),
    ],
)
def test_words_that_sources_use(name, alias, class_id):
    assert load_manifest(name).class_for(alias) == class_id


def test_words_of_two_classes(tmp_path):
    fields = GOOD | {
        "classes": {"A_b": "one", "a-b": "two", "c": "a b"},
        "aliases": {"deux": "a-b", "one": "c"},
    }
    manifest = load_manifest_file(written(tmp_path, fields))
    assert [manifest.class_for(word) for word in ("A_b", "a-b", "a b", "A B")] == ["A_b", "a-b", None, None]
    assert [manifest.class_for(word) for word in ("Deux", "one", "two")] == ["a-b", "A_b", "a-b"]


def test_objects_of_the_miniature_have_the_kinds():
    objects, things = load_manifest("miniature-objects"), load_manifest("miniature-things")
    assert objects.classes == things.classes
    assert objects.prompts() == things.prompts()


def test_label_tables_bring_their_classes():
    for name in FROM_THE_TABLE:
        manifest = load_manifest(name)
        assert not manifest.classes
        assert manifest.prompts() == ("a photo of a {}.",)
        assert manifest.layout.table == ("labels.csv",)


def test_sources_that_cannot_give_the_released_split_say_so():
    variants = {
        name: sorted(source.variant for source in manifest.sources if source.variant)
        for name, manifest in all_manifests().items()
    }
    assert {name: words for name, words in variants.items() if words} == {
        "caltech101": ["sorted-split", "vtab"],
        "eurosat": ["vtab"],
        "resisc45": ["vtab"],
        "sun397": ["all-images", "original-pixels"],
        "sun397-tfds": ["original-pixels"],
    }


def test_retrieval_is_squeezed_and_pep_cropped():
    fits = {name: load_manifest(name).fit for name in ("coco", "hierarcaps", "hierarcaps-clean")}
    assert fits == {"coco": Fit.SQUEEZE, "hierarcaps": Fit.CROP, "hierarcaps-clean": Fit.CROP}
    assert load_manifest("coco").counts.model_dump(exclude_none=True) == {"images": 5000, "captions": 25_014}
    for name in ("coco-karpathy", "flickr30k", "voc2007", "coco-objects", *FROM_THE_TABLE):
        assert load_manifest(name).fit == Fit.SQUEEZE
    counts = {name: load_manifest(name).counts for name in ("coco-karpathy", "flickr30k")}
    assert {name: (count.images, count.captions) for name, count in counts.items()} == {
        "coco-karpathy": (5000, 25_010),
        "flickr30k": (1000, 5000),
    }


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


FILE = {"url": "https://a.org/a.zip", "size": 1, "md5": "0" * 32, "sha256": "0" * 64}


def bad_file(**changes):
    return GOOD | {"sources": [{"kind": "url", "reader": "imagefolder", "files": [FILE | changes]}]}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("", "title: Field required"),
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
        (
            GOOD | {"templates": ["a photo of a {name}."]},
            "templates: 'a photo of a {name}.' must hold {} once",
        ),
        (GOOD | {"templates": ["{0.__class__}"]}, "templates: '{0.__class__}' must hold {} once"),
        (GOOD | {"templates": ["{{}}"]}, "templates: '{{}}' must hold {} once and no other brace"),
        (GOOD | {"templates": ["x" * 100_000 + "{}"]}, r"templates\.0: String should have at most 1000"),
        (GOOD | {"templates": ["a photo"]}, "templates: 'a photo' must hold {} once"),
        (GOOD | {"templates": ["{} and {}"]}, "templates: .* once"),
        (GOOD | {"templates": ["a {} {x}"]}, "templates: .* no other brace"),
        (without("classes"), "classes, templates: the reader imagefolder needs both"),
        (GOOD | {"names_hash": "0123456789abcdef"}, "names_hash: the names hash to .* not 0123456789abcdef"),
        (GOOD | {"corrected_names": {"c3": "bird"}}, "corrected_names: c3 is not among the classes"),
        (GOOD | {"taxonomy": "imagenet1k"}, "taxonomy: .*class c1 is not a node"),
        (GOOD | {"taxonomy": "imagenet21k"}, "taxonomy: no taxonomy 'imagenet21k'"),
        (GOOD | {"tasks": ["levels"]}, "taxonomy: levels needs a tree"),
        (GOOD | LEVELLED | {"outside": ["c9"]}, "outside: c9 is not among the classes"),
        (GOOD | LEVELLED | {"outside": ["c1"]}, "outside: c1 is a node of the tree"),
        (GOOD | LEVELLED | {"node_names": {"c1": "x"}}, "node_names: c1 is no inner node"),
        (GOOD | LEVELLED | {"node_names": {"top": "x"}}, "node_names: top is no inner node"),
        (GOOD | LEVELLED | {"taxonomy": {"top": ["c1", "c2"]}}, "levels needs a tree with inner nodes"),
        (
            GOOD | LEVELLED | {"taxonomy": {"a": ["c1"], "b": ["c2"]}},
            "taxonomy: .*2 roots .a, b. make no tree",
        ),
        (
            GOOD | LEVELLED | {"taxonomy": {"top": {"n00000001": ["c1"], "b": ["c2"]}}},
            "taxonomy: 1 inner nodes have no name that a prompt could say .n00000001.",
        ),
        (GOOD | {"counts": {"images": "many"}}, r"counts\.images: "),
        (without("classes") | {"reader": "coco-captions"}, r"layout\.table: the reader coco-captions needs"),
        (without("classes") | {"reader": "karpathy"}, r"layout\.table: the reader karpathy needs"),
        (without("templates") | {"reader": "cars"}, "classes, templates: the reader cars needs both"),
        (without("templates") | {"reader": "labelled-folder"}, "templates: the reader labelled-folder needs"),
        (GOOD | {"aliases": {"hound": "c3"}}, "aliases: c3 is not among the classes"),
        (GOOD | {"counts": {"images": -1}}, r"counts\.images: "),
        (
            GOOD | {"counts": {"images": 5, "per_class": 2}},
            r"counts\.per_class: they add up to 4, images says 5",
        ),
        (GOOD | {"counts": {"per_class": {"c1": 2}}}, r"counts\.per_class: c2 is not both"),
        (GOOD | {"counts": {"per_class": {"c1": 2, "c2": 1, "c3": 1}}}, r"counts\.per_class: c3 is not both"),
        (
            GOOD | {"sources": [{"kind": "url", "reader": "cars"}]},
            r"sources\.0: a source of kind url needs files",
        ),
        (
            GOOD | {"sources": [{"kind": "hub", "reader": "wds"}]},
            r"sources\.0: a source of kind hub needs repo",
        ),
        (GOOD | {"sources": [{"kind": "manual", "reader": "wds"}]}, r"sources\.0: .* manual needs how"),
        (GOOD | {"sources": [{"kind": "torrent", "reader": "wds"}]}, r"sources\.0\.kind: Input should be"),
        (GOOD | {"sources": [{"kind": "hub", "reader": "wds", "repo": "a/b", "tag": "x"}]}, "no such field"),
        (
            GOOD | {"sources": [{"kind": "hub", "reader": "wds", "repo": "a"}]},
            r"sources\.0\.repo: String should",
        ),
        (
            GOOD | {"sources": [{"kind": "hub", "reader": "wds", "repo": "a/b", "files": [FILE]}]},
            "kind hub has none",
        ),
        (
            GOOD | {"sources": [{"kind": "url", "reader": "w", "files": [FILE], "repo": "a/b"}]},
            "kind url has none",
        ),
        (bad_file(url="file:///etc/passwd"), r"files\.0\.url: String should match"),
        (bad_file(url="https://a.org/a b.zip"), r"files\.0\.url: String should match"),
        (bad_file(size=0), r"files\.0\.size: "),
        (bad_file(md5="abc"), r"files\.0\.md5: String should match"),
        (bad_file(sha256="A" * 64), r"files\.0\.sha256: String should match"),
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
    with pytest.raises(DataError, match="is a folder, not a file"):
        load_manifest_file(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("title: Söhne".encode("latin-1"))
    with pytest.raises(DataError, match="line 1: not UTF-8 text"):
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
