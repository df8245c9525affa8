"""The generator: same bytes everywhere, held-out combinations, layout, boxes."""

import hashlib
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hierbench.miniature.backdrops import DRAW as PLACES
from hierbench.miniature.backdrops import SIDE, VARIANTS, backdrop
from hierbench.miniature.captions import captions
from hierbench.miniature.draws import Draws
from hierbench.miniature.scenes import SPLITS, all_scenes, render, scene
from hierbench.miniature.shapes import DRAW, NOTHING, Pen, sprite
from hierbench.miniature.vocabulary import BACKGROUNDS, COLOURS, GROUPS, HELD_OUT, INVERSE, KINDS, SIZES

# A change here voids the bundled models and every figure measured on the miniature: raise its tasks' versions.
FIRST_SCENES = "2b8771545240e55343a05b991a345f7e914b16b1549d3dfab37bcd5e569d85fa"
SPRITES_AND_BACKGROUNDS = "5f444631fea341d6dcbadf70e24b72f2ad83942544ed369677ff39067111881d"


def test_the_first_scenes_are_these_bytes():
    digest = hashlib.sha256()
    for split in SPLITS:
        for index in range(60):
            shown = scene(split, index)
            drawn = render(shown)
            digest.update(drawn.pixels.tobytes() + repr(drawn.boxes).encode())
            digest.update("\n".join(c.text for level in captions(shown) for c in level).encode())
    assert digest.hexdigest() == FIRST_SCENES


def test_every_sprite_and_background_is_these_bytes():
    digest = hashlib.sha256()
    for kind in KINDS:
        for radius in SIZES.values():
            digest.update(sprite(kind.name, radius).channels.astype("<f8").tobytes())
    for name in BACKGROUNDS:
        for variant in range(VARIANTS):
            digest.update(backdrop(name, variant).astype("<f8").tobytes())
    assert digest.hexdigest() == SPRITES_AND_BACKGROUNDS


def test_draws_are_splitmix64():
    draws = Draws()
    draws._state = 0
    # the first outputs of the published generator for seed 0
    assert [draws.below(2**64) for _ in range(3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


def test_draws_stay_in_range_and_use_all_of_it():
    draws = Draws("range", 1)
    assert Counter(draws.between(-2, 2) for _ in range(500)).keys() == {-2, -1, 0, 1, 2}
    assert Draws("a", 12)._state != Draws("a1", 2)._state


def test_scenes_can_be_asked_for_in_any_order():
    backwards = {index: scene("test", index) for index in reversed(range(40))}
    assert tuple(backwards[index] for index in range(40)) == all_scenes("test")[:40]
    sprite.cache_clear()
    first = render(backwards[17]).pixels
    for index in (3, 17, 30):
        render(backwards[index])
    assert np.array_equal(render(scene("test", 17)).pixels, first)


def test_splits_differ():
    contents = [[replace(scene(split, i), split="") for i in range(5)] for split in SPLITS]
    assert contents[0] != contents[1] != contents[2]


@pytest.mark.parametrize("index", [-1, SPLITS["test"]])
def test_no_scene_beyond_the_split(index):
    with pytest.raises(IndexError, match="'test'"):
        scene("test", index)


def test_enough_kinds_in_enough_groups_and_a_drawing_for_each():
    assert len(KINDS) >= 24
    assert len(GROUPS) >= 5
    assert set(DRAW) == {kind.name for kind in KINDS}
    assert set(PLACES) == set(BACKGROUNDS)
    assert len({kind.synset for kind in KINDS}) == len(KINDS)


def test_held_out_combinations_are_tested_but_never_trained_on():
    combinations = set(HELD_OUT.items())
    assert set(HELD_OUT) == {kind.name for kind in KINDS}
    assert (
        max(Counter(c for _, c in combinations).values()) - min(Counter(c for _, c in combinations).values())
        <= 1
    )

    def shown(scenes):
        return {(thing.kind, thing.colour) for s in scenes for thing in s.things}

    trained = shown(scene("train", index) for index in range(0, SPLITS["train"], 4))
    assert trained == {(k.name, c) for k in KINDS for c in COLOURS} - combinations
    assert shown(all_scenes("test")) >= combinations
    flagged = [s for s in all_scenes("test") if s.held_out]
    assert all(
        (s in flagged) == any((t.kind, t.colour) in combinations for t in s.things)
        for s in all_scenes("test")
    )
    assert 0.12 < len(flagged) / SPLITS["test"] < 0.25


def test_test_scenes_are_balanced():
    scenes = all_scenes("test")
    things = [thing for s in scenes for thing in s.things]
    for counts, options in (
        (Counter(t.kind for t in things), len(KINDS)),
        (Counter(t.colour for t in things), len(COLOURS)),
        (Counter(t.size for t in things), len(SIZES)),
        (Counter(s.background for s in scenes), len(BACKGROUNDS)),
        (Counter(s.relation for s in scenes if s.relation), len(INVERSE)),
    ):
        expected = counts.total() / options
        assert len(counts) == options
        assert all(abs(count - expected) < 4 * math.sqrt(expected) for count in counts.values())


def test_two_things_stand_in_their_relation_and_in_no_other():
    checked = Counter()
    for shown in all_scenes("test"):
        if shown.relation is None:
            assert len(shown.things) == 1
            continue
        first, second = shown.things
        assert first.kind != second.kind
        across, down = second.x - first.x, second.y - first.y
        apart = {"above": down, "below": -down, "left": across, "right": -across}
        assert (
            apart.pop(shown.relation) >= first.radius + second.radius
        )  # beside each other, not one on the other
        others = set(apart) - {INVERSE[shown.relation]}
        assert max(apart[r] for r in others) == 0
        checked[shown.relation] += 1
    assert set(checked) == set(INVERSE)


def test_large_and_small_are_told_apart_by_size():
    for kind in KINDS:
        sides = {}
        for size, radius in SIZES.items():
            left, top, right, bottom = sprite(kind.name, radius).box
            sides[size] = max(right - left, bottom - top)
        assert sides["large"] > 1.3 * sides["small"]


def test_boxes_hold_all_that_things_cover_and_no_more():
    for shown in all_scenes("test")[:300]:
        drawn = render(shown)
        empty = render(replace(shown, things=(), relation=None)).pixels
        changed = (drawn.pixels != empty).any(2)
        for left, top, right, bottom in drawn.boxes:
            assert 0 <= left < right <= SIDE
            assert 0 <= top < bottom <= SIDE
            inside = changed[top:bottom, left:right]
            assert inside.mean() > 0.25
            # tight, but for an edge pixel whose colour happens to be the background's
            assert min(inside[:2].any(), inside[-2:].any(), inside[:, :2].any(), inside[:, -2:].any())
        for left, top, right, bottom in drawn.boxes:
            changed[top:bottom, left:right] = False
        assert not changed.any()


def test_a_thing_shows_enough_of_its_colour():
    for kind in KINDS:
        for radius in SIZES.values():
            background, own, *_ = sprite(kind.name, radius).channels
            assert own.sum() > 0.2 * (1 - background).sum(), kind


def test_colours_reach_the_pixels():
    shown = next(s for s in all_scenes("test") if len(s.things) == 1 and s.things[0].kind == "circle")
    thing = shown.things[0]
    assert render(shown).pixels[thing.y, thing.x].tolist() == list(thing.rgb)
    assert np.abs(np.array(thing.rgb) - COLOURS[thing.colour]).max() <= 12


def test_mirrored_things_are_mirrored_pixels():
    shown = next(s for s in all_scenes("test") if len(s.things) == 1 and s.things[0].kind == "dog")
    base = replace(shown, things=(replace(shown.things[0], x=32, y=32, mirrored=False),), background="sky")
    turned = replace(base, things=(replace(base.things[0], mirrored=True),), mirrored=not base.mirrored)
    assert np.array_equal(render(turned).pixels, render(base).pixels[:, ::-1])


# ----------------------------------------------------------------------------------------- distance functions


@pytest.fixture
def pen():
    return Pen(np.zeros((5, 240, 240)), 120, 120, 100, reach=1.2)


@pytest.mark.parametrize(
    ("draw", "area"),
    [
        (lambda p: p.circle(0.1, 0.0, 0.5), math.pi * 0.25),
        (lambda p: p.ring(0.0, 0.0, 0.5, 0.1), math.pi * (0.36 - 0.16)),
        (lambda p: p.ellipse(0.0, 0.2, 0.7, 0.3), math.pi * 0.21),
        (lambda p: p.box(0.0, 0.0, 0.5, 0.25), 0.5),
        (lambda p: p.box(0.0, 0.0, 0.5, 0.25, 0.1), 0.5 - (4 - math.pi) * 0.01),
        (lambda p: p.line(-0.3, -0.4, 0.3, 0.4, 0.1), 0.2 + math.pi * 0.01),
        (lambda p: p.polygon((0.0, -0.6), (0.6, 0.6), (-0.6, 0.6)), 0.72),
        (lambda p: p.star(0.0, 0.0, 1.0), 1.12257),  # 10 tan 18° / (3 − tan² 18°)
    ],
)
def test_shapes_cover_their_area(pen, draw, area):
    pen.fill(draw(pen), NOTHING[::-1])
    covered = pen.window[4].sum() / 100**2
    assert covered == pytest.approx(area, rel=2e-3)


def test_distances_are_in_units_of_the_thing(pen):
    row, column = 120, 220  # the pixel whose centre is (1.005, 0.005)
    assert pen.circle(0.0, 0.005, 0.5)[row, column] == pytest.approx(0.505)
    assert pen.box(0.0, 0.0, 0.5, 0.5)[row, column] == pytest.approx(0.505)
    assert pen.box(0.0, 0.0, 0.5, 0.5)[120, 120] == pytest.approx(-0.495)
    assert pen.line(-0.5, 0.005, 0.5, 0.005, 0.1)[row, column] == pytest.approx(0.405)
    assert pen.polygon((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))[row, column] == pytest.approx(
        0.505
    )
