"""The trees that ship with hierbench, and `load`, which takes their names, a user's files, or a tree written out.

A stored tree is `data_manifests/taxonomies/NAME.tsv`, a line a node: parent, node, what people call it; the root's
parent is `-`; the classes stand last, in label order. `trees.yaml` beside it says of every tree where it comes from,
under which licence, and the SHA-256 of its edges; `wordnet.yaml` holds what those cut from WordNet rest on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from hierbench.errors import DataError, UnknownNameError
from hierbench.files import text_lines
from hierbench.taxonomy.forms import SUFFIXES, nested, read_tree
from hierbench.taxonomy.tree import Taxonomy, edge_hash
from hierbench.yaml_files import read_yaml

Tree = str | Mapping[str, Any]
"""How a manifest gives a tree: a stored one's name, a file's path, or the nested form written out."""


@cache
def imagenet1k() -> Taxonomy:
    """The tree over the 1,000 ImageNet classes: 1,372 synsets, root physical_entity."""
    return load("imagenet1k")


def load(tree: Tree, classes: tuple[str, ...] | None = None) -> Taxonomy:
    """A tree over `classes` in label order; by default over its leaves in the order of the file.

    `tree` is a stored one's name, the path of a file (`hierbench.taxonomy.forms`), or nested mappings. Raises
    UnknownNameError for a tree that is not there, DataError for a stored file whose edges were altered, or as
    `read_tree` does.
    """
    if not isinstance(tree, str):
        return nested(tree, "in the manifest", classes)
    return read_tree(tree, classes) if tree.endswith(SUFFIXES) else _stored(tree, classes)


@cache
def _stored(name: str, classes: tuple[str, ...] | None) -> Taxonomy:
    known = _yaml("trees.yaml")
    if name not in known and Path(name).suffix:
        raise DataError(f"taxonomy file {name}: the name of a tree's file ends in {', '.join(SUFFIXES)}")
    if name not in known:
        raise UnknownNameError(f"no taxonomy {name!r}: known: {', '.join(sorted(known))}")
    facts = known[name]
    file = _folder() / f"{name}.tsv"
    rows = [line.split("\t") for line in text_lines(file.read_text(encoding="utf-8"))]
    if any(len(row) != 3 for row in rows):
        raise DataError(
            f"taxonomy file {file} was altered (a line without three columns): install hierbench again"
        )
    edges = tuple((parent, child) for parent, child, _ in rows if parent != "-")
    if edge_hash(edges) != facts["edges"]:
        raise DataError(
            f"taxonomy file {file} was altered (its edges have another hash): install hierbench again"
        )
    if classes is None:
        inner = {parent for parent, _ in edges}
        classes = tuple(child for _, child in edges if child not in inner)
    names = {child: word for _, child, word in rows}
    return Taxonomy(
        name, classes, edges, names, tuple(facts.get("ranks", ())), facts["source"], facts["licence"]
    )


def wordnet_facts() -> dict[str, Any]:
    """What the trees cut from WordNet rest on: corrections, and the synset of each class of each tree."""
    return _yaml("wordnet.yaml")


@cache
def _yaml(name: str) -> dict[str, Any]:
    return read_yaml(str(_folder() / name), "facts")


def _folder():
    return resources.files("hierbench.data_manifests") / "taxonomies"
