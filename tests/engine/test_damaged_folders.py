"""Damaged result folders: each gives one line or a table, never another exception, and never a hang."""

import json
import os
import random
import shutil

import numpy as np
import pytest

from hierbench.contracts import Estimate, MetricSpec
from hierbench.errors import HierbenchError
from hierbench.leaderboard import compare, render, tables
from hierbench.results import Record, items_path, record_path, write_record, write_run
from hierbench.results.record import described

TASK = "zero-shot/imagenet"
ODD = [
    None, True, -1, 0, 1e300, 10**40, "", "x", "\ud800", [], [1], ["a", None], {}, {"value": 1}, {"a": {"b": [1]}},
    float("nan"), float("inf"),
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of two models on one task, with items."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    label = np.arange(12) % 3
    for model, predicted in (("a", label), ("b", (label + (np.arange(12) % 2)) % 3)):
        hits = 100.0 * float(np.mean(predicted == label))
        record = Record(
            task=TASK, task_version=1, dataset="imagenet", protocol="released", model=model, family="random", n=12,
            metrics={"top1": Estimate(hits, hits - 5, hits), "mean_per_class": Estimate(hits)},
            specs=described([MetricSpec("top1", "Top-1"), MetricSpec("mean_per_class", "Acc")]), headline="top1",
            provenance={"dataset_fingerprint": "f" * 64, "checkpoint_sha256": model * 64},
        )  # fmt: skip
        items = {"images": {"image_id": [f"i{k}" for k in range(12)], "label": label, "predicted": predicted}}
        write_record(folder, record, items)
    write_run(folder, {"models": ["a", "b"], "tasks": [TASK], "layout": "argent"})
    return folder


def places(content, path=()):
    """The path of every entry of a JSON document."""
    yield path
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from places(content[key], (*path, key))


def mangle(path, rng):
    """Replace, drop or rename one entry of a JSON file."""
    content = json.loads(path.read_text())
    *parents, last = rng.choice([place for place in places(content) if place])
    holder = content
    for key in parents:
        holder = holder[key]
    what = rng.random()
    if what < 0.15:
        del holder[last]
    elif what < 0.25 and isinstance(holder, dict):
        holder["other"] = holder.pop(last)
    else:
        holder[last] = rng.choice(ODD)
    path.write_text(json.dumps(content))


def damage(folder, rng):
    """One of many damages to one file of the folder; its name for the report."""
    files = [
        record_path(folder, "a", TASK),
        items_path(folder, "a", TASK) / "images.parquet",
        folder / "run.json",
    ]
    path = rng.choices(files, [6, 2, 2])[0]
    kinds = ["cut", "flipped", "deep", "empty", "folder", "fifo", "link", "gone", "utf-16"]
    kind = rng.choice(kinds if path.suffix == ".parquet" else [*kinds, *["mangled"] * 12])
    content = path.read_bytes()
    if kind == "mangled":
        mangle(path, rng)
        return kind, path
    path.unlink()
    if kind == "cut":
        path.write_bytes(content[: rng.randrange(len(content))])
    elif kind == "flipped":
        place = rng.randrange(len(content))
        path.write_bytes(
            content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]
        )
    elif kind == "deep":
        path.write_text("[" * 50_000)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(path)
    elif kind == "utf-16":
        path.write_bytes(content.decode("latin-1").encode("utf-16"))
    return kind, path


def shown(folder):
    """The table as a terminal would get it."""
    table = tables.read([folder])
    render.terminal(table, 100).encode()
    json.dumps(render.as_dict(table))


def compared(folder):
    """The two models, item by item."""
    compare.compare("a", "b", [folder])


def refusal(use, folder):
    """The line in which a use of the folder is refused; empty where it works. Any other error goes on."""
    try:
        use(folder)
    except HierbenchError as error:
        return str(error)
    return ""


def test_a_damaged_folder_gives_a_line_or_a_table(whole, tmp_path):
    rng = random.Random(7)
    lines = []
    for number in range(120):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        done = damage(folder, rng)
        for use in (shown, compared):
            try:
                lines.append(refusal(use, folder))
            except Exception as error:
                pytest.fail(f"{use.__name__} after {done}: {type(error).__name__}: {error}")
    assert not any("\n" in line for line in lines)
    assert "".join(lines).encode()
    assert sum(map(bool, lines)) > 80  # most damages are seen


def test_the_whole_folder_gives_a_table_and_a_comparison(whole):
    assert [row.model for row in tables.read([whole]).rows] == ["a", "b"]
    assert any(difference.low is not None for difference in compare.compare("a", "b", [whole]).differences)
