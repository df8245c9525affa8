"""Readers of the datasets' official layouts, on small sources in their true form: ids, labels, names, and bad input."""

import hashlib
import io
import pickle
import shutil
from collections import Counter
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hierbench import png
from hierbench.data.locate import Locations
from hierbench.data.manifests import Manifest, load_manifest
from hierbench.data.readers import (
    READERS,
    _tfds_order,
    caltech101,
    eurosat,
    open_dataset,
    open_folder,
    resisc45,
    sun397,
)
from hierbench.errors import DataError

ZERO_SHOT = ["imagenet", "imagenet-kit", "imagenet-kaggle", "cifar10", "cifar10-binary", "cifar100", "cifar100-binary",
             "stl10", "food101", "cub2011", "cars", "aircraft", "pets", "flowers102", "dtd", "caltech101", "eurosat",
             "resisc45", "sun397", "sun397-tfds", "country211"]  # fmt: skip


BIN, CUB, VOC = "cifar-10-batches-bin", "CUB_200_2011", "VOCdevkit/VOC2007"
KIT, TRUTH = "ILSVRC2012_devkit_t12", "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
INSTANCES, PETS = "annotations/instances_val2017.json", "annotations/test.txt"


@pytest.fixture
def source(layouts, tmp_path):
    """source("cub2011") -> the small source in its true layout."""
    return lambda name, **options: (
        layouts.BUILDERS[name](tmp_path / name, **options)
        if options
        else layouts.build(name, tmp_path / name)
    )


def opened(source, **options):
    return open_dataset(source.dataset, Locations({source.dataset: source.folder}), **options)


def labels(data):
    return tuple(data.class_ids[label] for label in data.labels)


def refused(source, reason):
    with pytest.raises(DataError, match=reason) as caught:
        opened(source)
    message = str(caught.value)
    assert "\n" not in message
    assert str(source.folder) in message or source.dataset in message


# ------------------------------------------------------------------------------------------- classification


@pytest.mark.parametrize("name", ZERO_SHOT)
def test_ids_labels_names_and_images(source, name):
    made = source(name)
    data, manifest = opened(made), load_manifest(made.dataset)
    if name in ("caltech101", "eurosat", "resisc45", "sun397-tfds", "country211", "imagenet"):  # sorted by id
        made_labels = dict(zip(made.ids, made.labels, strict=True))
        assert sorted(data.images.ids) == sorted(made.ids)
        assert labels(data) == tuple(made_labels[image_id] for image_id in data.images.ids)
    else:
        assert data.images.ids == made.ids
        assert labels(data) == made.labels
    assert data.labels.dtype == np.int64
    assert (data.name, data.variant, data.class_ids) == (made.dataset, made.variant, manifest.class_ids)
    assert data.class_names == manifest.class_names("released")
    assert data.templates == manifest.prompts("default")
    for sample in made.samples:
        content = data.images.read(sample.id)
        if sample.content is None:
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), sample.pixels)
        else:
            assert content == sample.content  # as published
    assert pickle.loads(pickle.dumps(data.images)) == data.images  # workers get a copy


@pytest.mark.parametrize("name", ZERO_SHOT)
def test_a_folder_above_will_do_and_protocols_reach_the_names(source, name, tmp_path):
    made = source(name)
    above = made.folder.parent / "above"
    above.mkdir()
    shutil.move(made.folder, above / "inner")
    data = open_folder(load_manifest(made.dataset), above, "corrected", "photo")
    assert sorted(data.images.ids) == sorted(made.ids)
    assert data.class_names == load_manifest(made.dataset).class_names("corrected")
    assert data.templates == ("a photo of a {}.",)


def test_every_official_layout_has_a_reader_and_a_source(layouts):
    from hierbench.data.manifests import all_manifests

    packaged = {path.stem for path in Path(str(resources.files("hierbench.data_manifests"))).glob("*.yaml")}
    manifests = [m for m in all_manifests().values() if m.reader != "miniature" and m.name in packaged]
    assert {m.reader for m in manifests} <= READERS.keys()
    elsewhere = {m.name for m in manifests if "which-caption" in m.tasks}  # test_readers_choices.py
    names = {m.name for m in manifests} - elsewhere - {"hierarcaps", "hierarcaps-clean", "comco"}
    assert names <= layouts.BUILDERS.keys()
    assert all(source.reader in READERS for manifest in manifests for source in manifest.sources)


# ---------------------------------------------------------------- labels are joined by class, not by position


def shuffled(items, seed=3):
    order = np.random.default_rng(seed).permutation(len(items))
    return [items[k] for k in order]


def permuted_sources(layouts):
    """(builder, its usual order, the same source with the order of labels and names permuted together)."""
    cifar100 = load_manifest("cifar100").class_ids
    yield from (
        (layouts.cifar10, layouts.CIFAR10),
        (layouts.cifar10_binary, layouts.CIFAR10),
        (layouts.cifar100, cifar100),
        (layouts.cifar100_binary, cifar100),
        (layouts.stl10, layouts.STL10),
        (layouts.cars, load_manifest("cars").class_ids),
        (layouts.cub2011, (1, 2, 3)),
        (layouts.pets, (1, 2, 37)),
    )


def test_permuting_the_label_order_of_a_source_changes_nothing(layouts, tmp_path):
    for number, (builder, order) in enumerate(permuted_sources(layouts)):
        usual = opened(builder(_new(tmp_path / f"usual{number}"), order), protocol="corrected")
        other = opened(
            builder(_new(tmp_path / f"other{number}"), shuffled(list(order))), protocol="corrected"
        )
        assert usual.facts() == other.facts()
        assert (usual.class_names, usual.templates) == (other.class_names, other.templates)


def _new(folder):
    folder.mkdir()
    return folder


def test_imagenet_in_class_folders_is_read_so_whatever_else_lies_there(source, layouts, tmp_path):
    layouts.imagenet_kit(tmp_path / "imagenet")
    made = source("imagenet")
    assert opened(made).images.folder == made.folder / "val"
    assert labels(opened(made)) == made.labels


def test_labels_permuted_alone_are_found_by_the_counts(source, layouts):
    made = source("stl10", names=layouts.STL10)
    path = made.folder / "stl10_binary" / "class_names.txt"
    layouts.put(path, layouts.lines(shuffled(list(layouts.STL10))))
    whole = load_manifest("stl10").model_copy(
        update={
            "counts": _counts(images=8, per_class={**dict.fromkeys(layouts.STL10, 0), **Counter(made.labels)})
        }
    )
    layouts.put(path, layouts.lines(layouts.STL10))
    assert labels(open_folder(whole, made.folder)) == made.labels
    layouts.put(path, layouts.lines(shuffled(list(layouts.STL10))))
    with pytest.raises(
        DataError, match=r"has \d images, the released split \d: labels and classes of this source do"
    ):
        open_folder(whole, made.folder)


def _counts(**fields):
    from hierbench.data.manifests import Counts

    return Counts(**fields)


def test_more_images_than_the_released_split_are_another_split(source):
    made = source("food101")
    small = load_manifest("food101").model_copy(update={"counts": _counts(images=4)})
    assert open_folder(small, made.folder).variant == "other-split"
    assert open_folder(load_manifest("food101"), made.folder).variant == ""


def test_food101_under_both_protocols(source):
    made = source("food101")
    released, corrected = opened(made), opened(made, protocol="corrected")
    assert [released.class_names[k] for k in released.labels][2:4] == [
        "cheesecake",
        "cheese plate",
    ]  # the known error
    assert [corrected.class_names[k] for k in corrected.labels][2:4] == ["cheese plate", "cheesecake"]


# ----------------------------------------------------------------------------------------- rules of splits


def test_tfds_order_and_slices():
    # hashing_test.py of tensorflow-datasets 4.9.10 gives these numbers for the salt "" and the keys "foo" and "x/y"
    assert _tfds_order.ordered(["foo", "x/y"], "") == ["x/y", "foo"]
    assert 122546703782554533059483853573887619473 < 229609063533823256041787889330700985560
    assert _tfds_order.split_of("train[10000:15000] (TFDS)") == ("train", "10000", "15000")
    assert _tfds_order.split_of("TFDS train[20%:]") == ("train", "20%", "")
    assert _tfds_order.split_of("val") == ("validation", "", "")
    assert _tfds_order.split_of("Testing_01") == ("test", "", "")
    assert _tfds_order.slice_of("20%", "", 31_500) == slice(6_300, 31_500)
    assert _tfds_order.slice_of("", "10", 4) == slice(0, 4)


def test_eurosat_split_is_tfds():
    manifest = load_manifest("eurosat")
    chosen = _tfds_order.split_files(manifest.split, "{name}_{number}.jpg", tuple(eurosat.SIZES.items()))
    assert tuple(eurosat.SIZES) == tuple(sorted(manifest.class_ids))
    assert len(chosen) == manifest.counts.images == 5000
    assert Counter(path.partition("/")[0] for path in chosen) == manifest.counts.per_class
    # the first and the last example of the slice, by TFDS' own hashing module
    assert {"Industrial/Industrial_1604.jpg", "Forest/Forest_2932.jpg"} < chosen


def test_resisc45_split_is_tfds():
    manifest = load_manifest("resisc45")
    sizes = dict.fromkeys(manifest.class_ids, resisc45.EACH)
    chosen = _tfds_order.split_files(manifest.split, "{name}_{number:03d}.jpg", tuple(sizes.items()))
    assert len(chosen) == manifest.counts.images == 25_200
    assert Counter(path.partition("/")[0] for path in chosen) == manifest.counts.per_class
    assert (
        "thermal_power_station/thermal_power_station_188.jpg" in chosen
    )  # example 6,300, by TFDS' own module
    assert "dense_residential/dense_residential_068.jpg" not in chosen  # example 0


def test_caltech101_split_has_the_published_counts():
    manifest = load_manifest("caltech101")
    sizes = caltech101.published_sizes(manifest)
    training = caltech101.drawn_for_training(sizes)
    assert (len(sizes), sum(sizes.values())) == (102, 9144)
    assert len(training) == 102 * 30
    assert "BACKGROUND_Google/tmp" not in training  # so that 6,084 JPEGs are left
    assert sum(sizes.values()) - len(training) == manifest.counts.images == 6084


def test_sun397_list_of_tfds():
    manifest = load_manifest("sun397-tfds")
    found = sun397.split_list("sun397-tfds")
    assert tuple(sorted(found)) == tuple(sorted(manifest.class_ids))
    assert sum(map(len, found.values())) == manifest.counts.images == 21_750
    assert {class_id: len(digests) for class_id, digests in found.items()} == manifest.counts.per_class
    assert sun397.split_list("sun397") is None


def test_png_is_exact_and_the_same_everywhere():
    pixels = np.random.default_rng(0).integers(0, 256, (200, 150, 3), dtype=np.uint8)  # more than one block
    content = png.encode(pixels)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), pixels)
    assert hashlib.sha256(png.encode(pixels[:2, :2])).hexdigest()[:16] == "253234074b077020"


# -------------------------------------------------------------------------------------------------- bad input


def cut(path, size=100):
    path.write_bytes(path.read_bytes()[:-size])


@pytest.mark.parametrize(
    ("name", "spoil", "reason"),
    [
        ("cifar10", lambda f: cut(f / "cifar-10-batches-py/test_batch"), "cannot be unpickled"),
        ("cifar10", lambda f: (f / "cifar-10-batches-py/batches.meta").unlink(), r"has no batches\.meta"),
        ("cifar10", lambda f: (f / "cifar-10-batches-py/test_batch").unlink(), "has no test_batch"),
        ("cifar10-binary", lambda f: cut(f / "cifar-10-batches-bin/test_batch.bin"), "not a multiple of 3073"),
        ("cifar10-binary", lambda f: (f / BIN / "batches.meta.txt").write_text("airplane\ncar\n"),
         "are 2, the dataset has 10 classes: a name is missing"),
        ("cifar10-binary", lambda f: (f / BIN / "batches.meta.txt").write_text("\n".join("abcdefghij")),
         "names a class 'a' that is none of the 10 classes"),
        ("cifar100", lambda f: cut(f / "cifar-100-python/meta", 20), "cannot be unpickled"),
        ("cifar100-binary", lambda f: cut(f / "cifar-100-binary/test.bin"), "not a multiple of 3074"),
        ("stl10", lambda f: cut(f / "stl10_binary/test_X.bin"), "bytes where 8 labels need"),
        ("stl10", lambda f: (f / "stl10_binary/test_y.bin").write_bytes(b"\x01\x0b" * 4), "label 11 is outside the"),
        ("stl10", lambda f: (f / "stl10_binary/test_y.bin").write_bytes(b"\x00" * 8), "the label 0 is outside the"),
        ("stl10", lambda f: (f / "stl10_binary/test_y.bin").unlink(), r"has no test_y\.bin"),
        ("food101", lambda f: (f / "food-101/meta/test.txt").unlink(), r"has no meta/test\.txt"),
        ("food101", lambda f: (f / "food-101/meta/test.txt").write_text("apple_pie/1011328\npizzas/1\n"),
         "names a class 'pizzas'"),
        ("food101", lambda f: (f / "food-101/images/waffles/1043252.jpg").unlink(),
         r"1 of 5 images are missing in .*images, first waffles/1043252\.jpg"),
        ("food101", lambda f: (f / "food-101/meta/test.txt").write_text("apple_pie/../apple_pie/1011328\n"),
         "1 of 1 images are missing"),
        ("food101", lambda f: (f / "food-101/meta/test.txt").write_text("\n"), "has no lines"),
        ("cub2011", lambda f: (f / CUB / "image_class_labels.txt").unlink(), r"has no image_class_labels\.txt"),
        ("cub2011", lambda f: (f / CUB / "image_class_labels.txt").write_text("1 201\n2 1\n3 1\n4 1\n5 1\n6 1\n"),
         "the label 201 of .* is outside the range"),
        ("cub2011", lambda f: (f / CUB / "image_class_labels.txt").write_text("1 2\n2 1\n3 1\n4 1\n5 1\n6 1\n"),
         "Black_Footed_Albatross_0046_18.jpg is labelled '002.Laysan_Albatross'"),
        ("cub2011", lambda f: (f / CUB / "image_class_labels.txt").write_text("1\n"), "line 1: 1 columns where 2"),
        ("cub2011", lambda f: (f / CUB / "train_test_split.txt").write_text("1 0\n"), "has no class or split"),
        ("cars", lambda f: (f / "cars_test_annos_withlabels.mat").unlink(), "has no cars_test_annos_withlabels"),
        ("cars", lambda f: cut(f / "cars_test_annos_withlabels.mat"), "is damaged"),
        ("cars", lambda f: (f / "devkit/cars_meta.mat").write_bytes(b"MATLAB"), "is damaged"),
        ("cars", lambda f: (f / "cars_test/00004.jpg").unlink(), r"1 of 5 images are missing"),
        ("aircraft", lambda f: (f / "fgvc-aircraft-2013b/data/images_variant_test.txt").unlink(),
         r"has no images_variant_test\.txt"),
        ("aircraft", lambda f: (f / "fgvc-aircraft-2013b/data/variants.txt").write_text("707-320\n"),
         r"line 3: the variant 'F-16A/B' is not in variants\.txt"),
        ("pets", lambda f: (f / PETS).unlink(), r"has no annotations/test\.txt"),
        ("pets", lambda f: (f / PETS).write_text("Abyssinian_201 1 1 1\nAbyssinian_202 2 1 1\n"),
         "line 2: the class number 2 of 'Abyssinian' contradicts"),
        ("pets", lambda f: (f / PETS).write_text("Abyssinian_201 1 1 1\namerican_bulldog_203 1 1 1\n"),
         "line 2: the class number 1 of 'american_bulldog' contradicts"),
        ("flowers102", lambda f: (f / "setid.mat").unlink(), r"has no setid\.mat"),
        ("flowers102", lambda f: (f / "jpg/image_00008.jpg").unlink(), r"1 of 5 images are missing"),
        ("dtd", lambda f: (f / "dtd/labels/test1.txt").unlink(), r"has no labels/test1\.txt"),
        ("dtd", lambda f: (f / "dtd/labels/test1.txt").write_text("stripey/stripey_1.jpg\n"), "a class 'stripey'"),
        ("caltech101", lambda f: (f / "101_ObjectCategories/zebra").mkdir(), "none of its 102 classes: zebra"),
        ("caltech101", lambda f: (f / "101_ObjectCategories/accordion/image_0099.jpg").write_bytes(b"x"),
         "is not one of the published files"),
        ("eurosat", lambda f: (f / "2750/Cloud").mkdir(), "none of its 10 classes: Cloud"),
        ("eurosat", lambda f: [shutil.rmtree(f / "2750" / n) for n in ("AnnualCrop", "Forest", "HerbaceousVegetation",
                                                                     "Industrial", "Pasture")]
         + [(f / "2750/SeaLake/SeaLake_11.jpg").unlink()], r"none of the images of train\[10000:15000\]"),
        ("resisc45", lambda f: (f / "NWPU-RESISC45/moon").mkdir(), "none of its 45 classes: moon"),
        ("sun397", lambda f: (f / "Partitions/Testing_01.txt").unlink(), r"has no Partitions/Testing_01\.txt"),
        ("sun397", lambda f: (f / "Partitions/Testing_01.txt").write_text("/a/abby/sun_x.jpg\n"), "a class 'a/abby'"),
        ("sun397", lambda f: (f / "SUN397/a/abbey/sun_aalltzgxbismofdm.jpg").unlink(), "1 of 5 images are missing"),
        ("country211", lambda f: (f / "country211/test/QQ").mkdir(), "none of its 211 classes: QQ"),
        ("imagenet-kit", lambda f: shutil.rmtree(f / KIT), "says which classes its images show: put ILSVRC2012_devkit"),
        ("imagenet-kit", lambda f: (f / KIT / "data/meta.mat").unlink(), r"has no data/meta\.mat"),
        ("imagenet-kit", lambda f: cut(f / KIT / "data/meta.mat"), "is damaged"),
        ("imagenet-kit", lambda f: (f / TRUTH).write_text("1\n3\n"), "has no label for ILSVRC2012_val_00000005.JPEG"),
        ("imagenet-kit", lambda f: (f / TRUTH).write_text("1\n4\n"), "line 2: '4' is no class of .*meta.mat"),
        ("imagenet-kit", lambda f: (f / TRUTH).write_text("1001\n3\n1\n1\n1\n"), "a class 'n00001740' that is none"),
        ("imagenet-kaggle", lambda f: (f / "LOC_val_solution.csv").write_text("ImageId\nx,\n"), "line 2: no image and"),
    ],
)  # fmt: skip
def test_damaged_sources(source, name, spoil, reason):
    made = source(name)
    spoil(made.folder)
    refused(made, reason)


def test_flowers_with_a_label_outside_the_range(source):
    from scipy.io import savemat

    made = source("flowers102")
    savemat(made.folder / "imagelabels.mat", {"labels": np.array([[77, 77, 1, 103, 5, 5, 1, 33]])})
    refused(made, "image 3: the label 103 is outside the range 1 to 102")
    savemat(made.folder / "imagelabels.mat", {"labels": np.array([[77, 77, 1]])})
    refused(made, "image number 4 has none of the 3 labels")
    savemat(made.folder / "imagelabels.mat", {"other": np.array([[77, 77, 1]])})
    refused(made, "has no variable 'labels'")


def test_cars_without_labels(source):
    from scipy.io import savemat

    made = source("cars")
    annotations = np.zeros((1, 2), dtype=[("fname", object)])
    savemat(made.folder / "cars_test_annos_withlabels.mat", {"annotations": annotations})
    refused(made, "has no field 'class': take the file with labels")


class Evil:
    def __reduce__(self):
        return (print, ("ran",))


@pytest.mark.parametrize(
    "content", [Evil(), [1], {b"labels": [0]}, {b"labels": [0], b"data": np.zeros((1, 5), np.uint8)}]
)
def test_pickles_run_no_code_and_hold_what_they_should(source, content, capsys):
    made = source("cifar10")
    (made.folder / "cifar-10-batches-py/test_batch").write_bytes(pickle.dumps(content))
    refused(made, "it asks for builtins.print|holds no mapping|has no 'data'|is not an array")
    assert capsys.readouterr().out == ""


def test_two_names_of_one_class(source, layouts):
    made = source("stl10")
    names = [*layouts.STL10[:4], "Air-Plane", *layouts.STL10[5:]]
    layouts.put(made.folder / "stl10_binary" / "class_names.txt", layouts.lines(names))
    manifest = load_manifest("stl10")
    aliased = Manifest.model_validate(manifest.model_dump() | {"corrected_names": {"airplane": "air plane"}})
    with pytest.raises(
        DataError, match="has two names, 'airplane' and 'Air-Plane', for the class 'airplane'"
    ):
        open_folder(aliased, made.folder)


def test_nothing_fits(tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(
        DataError, match=r"has no meta/test\.txt.*\(nor is it in one of the layouts prepared, hf-parquet, "
    ):
        open_folder(load_manifest("food101"), tmp_path)


# ------------------------------------------------------------------------------------ captions and many labels


@pytest.mark.parametrize("name", ["coco", "flickr30k", "coco-karpathy"])
def test_captions(source, name):
    made = source(name)
    data = opened(made)
    assert data.images.ids == made.ids
    assert data.captions == tuple(caption for sample in made.samples for caption in sample.captions)
    assert data.owner.tolist() == [row for row, sample in enumerate(made.samples) for _ in sample.captions]
    assert all(data.images.read(sample.id) == sample.content for sample in made.samples)
    assert data.variant == ""


def set_text(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda f: (f / "dataset_flickr30k.json").unlink(), r"has no file dataset_flickr30k\.json"),
        (
            lambda f: set_text(f / "dataset_flickr30k.json", '"test"', '"val"'),
            "holds no image of the split 'test'",
        ),
        (
            lambda f: set_text(f / "dataset_flickr30k.json", '"filename"', '"file"'),
            r"images\[0\] has no proper 'filename'",
        ),
        (
            lambda f: set_text(f / "dataset_flickr30k.json", "A man with glasses.", " "),
            "has no captions, or an empty",
        ),
        (lambda f: (f / "flickr30k_images/1007129816.jpg").unlink(), "1 of 2 images are missing"),
        (lambda f: cut(f / "dataset_flickr30k.json"), "line 1: not JSON"),
    ],
)
def test_damaged_karpathy_tables(source, spoil, reason):
    made = source("flickr30k")
    spoil(made.folder)
    refused(made, reason)


@pytest.mark.parametrize("name", ["voc2007", "coco-objects", "simco"])
def test_many_labels(source, name):
    made = source(name)
    data, manifest = opened(made), load_manifest(made.dataset)
    assert data.images.ids == made.ids
    found = [tuple(data.class_ids[k] for k in np.flatnonzero(row)) for row in data.present]
    assert [sorted(row) for row in found] == [sorted(sample.labels) for sample in made.samples]
    assert data.present.shape == (len(made.ids), data.num_classes)
    assert all(data.images.read(sample.id) == sample.content for sample in made.samples)
    assert data.templates == manifest.prompts()
    if manifest.classes:
        assert (data.class_ids, data.class_names) == (manifest.class_ids, manifest.class_names())
    if name == "voc2007":
        ignored = [tuple(data.class_ids[k] for k in np.flatnonzero(row)) for row in data.ignored]
        assert ignored == [sample.ignored for sample in made.samples]
        assert not (data.ignored & data.present).any()
    else:
        assert data.ignored is None


def test_classes_of_a_label_table(source):
    data = opened(source("simco"))
    assert data.class_ids == data.class_names == ("cone", "cube", "red_ball")


@pytest.mark.parametrize(
    ("name", "spoil", "reason"),
    [
        ("voc2007", lambda f: (f / VOC / "ImageSets/Main/test.txt").unlink(), r"has no ImageSets/Main/test\.txt"),
        ("voc2007", lambda f: (f / VOC / "Annotations/000003.xml").unlink(), r"000003\.xml cannot be read"),
        ("voc2007", lambda f: cut(f / VOC / "Annotations/000003.xml", 9), r"000003\.xml is not XML"),
        ("voc2007", lambda f: set_text(f / VOC / "Annotations/000003.xml", "sofa", "couch"), "a class 'couch'"),
        ("voc2007", lambda f: set_text(f / VOC / "Annotations/000003.xml", "<difficult>1", "<difficult>2"),
         "difficult is not 0 or 1"),
        ("voc2007", lambda f: (f / VOC / "JPEGImages/000003.jpg").unlink(), "1 of 4 images are missing"),
        ("coco-objects", lambda f: (f / INSTANCES).unlink(), "has no .*instances_val2017"),
        ("coco-objects", lambda f: set_text(f / INSTANCES, '"bear"', '"zebra"'),
         "category 23 is called 'zebra', which is class 24"),
        ("coco-objects", lambda f: set_text(f / INSTANCES, '"bear"', '"beer"'),
         "category 23 is called 'beer', which is no class"),
        ("coco-objects", lambda f: set_text(f / INSTANCES, '"category_id": 23', '"category_id": 91'),
         "an object of image 285 has an unknown category 91"),
        ("coco-objects", lambda f: set_text(f / INSTANCES, '"image_id": 285', '"image_id": 286'),
         "an object is of an unknown image 286"),
        ("coco-objects", lambda f: (f / "val2017/000000000632.jpg").unlink(), "1 of 4 images are missing"),
        ("simco", lambda f: (f / "labels.csv").write_text("image\nSimCo/cone_cone.png\n"), "has no column labels"),
        ("simco", lambda f: (f / "labels.csv").write_text("image,labels\n"), "has no rows"),
        ("simco", lambda f: (f / "labels.csv").write_text("image,labels\nSimCo/cone_cone.png\n"), "row 1: other than"),
        ("simco", lambda f: (f / "labels.csv").write_text("image,labels\nSimCo/no.png,cone\n"), "1 of 1 images are"),
        ("simco", lambda f: (f / "labels.csv").write_text("image,labels\n../x.png,cone\n"), "1 of 1 images are"),
        ("simco", lambda f: (f / "labels.csv").unlink(), r"has no labels\.csv"),
    ],
)  # fmt: skip
def test_damaged_multilabel_sources(source, name, spoil, reason):
    made = source(name)
    spoil(made.folder)
    refused(made, reason)
