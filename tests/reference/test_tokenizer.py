"""Token ids against open_clip's own tokenizer, and the two ways of truncating."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_clip.tokenizer import SimpleTokenizer

from hierbench.reference.tokenizer import CONTEXT, END, START, tokenize

LONG = "word " * 200


@pytest.fixture(scope="module")
def open_clip_tokenizer():
    return SimpleTokenizer()


@pytest.mark.parametrize(
    ("text", "ids"),
    [  # CLIP's vocabulary: a 320, photo 1125, of 539, dog 1929, café 15304, & 261, croissant 38492…
        ("", []),
        ("a photo of a dog", [320, 1125, 539, 320, 1929]),
        ("A  Photo\nof a DOG", [320, 1125, 539, 320, 1929]),
    ],
)
def test_known_ids(text, ids):
    assert tokenize([text]) == [[START, *ids, END]]


def test_entities_are_unescaped_as_in_the_lineage():
    assert tokenize(["café &amp; croissants"]) == tokenize(["café & croissants"])
    assert tokenize(["a &amp;amp; b"]) == tokenize(["a & b"])


@given(st.text(max_size=60))
def test_ids_are_open_clips(open_clip_tokenizer, text):
    (ids,) = tokenize([text])
    padded = open_clip_tokenizer([text])[0].tolist()
    assert ids == padded[: len(ids)]
    assert not any(padded[len(ids) :])


def test_texts_are_ragged_and_keep_their_order():
    rows = tokenize(["a photo of a dog", "", "a dog"])
    assert [len(row) for row in rows] == [7, 2, 4]


def test_over_long_texts_keep_the_end_token(open_clip_tokenizer):
    (ids,) = tokenize([LONG])
    assert len(ids) == CONTEXT
    assert (ids[0], ids[-1]) == (START, END)
    assert ids == open_clip_tokenizer([LONG])[0].tolist()
    (short,) = tokenize([LONG], context=5)
    assert (len(short), short[-1]) == (5, END)


def test_unchas_released_truncation_loses_the_end_token():
    """Erratum 10."""
    (ids,) = tokenize([LONG], keep_end=False)
    assert len(ids) == CONTEXT
    assert END not in ids
    assert tokenize(["a dog"], keep_end=False) == tokenize(["a dog"])


def test_a_text_of_exactly_77_tokens_is_left_whole():
    exact = " ".join(["word"] * 75)
    assert tokenize([exact]) == tokenize([exact], keep_end=False)
    assert len(tokenize([exact])[0]) == 77


def test_the_callers_lists_are_its_own():
    first = tokenize(["a dog"])
    first[0].append(0)
    assert tokenize(["a dog"])[0][-1] == END
