"""Figures at every level: by hand on a small tree, by brute force over networkx paths on random ones."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from random_trees import HAND, path, random_tree

from hierbench.errors import MetricError
from hierbench.geometry import Lorentz, Sphere
from hierbench.metrics import bootstrap
from hierbench.metrics.classification import nearest
from hierbench.metrics.levels import ask, level_items, level_statistic
from hierbench.taxonomy import Levels

LEVELS = Levels(HAND)  # depth 1: living, thing; depth 2: animal, moss, car
AT = {node: position for position, node in enumerate(LEVELS.nodes)}


def items(label, leaf, *answers):
    numbers = [[AT[node] for node in row] for row in answers]
    return level_items(LEVELS, [AT[node] for node in label], [AT[node] for node in leaf], numbers)


def test_by_hand():
    table = items(
        ["dog",    "dog",    "dog",    "car",    "moss"],
        ["dog",    "cat",    "dog",    "car",    "dog"],
        ["living", "living", "thing",  "thing",  "living"],
        ["animal", "animal", "animal", "moss",   "moss"],
    )  # fmt: skip
    # a dog's path: living, animal, dog; a car's: thing, car; moss': living, moss
    assert table["leaf"].tolist() == [1, 0, 1, 1, 0]
    assert table["hca"].tolist() == [1, 0, 0, 1, 0]
    assert table["por"].tolist() == pytest.approx([1, 2 / 3, 2 / 3, 1, 1 / 2])
    assert table["strict_por"].tolist() == pytest.approx([1, 2 / 3, 0, 1, 1 / 2])
    assert table["tor"].tolist() == pytest.approx([1, 1 / 2, 1 / 2, 1, 0])
    # thing above animal, moss below living and car below thing, dog below moss
    assert table["consistent"].tolist() == [1, 1, 0, 0, 0]
    assert table["right_1"].tolist() == [1, 1, 0, 1, 1]
    assert table["right_2"].tolist() == [1, 1, 1, 0, 1]
    assert table["leaf_right_1"].tolist() == [1, 1, 1, 1, 1]
    assert table["leaf_right_2"].tolist() == [1, 1, 1, 1, 0]
    figures = bootstrap.value(level_statistic(LEVELS.keys, table | {"mta": np.ones(5)}), 5)
    assert figures["accuracy_1"] == pytest.approx(80)
    assert figures["gain_1"] == pytest.approx(80 - 100)
    assert figures["gain_2"] == pytest.approx(80 - 80)
    assert figures["gain"] == pytest.approx(-10)
    assert figures["tor"] == pytest.approx(60)
    assert figures["consistency"] == pytest.approx(40)
    assert figures["hca"] == pytest.approx(40)


def brute(graph, tree, levels, label, leaf, answer):
    """One image, from paths alone; `answer` depth -> node."""
    truth = path(graph, label)
    inner = [d for d in levels.depths if d < len(truth)]
    right = [answer[d] == truth[d - 1] for d in inner] + [leaf == label]
    beginning = 0
    while beginning < len(right) and right[beginning]:
        beginning += 1
    chain = [answer[d] for d in levels.depths] + [leaf]
    consistent = all(a == b or a in path(graph, b) for a, b in pairwise(chain))
    found = {
        "leaf": leaf == label,
        "hca": all(right),
        "por": sum(right) / len(right),
        "strict_por": beginning / len(right),
        "tor": np.mean([a and b for a, b in pairwise(right)]) if inner else np.nan,
        "consistent": consistent,
    }
    for key, d in zip(levels.keys, levels.depths, strict=True):
        asked = d <= len(truth)
        found[f"right_{key}"] = answer[d] == truth[d - 1] if asked else np.nan
        found[f"leaf_right_{key}"] = path(graph, leaf)[:d][-1] == truth[d - 1] if asked else np.nan
    return {name: float(value) for name, value in found.items()}


@pytest.mark.parametrize("seed", range(60))
def test_items_agree_with_brute_force_on_random_trees(seed):
    graph, tree = random_tree(seed)
    levels = Levels(tree)
    generator = np.random.default_rng(seed)
    label, leaf = generator.integers(0, len(tree.leaves), (2, 40))
    other = generator.integers(0, len(tree.leaves), 40)
    given = np.where(generator.random(40) < 0.6, label, other)  # mostly right, so that paths hold
    leaf = np.where(generator.random(40) < 0.5, label, leaf)
    answers = levels.answers[:, given]
    table = level_items(levels, label, leaf, answers)
    for n in range(40):
        answer = {d: levels.nodes[answers[row, n]] for row, d in enumerate(levels.depths)}
        expected = brute(graph, tree, levels, tree.leaves[label[n]], tree.leaves[leaf[n]], answer)
        found = {name: column[n] for name, column in table.items()}
        assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("geometry", [Sphere(), Lorentz(1.0)], ids=lambda g: g.name)
def test_answers_are_the_most_similar_option(geometry):
    """Against an argmax for each question alone; equal points tie and the first of the question wins."""
    generator = torch.Generator().manual_seed(0)
    images = geometry.lift(torch.randn(5000, 8, generator=generator))
    nodes = geometry.lift(torch.randn(40, 8, generator=generator))
    nodes[33] = nodes[4]  # an inner node with the point of a class
    nodes[38] = nodes[37]
    classes, inner = nodes[:25], nodes[25:]
    questions = [np.array([1, 4, 33, 30]), np.arange(25, 40), np.array([33, 4]), np.array([3, 38, 37])]
    leaf, answers = ask(geometry, images, classes, inner, questions)
    assert (leaf == nearest(geometry, images, classes)).all()
    for question, answer in zip(questions, answers, strict=True):
        expected = question[nearest(geometry, images, nodes[question])]
        assert (answer == expected).mean() > 0.9995  # rounding may decide between points that nearly tie
        assert set(answer) <= set(question)
    for later, answer in zip((33, 38, 4, 37), answers, strict=True):
        assert later not in answer


def test_bad_input():
    with pytest.raises(MetricError, match="value 9"):
        level_items(LEVELS, [9], [0], [[4], [5]])
    with pytest.raises(MetricError, match="expected 1 values"):
        level_items(LEVELS, [0], [0, 1], [[4], [5]])
