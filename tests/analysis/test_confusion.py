"""Errors over a small tree, counted by hand; sums that must hold on ImageNet's."""

import numpy as np
import pytest

from hierbench.analysis.confusion import confusions, over_tree
from hierbench.errors import MetricError
from hierbench.metrics.hierarchy import hierarchy_items
from hierbench.taxonomy import Taxonomy, imagenet1k

#       root
#      /    \
#     a      d
#    / \
#   b   c
#  / \
# p   q
TREE = Taxonomy(
    "small",
    ("p", "q", "c", "d"),
    (("root", "a"), ("root", "d"), ("a", "b"), ("a", "c"), ("b", "p"), ("b", "q")),
    names={"b": "big_cat"},
)
TRUE = [0, 0, 0, 0, 1, 2]  # p four times, q, c; no image of d
PREDICTED = [0, 1, 1, 3, 1, 0]  # p right, as q twice, as d; q right; c as p


def test_counts_by_hand():
    nodes = over_tree(PREDICTED, TRUE, TREE)
    assert [node.node for node in nodes] == ["root", "a", "b", "p", "q", "c"]
    table = {n.node: (n.parent, n.depth, n.images, n.correct, n.within, n.parting) for n in nodes}
    assert table == {
        "root": ("", 0, 6, 2, 6, 1),  # p as d
        "a": ("root", 1, 6, 2, 5, 1),  # c as p
        "b": ("a", 2, 5, 2, 4, 2),  # p as q, twice
        "p": ("b", 3, 4, 1, 1, 0),
        "q": ("b", 3, 1, 1, 1, 0),
        "c": ("a", 2, 1, 0, 0, 0),
    }
    big = nodes[2]
    assert (big.name, big.is_right, big.stays) == ("big cat", 0.4, 0.8)


def test_confusions_by_hand():
    found = [(c.true, c.predicted, c.images, c.share, c.common, c.edges)
             for c in confusions(PREDICTED, TRUE, TREE)]  # fmt: skip
    assert found == [
        ("p", "q", 2, 0.5, "b", 2),
        ("p", "d", 1, 0.25, "root", 4),  # of those that occur once, the farthest apart first
        ("c", "p", 1, 1.0, "a", 3),
    ]
    assert len(confusions(PREDICTED, TRUE, TREE, 1)) == 1


def test_a_class_below_another_class_shares_its_path():
    tree = Taxonomy("nested", ("dog", "poodle"), (("root", "dog"), ("dog", "poodle")))
    nodes = {node.node: node for node in over_tree([1, 0], [0, 1], tree)}
    assert (nodes["dog"].images, nodes["dog"].correct, nodes["dog"].within) == (2, 0, 2)
    assert (nodes["dog"].parting, nodes["poodle"].parting) == (2, 0)
    assert nodes["poodle"].within == 0


def test_sums_hold_on_imagenet():
    tree = imagenet1k()
    generator = np.random.default_rng(0)
    true = generator.integers(0, 1000, 3000)
    predicted = np.where(generator.random(3000) < 0.5, true, generator.integers(0, 1000, 3000))
    nodes = {node.node: node for node in over_tree(predicted, true, tree)}
    assert nodes[tree.root].images == nodes[tree.root].within == 3000
    assert nodes[tree.root].correct == (predicted == true).sum()
    assert sum(node.parting for node in nodes.values()) == (predicted != true).sum()
    edges = sum(pair.images * pair.edges for pair in confusions(predicted, true, tree))
    assert edges == hierarchy_items(predicted, true, tree)["tie"].sum()
    # the proper ancestors that prediction and truth share are those within which the prediction stays
    inner = [node for name, node in nodes.items() if name not in tree.leaves]
    assert (
        sum(node.within for node in inner)
        == hierarchy_items(predicted, true, tree)["recall"].dot(tree.depth[true]).round()
    )


def test_bad_input_is_one_line():
    with pytest.raises(MetricError, match="outside 0 … 3"):
        over_tree([4], [0], TREE)
    with pytest.raises(MetricError, match="expected 2 values, got 1"):
        confusions([0], [0, 1], TREE)
