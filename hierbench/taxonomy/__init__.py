"""Class trees: what a tree is, the stored ones, a user's own files, trees cut from WordNet, and what they ask."""

from hierbench.taxonomy.forms import SUFFIXES, read_tree
from hierbench.taxonomy.levels import Levels
from hierbench.taxonomy.stored import Tree, imagenet1k, load
from hierbench.taxonomy.tree import Edge, Taxonomy, edge_hash, to_tsv
from hierbench.taxonomy.wordnet import build, find_wordnet, imagenet_corrections, read_nouns

__all__ = [
    "SUFFIXES", "Edge", "Levels", "Taxonomy", "Tree", "build", "edge_hash", "find_wordnet", "imagenet1k",
    "imagenet_corrections", "load", "read_nouns", "read_tree", "to_tsv",
]  # fmt: skip
