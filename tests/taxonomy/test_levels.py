"""The questions of a tree, by hand on a small one and by networkx on random ones."""

import networkx as nx
import numpy as np
import pytest
from random_trees import HAND, path, random_tree

from hierbench import taxonomy
from hierbench.taxonomy import Levels, Taxonomy


def named(levels, positions):
    return [levels.nodes[position] for position in positions]


def test_questions_of_the_hand_worked_tree():
    levels = Levels(HAND)
    assert levels.nodes == ("dog", "cat", "moss", "car", "animal", "living", "thing")
    assert levels.names[4] == "an animal"
    assert levels.depths == (1, 2)
    assert levels.keys == ("1", "2")
    assert named(levels, levels.answers[0]) == ["living", "living", "living", "thing"]
    assert named(levels, levels.answers[1]) == ["animal", "animal", "moss", "car"]
    assert levels.asked.tolist() == [[True] * 4, [True] * 4]
    assert levels.on_path.tolist() == [[True] * 4, [True, True, False, False]]


def test_depths_with_a_single_name_are_no_questions():
    chain = Taxonomy("chain", ("a", "b"), (("r", "s"), ("s", "t"), ("t", "u"), ("u", "a"), ("t", "b")))
    levels = Levels(chain)
    assert levels.depths == (3,)  # s and t are the only names of their depths; at 3 stand u and b
    assert named(levels, levels.answers[0]) == ["u", "b"]
    assert Levels(Taxonomy("flat", ("a", "b"), (("r", "a"), ("r", "b")))).depths == ()
    assert Levels(Taxonomy("flat", ("a", "b"), (("r", "a"), ("r", "b")))).answers.shape == (0, 2)


def test_unnamed_nodes_are_those_called_by_an_id():
    names = {"n00000001": "n00000001", "17": "17", "n00000002": "dog"}
    edges = [
        ("r", "n00000001"),
        ("r", "17"),
        ("r", "n00000002"),
        ("n00000001", "x"),
        ("17", "y"),
        ("n00000002", "z"),
    ]
    assert Levels(Taxonomy("t", ("x", "y", "z"), tuple(edges), names)).unnamed == ("17", "n00000001")


@pytest.mark.parametrize("seed", range(60))
def test_answers_are_the_frontier_of_each_depth(seed):
    graph, tree = random_tree(seed)
    levels = Levels(tree)
    for row, depth in enumerate(levels.depths):
        expected = [path(graph, leaf)[:depth][-1] for leaf in tree.leaves]
        assert named(levels, levels.answers[row]) == expected
        assert levels.asked[row].tolist() == [len(path(graph, leaf)) >= depth for leaf in tree.leaves]
        assert levels.on_path[row].tolist() == [len(path(graph, leaf)) > depth for leaf in tree.leaves]
    shortest = {node: len(path(graph, node)) for node in graph if node != "n0"}
    for depth in set(range(1, max(shortest[leaf] for leaf in tree.leaves))) - set(levels.depths):
        assert len({path(graph, leaf)[:depth][-1] for leaf in tree.leaves}) == 1


@pytest.mark.parametrize("seed", range(30))
def test_each_cut_is_a_complete_label_set(seed):
    """Every class has one answer, itself or an ancestor below the root, and no inner answer lies below another."""
    graph, tree = random_tree(seed)
    levels = Levels(tree)
    for cut in levels.cuts():
        for leaf, answer in zip(tree.leaves, named(levels, cut), strict=True):
            assert answer in path(graph, leaf)
        answers = set(named(levels, cut)) - set(tree.leaves)
        assert not any(one in nx.ancestors(graph, other) for one in answers for other in answers)
        for leaf, answer in zip(tree.leaves, named(levels, cut), strict=True):
            assert not answers & set(path(graph, leaf)) - {answer}


def test_cuts_are_seeded_and_differ():
    cuts = Levels(taxonomy.load("cub2011")).cuts()
    assert cuts.shape == (25, 200)
    assert len({cut.tobytes() for cut in cuts}) == 25
    assert (cuts == Levels(taxonomy.load("cub2011")).cuts()).all()
    sizes = [len(np.unique(cut)) for cut in cuts]
    assert np.mean(sizes[:5]) > np.mean(
        sizes[-5:]
    )  # a rate of 0.1 stops seldom, one of 0.9 mostly at the top


def test_imagenet_is_asked_at_its_depths():
    levels = Levels(taxonomy.imagenet1k())
    assert levels.depths[-1] == 14
    assert len(levels.nodes) == 1371
    assert len(np.unique(levels.answers[-1])) > 990
