"""Names that a person typed: looked up in a table, or one line with the nearest ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from hierbench.errors import UnknownNameError


def lookup(kind: str, name: str, table: Mapping[str, Any]) -> Any:
    """`table[name]`, or an UnknownNameError that offers the nearest names."""
    if name in table:
        return table[name]
    raise UnknownNameError(unknown(kind, name, table))


def unknown(kind: str, name: str, known: Iterable[str], typed: str | None = None) -> str:
    """The message for a name that nobody registered; `typed`: the part of it to compare with."""
    known = sorted(set(known))
    near = difflib.get_close_matches(typed or name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known[:20])}"
    return f"no {kind} {name!r}: {hint}"
