"""Which columns and cells a table has, what is best, and what is never mixed."""

import math

import pytest

from hierbench.contracts import Estimate
from hierbench.errors import UnknownNameError
from hierbench.leaderboard import columns as layouts
from hierbench.leaderboard import tables
from hierbench.results import Record, write_record, write_run


def record(model="a", task="zero-shot/imagenet", value=40.0, metric="top1", **fields):
    """A record with one figure, or what `fields` make of it."""
    defaults = {
        "task_version": 1, "dataset": "imagenet", "protocol": "released", "family": "meru", "n": 1000,
        "provenance": {"dataset_fingerprint": "f" * 64, "checkpoint_sha256": model * 64},
    }  # fmt: skip
    if "error" not in fields and "skipped" not in fields:
        defaults["metrics"] = {metric: Estimate(value, value - 1, value + 1)}
    return Record(model=model, task=task, **{**defaults, **fields})


def column(table, key):
    """Cells of a column by model."""
    position = [c.key for c in table.columns].index(key)
    return {row.model: row.cells[position] for row in table.rows}


def keys(table):
    return [c.key for c in table.columns]


def test_columns_come_in_the_layouts_order_and_only_where_there_are_figures():
    table = tables.build(
        [
            record(task="pep-v2", metrics={"ap": Estimate(0.4), "auc": Estimate(0.9)}),
            record(task="hierarchy/imagenet", metrics={"lca": Estimate(2.1), "tie": Estimate(3.4)}),
            record(),
        ]
    )
    assert keys(table) == [
        "zero-shot/imagenet:top1",
        "hierarchy/imagenet:tie",
        "hierarchy/imagenet:lca",
        "pep-v2:auc",
        "pep-v2:ap",
    ]


def test_rows_keep_the_order_of_the_records():
    assert [row.model for row in tables.build([record("z"), record("a"), record("m")]).rows] == [
        "z",
        "a",
        "m",
    ]


@pytest.mark.parametrize(
    ("metric", "task", "values", "best"),
    [
        ("top1", "zero-shot/imagenet", {"a": 40.0, "b": 41.0}, {"b"}),
        ("tie", "hierarchy/imagenet", {"a": 3.40, "b": 3.41}, {"a"}),
        ("top1", "zero-shot/imagenet", {"a": 40.04, "b": 40.01, "c": 39.0}, {"a", "b"}),  # both print 40.0
        ("top1", "zero-shot/imagenet", {"a": 40.0}, set()),  # no contest
        ("top1", "zero-shot/imagenet", {"a": math.nan, "b": 1.0, "c": 2.0}, {"c"}),
    ],
)
def test_best_of_a_column(metric, task, values, best):
    table = tables.build([record(m, task, v, metric) for m, v in values.items()])
    assert {model for model, cell in column(table, f"{task}:{metric}").items() if cell.best} == best


def test_gaps_are_explained():
    table = tables.build(
        [
            record("a", "pep-v2", 0.9, "auc"),
            record("b", "pep-v2", skipped="the sphere has no cones"),
            record("c", "pep-v2", error="DataError: image x.jpg\nis empty"),
            record("d"),
        ]
    )
    cells = column(table, "pep-v2:auc")
    assert cells["a"].notes == ()
    assert [table.footnotes[note] for m in "bcd" for note in cells[m].notes] == [
        "pep-v2: skipped: the sphere has no cones",
        "pep-v2: failed: DataError: image x.jpg is empty",
        "pep-v2: not run for this model",
    ]


def test_a_task_that_failed_for_every_model_keeps_its_columns():
    table = tables.build([record(), record(task="pep-v2", error="boom")])
    assert keys(table)[:3] == ["zero-shot/imagenet:top1", "pep-v2:auc", "pep-v2:ap"]
    assert {key.partition(":")[0] for key in keys(table)[1:]} == {"pep-v2"}
    assert table.footnotes == ("pep-v2: failed: boom",)


def test_a_task_that_was_skipped_for_every_model_is_named_below():
    unfit = {"skipped": "no cones", "provenance": {"inapplicable": True}}
    table = tables.build([
        record(), record(task="pep-v2", skipped="get a"), record(task="hierarcaps", skipped="get b"),
        record(task="pep-uncleaned", **unfit), record(task="pep-v2", **unfit),
    ])  # fmt: skip
    assert keys(table) == ["zero-shot/imagenet:top1"]
    assert table.remarks[-2:] == (
        "Skipped: pep-uncleaned, pep-v2: no cones",
        "Skipped, as their data was not there: pep-v2, hierarcaps",
    )


@pytest.mark.parametrize(
    ("other", "titles"),
    [
        ({"task_version": 2}, ["v1", "v2"]),
        ({"protocol": "corrected"}, ["released", "corrected"]),
        ({"prompts": "photo"}, ["default prompts", "photo prompts"]),
        ({"limit": 50}, ["all items", "limit 50"]),
        ({"protocol": "corrected", "prompts": "photo", "limit": 5}, ["released, default prompts, all items",
         "corrected, photo prompts, limit 5"]),
    ],
)  # fmt: skip
def test_figures_measured_differently_never_share_a_column(other, titles):
    table = tables.build([record("a", value=40.0), record("b", value=50.0, **other)])
    assert [c.variant for c in table.columns] == titles or sorted(c.variant for c in table.columns) == sorted(
        titles
    )
    for position in range(2):
        measured = [row.model for row in table.rows if row.cells[position].estimate]
        assert len(measured) == 1
        assert not any(row.cells[position].best for row in table.rows)
    assert table.footnotes == ("zero-shot/imagenet: measured for this model in another column",)


def test_one_way_of_measuring_needs_no_distinction_but_is_named():
    table = tables.build(
        [
            record("a", limit=50, protocol="corrected", prompts="photo"),
            record("b", limit=50, protocol="corrected", prompts="photo"),
        ]
    )
    assert keys(table) == ["zero-shot/imagenet:top1"]
    assert (
        table.remarks[0]
        == "Protocol corrected, prompts photo; at most 50 items a dataset: not a full measurement."
    )


def test_different_data_in_one_column_is_marked_and_has_no_best():
    other = {"dataset_fingerprint": "0123456789abcdef", "checkpoint_sha256": "c"}
    table = tables.build([record("a"), record("b"), record("c", value=99.0, provenance=other)])
    cells = column(table, "zero-shot/imagenet:top1")
    assert [bool(cells[m].notes) for m in "abc"] == [False, False, True]
    assert "0123456789ab" in table.footnotes[cells["c"].notes[0]]
    assert not any(cell.best for cell in cells.values())


def test_number_of_items_is_stated():
    table = tables.build([record("a"), record("b", n=900), record("a", "pep-v2", 0.9, "auc", n=104000)])
    assert "n = 900–1,000: zero-shot/imagenet; n = 104,000: pep-v2." in table.remarks


SIXTEEN = next(c.average_over for c in layouts.layout("argent").columns if c.average_over)


def test_average_needs_all_sixteen_datasets():
    def records(model, tasks):
        return [record(model, task, 30.0 + 2 * i, "mean_per_class", n=10) for i, task in enumerate(tasks)]

    assert len(set(SIXTEEN)) == 16
    assert "average" not in keys(tables.build(records("a", SIXTEEN[:-1])))
    table = tables.build(records("a", SIXTEEN) + records("b", SIXTEEN[:-1]))
    cells = column(table, "average")
    assert cells["a"].estimate.value == pytest.approx(45.0)
    assert cells["a"].n == 160
    assert cells["a"].estimate.low == pytest.approx(45.0 - 4 / 16)  # sixteen times ±1: sqrt(16) / 16
    assert cells["b"].estimate is None
    assert "16 datasets" in table.footnotes[cells["b"].notes[0]]


@pytest.mark.parametrize(
    "other",
    [
        {"protocol": "corrected"},
        {"prompts": "photo"},
        {"variant": "whole-set"},  # images that are not the protocol's
        {"limit": 50},
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", ["argent", "hycoclip", "uncha", "all"])
def test_average_never_mixes_ways_of_measuring(layout, other):
    sixteen = next(c.average_over for c in layouts.layout(layout).columns if c.average_over)
    mixed = [record("a", task, 30.0, "mean_per_class") for task in sixteen[:-1]]
    assert "average" in keys(tables.build([*mixed, record("a", sixteen[-1], 30.0, "mean_per_class")], layout))
    mixed.append(record("a", sixteen[-1], 30.0, "mean_per_class", **other))
    assert "average" not in keys(tables.build(mixed, layout))


def test_an_average_of_whole_variants_says_so():
    """All sixteen under one other protocol are an average of that protocol."""
    both = [record("a", task, 30.0, "mean_per_class") for task in SIXTEEN]
    both += [record("b", task, 40.0, "mean_per_class", protocol="corrected") for task in SIXTEEN]
    averages = [c for c in tables.build(both).columns if c.average_over]
    assert [c.variant for c in averages] == ["released", "corrected"]


@pytest.mark.parametrize("layout", ["argent", "hycoclip", "uncha", "all"])
def test_averages_are_over_the_sixteen_datasets(layout):
    """In UNCHA's evaluator with SUN397 in TFDS' split, so that a run of the other split gives no average there."""
    (average,) = [c for c in layouts.layout(layout).columns if c.average_over]
    assert len(set(average.average_over)) == 16
    sun397 = "zero-shot/sun397-tfds" if layout == "uncha" else "zero-shot/sun397"
    assert sun397 in average.average_over
    assert {task.replace("-tfds", "") for task in average.average_over} == set(SIXTEEN)
    from hierbench import registry

    assert set(average.average_over) <= set(registry.task_factories())


def test_other_images_than_the_protocols_have_a_column_of_their_own():
    table = tables.build(
        [record("a"), record("b", variant="whole-set", prompts="photo"), record("c", value=3.0)]
    )
    assert [c.variant for c in table.columns] == [
        "released, default prompts",
        "released+whole-set, photo prompts",
    ]
    assert table.remarks[0].startswith("Protocol released+whole-set and released, prompts default and photo")


def test_models_that_share_a_name_get_rows_of_their_own():
    twins = [
        record("a"),
        record("a", family="hycoclip"),
        record("a", provenance={"checkpoint_sha256": "0123456789"}),
    ]
    assert [row.model for row in tables.build(twins).rows] == [
        "a (meru, aaaaaaaa)",
        "a (hycoclip)",
        "a (meru, 01234567)",
    ]


def test_tasks_of_other_layouts_and_of_nobody_get_columns():
    table = tables.build(
        [
            record(task="retrieval/miniature", metrics={"t2i_r1": Estimate(1.0), "i2t_r1": Estimate(2.0)}),
            record(task="zero-shot/miniature-things", metric="mean_per_class"),
        ]
    )
    assert keys(table) == [
        "retrieval/miniature:t2i_r1",
        "retrieval/miniature:i2t_r1",
        "zero-shot/miniature-things:mean_per_class",
    ]


def test_a_task_that_is_no_longer_registered_shows_its_first_metric_without_a_direction(monkeypatch):
    from hierbench import registry

    monkeypatch.setattr(registry, "task_factories", dict)
    table = tables.build([record(task="gone", metrics={"x": Estimate(0.5)}), record("b", "gone", 0.6, "x")])
    assert [(c.group, c.title, c.unit, c.better) for c in table.columns] == [("gone", "x", "raw", "")]
    assert not any(row.cells[0].best for row in table.rows)


def test_notes_of_the_figures_stand_below_once():
    note = ("images of 5 of 9 classes",)
    table = tables.build(
        [record("a", notes=note), record("b", notes=note), record("a", "pep-v2", 0.5, "auc", notes=note)]
    )
    assert table.remarks.count("zero-shot/imagenet, pep-v2: images of 5 of 9 classes.") == 1
    table = tables.build([record("a", notes=note), record("b")])
    assert "zero-shot/imagenet (a): images of 5 of 9 classes." in table.remarks


def test_layouts_agree_with_the_tasks():
    from hierbench import registry

    specs = {task.spec.name: task.spec for task in registry.list_tasks()}
    for layout in layouts.layouts().values():
        assert len({c.key for c in layout.columns}) == len(layout.columns)
        for c in layout.columns:
            if c.task in specs:
                assert c.metric in {metric.name for metric in specs[c.task].metrics}, c.key
    for suite in registry.suites().values():
        columns = layouts.layout(suite["layout"]).columns
        assert {c.task for c in columns} >= set(suite["tasks"])


def test_unknown_layout():
    with pytest.raises(UnknownNameError, match=r"no table layout 'argnt': did you mean argent"):
        tables.build([record()], "argnt")


def test_printed_figures():
    percent, fraction, raw = (layouts.Column("g", "t", "m", unit) for unit in layouts.UNITS)
    assert tables.printed(percent, 38.84) == "38.8"
    assert tables.printed(fraction, 0.38846) == "38.8"
    assert tables.printed(raw, 3.456) == "3.46"
    assert tables.printed(fraction, -0.0001) == "0.0"
    assert tables.printed(fraction, -0.271) == "-27.1"


def test_reading_folders_merges_them_and_the_later_one_counts(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    for folder, value in ((first, 40.0), (second, 42.0)):
        write_record(folder, record("a", value=value))
        write_run(folder, {"models": ["a"], "tasks": ["zero-shot/imagenet"], "layout": "argent"})
    write_record(first, record("b", value=41.0))
    cells = column(tables.read([first, second]), "zero-shot/imagenet:top1")
    assert {model: cell.estimate.value for model, cell in cells.items()} == {"a": 42.0, "b": 41.0}


def test_a_gap_never_replaces_a_figure(tmp_path):
    write_record(tmp_path / "1", record("a"))
    write_record(tmp_path / "2", record("a", skipped="no data"))
    for order in (["1", "2"], ["2", "1"]):
        assert len(tables.read([tmp_path / name for name in order]).columns) == 1


def test_a_model_that_did_not_load_keeps_its_row():
    table = tables.build(
        [record("a"), record("a", "pep-v2", error="no such file", family="unknown", provenance={})]
    )
    assert [row.model for row in table.rows] == ["a"]
    assert table.footnotes == ("pep-v2: failed: no such file",)


# -------------------------------------------------------------------------- definitions of entailment, retired tasks


def test_definitions_of_entailment_have_columns_of_their_own():
    """A product that clamps each factor breaks the ties of one cone: its AUC is of another score."""
    table = tables.build(
        [
            record("cone", "pep-v2", 0.77, "auc", definition="cone-angle"),
            record("eight", "pep-v2", 0.97, "auc", definition="product-mean-of-clamped"),
        ],
        "argent",
    )
    assert keys(table) == ["pep-v2:auc (cone-angle)", "pep-v2:auc (product-mean-of-clamped)"]
    assert [cell.estimate is None for cell in table.rows[0].cells] == [False, True]
    assert [cell.estimate is None for cell in table.rows[1].cells] == [True, False]
    assert not any(cell.best for row in table.rows for cell in row.cells)


def test_records_of_pep_v1_are_refused_by_name(tmp_path):
    write_record(tmp_path, record("a"), {})
    write_record(tmp_path, record("a", "pep-v1/mine", 0.9, "auc"), {})
    table = tables.read([tmp_path])
    assert keys(table) == ["zero-shot/imagenet:top1"]
    (said,) = [remark for remark in table.remarks if "pep-v1/mine" in remark]
    assert said.startswith("Skipped: pep-v1/mine: refused: pep-v1 was another reading of PEP's pairs")
    assert "pep-v2 replaced it: run that" in said
