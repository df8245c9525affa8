"""YAML that people write: what is read is what PyYAML reads, and every fault is one line with its place."""

import os
import random

import pytest
import yaml

from hierbench.errors import DataError, HierbenchError, UsageError
from hierbench.yaml_files import MAX_BYTES, parse_yaml, read_yaml


def test_what_is_well_formed_is_read_as_pyyaml_reads_it(tmp_path):
    text = "﻿a: 1\nb: [x, 2.5, null]\nc: &c\n  d: yes\n  e: >-\n    two\n    lines\nf: {<<: *c, d: no}\n"
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    assert read_yaml(path, "config") == yaml.safe_load(text.lstrip("﻿"))
    assert read_yaml(path, "config")["f"] == {"d": False, "e": "two lines"}
    path.write_text("# nothing but a comment\n")
    assert read_yaml(path, "config") == {}


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + k)}: &{chr(98 + k)} [{', '.join(['*' + chr(97 + k)] * 10)}]\n" for k in range(8)
)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a: 1\nb:\n  c: 1\n  c: 2\n", "line 4: 'c' stands there twice"),
        (b"a: 1\nb: \xe9\n", "line 2: not UTF-8 text"),
        ("a: 1\n".encode("utf-16"), "line 1: not UTF-8 text"),
        (b"when: !!timestamp abc\n", "line 1: 'abc' cannot be read as timestamp"),
        (b"a: 1\nn: " + b"9" * 5000 + b"\n", "line 2: '9{40}' cannot be read as int"),
        (b"a: !!python/object:os.system x\n", "line 1: could not determine a constructor for the tag"),
        (b"a: " + b"[" * 50_000, "line 1: (nested deeper than 32 levels|exceeded maximum nesting depth)"),
        (b"a: " + b"{b: " * 5_000 + b"}" * 5_000, "line 1: nested deeper than 32 levels"),
        (BOMB.encode(), "line 6: more than 200,000 values, aliases written out"),
        (b"a: &a [1, *a]\n", r"line 1: the alias \*a stands for nothing before it"),
        (b"- 1\n- 2\n", "fields .* are expected, found list"),
        (b"word\n", "found str"),
        (b"[1, 2]: 3\n", "line 1: a key must be text"),
        (b"a: 1\n b: 2\n", "line 2: "),
        (b"a: \x07\n", "control characters are not allowed|special characters are not allowed"),
        (b"a: 1\n" * (MAX_BYTES // 5 + 1), "more than 4,194,304 bytes"),
    ],
)
def test_every_fault_is_one_line_with_its_place(tmp_path, content, told):
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=told) as caught:
        read_yaml(path, "config", UsageError)
    assert str(caught.value).startswith(f"config {path}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(path))


def test_files_that_are_none(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_yaml(tmp_path / "absent.yaml", "manifest")
    with pytest.raises(DataError, match="is a folder, not a file"):
        read_yaml(tmp_path, "manifest")
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UsageError, match=r"pipe\.yaml is a FIFO, not a file"):
        read_yaml(tmp_path / "pipe.yaml", "config", UsageError)


def test_any_garbage_ends_in_one_line_or_is_read():
    draw = random.Random(0)
    pieces = ["a", "b:", ": ", "\n", "  ", "- ", "[", "]", "{", "}", "&x ", "*x", "!!int ", "!!set ", "!!binary ",
              "!!omap ", "!!timestamp ", "!!float ", "<<: ", "'", '"', "|\n", ">-\n", "#", "? ", "1e400", ".nan",
              "0x", "2001-99-99", "%YAML 9.9\n", "---\n", "...\n", "\t", "é", "\u2028", "\\", "~", "=",
              "12:30:45"]  # fmt: skip
    told = []
    for _ in range(1_500):
        text = "".join(draw.choices(pieces, k=draw.randrange(1, 14)))
        try:
            assert isinstance(parse_yaml(text, "x"), dict)
        except HierbenchError as error:
            told.append(str(error))
    assert told
    assert not any("\n" in line for line in told)
