"""The one reader of YAML files that people write: strict, bounded, and every fault is one line with its place.

YAML 1.1 as PyYAML's safe loader has it, less what surprises or explodes: no key twice, UTF-8 alone, at most `MAX_BYTES`
bytes, `MAX_DEPTH` levels and `MAX_NODES` values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import yaml

from hierbench.errors import DataError, HierbenchError
from hierbench.files import regular_file

MAX_BYTES = 4 << 20
"""The largest file that ships with the project has a hundredth of this."""

MAX_DEPTH = 32
MAX_NODES = 200_000
"""Values of a file with its aliases written out: ten lines can stand for billions."""

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: str | Path, what: str, error: type[HierbenchError] = DataError) -> dict[str, Any]:
    """The mapping in a YAML file; an empty file is an empty mapping.

    `what` names the kind of file in messages (`manifest`, `config`). Raises `error`, with path and line: no such file,
    none that holds bytes, too large, not UTF-8, not YAML, nested too deeply, a key twice, aliases that multiply, a
    value that its tag does not fit, keys that are no text, or something else than a mapping.
    """
    path = Path(path)
    try:
        regular_file(path, what)
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as failure:
        raise error(f"{what} {path} cannot be read: {failure.strerror or failure}") from failure
    except DataError as failure:
        raise error(str(failure)) from failure
    if len(content) > MAX_BYTES:
        raise error(f"{what} {path} has more than {MAX_BYTES:,} bytes: is it the right file?")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        raise error(f"{what} {path}, line {line}: not UTF-8 text: save it as UTF-8") from failure
    return parse_yaml(text, f"{what} {path}", error)


def parse_yaml(text: str, where: str, error: type[HierbenchError] = DataError) -> dict[str, Any]:
    """As `read_yaml`, of text; `where` begins each message."""
    try:
        _check_bounds(text)
        content = yaml.load(text, Loader=_Strict)
    except yaml.YAMLError as failure:
        mark = getattr(failure, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = getattr(failure, "problem", None) or getattr(failure, "reason", None) or "not YAML"
        raise error(f"{where}{place}: {problem}") from failure
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise error(f"{where}: fields (`key: value`) are expected, found {type(content).__name__}")
    return content


def _check_bounds(text: str) -> None:
    """Raise MarkedYAMLError for deep nesting and for aliases that multiply, by the events: nothing is built yet."""
    sizes: dict[str, int] = {}  # nodes of what each anchor stands for, aliases written out
    open_: list[
        tuple[str | None, int]
    ] = []  # anchor of each collection that is not closed, and nodes before it
    total = 0
    for event in yaml.parse(text, Loader=_Parser):
        problem = None
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                problem = f"the alias *{event.anchor} stands for nothing before it"
            total += sizes.get(event.anchor or "", 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.NodeEvent):
            total += 1
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append((event.anchor, total - 1))
            elif event.anchor:
                sizes[event.anchor] = 1
        if len(open_) > MAX_DEPTH:
            problem = f"nested deeper than {MAX_DEPTH} levels"
        if total > MAX_NODES:
            problem = f"more than {MAX_NODES:,} values, aliases written out"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=cast(Any, event.start_mark))


class _Strict(_Parser):
    """Refuses equal keys, of which YAML takes the last without a word, and says where a value is not what it claims."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in (
            node.value if isinstance(node, yaml.MappingNode) else ()
        ):  # a scalar may be tagged as one
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key must be text", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value[:60]!r} stands there twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as failure:
            shown = node.value[:40] if isinstance(node.value, str) else ""
            kind = str(node.tag).rpartition(":")[2]
            raise yaml.MarkedYAMLError(
                problem=f"{shown!r} cannot be read as {kind}", problem_mark=node.start_mark
            ) from failure
