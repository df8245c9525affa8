"""The ImageNet tree is the released one, its matrices agree with plain sets, building cuts any tree right."""

import zipfile

import numpy as np
import pytest

from hierbench import taxonomy
from hierbench.data.manifests import load_manifest
from hierbench.errors import DataError, UnknownNameError
from hierbench.taxonomy import Taxonomy, stored

RELEASED = "eafbea43fd75cd838d5e087c50723775a5921094b7363ceba4e316057b959ac9"


@pytest.fixture(scope="module")
def imagenet():
    return taxonomy.imagenet1k()


@pytest.fixture(scope="module")
def wordnet():
    folder = taxonomy.find_wordnet()
    if folder is None:
        pytest.skip("no WordNet 3.0 files on this machine (apt install wordnet-base)")
    return folder


# the tree of the hand-worked cases:        root
#                                          /    \
#                                      animal   vehicle
#                                      /    \       \
#                                   dog      cat     car
#                                  /
#                              poodle
EDGES = (
    ("root", "animal"), ("root", "vehicle"), ("animal", "dog"), ("animal", "cat"), ("vehicle", "car"),
    ("dog", "poodle"),
)  # fmt: skip


# ------------------------------------------------------------------------------------------- the stored trees


def test_imagenet_tree_is_the_released_one(imagenet):
    assert taxonomy.edge_hash(imagenet.edges) == RELEASED
    assert len(imagenet.nodes) == 1372
    assert imagenet.root == "n00001930"
    assert imagenet.names[imagenet.root] == "physical_entity"
    assert imagenet.leaves == load_manifest("imagenet").class_ids


@pytest.mark.parametrize("dataset", ["imagenet", "miniature-things"])
def test_leaves_stand_in_the_label_order_of_the_manifest(dataset):
    manifest = load_manifest(dataset)
    assert taxonomy.load(manifest.taxonomy).leaves == manifest.class_ids


def test_names(imagenet):
    assert imagenet.names["n02084071"] == "dog"
    assert set(imagenet.names) == set(imagenet.nodes)


def test_golden_hierarchy_figures_from_plain_sets(imagenet, recipe, golden):
    predicted, true = recipe.hierarchy_case(7)
    above = [set(imagenet.ancestors(leaf)) for leaf in imagenet.leaves]
    rows = []
    for p, t in zip(predicted.tolist(), true.tolist(), strict=True):
        common, whole = above[p] & above[t], above[p] | above[t]
        tie = 0 if p == t else len(above[p]) + len(above[t]) - 2 * len(common) + 2  # both are leaves
        rows.append(
            [tie, len(above[p]) - len(common) + 1, len(common) / len(whole), len(common) / len(above[p]),
             len(common) / len(above[t])]
        )  # fmt: skip
    figures = dict(zip(["tie", "lca", "jaccard", "precision", "recall"], np.mean(rows, 0), strict=True))
    assert figures == pytest.approx(golden("eval_7")["hierarchy"], abs=1e-6)


def test_matrices_agree_with_plain_sets(imagenet):
    above = [(leaf, *imagenet.ancestors(leaf)) for leaf in imagenet.leaves]
    pairs = np.random.default_rng(0).integers(0, 1000, (2000, 2)).tolist()
    for a, b in [*pairs, (5, 5)]:
        up, down = above[a], set(above[b])
        meeting = next(node for node in up if node in down)
        assert imagenet.distance[a, b] == up.index(meeting) + above[b].index(meeting)
        assert imagenet.overlap[a, b] == len(set(up[1:]) & set(above[b][1:]))
        assert imagenet.depth[a] == len(up) - 1
    assert (imagenet.distance == imagenet.distance.T).all()
    assert (np.diag(imagenet.overlap) == imagenet.depth).all()


def test_a_subset_of_the_classes_keeps_the_whole_tree(imagenet):
    chosen = (imagenet.leaves[7], imagenet.leaves[3])
    small = taxonomy.load("imagenet1k", chosen)
    assert small.distance.tolist() == imagenet.distance[np.ix_([7, 3], [7, 3])].tolist()
    with pytest.raises(DataError, match="class n99999999 is not a node"):
        taxonomy.load("imagenet1k", ("n99999999",))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace("n02084071\tn02085374", "n02083346\tn02085374"), "another hash"),
        (lambda text: text.replace("\tdog\n", "\n"), "three columns"),
        (lambda text: "\n".join(text.splitlines()[:-1]) + "\n", "another hash"),
    ],
)
def test_an_altered_file_is_refused(tmp_path, monkeypatch, change, reason):
    source = stored._folder()
    text = (source / "imagenet1k.tsv").read_text()
    assert change(text) != text
    (tmp_path / "imagenet1k.tsv").write_text(change(text))
    (tmp_path / "trees.yaml").write_text((source / "trees.yaml").read_text())
    monkeypatch.setattr(stored, "_folder", lambda: tmp_path)
    stored._stored.cache_clear()
    with pytest.raises(DataError, match=reason):
        taxonomy.load("imagenet1k")


def test_unknown_tree():
    with pytest.raises(UnknownNameError, match="imagenet1k"):
        taxonomy.load("imagenet21k")


# -------------------------------------------------------------------------------------- a tree worked by hand


def test_hand_worked_tree_with_a_class_above_another():
    tree = Taxonomy("hand", ("cat", "car", "dog", "poodle"), EDGES)
    assert tree.root == "root"
    assert tree.nodes == ("animal", "car", "cat", "dog", "poodle", "root", "vehicle")
    assert tree.ancestors("poodle") == ("dog", "animal", "root")
    assert tree.depth.tolist() == [2, 2, 2, 3]
    assert tree.distance.tolist() == [[0, 4, 2, 3], [4, 0, 4, 5], [2, 4, 0, 1], [3, 5, 1, 0]]
    assert tree.overlap.tolist() == [[2, 1, 2, 2], [1, 2, 1, 1], [2, 1, 2, 2], [2, 1, 2, 3]]


@pytest.mark.parametrize(
    ("classes", "edges", "reason"),
    [
        (
            ("cat",),
            (*EDGES, ("vehicle", "cat")),
            "cat has more than one parent .animal, vehicle., which makes no tree",
        ),
        (("cat",), (*EDGES, ("animal", "cat")), "cat stands twice below animal"),
        (("cat",), (*EDGES, ("other", "thing")), "2 roots"),
        (("cat", "car", "cat"), EDGES, "class cat is given twice"),
        (("n1",), tuple((f"n{i}", f"n{i + 1}") for i in range(101)), "n101 lies 101 levels below the root"),
        (("n1",), tuple((f"n{i + 1}", f"n{i}") for i in range(50_000)), "50,000 levels below"),
        (("n1",), (*((f"n{i}", f"n{i + 1}") for i in range(50_000)), ("n50000", "n0")), "its own ancestor"),
        (("n1",), tuple(("n0", f"n{i + 1}") for i in range(1_000_000)), "1,000,001 nodes; at most 100,000"),
        (("cat",), (*EDGES, ("a", "b"), ("b", "a")), "its own ancestor"),
        (("root",), EDGES, "class root is not a node below"),
        (("bird",), EDGES, "class bird is not a node below"),
        ((), (), "it holds no edges"),
    ],
)
def test_what_is_no_tree_is_refused(classes, edges, reason):
    with pytest.raises(DataError, match=reason):
        Taxonomy("hand", classes, edges)


# --------------------------------------------------------------------------------------------------- building


NOUNS = {  # id -> (word, pointers); `~` and `#p` are to be passed over
    "00000001": ("entity", []),
    "00000002": ("thing", [("@", 1)]),
    "00000003": ("animal", [("@", 2), ("~", 4)]),
    "00000004": ("dog", [("#p", 9), ("@", 3), ("@", 5)]),
    "00000005": ("pet", [("@", 3)]),
    "00000006": ("poodle", [("@", 4)]),
    "00000007": ("cat", [("@", 3), ("@", 5)]),
    "00000008": ("Rex", [("@i", 6)]),
    "00000009": ("pack", [("@", 2)]),
    "00000010": ("wolf", [("@", 11), ("@", 5)]),
    "00000011": ("wild_one", [("@", 3)]),
}


def noun_line(offset, word, pointers):
    told = " ".join(f"{kind} {target:08d} n 0000" for kind, target in pointers)
    words = f"02 {word} 0 an_alias 1"
    return f"{offset} 03 n {words} {len(pointers):03d} {told} | a gloss; with | bars and @ signs"


@pytest.fixture
def small_wordnet(tmp_path):
    head = "  1 This software\n  14 WordNet 3.0 Copyright 2006 by Princeton University.\n"
    lines = [noun_line(offset, word, pointers) for offset, (word, pointers) in NOUNS.items()]
    (tmp_path / "data.noun").write_text(head + "\n".join(lines) + "\n")
    return tmp_path


def edges(*pairs):
    return tuple(sorted((f"n{a:08d}", f"n{b:08d}") for a, b in pairs))


def test_nouns_keep_the_order_of_their_pointers(small_wordnet):
    nouns = taxonomy.read_nouns(small_wordnet)
    assert len(nouns) == len(NOUNS)
    assert nouns["n00000004"] == ("dog", ("n00000003", "n00000005"))
    assert nouns["n00000008"].hypernyms == ("n00000006",)
    assert nouns["n00000001"].hypernyms == ()


def test_the_longest_path_is_taken_and_single_children_are_merged(small_wordnet):
    ids = ["n00000008", "n00000007", "n00000009"]  # Rex, cat, pack; both animals through pet, the longer way
    assert taxonomy.build(small_wordnet, ids, {}) == edges((2, 5), (2, 9), (5, 7), (5, 8))


def test_the_first_of_equally_long_paths_is_taken(small_wordnet):
    # the wolf is as deep through wild_one (its first pointer) as through pet: it does not meet the cat in pet
    ids = ["n00000007", "n00000010", "n00000009"]
    assert taxonomy.build(small_wordnet, ids, {}) == edges((2, 3), (2, 9), (3, 7), (3, 10))


def test_corrections_replace_all_hypernyms(small_wordnet):
    ids = ["n00000007", "n00000004", "n00000009"]
    assert taxonomy.build(small_wordnet, ids, {"n00000007": "n00000009"}) == edges((2, 4), (2, 9), (9, 7))


def test_a_class_above_another_stays_and_has_an_ancestor(small_wordnet):
    assert taxonomy.build(small_wordnet, ["n00000004", "n00000008"], {}) == edges((5, 4), (4, 8))
    assert taxonomy.build(small_wordnet, ["n00000008"], {}) == edges((6, 8))


@pytest.mark.parametrize(
    ("ids", "corrections", "reason"),
    [
        (["n00000099"], {}, "'n00000099' is no noun synset"),
        (["dog"], {}, "'dog' is no noun synset"),
        (["n00000004"], {"n00000005": "n00000099"}, "'n00000099' is no noun synset"),
        (["n00000004", "n00000004"], {}, "given twice"),
        (["n00000004"], {"n00000003": "n00000004"}, "its own hypernym"),
        (["n00000001", "n00000004"], {}, "n00000001 cannot be a class"),
        ([], {}, "needs classes"),
    ],
)
def test_bad_classes_and_corrections(small_wordnet, ids, corrections, reason):
    with pytest.raises(DataError, match=reason):
        taxonomy.build(small_wordnet, ids, corrections)


def test_no_wordnet_and_another_version(tmp_path):
    with pytest.raises(DataError, match="no WordNet at"):
        taxonomy.read_nouns(tmp_path)
    (tmp_path / "data.noun").write_text("  14 WordNet 3.1 Copyright 2011 by Princeton University.\n")
    with pytest.raises(DataError, match=r"is not WordNet 3\.0"):
        taxonomy.read_nouns(tmp_path)


def test_finding_wordnet_takes_folder_and_zip_of_version_3_0_only(
    small_wordnet, tmp_path_factory, monkeypatch
):
    monkeypatch.setenv("WNSEARCHDIR", str(small_wordnet))
    assert taxonomy.find_wordnet() == small_wordnet
    other = tmp_path_factory.mktemp("other")
    (other / "data.noun").write_text("  14 WordNet 3.1 Copyright 2011\n")
    monkeypatch.setenv("WNSEARCHDIR", str(other))
    assert taxonomy.find_wordnet() != other

    nltk_data = tmp_path_factory.mktemp("nltk_data")
    (nltk_data / "corpora").mkdir()
    archive = nltk_data / "corpora" / "wordnet.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(small_wordnet / "data.noun", "wordnet/data.noun")
    assert taxonomy.read_nouns(archive) == taxonomy.read_nouns(small_wordnet)


def test_classes_by_their_own_ids_hang_below_their_synsets(small_wordnet):
    """Two classes share a synset, one's synset lies above another's, one is alone on its own."""
    classes = {
        "rex": "n00000008",
        "poodle face": "n00000006",
        "poodle body": "n00000006",
        "pack": "n00000009",
    }
    assert taxonomy.build(small_wordnet, classes, {}) == tuple(
        sorted([("n00000002", "n00000006"), ("n00000002", "pack"), ("n00000006", "poodle body"),
                ("n00000006", "poodle face"), ("n00000006", "rex")])
    )  # fmt: skip


# --------------------------------------------------------------------------------------------- the real thing


@pytest.mark.wordnet
@pytest.mark.parametrize("dataset", ["imagenet", "miniature-things"])
def test_stored_trees_are_rebuilt_from_wordnet(wordnet, dataset):
    manifest = load_manifest(dataset)
    text = (stored._folder() / f"{manifest.taxonomy}.tsv").read_text(encoding="utf-8")
    edges = taxonomy.build(wordnet, manifest.class_ids)
    names = {synset: noun.word for synset, noun in taxonomy.read_nouns(wordnet).items()}
    assert taxonomy.to_tsv(Taxonomy("rebuilt", manifest.class_ids, edges, names)) == text


@pytest.mark.wordnet
def test_without_the_corrections_it_is_another_tree(wordnet):
    edges = taxonomy.build(wordnet, load_manifest("imagenet").class_ids, {})
    assert taxonomy.edge_hash(edges) != RELEASED
