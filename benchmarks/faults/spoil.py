"""Ways to spoil a file: its bytes, the values in its YAML or JSON, the columns of its table, what it is at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import yaml

WORDS = [
    "",
    "x",
    " ",
    "é日本",
    "a" * 5000,
    "../../x",
    "/dev/zero",
    "\u2028",
    "\ud800",
    "{}",
    "{name}",
    "%s",
    "NaN",
]
NUMBERS = [0, 1, -1, 2, 3, 1.5, 1e9, 1e21, 1e308, -1e308, 2**31, 2**63, 10**30, 10**400, 1e-320]
ODD = [float("nan"), float("inf"), -float("inf"), None, True, False, [], {}, [[]], {"a": 1}, [None], ["x", 1]]
TRICKS = [
    "!!timestamp abc", "!!int x", "!!python/object:os.system x", "*nothing", "&a [*a]", "1" * 5000, "0x", "? [a]: b",
    "!!set {a}", "!!binary é", "<<: 1", "2024-99-99", "1:99:99", ".nan", "- - -", "!!float x",
]  # fmt: skip
"""What YAML has for those who look."""


def value(rng: Random) -> Any:
    """A value that few places expect."""
    return rng.choice(rng.choice([WORDS, NUMBERS, ODD]))


def document(content: Any, rng: Random) -> Any:
    """A mapping or list of JSON or YAML with one thing in it changed, doubled, renamed or gone; changed in place."""
    places = list(_places(content))
    if not places:
        return value(rng)
    holder, key = rng.choice(places)
    way = rng.randrange(8)
    if way < 4:
        holder[key] = value(rng)
    elif way == 4:
        del holder[key]
    elif way == 5 and isinstance(holder, dict):
        holder[rng.choice(["new", "", "0", "__class__", str(key).upper() or "A"])] = holder[key]
    elif way == 6 and isinstance(holder, list):
        holder.extend([holder[key]] * rng.choice([1, 2, 100]))
    else:
        other, name = rng.choice(places)
        holder[key] = json.loads(json.dumps(other[name]))
    return content


def _places(content: Any):
    entries = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    for key, inner in list(entries):
        yield content, key
        yield from _places(inner)


def octets(content: bytes, rng: Random) -> bytes:
    """Bytes cut off, flipped, doubled, blanked, in another encoding, or others altogether."""
    way = rng.randrange(10)
    at = rng.randrange(len(content) + 1)
    if way == 0:
        return content[:at]
    if way == 1:
        flipped = bytearray(content)
        for _ in range(rng.choice([1, 1, 4, 40])):
            if flipped:
                flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        return bytes(flipped)
    if way == 2:
        return content[:at] + rng.randbytes(rng.choice([1, 8, 300])) + content[at:]
    if way == 3:
        return content[:at] + content[at + rng.choice([1, 7, 1000]) :]
    if way == 4:
        return content[:at] + bytes(len(content) - at)
    if way == 5:
        try:
            return content.decode().encode(rng.choice(["utf-16", "utf-32", "utf-8-sig", "cp1252"]), "replace")
        except UnicodeDecodeError:
            return content[::-1]
    if way == 6:
        return b""
    if way == 7:
        return rng.randbytes(rng.choice([1, 100, 10_000]))
    if way == 8:
        return content + content[at:]
    return rng.choice(
        [b"\xff\xfe" + content, b"\x00" * 100, b"[" * 100_000, b"{", b"1" * 6000, b"- &a [*a]\n"]
    )


def yaml_text(text: str, rng: Random) -> bytes:
    """A YAML file with one value changed, or its text or bytes spoiled."""
    way = rng.randrange(10)
    if way < 6:
        changed = document(yaml.safe_load(text), rng)
        try:
            return yaml.safe_dump(changed, allow_unicode=True, sort_keys=False).encode(
                "utf-8", "surrogatepass"
            )
        except (ValueError, yaml.YAMLError):  # 10**400
            return json.dumps(str(changed)).encode()
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines) + 1)
    if way == 6:
        line = f"{rng.choice(['steps', 'name', 'model', 'extends'])}: {rng.choice(TRICKS)}\n"
        return "".join([*lines[:at], line, *lines[at:]]).encode()
    if way == 7 and lines:
        place = rng.randrange(len(lines))
        return "".join([*lines[:at], lines[place], *lines[at:]]).encode()
    return octets(text.encode(), rng)


def one_yaml(folder: Path, rng: Random) -> None:
    """Spoil one of a folder's YAML files."""
    path = rng.choice(sorted(folder.glob("*.yaml")))
    path.write_bytes(yaml_text(path.read_text(), rng))


def json_text(text: str, rng: Random) -> bytes:
    """A JSON file with one value changed, or its bytes spoiled."""
    if rng.random() < 0.7:
        return json.dumps(document(json.loads(text), rng)).encode("utf-8", "surrogatepass")
    return octets(text.encode(), rng)


def table(path: Path, rng: Random) -> None:
    """A parquet file with a column gone, renamed, doubled, null, of another type, or rows gone, in place."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = pq.read_table(path)
    names = content.column_names
    name = rng.choice(names)
    at = names.index(name)
    way = rng.randrange(9)
    if way == 0:
        content = content.drop_columns([name])
    elif way == 1:
        content = content.rename_columns([n if n != name else rng.choice(["x", "", *names]) for n in names])
    elif way == 2:
        content = content.append_column(name, content.column(name))
    elif way == 3:
        content = content.set_column(at, name, pa.nulls(len(content)))
    elif way == 4:
        item = rng.choice(["x", -5, float("nan"), True, b"x", [1], {"bytes": 1}])
        content = content.set_column(at, name, pa.array([item] * len(content)))
    elif way == 5:
        content = content.slice(0, rng.randrange(len(content) + 1))
    elif way == 6:
        content = pa.concat_tables([content, content])
    elif way == 7:
        values = content.column(name).to_pylist()
        if values:
            values[rng.randrange(len(values))] = None
        content = content.set_column(at, name, pa.array(values, content.schema.field(name).type))
    else:
        content = content.replace_schema_metadata({"huggingface": rng.choice(["", "{", "[]", '{"info": 5}'])})
    pq.write_table(content, path)


def presence(path: Path, rng: Random) -> None:
    """Something else where a file was: nothing, a folder, a FIFO, a link to itself or to nothing, a closed file."""
    way = rng.randrange(6)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    if way == 1:
        path.mkdir()
    elif way == 2:
        os.mkfifo(path)
    elif way == 3:
        path.symlink_to(path.name)
    elif way == 4:
        path.symlink_to("nothing")
    elif way == 5:
        path.symlink_to("/dev/zero")


def folder(root: Path, rng: Random) -> None:
    """One file of a folder spoiled, in a way that its kind invites."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    path = rng.choice(files)
    if rng.random() < 0.15:
        presence(path, rng)
    elif path.suffix == ".parquet" and rng.random() < 0.7:
        table(path, rng)
    elif path.suffix == ".json":
        path.write_bytes(json_text(path.read_text(), rng))
    elif path.suffix in (".yaml", ".yml"):
        path.write_bytes(yaml_text(path.read_text(), rng))
    else:
        path.write_bytes(octets(path.read_bytes(), rng))
