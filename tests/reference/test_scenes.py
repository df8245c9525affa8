"""Training samples of the built-in world say what is true: 10,000 of them, judged by the scenes themselves."""

import random
from dataclasses import replace

import pytest

from hierbench.miniature import TRAINING_SAMPLES, entails, is_true, training_sample
from hierbench.miniature.captions import Meaning
from hierbench.miniature.datasets import TrainingSample
from hierbench.miniature.scenes import scene
from hierbench.miniature.vocabulary import GROUPS
from hierbench.reference.configuration import resolve
from hierbench.reference.training.scenes import draw_showing

DATA = resolve("miniature/uncha").data


def showings(count, full_share=0.0, data=DATA):
    """(scene, its choices) of samples that nobody has drawn yet: their pictures are not needed."""
    for index in range(count):
        shown = scene("train", index * 7 % TRAINING_SAMPLES)
        sample = TrainingSample(shown, None, ((0, 0, 1, 1),) * len(shown.things))
        yield shown, draw_showing(sample, random.Random(index), data, full_share)


def alone(shown, position):
    return replace(shown, things=(shown.things[position],), relation=None)


MIXED = DATA.model_copy(update={"caption_levels": (0.1, 0.4, 0.25, 0.25), "close_ups": 0.4})


@pytest.mark.parametrize(
    ("data", "bare"), [(DATA, (0, 0)), (MIXED, (1_000, 5_000))], ids=["packaged", "mixed"]
)
def test_no_relation_of_a_part_is_false(data, bare):
    """`bare`: between how many samples have no part; full captions always leave something to say of one."""
    with_part = without = 0
    for shown, showing in showings(10_000, data=data):
        image = shown if showing.close_up is None else alone(shown, showing.close_up)
        assert is_true(showing.caption.meaning, image)  # the caption entails its image
        for position, phrase in showing.parts:
            with_part += 1
            assert showing.close_up in (None, position)  # the crop lies in the image
            assert is_true(phrase.meaning, alone(shown, position))  # the phrase entails its crop
            assert entails(showing.caption.meaning, phrase.meaning)  # and the caption
            assert not entails(phrase.meaning, showing.caption.meaning)  # strictly
            of_it = [
                mention
                for mention in showing.caption.meaning.mentions
                if is_true(Meaning((mention,)), alone(shown, position))
            ]
            assert of_it  # the caption speaks of the thing
        without += not showing.parts
        assert len({position for position, _ in showing.parts}) == len(showing.parts) <= DATA.boxes
    assert with_part > 5_000
    assert bare[0] <= without <= bare[1]


def test_a_full_caption_has_a_part_for_each_thing_and_a_group_none():
    full = replace_levels([0, 0, 0, 1])
    for shown, showing in showings(300, full_share=1.0, data=full):
        assert sorted(position for position, _ in showing.parts) == list(range(len(shown.things)))
        for position, phrase in showing.parts:
            thing, (mention,) = shown.things[position], phrase.meaning.mentions
            assert (mention.noun, mention.colour) == (thing.kind, thing.colour)
    for _, showing in showings(300, data=replace_levels([1, 0, 0, 0])):
        said = showing.caption.meaning.mentions
        if not said or said[0].noun is None or said[0].noun in GROUPS:
            assert (
                showing.parts == ()
            )  # nothing is more general than "an animal", "something red" or "at night"
        for _, phrase in showing.parts:  # of "a flower", its group
            assert phrase.meaning.mentions[0].noun in GROUPS


def replace_levels(levels):
    return DATA.model_copy(update={"caption_levels": tuple(levels), "close_ups": 0.0})


@pytest.mark.parametrize("index", [0, 1, 4_321])
def test_boxes_lie_in_the_picture(index):
    sample = training_sample(index)
    for left, top, right, bottom in sample.boxes:
        assert 0 <= left < right <= 64
        assert 0 <= top < bottom <= 64
