"""Trees cut from WordNet 3.0: its noun file read, every class's longest path, what lies between merged away.

Synsets are written as WordNet 3.0 ids, `n` and eight digits. The stored trees that come from WordNet were made here
(`build`, with the synsets of `data_manifests/taxonomies/wordnet.yaml`), so nobody needs WordNet to use them.
"""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from hierbench.errors import DataError
from hierbench.taxonomy.stored import wordnet_facts
from hierbench.taxonomy.tree import Edge

_HYPERNYM = re.compile(r" @i? (\d{8}) n ")  # the pointers to a hypernym and to an instance's hypernym


class Noun(NamedTuple):
    """A noun synset: its first word and its hypernyms in the order of the pointers."""

    word: str
    hypernyms: tuple[str, ...]


def build(
    wordnet: Path, classes: Sequence[str] | Mapping[str, str], corrections: Mapping[str, str] | None = None
) -> tuple[Edge, ...]:
    """Cut the tree over `classes` out of WordNet 3.0; its edges, sorted.

    `classes` are noun synsets, or a dataset's own class ids, each with the synset that it hangs below: a class that
    WordNet lacks (a breed) goes below the nearest one that it has, and two classes may share theirs.

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

    if not classes or len(set(classes)) != len(classes):
        raise DataError("a tree needs classes" if not classes else "a class is given twice")
    if isinstance(classes, Mapping):
        paths = [(*path(synset), class_id) for class_id, synset in classes.items()]
    else:
        paths = [path(class_id) for class_id in classes]
    children = Counter(above for above, _ in {edge for path in paths for edge in pairwise(path)})
    kept = set(classes) | {node for node, count in children.items() if count > 1}
    highest = next(place for place, node in enumerate(paths[0]) if node in kept)
    if paths[0][highest] in classes:
        if highest == 0:
            raise DataError(f"{paths[0][0]} cannot be a class: it is WordNet's root and has no ancestor")
        kept.add(paths[0][highest - 1])
    return tuple(sorted({edge for path in paths for edge in pairwise([n for n in path if n in kept])}))


def imagenet_corrections() -> dict[str, str]:
    """The corrections of WordNet behind ImageNet's tree: synset -> its only hypernym."""
    return dict(wordnet_facts()["corrections"])


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
