"""A tree over classes: checked when made; distances, ancestor sets and depths as matrices."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hierbench.errors import DataError

Edge = tuple[str, str]  # parent, child

MAX_NODES = 100_000
"""WordNet has 82,115 nouns; a file with more nodes is no tree of classes."""

MAX_DEPTH = 100
"""Edges from the root to a node; WordNet's deepest noun lies at 18."""


@dataclass(frozen=True)
class Taxonomy:
    """A tree over classes. A(c) below is the set of ancestors of class c, c itself not counted.

    Classes are numbered in label order. A class may have classes below it, whose ancestor it then is.
    Raises DataError for edges that are no tree, more than MAX_NODES nodes or MAX_DEPTH levels, a class that is given
    twice, is no node of it, or is its root.
    """

    name: str
    leaves: tuple[str, ...]  # the classes in label order
    edges: tuple[Edge, ...]
    # node -> what people and prompts call it
    names: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    ranks: tuple[str, ...] = field(
        default=(), compare=False
    )  # names of the depths below the root, where they have any
    source: str = field(default="", compare=False)
    licence: str = field(default="", compare=False)

    def __post_init__(self):
        if len(self.edges) >= MAX_NODES:
            raise self._wrong(f"it has {len(self.edges) + 1:,} nodes; at most {MAX_NODES:,} are read")
        if not self.edges:
            raise self._wrong("it holds no edges: give each class a node above it")
        if own := next((child for parent, child in self.edges if parent == child), None):
            raise self._wrong(f"{own} is its own parent: remove that edge")
        parent = {child: parent for parent, child in self.edges}
        if len(parent) != len(self.edges):
            ((twice, _),) = Counter(child for _, child in self.edges).most_common(1)
            above = sorted({parent for parent, child in self.edges if child == twice})
            if len(above) == 1:
                raise self._wrong(f"{twice} stands twice below {above[0]}: remove one")
            raise self._wrong(
                f"{twice} has more than one parent ({', '.join(above[:3])}), which makes no tree"
            )
        self._check_paths(parent)
        roots = sorted({p for p in parent.values() if p not in parent})
        if len(roots) != 1:
            raise self._wrong(
                f"{len(roots)} roots ({', '.join(roots[:3])}) make no tree: give all nodes one common root"
            )
        if stray := [leaf for leaf in self.leaves if leaf not in parent]:
            others = f" (nor are {len(stray) - 1:,} others)" if len(stray) > 1 else ""
            raise self._wrong(
                f"class {stray[0]} is not a node below its root{others}: add it by its id, or name it under `outside`"
            )
        if len(set(self.leaves)) < len(self.leaves):
            ((twice, _),) = Counter(self.leaves).most_common(1)
            raise self._wrong(f"class {twice} is given twice")

    def _check_paths(self, parent: Mapping[str, str]) -> None:
        depth: dict[str, int] = {}  # of nodes that are known to be no ancestors of themselves
        for start in parent:
            path, node = [], start
            seen: set[str] = set()
            while node in parent and node not in depth:
                if node in seen:
                    raise self._wrong(f"{node} is its own ancestor")
                seen.add(node)
                path.append(node)
                node = parent[node]
            for above, below in enumerate(reversed(path), depth.get(node, 0) + 1):
                depth[below] = above
            if depth[start] > MAX_DEPTH:
                raise self._wrong(
                    f"{start} lies {depth[start]:,} levels below the root; at most {MAX_DEPTH} are read"
                )

    def _wrong(self, what: str) -> DataError:
        return DataError(f"taxonomy {self.name}: {what}")

    @cached_property
    def parent(self) -> dict[str, str]:
        """Parent of every node but the root."""
        return {child: parent for parent, child in self.edges}

    @cached_property
    def root(self) -> str:
        return next(p for p in self.parent.values() if p not in self.parent)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, sorted."""
        return tuple(sorted({self.root, *self.parent}))

    def called(self, node: str) -> str:
        """A node's name with spaces for the underscores that WordNet's words have; its id where it has no name."""
        return self.names.get(node, node).replace("_", " ")

    def ancestors(self, node: str) -> tuple[str, ...]:
        """From the parent of `node` up to the root."""
        path = []
        while node in self.parent:
            node = self.parent[node]
            path.append(node)
        return tuple(path)

    @cached_property
    def depth(self) -> np.ndarray:
        """(C,) int32: |A(c)|, the number of edges from the root to class c."""
        return self._ancestor_table.sum(1).astype(np.int32)

    @cached_property
    def overlap(self) -> np.ndarray:
        """(C, C) int32: |A(a) ∩ A(b)|."""
        table = self._ancestor_table
        return (table @ table.T).astype(np.int32)

    @cached_property
    def distance(self) -> np.ndarray:
        """(C, C) int32: edges on the path between two classes."""
        table = self._ancestor_table.copy()
        table[np.arange(len(self.leaves)), [self._column[c] for c in self.leaves]] = (
            1  # each class on its own path
        )
        shared = (table @ table.T).astype(np.int32) - 1  # edges from the root to where the two paths part
        return self.depth[:, None] + self.depth[None, :] - 2 * shared

    @cached_property
    def _column(self) -> dict[str, int]:
        """Columns of the nodes on the classes' paths."""
        used = {node for leaf in self.leaves for node in (leaf, *self.ancestors(leaf))}
        return {node: column for column, node in enumerate(sorted(used))}

    @cached_property
    def _ancestor_table(self) -> np.ndarray:
        """(C, nodes) float32 (for a fast product): 1 where the node is an ancestor of the class."""
        table = np.zeros((len(self.leaves), len(self._column)), np.float32)
        for row, leaf in enumerate(self.leaves):
            table[row, [self._column[node] for node in self.ancestors(leaf)]] = 1
        return table


def edge_hash(edges: Iterable[Edge]) -> str:
    """SHA-256 of the edges written `parent child`, sorted bytewise, one a line with a final newline."""
    lines = sorted(f"{parent} {child}\n".encode() for parent, child in edges)
    return hashlib.sha256(b"".join(lines)).hexdigest()


def to_tsv(tree: Taxonomy) -> str:
    """The text of a stored tree."""
    inner = [edge for edge in sorted(tree.edges) if edge[1] not in tree.leaves]
    rows = [("-", tree.root), *inner, *((tree.parent[leaf], leaf) for leaf in tree.leaves)]
    return "".join(f"{parent}\t{child}\t{tree.names[child]}\n" for parent, child in rows)
