"""Each stored tree: facts that its dataset's authors state, and those cut from WordNet rebuilt from it."""

import numpy as np
import pytest

from hierbench import taxonomy
from hierbench.data.manifests import all_manifests, load_manifest
from hierbench.taxonomy import Levels, Taxonomy, stored

TREES = sorted(stored._yaml("trees.yaml"))


@pytest.mark.parametrize("name", TREES)
def test_it_says_where_it_comes_from_and_serves_a_dataset(name):
    tree = taxonomy.load(name)
    assert tree.source
    assert tree.licence
    serves = [manifest for manifest in all_manifests().values() if manifest.taxonomy == name]
    assert serves
    for manifest in serves:
        assert manifest.tree().leaves == tree.leaves
        assert set(tree.leaves) | set(manifest.outside) == set(manifest.class_ids)
        assert Levels(tree).depths
        assert Levels(tree).unnamed == ()


@pytest.mark.parametrize("name", sorted(stored.wordnet_facts()["synsets"]))
@pytest.mark.wordnet
def test_trees_of_own_classes_are_rebuilt_from_wordnet(name):
    wordnet = taxonomy.find_wordnet()
    if wordnet is None:
        pytest.skip("no WordNet 3.0 files on this machine (apt install wordnet-base)")
    classes = stored.wordnet_facts()["synsets"][name]
    names = {synset: noun.word for synset, noun in taxonomy.read_nouns(wordnet).items()} | {
        c: c for c in classes
    }
    rebuilt = Taxonomy("rebuilt", tuple(classes), taxonomy.build(wordnet, classes), names)
    assert taxonomy.to_tsv(rebuilt) == (stored._folder() / f"{name}.tsv").read_text(encoding="utf-8")


def sizes(name):
    return [len(set(answer)) for answer in Levels(taxonomy.load(name)).answers.tolist()]


def test_numbers_that_the_datasets_state():
    """20 superclasses of 5 (Krizhevsky 2009); 30 manufacturers and 70 families (Maji et al. 2013); 3 and 16 groups of
    scenes (Xiao et al. 2010); 13 orders and 37 families of birds, all 200 species (the release's own file)."""
    assert sizes("cifar100") == [20]
    assert set(np.bincount(Levels(taxonomy.load("cifar100")).answers[0])[100:]) == {5}
    assert sizes("aircraft") == [30, 70]
    assert sizes("sun397") == [3, 16]
    assert sizes("cub2011")[:2] == [13, 37]
    assert len(taxonomy.load("cub2011").leaves) == 200
    assert len(taxonomy.load("food101").leaves) == 84
    assert Levels(taxonomy.load("cub2011")).keys == ("order", "family", "genus")


@pytest.mark.parametrize(
    ("name", "class_id", "path"),
    [
        ("aircraft", "737-800", ["Boeing 737", "Boeing"]),
        ("aircraft", "Model B200", ["King Air", "Beechcraft"]),
        ("cub2011", "002.Laysan_Albatross", ["Phoebastria", "Diomedeidae", "Procellariiformes"]),
        ("cub2011", "141.Artic_Tern", ["Sterna", "Laridae", "Charadriiformes"]),
        ("sun397", "a/abbey", ["cultural or historical building/place", "outdoor man-made"]),
        ("sun397", "k/kitchen", ["home or hotel", "indoor"]),
        ("food101", "sushi", ["seafood", "meat food", "main course food"]),
        ("cifar100", "maple_tree", ["trees"]),
        ("caltech101", "cougar_face", ["cougar", "wildcat", "feline"]),
        ("pets", "wheaten_terrier", ["terrier", "hunting dog", "dog"]),
        ("pets", "Sphynx", ["domestic cat"]),
        ("miniature-words", "n02084071", ["mammal", "animal"]),
    ],
)  # fmt: skip
def test_paths_by_name(name, class_id, path):
    levels = Levels(taxonomy.load(name))
    called = dict(zip(levels.nodes, levels.names, strict=True))
    assert [called.get(node) for node in levels.tree.ancestors(class_id)][: len(path)] == path


def test_caltech_and_food_leave_classes_out():
    assert load_manifest("caltech101").outside == ("BACKGROUND_Google", "garfield", "snoopy", "yin_yang")
    assert len(load_manifest("food101").outside) == 17
