"""The miniature's datasets: valid records, labels and owners that the scenes bear out, an exact pool."""

import io
import pickle

import numpy as np
import pytest
from PIL import Image

from hierbench import miniature
from hierbench.data.datasets import CaptionChains, Classification, Retrieval
from hierbench.data.manifests import load_manifest
from hierbench.errors import UnknownNameError
from hierbench.miniature import all_scenes, captions, chain, datasets, is_true, render, scene
from hierbench.miniature.captions import part_captions
from hierbench.miniature.vocabulary import KINDS


def test_images_are_png_with_the_scene_s_pixels():
    source = miniature.dataset("miniature").images
    for image_id in source.ids[:20]:
        content = source.read(image_id)
        image = Image.open(io.BytesIO(content))
        image.verify()
        image = Image.open(io.BytesIO(content))
        assert image.format == "PNG"
        assert image.mode == "RGB"
        split, index = image_id.split("-")
        assert np.array_equal(np.asarray(image), render(scene(split, int(index))).pixels)
    assert pickle.loads(pickle.dumps(source)) == source  # worker processes get a copy


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("miniature-things", lambda shown: shown.things[0].kind),
        ("miniature-colours", lambda shown: shown.things[0].colour),
        ("miniature-backgrounds", lambda shown: shown.background),
    ],
)
def test_classification_sets(name, truth):
    data = miniature.dataset(name)
    manifest = load_manifest(name)
    assert isinstance(data, Classification)
    assert (
        len(data.images.ids)
        == len(set(data.images.ids))
        == len(data.labels)
        == manifest.counts.images
        == 1000
    )
    assert data.labels.dtype == np.int64
    assert data.class_names == manifest.class_names()
    assert data.templates == manifest.prompts()
    assert {t.replace("{}", "", 1).count("{") for t in data.templates} == {0}
    counts = np.bincount(data.labels, minlength=data.num_classes)
    assert counts.min() > 0.5 * 1000 / data.num_classes
    assert counts.max() < 1.7 * 1000 / data.num_classes
    words = data.class_ids if name != "miniature-things" else data.class_names
    for image_id, label in zip(data.images.ids, data.labels, strict=True):
        shown = datasets.scene_by_id(image_id)
        assert shown.split == "test"
        assert words[label] == truth(shown)
        assert len(shown.things) == 1 or name == "miniature-backgrounds"


def test_things_carry_their_taxonomy():
    data = miniature.dataset("miniature-things")
    assert data.taxonomy == "miniature"
    assert data.class_ids == tuple(kind.synset for kind in KINDS)


def test_retrieval_credits_only_an_image_s_own_captions():
    data = miniature.dataset("miniature")
    assert isinstance(data, Retrieval)
    assert len(data.images.ids) == 1000
    assert len(data.captions) == len(set(data.captions)) == 2000
    assert np.bincount(data.owner).tolist() == [2] * 1000
    scenes = [datasets.scene_by_id(image_id) for image_id in data.images.ids]
    assert sum(shown.held_out for shown in scenes) > 100
    assert 300 < sum(len(shown.things) == 2 for shown in scenes) < 700
    for caption, owner in list(zip(data.captions, data.owner, strict=True))[::11]:
        meaning = next(c.meaning for c in captions(scenes[owner])[-1] if c.text == caption)
        assert [row for row, shown in enumerate(scenes) if is_true(meaning, shown)] == [owner]


def test_chains_and_a_pool_that_is_false_of_every_test_image():
    data = miniature.dataset("miniature-chains")
    assert isinstance(data, CaptionChains)
    assert len(data.sample_ids) == len(data.images.ids) == len(data.captions) == 400
    assert {len(row) for row in data.captions} == {4}
    for sample, row, owner in zip(data.sample_ids, data.captions, data.owner, strict=True):
        assert data.images.ids[owner] == sample
        assert row == tuple(caption.text for caption in chain(datasets.scene_by_id(sample)))
    assert len(data.pool) == len(set(data.pool)) == 100
    negatives = datasets.pool_scenes()
    for shown, text in zip(negatives, data.pool, strict=True):
        caption = captions(shown)[-1][0]
        assert caption.text == text
        assert is_true(caption.meaning, shown)
        assert not any(is_true(caption.meaning, other) for other in all_scenes("test"))


def test_full_truth_keys_agree_with_the_oracle():
    scenes = all_scenes("test")[:400]
    for shown in scenes[:150]:
        meaning, key = captions(shown)[-1][0].meaning, datasets._full_truths(shown)[0]
        for other in scenes:
            assert is_true(meaning, other) == (key in datasets._full_truths(other))


@pytest.mark.parametrize(
    "name",
    ["miniature-things", "miniature-colours", "miniature-backgrounds", "miniature", "miniature-chains"],
)
def test_facts_are_stable_and_limits_keep_classes_apart(name):
    data = miniature.dataset(name)
    assert data.facts() == miniature.dataset(name).facts()
    few = data.limited(100)
    assert len(few.images.ids) == 100
    if isinstance(data, Classification):
        assert len(set(few.labels.tolist())) > 0.8 * data.num_classes


def test_multilabel_marks_both_things():
    images, labels = miniature.multilabel()
    assert labels.shape == (len(images.ids), len(KINDS))
    assert len(images.ids) > 700
    assert labels.sum(1).tolist() == [2] * len(images.ids)
    names = [kind.name for kind in KINDS]
    for image_id, row in zip(images.ids[:50], labels, strict=False):
        assert {names[k] for k in np.flatnonzero(row)} == {
            t.kind for t in datasets.scene_by_id(image_id).things
        }


def test_training_samples_have_captions_and_a_part_for_each_thing():
    for index in (0, 1, 2, 3, 19_999):
        sample, shown = miniature.training_sample(index), scene("train", index)
        assert sample.pixels.shape == (64, 64, 3)
        assert sample.pixels.dtype == np.uint8
        assert tuple(sample.captions(level) for level in (1, 2, 3, 4)) == captions(shown)
        assert len(sample.boxes) == len(shown.things)
        for position, (left, top, right, bottom) in enumerate(sample.boxes):
            assert np.array_equal(sample.crop(position), render(shown).pixels[top:bottom, left:right])
            assert sample.part_captions(position, 2) == part_captions(shown, position, 2)
    with pytest.raises(IndexError, match="20000"):
        miniature.training_sample(miniature.TRAINING_SAMPLES)


def test_a_name_that_is_no_dataset_of_the_miniature():
    with pytest.raises(UnknownNameError, match="miniature-tings"):
        miniature.dataset("miniature-tings")
    foreign = load_manifest("miniature").model_copy(update={"name": "mine"})
    with pytest.raises(UnknownNameError, match="mine"):
        datasets.read(foreign)
