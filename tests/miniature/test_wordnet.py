"""The miniature's words against WordNet 3.0, and its tree rebuilt by the code that cuts ImageNet's."""

from functools import cache

import pytest

from hierbench import taxonomy
from hierbench.miniature.vocabulary import GROUPS, HYPERNYMS, KINDS

pytestmark = pytest.mark.wordnet


@pytest.fixture(scope="module")
def wordnet():
    path = taxonomy.find_wordnet()
    if path is None:
        pytest.skip("needs the WordNet 3.0 database files")
    return path


@pytest.fixture(scope="module")
def nouns(wordnet):
    return taxonomy.read_nouns(wordnet)


def test_names_are_words_of_their_synsets(wordnet):
    lemmas = {}
    for line in (wordnet / "data.noun").read_text(encoding="utf-8").splitlines():
        if not line.startswith("  "):
            offset, _, _, count, *rest = line.split()
            lemmas[f"n{offset}"] = set(rest[: 2 * int(count, 16) : 2])
    named = [(kind.synset, name) for kind in KINDS for name in kind.names]
    for synset, name in [*named, *((synset, word) for word, synset in HYPERNYMS.items())]:
        assert name.replace(" ", "_") in lemmas[synset], (synset, name)


def test_hypernyms_are_ancestors(nouns):
    @cache
    def ancestors(synset):
        above = nouns[synset].hypernyms
        return frozenset(above).union(*(ancestors(s) for s in above))

    for kind in KINDS:
        for word in kind.hypernyms:
            assert HYPERNYMS[word] in ancestors(kind.synset), (kind.name, word)
        for word in kind.hypernyms[1:]:
            assert HYPERNYMS[kind.group] in ancestors(HYPERNYMS[word])
    assert set(GROUPS) < set(HYPERNYMS)


def test_the_stored_tree_is_rebuilt_from_wordnet(wordnet):
    edges = taxonomy.build(wordnet, [kind.synset for kind in KINDS])
    assert edges == tuple(sorted(taxonomy.load("miniature").edges))
