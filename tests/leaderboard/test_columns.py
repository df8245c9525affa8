"""Columns: what a layout's line needs, what a metric's spec gives, what happens to tasks that no layout has."""

import csv

import pytest

from hierbench import registry
from hierbench.contracts import Estimate, MetricSpec
from hierbench.errors import OutputError
from hierbench.leaderboard import columns, render, tables
from hierbench.leaderboard.columns import Specs, layouts, read_layout
from hierbench.results import Record
from hierbench.results.record import described

BRIGHT = (
    MetricSpec("bright", "Brightness", unit="raw"),
    MetricSpec("error", "Error", higher_is_better=False, unit="fraction"),
)


def record(task, metrics, model="a", specs=(), **fields):
    return Record(
        task=task, task_version=1, dataset="d", protocol="released", model=model, family="f", n=10,
        metrics={name: Estimate(value) for name, value in metrics.items()}, specs=described(specs),
        headline=next(iter(metrics)), **fields,
    )  # fmt: skip


def headings(table):
    return [(c.group, c.title, c.unit, c.better) for c in table.columns]


def test_a_table_column_is_one_line_of_a_layout(tmp_path):
    """Title, unit and direction are the metric's own; a title may be given."""
    text = columns.documents("layouts")["miniature"].read_text()
    line = "      - {task: mine/light, metric: error}\n"
    place = text.index("  - title: Text→Image")
    (tmp_path / "ours.yaml").write_text(text[:place] + line + text[place:])
    found = record("mine/light", {"bright": 2.0, "error": 0.25}, specs=BRIGHT)
    table = tables.build([found], read_layout(tmp_path / "ours.yaml"))
    assert headings(table) == [("Classification", "Error", "fraction", "lower")]
    assert tables.printed(table.columns[0], 0.25) == "25.0"
    (tmp_path / "named.yaml").write_text(
        text[:place] + line.replace("error}", "error, title: E}") + text[place:]
    )
    assert headings(tables.build([found], read_layout(tmp_path / "named.yaml")))[0][1] == "E"


def test_a_task_of_ones_own_shows_all_its_metrics_under_no_papers_title():
    models = [
        record("mine/light", {"bright": 2.0, "error": e}, m, specs=BRIGHT)
        for m, e in (("a", 0.3), ("b", 0.2))
    ]
    table = tables.build(models)
    assert table.title == "Measured tasks"
    assert headings(table) == [
        ("mine/light", "Brightness", "raw", "higher"),
        ("mine/light", "Error", "fraction", "lower"),
    ]
    assert [row.cells[1].best for row in table.rows] == [False, True]  # the smaller error
    both = tables.build([*models, record("zero-shot/imagenet", {"top1": 40.0})])
    assert both.title == "ARGENT, Table 2, and further tasks"
    assert tables.build([record("zero-shot/imagenet", {"top1": 40.0})]).title == "ARGENT, Table 2"


def test_a_dataset_of_ones_own_shows_what_tables_show_of_its_kind():
    specs = registry.task("pep-v2").spec.metrics
    metrics = {metric.name: 0.5 for metric in specs}
    assert [c.metric for c in tables.build([record("pep-v2/mine", metrics, specs=specs)]).columns] == [
        *("auc", "ap", "auc_signed", "direction_auc", "zero_fraction", "auc_similarity", "auc_gain"),
    ]


def test_a_diagnosis_has_no_best():
    specs = registry.task("pep-v2").spec.metrics
    models = [
        record("pep-v2", {"zero_fraction": value}, name, specs=specs)
        for name, value in (("a", 0.1), ("b", 0.9))
    ]
    table = tables.build(models)
    assert [column.better for column in table.columns] == [""]
    assert not any(cell.best for row in table.rows for cell in row.cells)


def test_a_degenerate_figure_is_explained_and_never_the_best():
    sound = [record("pep-v2", {"auc": value}, model) for model, value in (("a", 0.7), ("b", 0.8))]
    odd = record("pep-v2", {"auc": 1.0}, "c", degenerate={"auc": "all captions lie at one point"})
    table = tables.build([*sound, odd])
    assert {row.model: row.cells[0].best for row in table.rows} == {"a": False, "b": True, "c": False}
    (note,) = table.rows[2].cells[0].notes
    assert table.footnotes[note] == "pep-v2: all captions lie at one point"


EVERY_TASK = [task.spec for task in registry.list_tasks()]


@pytest.mark.parametrize("name", sorted(layouts()))
def test_no_layout_doubles_a_heading_whatever_was_measured(name):
    """Each suite's records, and those of all tasks, in each layout: CSV headers are all different."""
    everything = [
        record(spec.name, {metric.name: 0.5 for metric in spec.metrics}, specs=spec.metrics)
        for spec in EVERY_TASK
    ]
    choices = [set(suite["tasks"]) for suite in registry.suites().values()] + [{r.task for r in everything}]
    for tasks in choices:
        chosen = [r for r in everything if r.task in tasks]
        for shown in (name, columns.every_metric(columns.layout(name), chosen)):
            header = next(csv.reader([render.csv(tables.build(chosen, shown)).partition("\n")[0]]))
            assert len(set(header)) == len(header)
            assert {r.task for r in chosen} <= {cell.partition(":")[0] for cell in header}


def test_every_metric_is_a_column_once():
    spec = registry.task("pep-v2").spec
    found = record("pep-v2", {metric.name: 0.5 for metric in spec.metrics}, specs=spec.metrics)
    names = [
        c.metric
        for c in tables.build([found], columns.every_metric(columns.layout("argent"), [found])).columns
    ]
    assert sorted(names) == sorted(metric.name for metric in spec.metrics)
    assert names[:2] == ["auc", "ap"]


def test_a_record_without_specs_falls_back_on_the_registered_task():
    column = Specs().applied(columns.Column("g", "", "tie", task="hierarchy/imagenet"))
    assert (column.title, column.unit, column.better) == ("TIE", "raw", "lower")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{task: pep-v2, metric: auc, unit: raw}", "a column has no unit"),
        ("{task: pep-v2}", "needs a metric and either"),
        ("{metric: auc}", "needs a metric and either"),
        ("{task: pep-v2, metric: auc, average_over: [pep-v2]}", "needs a metric and either"),
        ("{task: hierarcaps, metric: recall}", "hierarcaps:recall stands there twice"),
        ("hierarcaps", "hierarcaps is no column: task, metric, title are text"),
        ("{task: [a], metric: recall}", "is no column: task, metric, title are text"),
        ("{average_over: pep-v2, metric: auc}", "is no column: task, metric, title are text"),
    ],
)
def test_bad_layouts_give_one_line(tmp_path, line, reason):
    path = tmp_path / "odd.yaml"
    path.write_text(
        "title: T\ngroups:\n  - title: G\n    columns:\n      - {task: hierarcaps, metric: recall}\n"
        + f"      - {line}\n"
    )
    with pytest.raises(OutputError, match=reason) as caught:
        read_layout(path)
    assert str(path) in str(caught.value)
    path.write_text("title: T\n")
    with pytest.raises(OutputError, match="needs title and groups"):
        read_layout(path.rename(tmp_path / "other.yaml"))
