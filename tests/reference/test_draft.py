"""Large JPEGs decoded at less than their size while training: what crops are left with, and how near the pixels are."""

import io
import random
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image
from shard_files import jpeg
from torchvision.transforms import v2

from hierbench.data.images import decode
from hierbench.reference.schema import DataConfig
from hierbench.reference.training.augment import ASPECTS, GAP, Augment
from hierbench.reference.training.batches import Batches
from hierbench.reference.training.shards import RawSample

SIZE = 32


def photograph(width, height):
    """A JPEG of smooth colours with fine grain, of which draft decoding has to make the mean."""
    draw = np.random.default_rng(0)
    smooth = Image.fromarray(draw.integers(0, 256, (6, 8, 3), np.uint8)).resize(
        (width, height), Image.BICUBIC
    )
    grain = np.asarray(smooth, np.int16) + draw.integers(-12, 13, (height, width, 3), np.int16)
    return encoded(Image.fromarray(grain.clip(0, 255).astype(np.uint8)), "JPEG", quality=90)


def encoded(image, form, **how):
    out = io.BytesIO()
    image.save(out, form, **how)
    return out.getvalue()


@pytest.fixture(scope="module")
def large():
    return photograph(800, 600)


def config(**changes):
    return DataConfig(kind="pairs", shards="none", **changes)


@pytest.mark.parametrize(
    ("size", "scale", "wanted"),
    [
        ((800, 600), (1.0, 1.0), (86, 64)),  # 64 of 600 along the shorter side: 0.1067 · 800 = 85.3
        ((800, 600), (0.5, 1.0), (121, 91)),  # √(¾ · ½ · 800 · 600) = 424.3: 64 / 424.3 = 0.1508
        ((600, 800), (0.5, 1.0), (91, 121)),
        ((4000, 100), (0.5, 1.0), (2560, 64)),  # crops are as high as the strip: 64 / 100
        ((50, 40), (0.5, 1.0), (50, 40)),  # has no two pixels for one
    ],
)
def test_what_is_enough_by_hand(size, scale, wanted):
    assert Augment(config(crop_scale=scale), SIZE).enough(*size) == wanted


@pytest.mark.parametrize("low", [0.08, 0.5, 0.9])
def test_no_crop_has_less_than_it_needs(low):
    augment = Augment(config(crop_scale=(low, 1.0)), SIZE)
    crop = v2.RandomResizedCrop(SIZE, scale=(low, 1.0), ratio=ASPECTS)
    draw = np.random.default_rng(0)
    torch.manual_seed(0)
    for _ in range(60):
        width, height = (int(side) for side in draw.integers(16, 1200, 2))
        small = augment.enough(width, height)
        assert small[0] <= width
        assert small[1] <= height
        for _ in range(15):
            found = crop.make_params([torch.empty(3, small[1], small[0])])
            if small != (width, height):
                assert min(found["width"], found["height"]) >= GAP * SIZE - 1  # a crop's sides are rounded


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ((100, 75), (100, 75)),
        ((101, 75), (200, 150)),
        ((100, 76), (200, 150)),
        ((401, 300), (800, 600)),
        ((1, 1), (100, 75)),
    ],
)
def test_neither_side_is_decoded_below_what_is_enough(large, size, wanted):
    """An eighth of 800 x 600 is 100 x 75; PIL takes the factor that leaves neither side below what is asked."""
    asked = []

    def enough(width, height):
        asked.append((width, height))
        return size

    assert decode(large, "x", enough).size == wanted
    assert asked == [(800, 600)]
    assert decode(large, "x").size == (800, 600)


def test_other_formats_and_small_images_come_whole(large):
    image = decode(large, "x")
    assert decode(encoded(image, "PNG"), "x", lambda width, height: (10, 10)).size == (800, 600)
    assert decode(jpeg(9), "x", lambda width, height: (width, height)).size == decode(jpeg(9), "x").size


@pytest.mark.parametrize(
    "how", [{}, {"progressive": True}, {"subsampling": 0}], ids=["plain", "progressive", "4:4:4"]
)
def test_pixels_are_near_those_of_full_decoding(how):
    picture = encoded(decode(photograph(800, 600), "x"), "JPEG", quality=90, **how)
    augment = Augment(config(crop_scale=(1.0, 1.0)), SIZE)
    whole, draft = decode(picture, "x"), decode(picture, "x", augment.enough)
    assert (whole.size, draft.size) == ((800, 600), (100, 75))
    ours, theirs = augment(draft, 1).double(), augment(whole, 1).double()
    assert (ours - theirs).abs().mean() < 1.5  # of 255
    assert (ours - theirs).abs().max() < 8
    assert theirs.std() > 30  # there is something to see


def test_turned_images_stay_upright():
    picture = decode(photograph(800, 600), "x")
    exif = Image.Exif()
    exif[0x0112] = 6  # shown, it stands on its right side
    turned = encoded(picture, "JPEG", exif=exif)
    augment = Augment(config(crop_scale=(1.0, 1.0)), SIZE)
    small = decode(turned, "x", augment.enough)
    assert small.size == (75, 100)
    off = augment(small, 1).double() - augment(decode(turned, "x"), 1).double()
    assert off.abs().mean() < 1.5


@pytest.mark.parametrize(
    ("draft", "sizes"), [(True, [(200, 150), (200, 150)]), (False, [(800, 600), (400, 300)])]
)
def test_training_decodes_so_unless_told_otherwise(large, draft, sizes):
    """Crops of half an image need 121 x 91 pixels of it: a quarter of 800 x 600, a half of 400 x 300."""
    settings = DataConfig(kind="grit", shards="none", boxes=1, draft=draft, crop_scale=(0.5, 1.0))
    batches = Batches(settings.model_copy(update={"shards": None}), image_size=SIZE, rows=1)
    sample = RawSample("a", large, "two dogs", ((photograph(400, 300), "a dog"),))
    drawn = batches._draw_raw(sample, random.Random(0), Counter())
    assert [drawn.image.size, drawn.parts[0][0].size] == sizes


def test_damage_is_found_in_either_way(large):
    tally = Counter()
    batches = Batches(config().model_copy(update={"shards": None}), image_size=SIZE, rows=1)
    for content in (large[:2000], b"", b"\xff\xd8\xff"):
        sample = RawSample("a", content, "a dog")
        assert batches._draw_raw(sample, random.Random(0), tally) is None
    assert tally == {"damaged image": 3}
