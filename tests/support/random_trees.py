"""A tree worked by hand, and random trees as networkx makes them, for brute force against them."""

import networkx as nx
import numpy as np

from hierbench.taxonomy import Taxonomy

#            root
#           /    \
#       living    thing
#       /    \       \
#   animal   moss     car
#    /  \
#  dog  cat
HAND = Taxonomy(
    "hand", ("dog", "cat", "moss", "car"),
    (("root", "living"), ("root", "thing"), ("living", "animal"), ("living", "moss"), ("thing", "car"),
     ("animal", "dog"), ("animal", "cat")),
    {"animal": "an_animal"},
)  # fmt: skip


def random_tree(seed):
    """A tree of 8 to 40 nodes with its graph; most of its leaves are classes, and sometimes an inner node is one."""
    generator = np.random.default_rng(seed)
    graph = nx.DiGraph()
    for node in range(1, int(generator.integers(8, 41))):
        graph.add_edge(f"n{generator.integers(max(0, node - 6), node)}", f"n{node}")
    leaves = [node for node in graph if graph.out_degree(node) == 0]
    inner = [node for node in graph if graph.out_degree(node) and node != "n0"]
    classes = list(generator.permutation(leaves)[: max(2, len(leaves) - 1)])
    if inner and seed % 3 == 0:
        classes.append(generator.choice(inner))
    return graph, Taxonomy(f"random {seed}", tuple(map(str, classes)), tuple(graph.edges))


def path(graph, leaf):
    """From below the root down to a class."""
    return nx.shortest_path(graph, "n0", leaf)[1:]
