"""What a tree asks of a classifier: at every depth all names of that depth, and random cuts of the tree.

In an uneven tree a class that ends above a depth stands among the names of that depth, so that every image has one
right answer at every depth and the depth of its label is not given away.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hierbench.taxonomy.tree import Taxonomy

RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
CUTS = 25
TRIES = 200  # draws for one cut that is new; small trees have few

_ID = re.compile(r"n\d{8}")


@dataclass(frozen=True)
class Levels:
    """The questions of a tree. The root, and depths with a single name, are no questions.

    Positions below count `nodes`: the classes in label order, then the other nodes on their paths, sorted.
    """

    tree: Taxonomy

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        inner = {node for leaf in self.tree.leaves for node in self.tree.ancestors(leaf)}
        return (*self.tree.leaves, *sorted(inner - {self.tree.root, *self.tree.leaves}))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What prompts call each node."""
        return tuple(map(self.tree.called, self.nodes))

    @property
    def unnamed(self) -> tuple[str, ...]:
        """Inner nodes whose name is an id: WordNet's n and eight digits, or without a letter."""
        inner = zip(self.nodes[len(self.tree.leaves) :], self.names[len(self.tree.leaves) :], strict=True)
        return tuple(node for node, name in inner if _ID.fullmatch(name) or not any(map(str.isalpha, name)))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The depths asked above the leaves, the root being 0: from the first that has two names."""
        deepest = int(self.tree.depth.max())
        return tuple(d for d in range(1, deepest) if len(np.unique(self._at(d))) > 1)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """A key for each of `depths`: the name of the rank, or the number."""
        ranks = self.tree.ranks
        return tuple(ranks[d - 1] if d <= len(ranks) else str(d) for d in self.depths)

    @cached_property
    def answers(self) -> np.ndarray:
        """(L, C) int64: position of the right answer at each of `depths` for each class."""
        rows = [self._at(depth) for depth in self.depths]
        return np.stack(rows) if rows else np.zeros((0, len(self.tree.leaves)), np.int64)

    @cached_property
    def asked(self) -> np.ndarray:
        """(L, C) bool: whether the class lies at that depth or deeper; above, the question is the leaf's again."""
        return np.array(self.depths, np.int64).reshape(-1, 1) <= self.tree.depth[None, :]

    @cached_property
    def on_path(self) -> np.ndarray:
        """(L, C) bool: whether the answer is an inner node of the class's path; its end is asked among all classes."""
        return np.array(self.depths, np.int64).reshape(-1, 1) < self.tree.depth[None, :]

    def cuts(self, count: int = CUTS) -> np.ndarray:
        """(cuts, C) int64: position of each class's answer in `count` seeded random cuts of the tree.

        As in ProTeCt (Wu et al., CVPR 2024): every inner node but the root is a label, in place of all below it, with
        a rate of 0.1, 0.3, 0.5, 0.7 or 0.9, a fifth of the cuts each. Cuts differ where the tree has enough of them.
        """
        inner = [node for node in self.nodes if node not in self._ends]
        seen: set[bytes] = set()
        drawn = []
        for number in range(count):
            rate = RATES[number * len(RATES) // count]
            for attempt in range(TRIES):
                generator = np.random.default_rng([zlib.crc32(b"hierbench.levels.cuts"), number, attempt])
                stops = dict(zip(inner, generator.random(len(inner)) < rate, strict=True))
                cut = np.array([self._stop(leaf, stops) for leaf in self.tree.leaves], np.int64)
                if cut.tobytes() not in seen:
                    break
            seen.add(cut.tobytes())
            drawn.append(cut)
        return np.stack(drawn)

    @cached_property
    def _ends(self) -> set[str]:
        return set(self.nodes) - {self.tree.parent[node] for node in self.nodes}

    @cached_property
    def _position(self) -> dict[str, int]:
        return {node: position for position, node in enumerate(self.nodes)}

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        """Of each class: the nodes from below the root down to itself."""
        return {leaf: (*self.tree.ancestors(leaf)[-2::-1], leaf) for leaf in self.tree.leaves}

    def _at(self, depth: int) -> np.ndarray:
        paths = (self._paths[leaf] for leaf in self.tree.leaves)
        return np.array([self._position[path[min(depth, len(path)) - 1]] for path in paths], np.int64)

    def _stop(self, leaf: str, stops: dict[str, bool]) -> int:
        path = self._paths[leaf]
        return self._position[next((node for node in path if stops.get(node)), leaf)]
