"""Class trees cut from WordNet: building, storing, checking; distances and ancestor sets as matrices.

A stored tree is `data_manifests/taxonomies/NAME.tsv`, a line a node: parent, synset, first word of the
synset; the root's parent is `-`; the classes stand last, in label order. `wordnet.yaml` beside it holds the
SHA-256 of every tree's edges and the corrections of WordNet. Synsets are written as WordNet 3.0 ids, `n` and
eight digits.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hierbench.errors import DataError, UnknownNameError
from hierbench.files import regular_file, text_lines
from hierbench.yaml_files import read_yaml

Edge = tuple[str, str]  # parent, child


@dataclass(frozen=True)
class Taxonomy:
    """A tree over classes. A(c) below is the set of ancestors of class c, c itself not counted.

    Classes are numbered in label order. A class may have classes below it, whose ancestor it then is.
    Raises DataError for edges that are no tree, a class that is no node of it, or one that is its root.
    """

    name: str
    leaves: tuple[str, ...]  # the classes in label order
    edges: tuple[Edge, ...]
    # synset -> its first word, for people
    names: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self):
        parent = {child: parent for parent, child in self.edges}
        if len(parent) != len(self.edges):
            ((twice, _),) = Counter(child for _, child in self.edges).most_common(1)
            raise DataError(f"taxonomy {self.name}: {twice} has more than one parent, which makes no tree")
        free: set[str] = set()  # nodes known to be no ancestors of themselves
        for start in parent:
            path, node = {start: None}, start
            while node in parent and node not in free:
                node = parent[node]
                if node in path:
                    raise DataError(f"taxonomy {self.name}: {node} is its own ancestor")
                path[node] = None
            free |= path.keys()
        roots = sorted({p for p in parent.values() if p not in parent})
        if len(roots) != 1:
            what = f"{len(roots)} roots ({', '.join(roots[:3])})" if roots else "no edges"
            raise DataError(f"taxonomy {self.name}: {what} make no tree: give all nodes one common root")
        if stray := next((c for c in self.leaves if c not in parent), None):
            raise DataError(f"taxonomy {self.name}: class {stray} is not a node below its root")

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
        return {node: column for column, node in enumerate(self.nodes)}

    @cached_property
    def _ancestor_table(self) -> np.ndarray:
        """(C, nodes) float32 (for a fast product): 1 where the node is an ancestor of the class."""
        table = np.zeros((len(self.leaves), len(self.nodes)), np.float32)
        for row, leaf in enumerate(self.leaves):
            table[row, [self._column[node] for node in self.ancestors(leaf)]] = 1
        return table


# ----------------------------------------------------------------------------------------------- stored trees


@cache
def imagenet1k() -> Taxonomy:
    """The tree over the 1,000 ImageNet classes: 1,372 synsets, root physical_entity."""
    return load("imagenet1k")


def load(name: str, classes: tuple[str, ...] | None = None) -> Taxonomy:
    """A tree over `classes` in label order; by default over its leaves in the order of the file.

    `name` is a stored tree's, or the path of a file that ends in `.tsv`, of which see `read_tree`. Raises
    UnknownNameError for a tree that is not there, DataError for a stored file whose edges were altered, or as
    `read_tree` does.
    """
    return read_tree(name, classes) if name.endswith(".tsv") else _stored(name, classes)


def read_tree(path: str | Path, classes: tuple[str, ...] | None = None) -> Taxonomy:
    """A user's own tree: a line an edge, parent, tab, child, perhaps a third column with a word for people.

    The children are class ids of the manifest and whatever stands above them. A line whose parent is `-` only names
    the root; empty lines and those that begin with # are passed over. Raises DataError: no such file, a line of
    another form, a node with two parents, several roots, a node that is its own ancestor, a class that is no node.
    """
    path = Path(path)
    try:
        text = regular_file(path, "taxonomy file").read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        what = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror or error
        raise DataError(f"taxonomy file {path} cannot be read: {what}") from error
    edges, names = [], {}
    for number, line in enumerate(text.split("\n"), 1):
        columns = [column.strip() for column in line.split("\t")]
        if not line.strip() or line.startswith("#"):
            continue
        if len(columns) not in (2, 3) or not all(columns[:2]):
            raise DataError(
                f"taxonomy file {path}, line {number}: it must hold parent and child with a tab between"
            )
        parent, child = columns[:2]
        names[child] = columns[2] if len(columns) == 3 else child
        names.setdefault(parent, parent)
        if parent != "-":
            edges.append((parent, child))
    if classes is None:
        inner = {parent for parent, _ in edges}
        classes = tuple(child for _, child in edges if child not in inner)
    return Taxonomy(str(path), classes, tuple(edges), names)


@cache
def _stored(name: str, classes: tuple[str, ...] | None) -> Taxonomy:
    known = _wordnet_facts()["trees"]
    if name not in known:
        raise UnknownNameError(f"no taxonomy {name!r}: known: {', '.join(sorted(known))}")
    file = _folder() / f"{name}.tsv"
    rows = [line.split("\t") for line in text_lines(file.read_text(encoding="utf-8"))]
    if any(len(row) != 3 for row in rows):
        raise DataError(
            f"taxonomy file {file} was altered (a line without three columns): install hierbench again"
        )
    edges = tuple((parent, child) for parent, child, _ in rows if parent != "-")
    if edge_hash(edges) != known[name]:
        raise DataError(
            f"taxonomy file {file} was altered (its edges have another hash): install hierbench again"
        )
    if classes is None:
        inner = {parent for parent, _ in edges}
        classes = tuple(child for _, child in edges if child not in inner)
    return Taxonomy(name, classes, edges, {child: word for _, child, word in rows})


def edge_hash(edges: Iterable[Edge]) -> str:
    """SHA-256 of the edges written `parent child`, sorted bytewise, one a line with a final newline."""
    lines = sorted(f"{parent} {child}\n".encode() for parent, child in edges)
    return hashlib.sha256(b"".join(lines)).hexdigest()


def to_tsv(tree: Taxonomy) -> str:
    """The text of a stored tree."""
    inner = [edge for edge in sorted(tree.edges) if edge[1] not in tree.leaves]
    rows = [("-", tree.root), *inner, *((tree.parent[leaf], leaf) for leaf in tree.leaves)]
    return "".join(f"{parent}\t{child}\t{tree.names[child]}\n" for parent, child in rows)


def imagenet_corrections() -> dict[str, str]:
    """The corrections of WordNet behind ImageNet's tree: synset -> its only hypernym."""
    return dict(_wordnet_facts()["corrections"])


@cache
def _wordnet_facts() -> dict:
    return read_yaml(str(_folder() / "wordnet.yaml"), "facts")


def _folder():
    return resources.files("hierbench.data_manifests") / "taxonomies"


# ----------------------------------------------------------------------------------------- built from WordNet


_HYPERNYM = re.compile(r" @i? (\d{8}) n ")  # the pointers to a hypernym and to an instance's hypernym


class Noun(NamedTuple):
    """A noun synset: its first word and its hypernyms in the order of the pointers."""

    word: str
    hypernyms: tuple[str, ...]


def build(
    wordnet: Path, class_ids: Sequence[str], corrections: Mapping[str, str] | None = None
) -> tuple[Edge, ...]:
    """Cut the tree over `class_ids` (any noun synsets) out of WordNet 3.0; its edges, sorted.

    Every class takes its longest hypernym path, the first in pointer order among equals, after `corrections`
    (synset -> its only hypernym; by default those of ImageNet's tree). Of the united paths the classes and
    the nodes with several children stay, the others are merged away. A class that would be the root (another
    class below it, or alone) keeps the node above it, so that every class has an ancestor.
    `wordnet` is as in `read_nouns`. Raises DataError for a missing or another WordNet, unknown synsets, no or
    repeated classes, corrections that run in a circle, and the class n00001740 (entity), WordNet's root.
    """
    nouns = read_nouns(wordnet)
    corrected = imagenet_corrections() if corrections is None else corrections
    found: dict[str, tuple[str, ...]] = {}

    def path(synset: str, below: tuple[str, ...] = ()) -> tuple[str, ...]:
        if synset in below:
            raise DataError(f"the corrections make {synset} its own hypernym")
        if synset not in nouns:
            raise DataError(f"{synset!r} is no noun synset of WordNet 3.0: an id is n and eight digits")
        if synset not in found:
            hypernyms = (corrected[synset],) if synset in corrected else nouns[synset].hypernyms
            above = [path(hypernym, (*below, synset)) for hypernym in hypernyms]
            found[synset] = (*max(above, key=len, default=()), synset)  # max takes the first among equals
        return found[synset]

    classes = set(class_ids)
    if not classes or len(classes) != len(class_ids):
        raise DataError("a tree needs classes" if not classes else "a class is given twice")
    paths = [path(class_id) for class_id in class_ids]
    children = Counter(above for above, _ in {edge for path in paths for edge in pairwise(path)})
    kept = classes | {node for node, count in children.items() if count > 1}
    highest = next(place for place, node in enumerate(paths[0]) if node in kept)
    if paths[0][highest] in classes:
        if highest == 0:
            raise DataError(f"{paths[0][0]} cannot be a class: it is WordNet's root and has no ancestor")
        kept.add(paths[0][highest - 1])
    return tuple(sorted({edge for path in paths for edge in pairwise([n for n in path if n in kept])}))


def read_nouns(wordnet: Path) -> dict[str, Noun]:
    """Noun synsets of WordNet 3.0 by id, from `data.noun` in a folder, or in a zip file as nltk downloads it.

    Read here because nltk keeps a synset's pointers in a set, which loses their order.
    """
    nouns = {}
    for line in _noun_file(wordnet).splitlines():
        if line.startswith("  "):  # the licence
            continue
        # wndb(5WN): offset, file, type, number of words, [word, id] …, number of pointers,
        # [symbol, offset, part of speech, source and target] … | gloss
        data = line.partition(" | ")[0]
        nouns[f"n{data[:8]}"] = Noun(data.split(" ", 5)[4], tuple(f"n{t}" for t in _HYPERNYM.findall(data)))
    return nouns


def find_wordnet() -> Path | None:
    """The first WordNet 3.0 of $WNSEARCHDIR, $WNHOME, the usual folders and nltk's data; None without."""
    home = os.environ.get("WNHOME")
    folders = [os.environ.get("WNSEARCHDIR"), home and f"{home}/dict", home]
    folders += ["/usr/share/wordnet", "/usr/local/WordNet-3.0/dict", "/usr/local/share/wordnet"]
    nltk = [*os.environ.get("NLTK_DATA", "").split(os.pathsep), "~/nltk_data", f"{sys.prefix}/nltk_data"]
    nltk += [
        f"{prefix}/nltk_data" for prefix in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")
    ]
    folders += [f"{folder}/corpora/wordnet{suffix}" for folder in nltk if folder for suffix in ("", ".zip")]
    for folder in filter(None, folders):
        path = Path(folder).expanduser()
        try:
            _noun_file(path)
        except DataError:
            continue
        return path
    return None


def _noun_file(wordnet: Path) -> str:
    try:
        if Path(wordnet).suffix == ".zip":
            with zipfile.ZipFile(wordnet) as archive:
                content = archive.read("wordnet/data.noun")
        else:
            content = (Path(wordnet) / "data.noun").read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(
            f"no WordNet at {wordnet} ({error}): install Debian's wordnet-base or nltk's `wordnet` data"
        ) from error
    if b"WordNet 3.0 Copyright" not in content[:4000]:
        raise DataError(f"{wordnet} is not WordNet 3.0: synset ids differ between versions")
    return content.decode("utf-8")
