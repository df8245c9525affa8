import numpy as np
import pytest

from hierbench import metrics
from hierbench.errors import MetricError
from hierbench.metrics.hierarchy import hierarchy_items, zero_based_items
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
)


def test_golden(recipe, golden):
    figures = metrics.hierarchy(*recipe.hierarchy_case(7), imagenet1k())
    assert figures == pytest.approx(golden("eval_7")["hierarchy"], rel=1e-12)


def test_by_hand():
    table = hierarchy_items(predicted=[0, 1, 2, 3, 0], true=[0, 0, 0, 0, 3], taxonomy=TREE)
    # ancestors: A(p) = A(q) = {b, a, root}, A(c) = {a, root}, A(d) = {root}
    assert table["tie"].tolist() == [0, 2, 3, 4, 4]
    assert table["lca"].tolist() == [1, 1, 1, 1, 3]
    assert table["jaccard"] == pytest.approx([1, 1, 2 / 3, 1 / 3, 1 / 3])
    assert table["precision"] == pytest.approx([1, 1, 1, 1, 1 / 3])
    assert table["recall"] == pytest.approx([1, 1, 2 / 3, 1 / 3, 1])
    figures = metrics.hierarchy([0, 1, 2, 3, 0], [0, 0, 0, 0, 3], TREE)
    assert figures == pytest.approx({name: np.mean(column) for name, column in table.items()})


def test_zero_based_distances_by_hand():
    """Paths P(p) = {p, b, a, root}, P(q) = {q, b, a, root}, P(c) = {c, a, root}, P(d) = {d, root}."""
    table = zero_based_items(predicted=[0, 1, 2, 3, 0], true=[0, 0, 0, 0, 3], taxonomy=TREE)
    assert table["lca_symmetric"].tolist() == [0, 1, 2, 3, 3]
    assert table["jaccard_distance"] == pytest.approx([0, 1 - 3 / 5, 1 - 2 / 5, 1 - 1 / 5, 1 - 1 / 5])


def test_against_sets_on_imagenet():
    """The same figures from the ancestor sets themselves, pair by pair."""
    tree = imagenet1k()
    parent = {child: above for above, child in tree.edges}

    def ancestors(leaf):
        found = []
        while leaf in parent:
            leaf = parent[leaf]
            found.append(leaf)
        return found

    predicted, true = np.random.default_rng(3).integers(0, 1000, (2, 200))
    table = hierarchy_items(predicted, true, tree)
    for row, (p, t) in enumerate(zip(predicted, true, strict=True)):
        of_p, of_t = ancestors(tree.leaves[p]), ancestors(tree.leaves[t])
        common = set(of_p) & set(of_t)
        meeting = next(node for node in of_p if node in common)
        edges = 0 if p == t else of_p.index(meeting) + of_t.index(meeting) + 2
        assert [table[name][row] for name in table] == pytest.approx(
            [
                edges,
                len(of_p) - len(common) + 1,
                len(common) / len({*of_p, *of_t}),
                len(common) / len(of_p),
                len(common) / len(of_t),
            ]
        )


def test_order_does_not_matter(recipe):
    predicted, true = recipe.hierarchy_case(1)
    order = np.random.default_rng(0).permutation(len(true))
    expected = metrics.hierarchy(predicted, true, imagenet1k())
    assert metrics.hierarchy(predicted[order], true[order], imagenet1k()) == pytest.approx(expected)


def test_bad_input():
    with pytest.raises(MetricError, match="true: value 4 at position 0 is outside 0 … 3"):
        metrics.hierarchy([0], [4], TREE)
    with pytest.raises(MetricError, match="predicted: expected 2 values, got 1"):
        metrics.hierarchy([0], [0, 1], TREE)
