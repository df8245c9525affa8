"""A user's tree in each of its forms is the same tree; every fault of a file is one line with its place."""

import pytest

from hierbench import taxonomy
from hierbench.errors import DataError, HierbenchError
from hierbench.taxonomy import Levels

EDGES = {("root", "animal"), ("root", "vehicle"), ("animal", "dog"), ("animal", "cat"), ("vehicle", "car")}
ORIGIN = "# source: my garden\n# licence: CC0\n"
PAIRS = f"{ORIGIN}-\troot\nroot\tanimal\nroot\tvehicle\nanimal\tdog\nanimal\tcat\nvehicle\tcar\n"
NESTED = f"{ORIGIN}root:\n  animal: [dog, cat]\n  vehicle: car\n"
RANKS = f"{ORIGIN}class\tkingdom\ndog\tanimal\ncat\tanimal\ncar\tvehicle\n"


def written(folder, name, text):
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize(("name", "text"), [("t.tsv", PAIRS), ("t.yaml", NESTED)])
def test_pairs_and_nested_are_one_tree(tmp_path, name, text):
    tree = taxonomy.load(written(tmp_path, name, text), ("dog", "cat", "car"))
    assert set(tree.edges) == EDGES
    assert (tree.source, tree.licence) == ("my garden", "CC0")
    assert tree.depth.tolist() == [2, 2, 2]


@pytest.mark.parametrize(("name", "text"), [("t.tsv", RANKS), ("t.csv", RANKS.replace("\t", ","))])
def test_ranks_name_the_levels(tmp_path, name, text):
    tree = taxonomy.load(written(tmp_path, name, text), ("cat", "dog", "car"))
    assert (tree.source, tree.ranks) == ("my garden", ("kingdom",))
    levels = Levels(tree)
    assert levels.keys == ("kingdom",)
    assert [levels.names[node] for node in levels.answers[0]] == ["animal", "animal", "vehicle"]
    assert tree.distance.tolist() == [[0, 2, 4], [2, 0, 4], [4, 4, 0]]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize(("name", "text"), [("t.tsv", PAIRS), ("t.tsv", RANKS), ("t.yaml", NESTED)])
def test_any_line_ends_and_a_byte_order_mark(tmp_path, name, text, end):
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", end).encode())
    tree = taxonomy.load(str(tmp_path / name), ("dog", "cat", "car"))
    assert tree.source == "my garden"
    assert tree.depth.tolist() == [2, 2, 2]


def test_an_empty_third_column_is_no_name(tmp_path):
    tree = taxonomy.load(written(tmp_path, "t.tsv", "root\tpets\t\npets\tn1\tdog\npets\tn2\t\n"))
    assert [tree.called(node) for node in ("pets", "n1", "n2")] == ["pets", "dog", "n2"]


def test_a_file_of_another_suffix_is_told_of():
    with pytest.raises(DataError, match=r"tree\.txt: the name of a tree's file ends in \.tsv, \.csv"):
        taxonomy.load("tree.txt")


def test_classes_that_a_tree_lacks_are_counted(tmp_path):
    path = written(tmp_path, "t.tsv", "root\tpets\npets\tdog\n")
    with pytest.raises(
        DataError, match=r"class ant is not a node below its root \(nor are 3 others\): add it"
    ):
        taxonomy.load(path, ("dog", "ant", "bee", "cow", "fly"))


def test_a_first_rank_with_one_value_is_the_root(tmp_path):
    text = "class,life,kind\ndog,living,animal\noak,living,plant\n"
    tree = taxonomy.load(written(tmp_path, "t.csv", text))
    assert tree.names[tree.root] == "living"
    assert tree.ranks == ("kind",)
    assert tree.depth.tolist() == [2, 2]


def test_the_nested_form_may_stand_in_the_manifest():
    tree = taxonomy.load({"root": {"animal": ["dog", "cat"], "vehicle": {"car": None}}}, ("car", "dog"))
    assert set(tree.edges) == EDGES
    assert tree.leaves == ("car", "dog")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("t.tsv", "a\tb\tc\td\n", "line 1: it must hold parent and child"),
        ("t.tsv", "a\tb\nb\n", "line 2: it must hold parent and child"),
        ("t.tsv", "a\tb\nb\ta\n", "is its own ancestor"),
        ("t.tsv", "a\tb\na\tc\nc\tc\n", "c is its own parent"),
        ("t.tsv", "a\ta\n", "a is its own parent"),
        ("t.tsv", "# a tree\n\n", "it holds no edges"),
        ("t.tsv", "Class\tKind\ncat\tpet\n", "line 1: after class it names each rank once, in small letters"),
        ("t.csv", "class,kind\n" + "x" * 140_000 + ",pet\n", "line 2: it is no line of a table"),
        ("t.tsv", "a\tb\nc\td\n", "2 roots (a, c) make no tree"),
        ("t.tsv", "a\tb\nc\tb\na\tc\n", "b has more than one parent (a, c)"),
        ("t.tsv", "", "it holds no edges"),
        ("t.tsv", "a\tb\n" * 100_001, "it has 100,001 lines; at most 100,000"),
        ("t.tsv", "".join(f"n{i}\tn{i + 1}\n" for i in range(99_000)), "levels below the root; at most 100"),
        ("t.csv", "a,b\n", "line 1: a table of ranks begins with class"),
        ("t.csv", "class\n", "line 1: after class it names each rank once"),
        ("t.csv", "class,a,a\nx,1,2\n", "line 1: after class it names each rank once"),
        ("t.csv", "class,A b\nx,1\n", "line 1: after class it names each rank once, in small letters"),
        ("t.csv", "class,a,b\nx,1\n", "line 2: it must hold a class and 2 ranks, none empty"),
        ("t.csv", "class,a,b\nx,1,\n", "line 2: it must hold a class and 2 ranks, none empty"),
        ("t.csv", "class,a\nx,1\nx,2\n", "line 3: class x stands twice"),
        ("t.csv", "class,a,b\nx,1,9\ny,2,9\n", "line 3: b 9 stands below 2 and below 1"),
        ("t.yaml", "a: [x]\nb: [y]\n", "2 roots (a, b) make no tree"),
        ("t.yaml", "", "no nodes make no tree"),
        ("t.yaml", "a: [x, 1]\n", "below a stands 1, which is no text"),
        ("t.yaml", "a: [x, '']\n", "below a stands a node without a name"),
        ("t.yaml", "a: {b: [x], c: [x]}\n", "x has more than one parent (b, c)"),
        ("t.yaml", "a: {b: [x, x]}\n", "x stands twice below b"),
        ("t.yaml", "a: {b: {a: [x]}}\n", "is its own ancestor"),
        ("t.yaml", "a: [x\n", "t.yaml"),
        ("t.yaml", "a:\n" + "".join(" " * i + f" n{i}:\n" for i in range(2_000)), "t.yaml"),
        ("t.yaml", "a: [" + "x, " * 300_000 + "]", "t.yaml"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_line(tmp_path, name, text, reason):
    path = written(tmp_path, name, text)
    with pytest.raises(HierbenchError) as told:
        taxonomy.load(path)
    assert reason in str(told.value)
    assert "\n" not in str(told.value)


def test_a_million_nodes_are_refused_in_each_form(tmp_path):
    pairs = "".join(f"root\tn{i}\n" for i in range(1_000_000))
    ranks = "class\tkind\n" + "".join(f"n{i}\tk\n" for i in range(1_000_000))
    for name, text in (("p.tsv", pairs), ("r.tsv", ranks)):
        with pytest.raises(DataError, match=r"at most 100,000 are read"):
            taxonomy.load(written(tmp_path, name, text))
    with pytest.raises(DataError, match=r"at most so many are read"):
        taxonomy.load({"root": [f"n{i}" for i in range(1_000_000)]})


def test_no_file_and_no_text(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        taxonomy.load(str(tmp_path / "none.tsv"))
    (tmp_path / "t.csv").write_bytes(b"class,a\nx,\xff\n")
    with pytest.raises(DataError, match="it is not UTF-8 text"):
        taxonomy.load(str(tmp_path / "t.csv"))
