"""JSON files read and written: from regular files alone, UTF-8, every fault one line with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hierbench.errors import DataError, HierbenchError
from hierbench.files import regular_file, replacing


def read_json(
    path: str | Path, what: str, error: type[HierbenchError] = DataError, advice: str = "fetch it again"
) -> Any:
    """The content of a JSON file.

    `what` names the kind of file in messages, which end with `advice`. Raises `error`, with path and line: no such
    file, none that holds bytes, not UTF-8, not JSON, nested too deeply, a number of more digits than Python reads.
    """
    path = Path(path)
    where = f"{what} {path}"
    try:
        return json.loads(regular_file(path, what).read_bytes().decode("utf-8-sig"))
    except OSError as failure:
        raise error(f"{where} cannot be read: {failure.strerror or failure}") from failure
    except DataError as failure:
        raise error(str(failure)) from failure
    except json.JSONDecodeError as failure:
        raise error(f"{where}, line {failure.lineno}: not JSON ({failure.msg}): {advice}") from failure
    except UnicodeDecodeError as failure:
        line = failure.object.count(b"\n", 0, failure.start) + 1
        raise error(f"{where}, line {line}: not UTF-8 text: {advice}") from failure
    except ValueError as failure:
        raise error(f"{where} holds a number of thousands of digits: {advice}") from failure
    except RecursionError:
        raise error(f"{where} is nested too deeply: {advice}") from None


def known_json(path: Path) -> dict[str, Any] | None:
    """The mapping in a JSON file of our own; None where there is none that can be read, and it is made again."""
    try:
        document = read_json(path, "file")
    except DataError:
        return None
    return document if isinstance(document, dict) else None


def write_json(path: Path, document: Any, durable: bool = True) -> None:
    """A JSON file, whole or not at all; `durable` as `files.replacing` has it. Raises OSError."""
    with replacing(path, durable) as temporary:
        temporary.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
