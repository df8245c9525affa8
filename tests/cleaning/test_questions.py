"""The verifier's questions can be read back, whatever the captions hold."""

import pytest

from hierbench.cleaning import questions


@pytest.mark.parametrize("caption", ["a dog", 'a "quoted" dog', "{specific} {caption}", "two\nlines", "\\1"])
def test_questions_are_understood(caption):
    assert questions.understood(questions.describes(caption)) == questions.Describes(caption)
    assert questions.understood(questions.entails(caption, "thing")) == questions.Entails(caption, "thing")
    assert caption in questions.describes(caption)


def test_other_texts_are_not():
    with pytest.raises(ValueError, match="not a question"):
        questions.understood("Is it raining?")


def test_the_hash_depends_on_wording_and_player():
    hashes = {
        questions.prompt_hash({"prompt_hash": player}, template)
        for player in (None, "a", "b")
        for template in (questions.DESCRIBES, questions.ENTAILS)
    }
    assert len(hashes) == 6
