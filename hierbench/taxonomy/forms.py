"""A user's own tree, in three forms: parent and child on each line, a table of ranks, nested YAML.

- `.tsv`, parent–child: a line an edge, parent, tab, child, perhaps a third column with a name for people and prompts,
  which may be empty. A line whose parent is `-` only names the root. Empty lines and those that begin with # are passed
  over.
- `.tsv` or `.csv`, ranks: the first line is `class` and the names of the ranks, the general end first; then a line a
  class. The root is a node above them all, or the first rank's where that has one value.
- `.yaml`: nested mappings, lists of classes at the ends; one key at the top, the root.

In each, comment lines `# source: …` and `# licence: …` say where the tree comes from.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hierbench.errors import DataError
from hierbench.files import regular_file
from hierbench.taxonomy.tree import MAX_NODES, Edge, Taxonomy
from hierbench.yaml_files import parse_yaml

SUFFIXES = (".tsv", ".csv", ".yaml", ".yml")
CLASS = "class"  # heads the column of classes in a table of ranks
ALL = "(all)"  # the root above the ranks
MAX_BYTES = 16 << 20

_ORIGIN = re.compile(r"^#\s*(source|licence)\s*:\s*(.*\S)", re.MULTILINE)
_RANK = re.compile(r"[a-z][a-z0-9_]*")


def read_tree(path: str | Path, classes: tuple[str, ...] | None = None) -> Taxonomy:
    """A tree from a file in one of the forms above, over `classes` in label order, by default over its leaves.

    Raises DataError: no such file, none of the forms, a line of another form, or what `Taxonomy` refuses.
    """
    path = Path(path)
    text = _text(path)
    origin = dict(_ORIGIN.findall(text))
    if path.suffix in (".yaml", ".yml"):
        return nested(parse_yaml(text, f"taxonomy file {path}"), str(path), classes, **origin)
    separator = "," if path.suffix == ".csv" else "\t"
    lines = [
        (n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip() and not line.startswith("#")
    ]
    if len(lines) > MAX_NODES:
        raise DataError(f"taxonomy file {path}: it has {len(lines):,} lines; at most {MAX_NODES:,} are read")
    rows = [(n, _cells(path, n, line, separator)) for n, line in lines]
    if rows and rows[0][1][0].lower() == CLASS:
        return _ranks(path, rows, classes, origin)
    if separator == ",":
        raise DataError(
            f"taxonomy file {path}, line 1: a table of ranks begins with {CLASS} and the ranks' names"
        )
    return _edges(path, rows, classes, origin)


def _cells(path: Path, number: int, line: str, separator: str) -> list[str]:
    try:
        row = line.split(separator) if separator == "\t" else next(csv.reader([line]))
    except csv.Error as error:  # a cell of more than 131,072 characters
        raise DataError(f"taxonomy file {path}, line {number}: it is no line of a table ({error})") from error
    return [cell.strip() for cell in row]


def nested(
    content: Mapping[str, Any],
    name: str,
    classes: tuple[str, ...] | None = None,
    source: str = "",
    licence: str = "",
) -> Taxonomy:
    """A tree from nested mappings: keys are nodes, values what is below, the ends lists of names, one name or nothing.

    Raises DataError: a value of another kind, or what `Taxonomy` refuses.
    """
    if len(content) != 1:
        what = f"{len(content)} roots ({', '.join(map(str, [*content][:3]))})" if content else "no nodes"
        raise DataError(f"taxonomy {name}: {what} make no tree: give all nodes one common root")
    edges: list[Edge] = []
    (root,) = content
    pending: list[tuple[str, Any]] = [(root, content[root])]
    while pending:
        node, below = pending.pop()
        for child, further in _below(name, node, below):
            edges.append((node, child))
            pending.append((child, further))
        if len(edges) >= MAX_NODES:
            raise DataError(
                f"taxonomy {name}: it has more than {MAX_NODES:,} nodes, at most so many are read"
            )
    names = {node: node for edge in edges for node in edge}
    return _over(name, edges, names, classes, (), {"source": source, "licence": licence})


def _below(name: str, node: str, below: Any) -> list[tuple[str, Any]]:
    if isinstance(below, Mapping):
        children = list(below.items())
    elif isinstance(below, Sequence) and not isinstance(below, str):
        children = [
            item
            for entry in below
            for item in (entry.items() if isinstance(entry, Mapping) else [(entry, None)])
        ]
    else:
        children = [] if below is None else [(below, None)]
    for child, _ in children:
        if child is None or child == "":
            raise DataError(f"taxonomy {name}: below {node} stands a node without a name")
        if not isinstance(child, str):
            raise DataError(
                f"taxonomy {name}: below {node} stands {child!r}, which is no text: put it in quotes"
            )
    return children


def _edges(path: Path, rows: list, classes: tuple[str, ...] | None, origin: dict[str, str]) -> Taxonomy:
    edges, names = [], {}
    for number, columns in rows:
        if len(columns) not in (2, 3) or not all(columns[:2]):
            raise DataError(
                f"taxonomy file {path}, line {number}: it must hold parent and child with a tab between"
            )
        parent, child = columns[:2]
        names[child] = columns[2] if len(columns) == 3 and columns[2] else child
        names.setdefault(parent, parent)
        if parent != "-":
            edges.append((parent, child))
    return _over(str(path), edges, names, classes, (), origin)


def _ranks(path: Path, rows: list, classes: tuple[str, ...] | None, origin: dict[str, str]) -> Taxonomy:
    (_, (_, *ranks)), *table = rows
    if not ranks or len(set(ranks)) < len(ranks) or not all(map(_RANK.fullmatch, ranks)):
        raise DataError(
            f"taxonomy file {path}, line {rows[0][0]}: after {CLASS} it names each rank once, in small letters"
        )
    parent_of: dict[str, str] = {}
    names = {ALL: ALL}
    for number, columns in table:
        if len(columns) != len(ranks) + 1 or not all(columns):
            raise DataError(
                f"taxonomy file {path}, line {number}: it must hold a class and {len(ranks)} ranks, none empty"
            )
        if columns[0] in parent_of:
            raise DataError(
                f"taxonomy file {path}, line {number}: class {columns[0]} stands twice: remove one"
            )
        above = ALL
        for rank, value in zip(ranks, columns[1:], strict=True):
            node = f"{rank}:{value}"
            if parent_of.setdefault(node, above) != above:
                raise DataError(
                    f"taxonomy file {path}, line {number}: {rank} {value} stands below {names[above]} and below "
                    f"{names[parent_of[node]]}, which makes no tree"
                )
            names[node], above = value, node
        parent_of[columns[0]] = above
        names[columns[0]] = columns[0]
    tops = [child for child, parent in parent_of.items() if parent == ALL]
    if len(tops) == 1:  # the first rank is the root itself
        del parent_of[tops[0]]
        ranks = ranks[1:]
    return _over(
        str(path),
        [(parent, child) for child, parent in parent_of.items()],
        names,
        classes,
        tuple(ranks),
        origin,
    )


def _over(
    name: str, edges: list[Edge], names: dict[str, str], classes: tuple[str, ...] | None, ranks: tuple[str, ...],
    origin: Mapping[str, str],
) -> Taxonomy:  # fmt: skip
    if classes is None:
        inner = {parent for parent, _ in edges}
        classes = tuple(child for _, child in edges if child not in inner)
    return Taxonomy(name, classes, tuple(edges), names, ranks, **origin)


def _text(path: Path) -> str:
    try:
        with regular_file(path, "taxonomy file").open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise DataError(f"taxonomy file {path} has more than {MAX_BYTES:,} bytes: is it the right file?")
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, UnicodeDecodeError) as error:
        what = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror or error
        raise DataError(f"taxonomy file {path} cannot be read: {what}") from error
