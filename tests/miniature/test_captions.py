"""Captions: other code reads them back and finds what the scene holds; truth and entailment are exact."""

import re
from itertools import pairwise

import pytest

from hierbench.miniature.captions import (
    BACKGROUND_TEMPLATES,
    COLOUR_TEMPLATES,
    LEVELS,
    PARAPHRASES,
    THING_TEMPLATES,
    Meaning,
    Mention,
    captions,
    chain,
    entails,
    full_meaning,
    is_true,
    part_captions,
    words,
)
from hierbench.miniature.scenes import all_scenes, scene
from hierbench.miniature.vocabulary import BACKGROUNDS, COLOURS, HYPERNYMS, KINDS

NOUNS = {name: kind.name for kind in KINDS for name in kind.names} | {word: word for word in HYPERNYMS}
SIZES = {"large": "large", "big": "large", "small": "small", "little": "small"}
RELATIONS = {
    "to the left of": "left", "left of": "left", "to the right of": "right", "right of": "right",
    "above": "above", "over": "above", "below": "below", "under": "below",
}  # fmt: skip
PLACES = {wording: name for name, wordings in BACKGROUNDS.items() for wording in wordings}


def understand(text):
    """A caption's text read back, by other code than what wrote it."""
    text = text.removesuffix(".")
    background = None
    for wording, name in PLACES.items():
        if text.startswith(f"{wording}, "):
            text, background = text.removeprefix(f"{wording}, "), name
        elif text.endswith(f" {wording}"):
            text, background = text.removesuffix(f" {wording}"), name
    if text in ("a scene", "a photo"):
        return Meaning(background=background)
    text = text.removeprefix("there is ").removeprefix("a photo of ")
    for wording, relation in RELATIONS.items():
        first, found, second = text.partition(f" {wording} ")
        if found:
            return Meaning((mention(first), mention(second)), relation, background)
    return Meaning((mention(text),), None, background)


def mention(text):
    match = re.fullmatch(r"(?:(a|an|the) )?(.+)", text)
    article, rest = match.groups()
    if article in ("a", "an"):
        assert article == ("an" if rest[0] in "aeiou" else "a"), text
    if colour := re.fullmatch(r"something (\w+)|(\w+) thing", rest):
        assert (colour[1] or colour[2]) in COLOURS
        return Mention(colour=colour[1] or colour[2])
    size = colour = None
    first, _, later = rest.partition(" ")
    if first in SIZES:
        size, (first, _, later) = SIZES[first], later.partition(" ")
    if first in COLOURS:
        colour, first, later = first, later, ""
    return Mention(NOUNS[f"{first} {later}".strip()], colour, size)


def holds(meaning, shown):
    """Truth by looking at the scene, not by the meaning of its full caption."""

    def fits(said, thing):
        nouns = next((kind.name, *kind.hypernyms) for kind in KINDS if kind.name == thing.kind)
        return (
            (said.noun is None or said.noun in nouns)
            and said.colour in (None, thing.colour)
            and said.size in (None, thing.size)
        )

    if meaning.background not in (None, shown.background):
        return False
    if len(meaning.mentions) < 2:
        return all(any(fits(said, thing) for thing in shown.things) for said in meaning.mentions)
    if len(shown.things) < 2:
        return False
    a, b = shown.things
    down, across = b.y - a.y, b.x - a.x
    straight = {"above": down > abs(across), "below": -down > abs(across),
                "left": across > abs(down), "right": -across > abs(down)}[meaning.relation]  # fmt: skip
    reverse = {"above": -down > abs(across), "below": down > abs(across),
               "left": -across > abs(down), "right": across > abs(down)}[meaning.relation]  # fmt: skip
    said = meaning.mentions
    return (straight and fits(said[0], a) and fits(said[1], b)) or (
        reverse and fits(said[0], b) and fits(said[1], a)
    )


@pytest.fixture(scope="module")
def scenes():
    return [*all_scenes("test")[:250], *(scene("train", index) for index in range(250))]


def test_captions_mean_what_they_say_and_it_is_true(scenes):
    for shown in scenes:
        levels = captions(shown)
        assert len(levels) == LEVELS
        for level, told in enumerate(levels, 1):
            assert len({caption.text for caption in told}) == PARAPHRASES
            for caption in told:
                assert caption.level == level
                assert understand(caption.text) == caption.meaning, caption
                assert holds(caption.meaning, shown), caption
                assert is_true(caption.meaning, shown)


def test_truth_agrees_with_looking_at_the_scene(scenes):
    meanings = [caption.meaning for shown in scenes[:25] for level in captions(shown) for caption in level]
    verdicts = [
        (is_true(meaning, shown), holds(meaning, shown)) for meaning in meanings for shown in scenes[:120]
    ]
    assert all(one == other for one, other in verdicts)
    assert 500 < sum(one for one, _ in verdicts) < len(verdicts) / 2  # both answers occur


def test_full_captions_say_everything(scenes):
    for shown in scenes:
        for caption in captions(shown)[-1]:
            assert entails(caption.meaning, full_meaning(shown))
            assert entails(full_meaning(shown), caption.meaning)


def test_chains_go_from_general_to_specific(scenes):
    for shown in scenes:
        told = chain(shown)
        assert [caption.level for caption in told] == [1, 2, 3, 4]
        for general, specific in pairwise(told):
            assert entails(specific.meaning, general.meaning)
            assert not entails(general.meaning, specific.meaning)
        assert all(understand(caption.text) == caption.meaning for caption in told)
        assert is_true(told[-1].meaning, shown)


def test_part_captions_are_about_their_thing(scenes):
    for shown in scenes[:200]:
        for position, thing in enumerate(shown.things):
            alone = Meaning((Mention(thing.kind, thing.colour, thing.size),))
            for level in (1, 2, 3):
                told = part_captions(shown, position, level)
                assert len({caption.text for caption in told}) == 2
                for caption in told:
                    assert understand(caption.text) == caption.meaning
                    assert entails(alone, caption.meaning)


FISH = Mention("fish", "orange", "large")
PLANE = Mention("airplane", "purple", "small")
SCENE = Meaning((FISH, PLANE), "above", "night")


@pytest.mark.parametrize(
    ("general", "expected"),
    [
        (Meaning(), True),
        (Meaning((Mention("animal"),)), True),
        (Meaning((Mention("aircraft"),)), True),
        (Meaning((Mention("mammal"),)), False),
        (Meaning((Mention(colour="purple"),)), True),
        (Meaning((Mention("fish", "purple"),)), False),  # the colour of the other thing
        (Meaning((Mention("vehicle", "purple"),), None, "night"), True),
        (Meaning((Mention("vehicle", "purple"),), None, "snow"), False),
        (Meaning((FISH, PLANE), "below"), False),
        (Meaning((PLANE, FISH), "below", "night"), True),
        (Meaning((PLANE, FISH), "above", "night"), False),
        (Meaning((Mention("animal"), Mention(colour="purple")), "above"), True),
        (Meaning((Mention("animal"), Mention("animal")), "above"), False),
    ],
)
def test_entailment_by_hand(general, expected):
    assert entails(SCENE, general) is expected
    assert entails(general, SCENE) is (general == Meaning((PLANE, FISH), "below", "night"))


def test_hypernyms_entail_their_group():
    assert entails(Meaning((Mention("mammal"),)), Meaning((Mention("animal"),)))
    assert not entails(Meaning((Mention("animal"),)), Meaning((Mention("mammal"),)))
    assert not entails(Meaning((Mention("tree"),)), Meaning((Mention("animal"),)))
    assert not entails(Meaning((Mention(colour="red"),)), Meaning((Mention("animal"),)))


def test_a_second_thing_leaves_a_caption_of_one_thing_true():
    pair = next(shown for shown in all_scenes("test") if len(shown.things) == 2)
    thing = pair.things[1]
    assert is_true(Meaning((Mention(thing.kind, thing.colour, thing.size),), None, pair.background), pair)


def test_training_says_every_prompt():
    prompts = {
        template.format(name)
        for templates, names in (
            (THING_TEMPLATES, [kind.name for kind in KINDS]),
            (COLOUR_TEMPLATES, COLOURS),
            (BACKGROUND_TEMPLATES, [wordings[0] for wordings in BACKGROUNDS.values()]),
        )
        for template in templates
        for name in names
    }
    index = 0
    while prompts and index < 8000:
        prompts -= {caption.text for level in captions(scene("train", index))[:2] for caption in level}
        index += 1
    assert not prompts


def test_words_are_exactly_those_that_occur(scenes):
    said = {
        word
        for index in range(1500)
        for level in captions(scene("train", index))
        for caption in level
        for word in re.findall(r"\w+|[^\w\s]", caption.text)
    }
    assert said == set(words())
