"""A run into another folder takes over what was measured before, where nothing has changed, and only then."""

import json
import logging
import os
import shutil
import time
from dataclasses import replace

import pytest
from PIL import Image

from hierbench.cache import cache_dir
from hierbench.engine import remembering
from hierbench.engine.runner import run
from hierbench.engine.setup import RunModel
from hierbench.errors import OutputError
from hierbench.results import items_path, read_items, read_results, record_path, take_over

TASKS = [
    "zero-shot/miniature-things",
    "pep-v2/miniature",
]  # the second does not apply to a model without cones
HOW = {"limit": 6, "workers": 0, "device": "cpu"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with both tasks of miniature-clip, and the cache of that run."""
    folder = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIERBENCH_CACHE", str(folder / "cache"))
        run("miniature-clip", TASKS, out=folder / "first", **HOW)
    return folder


@pytest.fixture
def first(measured, tmp_path):
    """A copy of that folder, in a cache that is a copy too."""
    shutil.copytree(measured / "cache", cache_dir(), dirs_exist_ok=True)
    return shutil.copytree(measured / "first", tmp_path / "first")


@pytest.fixture
def loads(monkeypatch):
    """Names of the models that are loaded from now on."""
    names, load = [], RunModel.load
    monkeypatch.setattr(RunModel, "load", lambda self, *rest: names.append(self.name) or load(self, *rest))
    return names


def files(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for kind in ("results", "items")
        for path in (folder / kind).rglob("*.*")
    }


def test_another_folder_gets_the_same_files_and_no_model_is_loaded(first, loads, tmp_path, caplog):
    caplog.set_level(logging.INFO, "hierbench")
    found = run("miniature-clip", TASKS, out=tmp_path / "second", **HOW)
    assert loads == []
    assert files(tmp_path / "second") == files(first) != {}
    assert found == read_results(first)
    assert [record.status for record in found] == ["measured", "skipped"]
    assert f"as measured {found[0].provenance['recorded']}, nothing has changed" in caplog.text


def test_the_record_bears_the_name_that_the_model_has_here(first, loads, tmp_path):
    out = tmp_path / "second"
    [record] = run([("miniature-clip", None, "mine")], TASKS[:1], out=out, **HOW)
    assert (loads, record.model) == ([], "mine")
    [before] = [record for record in read_results(first) if record.task == TASKS[0]]
    tables, others = read_items(out, record), read_items(first, before)
    assert tables.keys() == others.keys() != set()
    assert all(tables[name].equals(others[name]) for name in tables)
    assert replace(record, model="miniature-clip") == before


@pytest.mark.parametrize(
    "change",
    [{"force": True}, {"cache": False}, {"limit": 5}, {"prompts": "photo"}, {"protocol": "corrected"},
     {"dtype": "bfloat16"}, {"batch_size": 3}],
    ids=str,
)  # fmt: skip
def test_other_options_are_measured(first, loads, tmp_path, change):
    run("miniature-clip", TASKS[:1], out=tmp_path / "second", **HOW | change)
    assert loads == ["miniature-clip"]


def test_without_a_folder_a_run_measures(first, loads):
    run("miniature-clip", TASKS[:1], **HOW)
    assert loads == ["miniature-clip"]


@pytest.mark.parametrize("name", ["_code", "_versions"])
def test_other_code_is_measured(first, loads, tmp_path, monkeypatch, name):
    monkeypatch.setattr(remembering, name, lambda: {"torch": "another"})
    run("miniature-clip", TASKS[:1], out=tmp_path / "second", **HOW)
    assert loads == ["miniature-clip"]


def test_the_state_of_the_code_moves_with_every_file(tmp_path, monkeypatch):
    module = tmp_path / "stranger" / "deep" / "metric.py"
    module.parent.mkdir(parents=True)
    module.write_text("a = 1\n")
    (tmp_path / "stranger" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(remembering, "CODE", ("stranger",))
    states = [remembering._code.__wrapped__()]
    module.write_text("a = 2\n")
    os.utime(module, (1, 1))
    states.append(remembering._code.__wrapped__())
    (module.parent / "more.yaml").touch()
    states.append(remembering._code.__wrapped__())
    assert len(set(states)) == 3
    assert remembering._code.__wrapped__() == states[-1]


@pytest.mark.parametrize("damage", ["data", "record", "items", "no items"])
def test_what_is_damaged_or_of_other_data_is_measured_and_mended(first, loads, tmp_path, damage):
    [place] = [path for path in (cache_dir() / "measurements").iterdir() if (path / "items").exists()]
    record = record_path(place, remembering.NAME, TASKS[0])
    [table] = items_path(place, remembering.NAME, TASKS[0]).iterdir()
    if damage == "data":
        content = json.loads(record.read_text())
        content["provenance"]["dataset_fingerprint"] = "of other images"
        record.write_text(json.dumps(content))
    elif damage == "record":
        record.write_text("{")
    elif damage == "items":
        table.write_bytes(table.read_bytes()[:-1] + b"!")
    else:
        table.unlink()
    again = run("miniature-clip", TASKS[:1], out=tmp_path / "second", **HOW)
    assert loads == ["miniature-clip"]
    assert again[0].metrics == read_results(first)[0].metrics
    run("miniature-clip", TASKS[:1], out=tmp_path / "third", **HOW)
    assert loads == ["miniature-clip"]
    assert files(tmp_path / "third") == files(tmp_path / "second")


MANIFEST = """
title: My things
reader: imagefolder
tasks: [zero-shot, hierarchy]
fit: crop
templates: ["a {}"]
classes: {a: cat, b: dog, c: car, d: bird}
taxonomy: {thing: {animal: [a, b, d], machine: [c]}}
outside: []
node_names: {animal: animal}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("fit: crop", "fit: squeeze"),
        ('"a {}"', '"the {}"'),
        ("b: dog", "b: fish"),
        ("[a, b, d], machine: [c]", "[a, b], machine: [c, d]"),
        ("machine: [c]}}\noutside: []", "other: [c]}}\noutside: []"),
        ("[a, b, d], machine: [c]}}\noutside: []", "[a, b], machine: [c]}}\noutside: [d]"),
        ("animal: animal", "animal: mammal"),
        ("60.png", "changed"),
        ("60.png", "gone"),
    ],
)
def test_a_dataset_of_ones_own_is_measured_again_when_it_changes(tmp_path, loads, old, new):
    file, name = tmp_path / "own.yaml", f"own-{abs(hash((tmp_path.name, old, new)))}"
    for number, kind in enumerate("abcd"):
        (tmp_path / "data" / kind).mkdir(parents=True)
        for shade in (60, 200):
            Image.new("RGB", (9, 9), (shade, 80 * number, 255 - shade)).save(
                tmp_path / "data" / kind / f"{shade}.png"
            )
    places = {"manifest": file, "data": {name: tmp_path / "data"}, "workers": 0, "device": "cpu"}
    tasks = [f"zero-shot/{name}", f"hierarchy/{name}"]
    file.write_text(f"name: {name}\n{MANIFEST}")
    first = run("miniature-argent", tasks, out=tmp_path / "first", **places)
    assert [record.status for record in first] == ["measured", "measured"]
    if old == "60.png":
        image = tmp_path / "data" / "a" / "60.png"
        image.write_bytes(
            (tmp_path / "data" / "b" / "60.png").read_bytes()
        ) if new == "changed" else image.unlink()
    file.write_text(f"name: {name}\n{MANIFEST.replace(old, new)}")
    run("miniature-argent", tasks, out=tmp_path / "second", **places)
    assert len(loads) == (1 if old == new else 2)
    run("miniature-argent", tasks, out=tmp_path / "first", **places)  # which holds the old records
    assert len(loads) == (1 if old == new else 2)  # the new ones are remembered by now
    assert read_results(tmp_path / "first") == read_results(tmp_path / "second")


def test_code_of_the_users_is_not_remembered(tmp_path, fakes, images, opens):
    opens(things=fakes.dataset(images))
    task = fakes.Task()
    run(fakes.Adapter(), [task], out=tmp_path / "first")
    run(fakes.Adapter(), [task], out=tmp_path / "second")
    assert task.scored == [20, 20]
    assert remembering.stats() == (0, 0)


def test_a_cache_that_cannot_be_written_costs_a_warning(tmp_path, caplog):
    cache_dir().mkdir(parents=True, exist_ok=True)
    (cache_dir() / "measurements").write_text("a file")
    found = run("miniature-clip", TASKS, out=tmp_path / "out", **HOW)
    assert [record.status for record in found] == ["measured", "skipped"]
    assert caplog.text.count("measurements are not remembered: cannot write") == 1
    assert remembering.stats() == (0, 0)


def test_what_was_not_used_for_long_is_forgotten_and_then_the_least_recently_used(first):
    places = sorted((cache_dir() / "measurements").iterdir())
    sizes = [sum(file.stat().st_size for file in place.rglob("*.*")) for place in places]
    assert remembering.stats() == (2, sum(sizes))
    now = time.time()
    os.utime(places[0], (now - 100, now - 100))
    os.utime(places[1], (now - 50_000, now - 50_000))
    assert remembering.prune() == (0, 0)
    assert remembering.prune(max_bytes=sum(sizes)) == (0, 0)
    assert remembering.prune(older_than=10_000) == (1, sizes[1])
    assert remembering.prune(max_bytes=sizes[0] - 1) == (1, sizes[0])
    assert remembering.stats() == (0, 0)


def test_items_of_another_measurement_are_not_taken_over(first, tmp_path):
    record = read_results(first)[0]
    other = replace(record, items_sha256="0" * 64)
    with pytest.raises(OutputError, match="holds the items of another measurement"):
        take_over(tmp_path / "second", other, items_path(first, record.model, record.task))
    assert not record_path(tmp_path / "second", record.model, record.task).exists()
