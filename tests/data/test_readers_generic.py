"""Generic layouts: ImageFolder, Hugging Face parquet, WebDataset and TFDS give the same record of one dataset."""

import pickle
import shutil
import tarfile

import numpy as np
import pytest

from hierbench.data.locate import Locations
from hierbench.data.manifests import Counts, load_manifest
from hierbench.data.readers import hf_parquet, open_dataset, open_folder, tfds, wds
from hierbench.errors import DataError

PETS = ("Abyssinian", "american_bulldog", "yorkshire_terrier")
ALL_PETS = load_manifest("pets").class_ids


@pytest.fixture
def samples(layouts):
    return layouts.some(*PETS, each=2)


def labels(data):
    return [data.class_ids[label] for label in data.labels]


def contents(data):
    """Class id by image bytes: what a source says, whatever it calls its images."""
    return {data.images.read(i): class_id for i, class_id in zip(data.images.ids, labels(data), strict=True)}


def expected(samples):
    return {sample.content: sample.label for sample in samples}


def refused(name, folder, reason):
    with pytest.raises(DataError, match=reason) as caught:
        open_dataset(name, Locations({name: folder}))
    assert "\n" not in str(caught.value)


def written(layouts, kind, folder, samples, names):
    """The samples in a generic layout whose labels are in the order of `names`."""
    if kind == "imagefolder":
        return layouts.write_imagefolder(folder, samples)
    if kind == "hf-parquet":
        return layouts.write_hf_parquet(folder, samples, names)
    if kind == "wds":
        return layouts.write_wds(folder, samples, names)
    return layouts.write_tfds(folder, "oxford_iiit_pet", samples, names)


KINDS = ("imagefolder", "hf-parquet", "wds", "tfds")


# ------------------------------------------------------------------------------------------------ all of them


@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_bytes(layouts, samples, tmp_path, kind):
    data = open_folder(load_manifest("pets"), written(layouts, kind, tmp_path, samples, ALL_PETS))
    assert contents(data) == expected(samples)
    assert (data.name, data.class_ids, data.variant) == ("pets", ALL_PETS, "")
    assert data.class_names == load_manifest("pets").class_names()
    assert len(set(data.images.ids)) == len(samples)
    images = pickle.loads(pickle.dumps(data.images))  # workers get a copy
    assert images == data.images
    assert images.read(data.images.ids[3]) == data.images.read(data.images.ids[3])


@pytest.mark.parametrize("kind", KINDS[1:])
def test_permuting_the_label_order_of_a_source_changes_nothing(layouts, samples, tmp_path, kind):
    other = [ALL_PETS[k] for k in np.random.default_rng(5).permutation(len(ALL_PETS))]
    data = [
        open_folder(
            load_manifest("pets"), written(layouts, kind, tmp_path / str(k), samples, names), "corrected"
        )
        for k, names in enumerate((ALL_PETS, other))
    ]
    assert data[0].facts() == data[1].facts()
    assert data[0].class_names == data[1].class_names


@pytest.mark.parametrize("kind", KINDS)
def test_names_for_people_are_as_good_as_class_ids(layouts, samples, tmp_path, kind):
    names = [name.replace("_", " ").title() for name in ALL_PETS]
    if kind == "imagefolder":
        folder = layouts.write_imagefolder(
            tmp_path, samples, lambda class_id: class_id.replace("_", "-").upper()
        )
    else:
        renamed = [type(s)(s.id, s.content, s.label.replace("_", " ").title()) for s in samples]
        folder = written(layouts, kind, tmp_path, renamed, names)
    assert contents(open_folder(load_manifest("pets"), folder)) == expected(samples)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_an_unknown_name_in_use_is_named_and_one_out_of_use_is_no_matter(layouts, samples, tmp_path, kind):
    unused = ["poodle" if name == "beagle" else name for name in ALL_PETS]
    assert contents(
        open_folder(load_manifest("pets"), written(layouts, kind, tmp_path / "a", samples, unused))
    )
    renamed = [type(s)(s.id, s.content, "poodle" if s.label == PETS[1] else s.label) for s in samples]
    used = ["poodle" if name == PETS[1] else name for name in ALL_PETS]
    refused(
        "pets",
        written(layouts, kind, tmp_path / "b", renamed, used),
        "names a class 'poodle' that is none of the 37",
    )


@pytest.mark.parametrize("kind", KINDS[1:])
def test_two_labels_of_one_name(layouts, samples, tmp_path, kind):
    folder = written(layouts, kind, tmp_path, samples, (*ALL_PETS[:3], "abyssinian", *ALL_PETS[4:]))
    assert contents(open_folder(load_manifest("pets"), folder))  # the second one is of no image
    renamed = [*samples[:-1], type(samples[0])("x/9.jpg", samples[-1].content, "abyssinian")]
    folder = written(layouts, kind, tmp_path / "b", renamed, (*ALL_PETS[:3], "abyssinian", *ALL_PETS[4:]))
    refused("pets", folder, "has two names, 'Abyssinian' and 'abyssinian', for the class 'Abyssinian'")


@pytest.mark.parametrize("kind", KINDS)
def test_more_images_than_the_released_split(layouts, samples, tmp_path, kind):
    folder = written(layouts, kind, tmp_path, samples, ALL_PETS)
    few = load_manifest("pets").model_copy(update={"counts": Counts(images=5)})
    assert open_folder(few, folder).variant == "other-split"
    fewer_each = {**dict.fromkeys(ALL_PETS, 200), "Abyssinian": 1}
    few = load_manifest("pets").model_copy(update={"counts": Counts(images=7201, per_class=fewer_each)})
    assert open_folder(few, folder).variant == "other-split"


def test_a_list_that_equals_the_confused_released_names_means_what_it_says(layouts, tmp_path):
    """clip-benchmark's shards of Food-101 call label 16 cheese plate, and so it is there; in TFDS 16 is cheesecake."""
    manifest = load_manifest("food101")
    names = list(manifest.class_names("released"))
    assert names[16:18] == ["cheese plate", "cheesecake"]
    assert manifest.class_ids[16:18] == ("cheesecake", "cheese_plate")
    some = [
        layouts.Sample("x/1.jpg", layouts.jpeg(1), "cheese plate"),
        layouts.Sample("x/2.jpg", layouts.jpeg(2), "waffles"),
    ]
    data = open_folder(manifest, layouts.write_wds(tmp_path, some, names))
    assert labels(data) == ["cheese_plate", "waffles"]
    layouts.put(tmp_path / "class_ids.txt", layouts.lines(manifest.class_ids))  # as our own export has it
    assert labels(open_folder(manifest, tmp_path)) == ["cheesecake", "waffles"]


def test_part_of_a_slice_is_another_split(layouts, tmp_path):
    """VTAB's shards of RESISC45, say, are of TFDS' order too, but not the released slice of it."""
    some = layouts.some("airplane", "airport", each=2)
    layouts.write_wds(tmp_path, some, load_manifest("resisc45").class_ids)
    assert open_folder(load_manifest("resisc45"), tmp_path).variant == "other-split"
    four = load_manifest("resisc45").model_copy(update={"counts": Counts(images=4)})
    assert open_folder(four, tmp_path).variant == ""


def test_many_labels_do_not_go_into_a_class_folder_or_label(layouts, tmp_path):
    classes = load_manifest("voc2007").class_ids
    some = layouts.some("aeroplane", "cat")
    layouts.write_imagefolder(tmp_path / "a", some)
    layouts.write_wds(tmp_path / "b", some, classes)
    layouts.write_hf_parquet(tmp_path / "c", some, classes)
    for folder in "abc":
        refused("voc2007", tmp_path / folder, r"has no ImageSets/Main/test\.txt")


def test_released_names_of_imagenet_as_a_list(layouts, tmp_path):
    """Two pairs of classes have one name each: only the whole list in its own order tells them apart."""
    manifest = load_manifest("imagenet")
    names = list(manifest.class_names())
    some = layouts.some("n04008634", "n04355933", "n01440764", each=1)
    renamed = [type(s)(s.id, s.content, str(manifest.class_ids.index(s.label))) for s in some]
    folder = layouts.write_wds(tmp_path, renamed, [str(k) for k in range(1000)], shards=1)
    layouts.put(folder / "classnames.txt", "\n".join(names))
    assert contents(open_folder(manifest, folder)) == expected(some)
    layouts.put(folder / "classnames.txt", "\n".join([names[1], names[0], *names[2:]]))
    refused("imagenet", folder, "has two labels of the name 'missile'")


def captioned(layouts):
    return [
        layouts.Sample(f"{k}.jpg", layouts.jpeg(k), captions=(f"a dog {k} ", "ein Hündchen"))
        for k in range(3)
    ]


@pytest.mark.parametrize("kind", ["hf-parquet", "wds"])
def test_captions(layouts, tmp_path, kind):
    pairs = captioned(layouts)
    write = layouts.write_hf_parquet if kind == "hf-parquet" else layouts.write_wds
    data = open_folder(load_manifest("flickr30k"), write(tmp_path, pairs))
    assert data.captions == tuple(caption for pair in pairs for caption in pair.captions)
    assert data.owner.tolist() == [0, 0, 1, 1, 2, 2]
    assert [data.images.read(i) for i in data.images.ids] == [pair.content for pair in pairs]
    assert (data.name, data.variant) == ("flickr30k", "")
    few = load_manifest("flickr30k").model_copy(update={"counts": Counts(images=2)})
    assert open_folder(few, tmp_path).variant == "other-split"


@pytest.mark.parametrize("kind", ["hf-parquet", "wds"])
def test_an_image_without_captions(layouts, tmp_path, kind):
    pairs = [*captioned(layouts), layouts.Sample("3.jpg", layouts.jpeg(3), captions=())]
    write = layouts.write_hf_parquet if kind == "hf-parquet" else layouts.write_wds
    write(tmp_path, pairs)
    refused("flickr30k", tmp_path, "has no caption, or an empty one|is cut off or has an empty member")


# ------------------------------------------------------------------------------------------------ ImageFolder


def test_an_imagefolder_in_a_split_or_one_folder_down(layouts, samples, tmp_path):
    manifest = load_manifest("pets")
    for place in ("test", "val", "only/one", "only/test"):
        folder = tmp_path / place.replace("/", "-")
        layouts.write_imagefolder(folder / place, samples)
        assert contents(open_folder(manifest, folder)) == expected(samples)
    layouts.put(tmp_path / "test" / "test" / "cows" / "1.jpg", samples[0].content)
    refused("pets", tmp_path / "test", "none of its 37 classes: cows")


def test_two_folders_of_one_class(layouts, samples, tmp_path):
    layouts.write_imagefolder(tmp_path, samples)
    layouts.put(tmp_path / "American Bulldog" / "1.jpg", samples[0].content)
    refused("pets", tmp_path, "has two names, 'American Bulldog' and 'american_bulldog', for the class")


def test_an_imagefolder_of_itself_ends(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path)
    refused("pets", tmp_path, r"has no annotations/test\.txt")


# -------------------------------------------------------------------------------------------------- parquet


def parquet(path, columns, features=None):
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(columns)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def images(*contents):
    return [{"bytes": content, "path": None} for content in contents]


def test_parquet_picks_split_column_and_label(layouts, samples, tmp_path):
    names = {"_type": "ClassLabel", "names": list(ALL_PETS)}
    species = {"_type": "ClassLabel", "names": ["cat", "dog"]}
    content = [s.content for s in samples[:2]]
    columns = {"img": images(*content), "species": [0, 1], "breed": [0, 1], "filename": ["a.jpg", "b.jpg"]}
    parquet(
        tmp_path / "plain" / "validation-00000-of-00001.parquet",
        columns,
        {"species": species, "breed": names},
    )
    parquet(tmp_path / "plain" / "train-00000-of-00001.parquet", {"img": images(b"x")}, {})
    data = open_folder(load_manifest("pets"), tmp_path)
    assert (data.images.ids, labels(data)) == (("a.jpg", "b.jpg"), [PETS[0], PETS[1]])
    parquet(tmp_path / "plain" / "test-00000-of-00001.parquet", columns | {"breed": [1, 0]}, {"breed": names})
    assert labels(open_folder(load_manifest("pets"), tmp_path)) == [PETS[1], PETS[0]]
    assert open_folder(load_manifest("pets"), tmp_path).variant == ""


def test_imagenet_in_parquet_has_no_labels_in_test(layouts, tmp_path):
    ids = load_manifest("imagenet").class_ids
    feature = {"label": {"_type": "ClassLabel", "names": list(ids)}}
    parquet(tmp_path / "data/test-00000-of-00001.parquet", {"image": images(b"x"), "label": [-1]}, feature)
    parquet(
        tmp_path / "data/validation-00000-of-00001.parquet", {"image": images(b"y"), "label": [7]}, feature
    )
    data = open_folder(load_manifest("imagenet"), tmp_path)
    assert (data.images.ids, labels(data)) == (("validation/00000",), [ids[7]])
    (tmp_path / "data/validation-00000-of-00001.parquet").unlink()
    refused("imagenet", tmp_path, "image 0: the label -1 is outside the range 0 to 999")


def test_a_training_split_is_never_the_released_one(tmp_path):
    feature = {"label": {"_type": "ClassLabel", "names": list(ALL_PETS)}}
    parquet(tmp_path / "train-00000-of-00001.parquet", {"image": images(b"x"), "label": [0]}, feature)
    assert open_folder(load_manifest("pets"), tmp_path).variant == "other-split"


def test_karpathys_splits_in_one_file(tmp_path):
    columns = {
        "image": images(b"x", b"y", b"z"),
        "caption": [["a dog"], ["a cat", "a kitten"], ["a bird"]],
        "split": ["train", "test", "test"],
        "filename": ["1.jpg", "2.jpg", "3.jpg"],
    }
    parquet(tmp_path / "data" / "test-00000-of-00001.parquet", columns, {})
    data = open_folder(load_manifest("flickr30k"), tmp_path)
    assert data.images.ids == ("2.jpg", "3.jpg")
    assert data.captions == ("a cat", "a kitten", "a bird")
    assert data.images.read("3.jpg") == b"z"


@pytest.mark.parametrize(
    ("columns", "features", "reason"),
    [
        ({"image": images(b"x"), "label": [0]}, {}, "says nowhere what its labels mean"),
        ({"image": images(b"x")}, {}, "says nowhere what its labels mean"),
        ({"label": [0]}, {}, "has no column of images"),
        ({"image": images(b"x"), "label": [37]}, "pets", "the label 37 is outside the range 0 to 36"),
        ({"image": images(b"x"), "label": [None]}, "pets", "has rows without a label"),
        ({"image": images(), "label": []}, "pets", "no images found"),
        ({"image": images(b"x"), "label": [0]}, {"label": 3}, "description of the features is damaged"),
    ],
)
def test_damaged_parquet(tmp_path, columns, features, reason):
    import pyarrow as pa

    if columns.get("image") == []:
        columns = {
            "image": pa.array([], pa.struct([("bytes", pa.binary())])),
            "label": pa.array([], pa.int64()),
        }
    if columns.get("label") == [None]:
        columns = columns | {"label": pa.array([None], pa.int64())}
    if features == "pets":
        features = {"label": {"_type": "ClassLabel", "names": list(ALL_PETS)}}
    parquet(tmp_path / "test-00000-of-00001.parquet", columns, features)
    refused("pets", tmp_path, reason)


def test_parquet_that_is_none_or_ends_early_or_lacks_bytes(layouts, samples, tmp_path):
    layouts.write_hf_parquet(tmp_path, samples, ALL_PETS)
    manifest, path = load_manifest("pets"), tmp_path / "data" / "test-00001-of-00002.parquet"
    data = open_folder(manifest, tmp_path)
    path.write_bytes(path.read_bytes()[:-50])
    refused("pets", tmp_path, "parquet file .* is damaged")
    hf_parquet._row_group.cache_clear()
    with pytest.raises(DataError, match="is damaged"):
        data.images.read(data.images.ids[-1])
    feature = {"label": {"_type": "ClassLabel", "names": list(ALL_PETS)}}
    parquet(tmp_path / "b" / "test.parquet", {"image": images(b"x", b""), "label": [0, 1]}, feature)
    with pytest.raises(DataError, match="image test/00001 has no bytes"):
        open_folder(manifest, tmp_path / "b").images.read("test/00001")


# ----------------------------------------------------------------------------------------------- WebDataset


def test_shards_in_the_order_of_their_numbers(layouts, tmp_path):
    many = layouts.some(*PETS, each=4)
    layouts.write_wds(tmp_path, many, ALL_PETS, shards=12)
    data = open_folder(load_manifest("pets"), tmp_path)
    assert data.images.ids == tuple(f"{k}/s{k:07d}.jpg" for k in range(12))
    assert labels(data) == [sample.label for sample in many]


def test_shards_without_a_folder_and_png(layouts, tmp_path):
    pngs = [layouts.Sample(f"x/{k}.png", layouts.png(k), PETS[k]) for k in range(3)]
    layouts.write_wds(tmp_path, pngs, ALL_PETS, shards=1)
    shutil.move(tmp_path / "test" / "0.tar", tmp_path / "0.tar")
    shutil.rmtree(tmp_path / "test")
    data = open_folder(load_manifest("pets"), tmp_path)
    assert data.images.ids[0] == "0/s0000000.png"
    assert contents(data) == expected(pngs)


def tar(path, members):
    import io

    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"a.jpg": b"x"}, r"sample a of .*0\.tar has no \.cls"),
        ({"a.cls": b"0"}, "has no image"),
        ({"a.jpg": b"x", "a.cls": b"Abyssinian"}, r"the label of 0/a\.jpg is 'Abyssinian', no number"),
        ({"a.jpg": b"x", "a.cls": b"37"}, "the label 37 is outside the range 0 to 36"),
        ({"a.jpg": b"x", "a.cls": b"-1"}, "the label -1 is outside the range 0 to 36"),
        ({"a.jpg": b"x", "a.cls": b"\xff"}, "is not UTF-8"),
        ({"a.jpg": b"x", "a.cls": b""}, "empty member"),
        ({}, "no images found"),
    ],
)
def test_damaged_shards(tmp_path, members, reason):
    tar(tmp_path / "test" / "0.tar", members)
    (tmp_path / "classnames.txt").write_text("\n".join(ALL_PETS))
    refused("pets", tmp_path, reason)


def test_shards_cut_off_or_without_names(layouts, samples, tmp_path):
    layouts.write_wds(tmp_path, samples, ALL_PETS)
    (tmp_path / "classnames.txt").unlink()
    refused("pets", tmp_path, r"has no classnames\.txt, which says what its labels mean")
    path = tmp_path / "test" / "1.tar"
    content = path.read_bytes()
    path.write_bytes(content[: 512 + 100])
    refused("pets", tmp_path, r"archive .*1\.tar is damaged|cut off")
    path.write_bytes(b"not a tar at all" * 100)
    refused("pets", tmp_path, r"archive .*1\.tar is damaged")


def test_links_and_devices_in_a_shard_are_passed_over(tmp_path):
    path = tmp_path / "0.tar"
    tar(path, {"a.jpg": b"x", "a.cls": b"0"})
    with tarfile.open(path, "a") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.CHRTYPE):
            member = tarfile.TarInfo("a.png")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    (tmp_path / "classnames.txt").write_text("\n".join(ALL_PETS))
    data = open_folder(load_manifest("pets"), tmp_path)
    assert [data.images.read(i) for i in data.images.ids] == [b"x"]
    assert wds.fits(load_manifest("pets"), tmp_path)


# ----------------------------------------------------------------------------------------------------- TFDS


def test_tfds_ids_and_the_folder_above(layouts, samples, tmp_path):
    layouts.write_tfds(tmp_path / "oxford_iiit_pet" / "3.2.0", "oxford_iiit_pet", samples, ALL_PETS)
    data = open_folder(load_manifest("pets"), tmp_path)
    assert data.images.ids == tuple(sample.id for sample in samples)  # CLASS/FILE
    assert contents(data) == expected(samples)
    layouts.write_tfds(tmp_path / "b", "pets", samples, ALL_PETS, file_name="id")
    assert open_folder(load_manifest("pets"), tmp_path / "b").images.ids[1] == "test/00001"


def test_tfds_slices_are_of_its_order(layouts, tmp_path):
    manifest = load_manifest("eurosat")
    some = layouts.some("Forest", "River", each=5)
    layouts.write_tfds(
        tmp_path / "eurosat/rgb/2.0.0", "eurosat", some, manifest.class_ids, "train", 3, "filename"
    )
    cut = manifest.model_copy(update={"split": "TFDS rgb train[3:7]"})
    assert open_folder(cut, tmp_path).images.ids == tuple(sample.id for sample in some[3:7])
    cut = manifest.model_copy(update={"split": "train[20%:]"})
    assert open_folder(cut, tmp_path).images.ids == tuple(sample.id for sample in some[2:])


def test_tfds_configurations_are_told_apart_by_their_counts(layouts, tmp_path):
    classes = load_manifest("sun397").class_ids
    some = layouts.some("a/abbey", "j/jail_cell", each=2)
    for config, part in (("tfds", some), ("standard-part1-120k", some[:3])):
        named = [f"/{class_id}" for class_id in classes]
        renamed = [layouts.Sample(s.id, s.content, f"/{s.label}") for s in part]
        layouts.write_tfds(tmp_path / "sun397" / config / "4.0.0", "sun397", renamed, named)
    refused("sun397", tmp_path, r"holds several prepared datasets \(sun397/standard-part1-120k/4.0.0 \(3\), ")
    three = load_manifest("sun397").model_copy(update={"counts": Counts(images=3)})
    data = open_folder(three, tmp_path)
    assert (len(data.images.ids), data.variant) == (3, "")
    assert contents(data) == expected(some[:3])


@pytest.mark.parametrize("shard", [0, 1])
def test_damaged_tfrecords(layouts, samples, tmp_path, shard):
    layouts.write_tfds(tmp_path, "pets", samples, ALL_PETS)
    path = tmp_path / f"pets-test.tfrecord-{shard:05d}-of-00002"
    whole = path.read_bytes()
    for content, reason in (
        (whole[:-3], "ends within a record"),
        (whole[:5], "ends within a record"),
        (b"\x01" + whole[1:], "is damaged at byte 0"),
        (layouts.tfrecord(b"\xff\xff\xff"), r"is no tf\.train\.Example"),
        (layouts.tfrecord(b""), "has a record without image and label"),
    ):
        path.write_bytes(content)
        refused("pets", tmp_path, reason)
    path.unlink()
    refused("pets", tmp_path, f"shard {shard} of 2 is missing")


def test_tfds_without_names_or_split(layouts, samples, tmp_path):
    layouts.write_tfds(tmp_path, "pets", samples, ALL_PETS, split="train")
    refused("pets", tmp_path, "has no shards of the split test")
    layouts.write_tfds(tmp_path, "pets", samples, ALL_PETS, split="test")
    (tmp_path / "label.labels.txt").unlink()
    refused("pets", tmp_path, r"has no label\.labels\.txt")


def test_integers_of_protobuf():
    assert tfds._integer((3, b"\x0a\x01\x05")) == 5  # packed
    assert tfds._integer((3, b"\x08\x96\x01")) == 150  # not packed
    assert tfds._integer((3, b"\x0a\x0a" + b"\xff" * 9 + b"\x01")) == -1
    assert tfds._integer((3, b"")) == -1


# ----------------------------------------------------------------------------- one dataset, several sources


def test_sources_of_one_dataset_agree_on_ids_and_labels(layouts, tmp_path):
    """EuroSAT's own folders and what TFDS makes of them."""
    made = layouts.build("eurosat", tmp_path / "own")
    manifest = load_manifest("eurosat")
    whole = manifest.model_copy(update={"split": "train[0:7]"})
    layouts.write_tfds(tmp_path / "tfds", "eurosat", made.samples, manifest.class_ids, "train", 2, "filename")
    own, other = open_folder(manifest, made.folder), open_folder(whole, tmp_path / "tfds")
    assert dict(zip(own.images.ids, labels(own), strict=True)) == dict(
        zip(other.images.ids, labels(other), strict=True)
    )
    assert all(own.images.read(i) == other.images.read(i) for i in own.images.ids)


def test_cifar_in_python_and_binary_form_is_the_same(layouts, tmp_path):
    for pair in (("cifar10", "cifar10-binary"), ("cifar100", "cifar100-binary")):
        first, second = (
            open_folder(load_manifest(pair[0]), layouts.build(name, tmp_path / name).folder) for name in pair
        )
        assert first.facts() == second.facts()
        assert all(first.images.read(i) == second.images.read(i) for i in first.images.ids)
