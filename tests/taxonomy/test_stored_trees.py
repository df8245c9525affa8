"""Each stored tree: facts that its dataset's authors state, and those cut from WordNet rebuilt from it."""

from collections import Counter

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


AIRCRAFT = {
    "Airbus": (6, 867), "Antonov": (1, 67), "ATR": (2, 133), "Beechcraft": (2, 134), "Boeing": (8, 1466),
    "Bombardier Aerospace": (1, 67), "British Aerospace": (3, 267), "Canadair": (3, 267), "Cessna": (3, 266),
    "Cirrus Aircraft": (1, 66), "Dassault Aviation": (2, 133), "de Havilland": (4, 334), "Dornier": (1, 67),
    "Douglas Aircraft Company": (4, 267), "Embraer": (4, 467), "Eurofighter": (1, 66), "Fairchild": (1, 66),
    "Fokker": (3, 200), "Gulfstream Aerospace": (1, 133), "Ilyushin": (1, 66), "Lockheed Corporation": (2, 134),
    "Lockheed Martin": (1, 67), "McDonnell Douglas": (6, 467), "Panavia": (1, 67), "Piper": (1, 67), "Robin": (1, 66),
    "Saab": (2, 134), "Supermarine": (1, 66), "Tupolev": (2, 133), "Yakovlev": (1, 67),
}  # fmt: skip
"""Manufacturer -> (families, images of images_manufacturer_trainval.txt), as public readers of the files count them."""

VARIANTS = {"A320": 4, "A330": 2, "A340": 4, "BAE 146": 2, "Boeing 737": 8, "Boeing 747": 4, "Boeing 757": 2,
            "Boeing 767": 3, "Boeing 777": 2, "CRJ-700": 2, "Cessna Citation": 2, "Dash 8": 2, "Embraer E-Jet": 3,
            "Embraer ERJ 145": 2, "Gulfstream": 2, "MD-80": 2}  # fmt: skip
"""Families of more than one variant, by the same readers."""


def test_aircraft_is_the_tree_of_its_own_files():
    manifest, tree = load_manifest("aircraft"), taxonomy.load("aircraft")
    families, variants, images = Counter(), Counter(), Counter()
    parents = {child: parent for parent, child in tree.edges}
    for variant in tree.leaves:
        family = parents[variant]
        variants[family.removeprefix("family:")] += 1
        images[parents[family].removeprefix("manufacturer:")] += 100 - manifest.counts.per_class[variant]
    for family in variants:
        families[parents[f"family:{family}"].removeprefix("manufacturer:")] += 1
    assert {name: (families[name], images[name]) for name in families} == AIRCRAFT
    assert {name: count for name, count in variants.items() if count > 1} == VARIANTS
    assert (len(tree.leaves), len(variants), len(families)) == (100, 70, 30)


CIFAR100 = """
beaver dolphin otter seal whale / aquarium_fish flatfish ray shark trout / orchid poppy rose sunflower tulip
bottle bowl can cup plate / apple mushroom orange pear sweet_pepper / clock keyboard lamp telephone television
bed chair couch table wardrobe / bee beetle butterfly caterpillar cockroach / bear leopard lion tiger wolf
bridge castle house road skyscraper / cloud forest mountain plain sea / camel cattle chimpanzee elephant kangaroo
fox porcupine possum raccoon skunk / crab lobster snail spider worm / baby boy girl man woman
crocodile dinosaur lizard snake turtle / hamster mouse rabbit shrew squirrel
maple_tree oak_tree palm_tree pine_tree willow_tree / bicycle bus motorcycle pickup_truck train
lawn_mower rocket streetcar tank tractor
"""
"""The table on Krizhevsky's page of the dataset."""


def children(name, called):
    """The classes below the node of that name."""
    tree = taxonomy.load(name)
    return {
        leaf
        for leaf in tree.leaves
        if called in {tree.names.get(node, node) for node in tree.ancestors(leaf)}
    }


def test_groups_that_the_datasets_state():
    """CIFAR-100's 20 x 5; 12 breeds of cats and 25 of dogs (Parkhi et al. 2012); STL-10 and CIFAR-10: 6 animals, 4
    vehicles."""
    groups = {frozenset(group.split()) for group in CIFAR100.replace("\n", " / ").split("/") if group.strip()}
    tree = taxonomy.load("cifar100")
    found = {frozenset(leaf for leaf in tree.leaves if (node, leaf) in tree.edges) for node, _ in tree.edges}
    assert found - {frozenset()} == groups
    assert len(children("pets", "domestic_cat")) == 12
    assert len(children("pets", "dog")) == 25
    for name in ("cifar10", "stl10"):
        assert (len(children(name, "vertebrate")), len(children(name, "vehicle"))) == (6, 4)
    assert len(taxonomy.load("caltech101").leaves) == 98


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
