"""Errors over a class tree as they are shown: against networkx on drawn trees, and by hand; the files twice."""

import csv
import json
from types import SimpleNamespace
from xml.etree import ElementTree

import networkx
import numpy as np
import pytest

from hierbench.analysis import reports, tree_errors
from hierbench.contracts import Scores
from hierbench.taxonomy import Taxonomy, imagenet1k

SMALL = Taxonomy(
    "small",
    ("p", "q", "c", "d"),
    (("root", "a"), ("root", "d"), ("a", "b"), ("a", "c"), ("b", "p"), ("b", "q")),
    names={"b": "big_cat"},
)
TASK = SimpleNamespace(spec=SimpleNamespace(name="hierarchy/small", headline="tie"))


def scored(true, predicted, degenerate=None):
    items = {"images": {"label": np.array(true), "predicted": np.array(predicted)}}
    return Scores({}, len(true), items, degenerate=degenerate or {})


def drawn(seed, nodes=40):
    """A tree whose every node but the root hangs on an earlier one, and its leaves; answers, half of them right."""
    draw = np.random.default_rng(seed)
    edges = tuple((f"n{draw.integers(0, node)}", f"n{node}") for node in range(1, nodes))
    inner = {parent for parent, _ in edges}
    leaves = tuple(f"n{node}" for node in range(nodes) if f"n{node}" not in inner)
    true = draw.integers(0, len(leaves), 300)
    predicted = np.where(draw.random(300) < 0.5, true, draw.integers(0, len(leaves), 300))
    return Taxonomy("drawn", leaves, edges), networkx.DiGraph(edges), true, predicted


@pytest.mark.parametrize("seed", range(3))
def test_distances_parting_and_branches_are_networkxs(seed):
    tree, graph, true, predicted = drawn(seed)
    found = tree_errors.tree_errors(TASK, scored(true, predicted), tree, 9)
    undirected = graph.to_undirected()
    apart = [
        networkx.shortest_path_length(undirected, tree.leaves[a], tree.leaves[b])
        for a, b in zip(true, predicted, strict=True)
    ]
    assert found.edges == {edges: apart.count(edges) for edges in sorted(set(apart))}
    row = tree_errors.row("m", found, 100)
    assert row["edges"] == pytest.approx(np.mean(apart))
    assert row["edges_of_errors"] == pytest.approx(np.mean([edges for edges in apart if edges]))
    common = [
        networkx.lowest_common_ancestor(graph, tree.leaves[a], tree.leaves[b])
        for a, b in zip(true, predicted, strict=True)
        if a != b
    ]
    assert {one["node"]: one["images"] for one in row["parting"]} == {n: common.count(n) for n in common}
    below = [set(networkx.descendants(graph, part.path[-1])) | {part.path[-1]} for part in found.branches]
    assert len(below) <= 9
    for part, nodes in zip(found.branches, below, strict=True):
        assert {tree.leaves[place] for place in part.classes} == nodes & set(tree.leaves)
        assert networkx.shortest_path(graph, "n0", part.path[-1]) == list(part.path)
    for i, one in enumerate(below):
        for j, other in enumerate(below):
            counted = sum(
                tree.leaves[a] in one and tree.leaves[b] in other
                for a, b in zip(true, predicted, strict=True)
            )
            assert found.matrix[i, j] == counted
    assert found.matrix.sum() == 300


def test_branches_by_hand():
    def names(tree, most):
        return [(part.name, part.classes) for part in tree_errors.branches(tree, most)]

    assert names(SMALL, 1) == [("root", (0, 1, 2, 3))]
    assert names(SMALL, 2) == [("a", (0, 1, 2)), ("d", (3,))]
    assert names(SMALL, 3) == [("big cat", (0, 1)), ("c", (2,)), ("d", (3,))]
    assert names(SMALL, 99) == [("p", (0,)), ("q", (1,)), ("c", (2,)), ("d", (3,))]
    nested = Taxonomy("nested", ("dog", "poodle"), (("root", "dog"), ("dog", "poodle")))
    assert names(nested, 9) == [("dog", (0,)), ("poodle", (1,))]


def test_imagenet_fits_a_picture():
    parts = tree_errors.branches(imagenet1k())
    assert 12 < len(parts) <= tree_errors.BRANCHES
    assert sorted(place for part in parts for place in part.classes) == list(range(1000))


def test_rows_by_hand():
    found = tree_errors.tree_errors(TASK, scored([0, 0, 0, 0, 1, 2], [0, 1, 1, 3, 1, 0]), SMALL)
    row = tree_errors.row("m", found, 1)
    assert (row["images"], row["right"]) == (6, pytest.approx(100 / 3))
    assert row["edges"] == pytest.approx((2 + 2 + 4 + 3) / 6)
    assert row["parting"] == [{"node": "b", "name": "big cat", "images": 2, "share": 50.0}]
    assert row["confusions"] == [
        {
            "true": "p", "predicted": "q", "images": 2, "share": 0.5, "common": "b", "edges": 2, "true_name": "p",
            "predicted_name": "q", "common_name": "big cat",
        }
    ]  # fmt: skip
    np.testing.assert_array_equal(found.shares[2], [1, 0, 0, 0])
    assert np.isnan(found.shares[3]).all()  # no image of d
    none = tree_errors.row("m", tree_errors.tree_errors(TASK, scored([0, 1], [0, 1]), SMALL))
    assert (none["edges_of_errors"], none["parting"], none["confusions"]) == (None, [], [])


@pytest.mark.parametrize("form", ["png", "pdf", "svg"])
def test_the_files_are_the_same_twice_and_say_what_is_degenerate(tmp_path, form):
    same = scored([0, 1, 2, 3], [2, 2, 2, 2], {"tie": "every image is given the same class"})
    made = {"one": (TASK, scored([0, 1, 2], [0, 1, 1])), "two" * 40: (TASK, same)}
    for folder in ("a", "b"):
        rows = reports.confusions(made, SMALL, tmp_path / folder, "title", 2, form)
    for name in (f"confusion.{form}", "confusion.json", "confusion.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert [row["degenerate"] for row in rows] == [None, "every image is given the same class"]
    models = json.loads((tmp_path / "a" / "confusion.json").read_text())["models"]
    assert [len(one["confusions"]) for one in models] == [1, 3]
    assert models[1]["distances"] == [{"edges": e, "images": n} for e, n in ((0, 1), (3, 3))]
    with open(tmp_path / "a" / "confusion.csv", encoding="utf-8", newline="") as file:
        table = [row for row in csv.DictReader(file) if row["model"] == "one" and row["node"] == "a"]
    assert (table[0]["images"], table[0]["correct"], table[0]["within"], table[0]["parting"]) == (
        "3",
        "2",
        "3",
        "1",
    )
    if form == "svg":
        root = ElementTree.fromstring((tmp_path / "a" / "confusion.svg").read_text(encoding="utf-8"))
        words = " ".join(element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text"))
        assert words.count("every image is given") == 1
        assert "33.3 % right" not in words
        assert "66.7 % right" in words
