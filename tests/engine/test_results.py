"""Records: strict JSON, whole or not at all, in an order, with names that never share a file."""

import json
import math
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierbench import results
from hierbench.contracts import Estimate, MetricSpec
from hierbench.errors import OutputError
from hierbench.files import replacing, safe_name
from hierbench.results import (
    Record,
    Results,
    read_items,
    read_results,
    record_path,
    write_record,
    write_run,
)
from hierbench.results.record import described, outside, outside_note


def record(model="m", task="retrieval/coco", **state):
    if not state.keys() & {"metrics", "n", "error", "skipped"}:
        state |= {"metrics": {"r1": Estimate(12.5, 10.0, 15.0)}, "n": 40}
    return Record(
        task=task, task_version=3, dataset="coco", protocol="released", model=model, family="f",
        provenance={"checkpoint_sha256": "00"}, **state,
    )  # fmt: skip


def written(folder, one, items=None):
    """The path of the record, written."""
    write_record(folder, one, items)
    return record_path(folder, one.model, one.task)


def test_a_record_survives_the_way_through_a_file(tmp_path):
    written = record(metrics={"r1": Estimate(0.1 + 0.2, 1e-300, None)}, n=2, limit=7, notes=("ä", "b"))
    assert write_record(tmp_path, written) == written
    path = record_path(tmp_path, "m", "retrieval/coco")
    assert path == tmp_path / "results" / "m" / "retrieval__coco.json"
    assert list(read_results(tmp_path)) == [written]
    assert list(json.loads(path.read_text())) == [
        "schema", "task", "task_version", "dataset", "protocol", "variant", "prompts", "model", "family", "metrics",
        "specs", "headline", "degenerate", "definition", "n", "items_sha256", "limit", "notes", "error", "skipped",
        "provenance",
    ]  # fmt: skip


def test_figures_that_are_not_finite_become_null_and_read_as_nan(tmp_path):
    odd = record(metrics={"x": Estimate(math.nan, -math.inf, np.float32(2))}, n=1)
    text = odd.to_json()
    json.loads(text, parse_constant=pytest.fail)
    back = Record.from_json(text).metrics["x"]
    assert math.isnan(back.value)
    assert (back.low, back.high) == (None, 2.0)


@pytest.mark.parametrize("state", [{}, {"error": "e", "skipped": "s"}, {"metrics": {}, "error": "e"}])
def test_a_record_is_measured_failed_or_skipped_and_nothing_else(state):
    with pytest.raises(ValueError, match="exactly one"):
        record(**(state or {"n": 3}))


def test_status_and_lists():
    found = Results([record(), record(task="a", error="broke"), record(task="b", skipped="no data")])
    assert [r.status for r in found] == ["measured", "failed", "skipped"]
    assert [r.task for r in found.failed] == ["a"]
    assert [r.task for r in found.skipped] == ["b"]
    assert found.get("m", "a").error == "broke"
    assert found.get("m", "c") is None


def test_frame_has_one_row_a_figure():
    two = record(metrics={"r1": Estimate(1.0, 0.5, 1.5), "r5": Estimate(2.0)}, n=9)
    frame = Results([two, record(task="x", error="broke")]).frame()
    assert frame[["model", "task", "metric", "value", "n"]].values.tolist() == [
        ["m", "retrieval/coco", "r1", 1.0, 9],
        ["m", "retrieval/coco", "r5", 2.0, 9],
    ]
    assert frame.low.tolist()[0] == 0.5
    assert math.isnan(frame.low.tolist()[1])
    assert list(Results().frame().columns) == list(frame.columns)


def test_reading_follows_the_order_of_the_run(tmp_path):
    for model in ("a", "b"):
        for task in ("t1", "t2"):
            write_record(tmp_path, record(model, task))
    write_record(tmp_path, record("c", "t1"))
    write_run(tmp_path, {"models": ["b", "a"], "tasks": ["t2", "t1"]})
    assert [(r.model, r.task) for r in read_results(tmp_path)] == [
        ("b", "t2"), ("b", "t1"), ("a", "t2"), ("a", "t1"), ("c", "t1"),
    ]  # fmt: skip


def test_items_go_to_parquet_and_old_tables_go_away(tmp_path):
    first = {"old": {"x": [1]}, "images": {"id": ["a"], "hit": np.array([True])}}
    write_record(tmp_path, record(), first)
    columns = {
        "id": ["a", "b"],
        "score": np.array([0.5, np.nan], np.float32),
        "ranks": np.arange(4).reshape(2, 2),
    }
    written = write_record(tmp_path, record(), {"images": columns})
    assert list(read_results(tmp_path)) == [written]
    tables = read_items(tmp_path, written)
    assert list(tables) == ["images"]
    assert tables["images"].id.tolist() == ["a", "b"]
    assert tables["images"].score.dtype == np.float32
    assert [list(row) for row in tables["images"].ranks] == [[0, 1], [2, 3]]
    assert read_items(tmp_path, record(task="other")) == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ('{"schema": 1', "Expecting"),
        ("[1]", "not a result record"),
        ('{"task": "x"}', "not a result record"),
        ('{"schema": 99}', "schema 99, this hierbench reads 3: upgrade hierbench"),
        ('{"schema": 0}', "schema 0, this hierbench reads 3: run the task again"),
        ('{"schema": 2, "task": "x", "extra": 1}', "missing or unknown entries"),
        ('{"schema": true}', "not a result record"),
        ('{"schema": 2, "n": NaN}', "NaN is not a number of JSON"),
        ('{"schema": 2, "n": 1e999}', "not JSON compliant"),
        ('{"schema": 2, "model": "\\ud800"}', "surrogates not allowed"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested too deeply"),
    ],
)
def test_damaged_records_are_named(tmp_path, text, reason):
    path = record_path(tmp_path, "m", "t")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(OutputError, match=reason) as caught:
        read_results(tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (
            "metrics",
            {"auc": {"value": 1, "lower": 0, "high": 2}},
            "its figure auc is not value, low and high",
        ),
        ("metrics", {"auc": {"value": "1", "low": 0, "high": 2}}, "its figure auc"),
        ("metrics", {"auc": 1}, "its figure auc"),
        ("metrics", [1], "its metrics is not a mapping"),
        ("metrics", {"auc": {"value": 10**30, "low": 0, "high": 10**31}}, "beyond any sane size"),
        ("metrics", {"r1": {"value": 12, "low": 15, "high": 10}}, r"interval of its figure r1 is \[15, 10\]"),
        ("metrics", {"r1": {"value": 5, "low": 10, "high": 15}}, r"r1 is 5, outside its interval \[10, 15\]"),
        ("metrics", {"r1": {"value": 101, "low": None, "high": None}}, "r1 is 101, outside 0.0 to 100.0"),
        ("metrics", {"r1": {"value": 50, "low": -3, "high": 60}}, "r1 is -3, outside 0.0 to 100.0"),
        ("n", -7, "n is -7, not positive"),
        ("n", None, "n is None, not positive"),
        ("n", 4.5, "its n is not a whole number"),
        ("task_version", "1", "its task_version is not a whole number"),
        ("limit", "5", "its limit is not a whole number"),
        ("notes", "abc", "its notes are not a list of texts"),
        ("variant", None, "its variant is not text"),
        ("degenerate", {"r1": 3}, "its degenerate is not a mapping of texts"),
        ("specs", {"r1": {"title": "R@1"}}, "its specs of r1 are not title"),
        ("specs", {"r1": {"title": "R@1", "unit": "percent"}}, "its specs of r1 are not title"),
        ("provenance", {"dataset_fingerprint": 7}, "a dataset_fingerprint that is not text"),
        ("model", 5, "its model is not text"),
        ("provenance", None, "its provenance is not a mapping"),
    ],
)
def test_a_record_with_a_mangled_entry_is_damaged(tmp_path, field, value, reason):
    path = written(tmp_path, record(specs=described([MetricSpec("r1", "R@1")])))
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(OutputError, match=reason):
        read_results(tmp_path)


@pytest.mark.parametrize("text", ["[]", '{"models": 5}', '{"tasks": [1]}', '{"layout": [5]}', "{"])
def test_a_damaged_plan_is_named(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(OutputError, match=r"run\.json is damaged.*delete it"):
        results.read_run(tmp_path)


@pytest.mark.parametrize("damage", ["shortened", "another run's", "a folder", "a FIFO", "one more", "gone"])
def test_items_that_are_not_the_records_are_refused(tmp_path, damage):
    one = write_record(tmp_path, record(), {"images": {"value": [1.0]}})
    folder = results.items_path(tmp_path, one.model, one.task)
    path = folder / "images.parquet"
    whole = path.read_bytes()
    if damage == "one more":
        (folder / "extra.parquet").write_bytes(whole)
    else:
        path.unlink()
    if damage == "shortened":
        path.write_bytes(whole[:20])
    elif damage == "another run's":  # killed between items and record
        write_record(tmp_path, record(error="x"), {"images": {"value": [2.0]}})
    elif damage == "a folder":
        path.mkdir()
    elif damage == "a FIFO":
        os.mkfifo(path)
    with pytest.raises(OutputError, match=r"^\S+ (is damaged|holds the items of another).* --force$"):
        results.read_items(tmp_path, one)


def test_items_without_a_hash_in_the_record_are_refused(tmp_path):
    write_record(tmp_path, record(), {"images": {"value": [1.0]}})
    with pytest.raises(OutputError, match=r"no hash of them: run retrieval/coco of m again with --force"):
        results.read_items(tmp_path, record())


def test_a_value_outside_its_interval_stands_where_a_note_says_so():
    figure = Estimate(5.0, 10.0, 15.0)
    assert outside(figure)
    assert not outside(Estimate(10.0 - 1e-7, 10.0, 15.0))
    stated = record(metrics={"r1": figure}, n=4, notes=(outside_note("r1"),))
    assert Record.from_json(stated.to_json()) == stated
    with pytest.raises(ValueError, match="outside its interval"):
        Record.from_json(record(metrics={"r1": figure}, n=4, notes=(outside_note("r5"),)).to_json())


def test_limits_come_from_the_unit_unless_given():
    specs = [
        MetricSpec("a", "A"), MetricSpec("b", "B", unit="fraction", minimum=-1.0), MetricSpec("c", "C", unit="raw"),
    ]  # fmt: skip
    assert [spec.limits for spec in specs] == [(0.0, 100.0), (-1.0, 1.0), (None, None)]
    assert described(specs)["b"] == {
        "title": "B", "unit": "fraction", "higher_is_better": True, "minimum": -1.0, "maximum": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("released", ("released", "", "default")),
        ("corrected+photo", ("corrected", "", "photo")),
        ("released+whole-set", ("released", "whole-set", "default")),
        ("released+whole-set+photo", ("released", "whole-set", "photo")),
    ],
)
def test_records_of_schema_1_are_taken_apart(name, parts):
    old = {
        "schema": 1, "task": "t", "task_version": 3, "dataset": "d", "protocol": name, "model": "m", "family": "f",
        "metrics": {"r1": {"value": 12.5, "low": 10.0, "high": 15.0}}, "n": 40, "limit": None, "notes": ["x"],
        "error": None, "skipped": None, "provenance": {"checkpoint_sha256": "00"},
    }  # fmt: skip
    new = Record.from_json(json.dumps(old))
    assert (new.protocol, new.variant, new.prompts) == parts
    assert new.way == name
    assert (new.schema, new.definition, new.specs, new.items_sha256, new.notes) == (3, "", {}, None, ("x",))
    assert new.metrics == {"r1": Estimate(12.5, 10.0, 15.0)}


def test_a_folder_without_results_says_so(tmp_path):
    with pytest.raises(OutputError, match="no results in"):
        read_results(tmp_path / "nowhere")


def test_a_failed_write_leaves_the_old_record(tmp_path, monkeypatch):
    path = written(tmp_path, record())
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_record(tmp_path, record(error="new"))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_replacing_keeps_the_file_when_the_block_fails(tmp_path):
    path = tmp_path / "new" / "file"
    with replacing(path) as temporary:
        temporary.write_text("first")

    def interrupted():
        with replacing(path) as temporary:
            temporary.write_text("second")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "first"
    assert list(path.parent.iterdir()) == [path]


def test_plain_names_stay_as_they_are():
    for name in ("tiny", "hycoclip-vit-b", "ViT-B-32", "a_b.c", "x" * 80):
        assert safe_name(name) == name


@given(st.lists(st.text(max_size=100), unique=True, max_size=8))
def test_names_never_share_a_file(names):
    files = [safe_name(name) for name in names]
    files += [safe_name(file) for file in files if safe_name(file) != file]
    assert len(set(files)) == len(files)
    for file in files:
        assert file not in ("", ".", "..")
        assert not set(file) & set('/\\\0:*?"<>| ')
        assert not file.startswith(".")
        assert len(file) <= 120


def test_task_names_never_share_a_file(tmp_path):
    names = ("a/b", "a__b", "a_b", "a//b", "a/b/")
    assert len({record_path(tmp_path, "m", name) for name in names}) == len(names)


def test_results_show_themselves_in_a_notebook():
    html = Results(
        [
            Record(
                task="t/<one>", task_version=1, dataset="d", protocol="released", model="A & B", family="f", n=7,
                metrics={"auc": Estimate(0.75, 0.5, 0.875)}, headline="auc",
                specs={"auc": {"title": "AUC", "unit": "fraction", "higher_is_better": True}},
            ),
            Record(
                task="two", task_version=1, dataset="d", protocol="released", model="A & B", family="f",
                skipped="no data <here>",
            ),
            Record(
                task="two", task_version=1, dataset="d", protocol="released", model="C", family="f", n=7,
                metrics={"top1": Estimate(41.25)}, headline="top1",
            ),
        ]
    )._repr_html_()  # fmt: skip
    assert "<th>t/&lt;one&gt;<br>auc</th><th>two<br>top1</th>" in html
    assert '<tr><th>A &amp; B</th><td title="50 to 87.5, n = 7">75</td><td>skipped</td></tr>' in html
    assert '<tr><th>C</th><td></td><td title="">41.25</td></tr>' in html
    assert "<li>A &amp; B, two: no data &lt;here&gt;</li>" in html
