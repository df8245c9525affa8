"""Published figures: as the papers print them, keyed by source, never merged; what is wrong with a file."""

import pytest

from hierbench.errors import OutputError, UnknownNameError
from hierbench.leaderboard import columns, papers, tables

ALL = sorted(columns.documents("published"))


def figure(table, model, key):
    """As printed."""
    place = [column.key for column in table.columns].index(key)
    (row,) = [row for row in table.rows if row.model == model]
    estimate = row.cells[place].estimate
    return None if estimate is None else tables.printed(table.columns[place], estimate.value)


@pytest.mark.parametrize(
    ("name", "model", "key", "printed"),
    [
        ("argent", "HyCoCLIP-S", "zero-shot/imagenet:top1", "37.3"),
        ("argent", "ARGENT-B", "average", "42.8"),
        ("argent", "CLIP-L", "retrieval/flickr30k:i2t_r10", "96.1"),
        ("argent", "MERU-S", "hierarchy/imagenet:tie", "4.35"),
        ("argent", "ARGENT-S", "pep-v2:auc", "99.3"),
        ("argent", "CLIP-B", "pep-v2:auc", None),
        ("argent-hierarcaps", "CLIP-L-FT, k=10", "hierarcaps:recall", "48.1"),
        ("argent-ablation", "HyCoCLIP-S AdaEnt", "PEP: AP", "76.9"),
        ("argent-ablation", "MERU-S Ent", "WordNet: Err.", "5.07"),
        ("hycoclip", "HyCoCLIP-B/16", "zero-shot/imagenet:mean_per_class", "45.8"),
        ("hycoclip", "MERU-S/16", "retrieval/coco:t2i_r10", "65.3"),
        ("uncha", "UNCHA-B", "zero-shot/cifar10:mean_per_class", "90.4"),
        ("uncha", "ATMG-B", "zero-shot/stl10:mean_per_class", None),
        ("uncha-multilabel", "CLIP-B", "SimCo: 5 objects", "88.5"),
    ],
)
def test_figures_are_the_papers(name, model, key, printed):
    assert figure(papers.published(name), model, key) == printed


def test_table_2_is_whole():
    table = papers.published("argent")
    assert not table.measured
    assert (len(table.rows), len(table.columns)) == (12, 15)


@pytest.mark.parametrize("name", ALL)
def test_every_table_names_its_source_and_every_row_its_training_data(name):
    table = papers.published(name)
    assert table.title.startswith("PUBLISHED, not measured by hierbench")
    assert "arXiv:" in table.source
    assert all(row.trained_on for row in table.rows)
    assert any("rained on" in remark for remark in table.remarks)


def test_layouts_show_published_figures_that_exist():
    shown = {name for layout in columns.layouts().values() for name in layout.published}
    assert shown == set(ALL)


def test_a_model_has_a_row_for_every_source():
    """HyCoCLIP-B on ImageNet: 45.8 as its authors trained it, 43.1 as ARGENT's authors did."""
    table, row = papers.find("argent:HyCoCLIP-B", ["argent", "uncha"])
    assert row.cells[0].estimate.value == 43.1
    assert papers.find("uncha:HyCoCLIP-B", ["argent", "uncha"])[1].cells[0].estimate.value == 45.8
    with pytest.raises(OutputError, match="write argent:HyCoCLIP-B or uncha:HyCoCLIP-B"):
        papers.find("HyCoCLIP-B", ["argent", "uncha"])
    assert papers.find("ARGENT-L", ["argent", "uncha"])[0].source == table.source
    with pytest.raises(UnknownNameError, match="did you mean"):
        papers.find("ARGENT-T", ["argent"])


GOOD = """
title: T
source: {paper: P, table: Table 1}
layout: argent
columns: ["zero-shot/imagenet:top1", {group: G, title: own, unit: raw, better: lower}]
rows:
  - {model: a, row: A, trained_on: X, figures: [1.5, null]}
"""


def test_a_good_file(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    assert figure(papers.read(path), "a", "zero-shot/imagenet:top1") == "1.5"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("imagenet:top1", "imagenet:top9", "no task has a metric 'zero-shot/imagenet:top9'"),
        ("zero-shot/imagenet:top1", "zero-shot/gone:top1", "no task has a metric 'zero-shot/gone:top1'"),
        ("zero-shot/imagenet:top1", "sums", "no task has a metric 'sums'"),
        ("unit: raw", "unit: metres", "a column of its own has title, group, unit and better"),
        ("layout: argent", "layout: argnt", "no table layout 'argnt'"),
        ("[1.5, null]", "[1.5]", "the row a has 1 figures for 2 columns"),
        ("[1.5, null]", "[.nan, null]", "zero-shot/imagenet:top1 is nan, not a number"),
        ("[1.5, null]", "['1.5', null]", "is '1.5', not a number"),
        ("[1.5, null]", "[150, null]", "outside 0 to 100 percent"),
        ("trained_on: X, ", "", "a row needs model, row"),
        ("table: Table 1", "page: 3", "it needs title, source (paper and table)"),
        ("rows:", "lines:", "it needs title, source (paper and table), columns and rows"),
        ("rows:", "rows: []\nothers:", "rows is not a list"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path, old, new, message):
    path = tmp_path / "bad.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(OutputError) as caught:
        papers.read(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_row_or_a_column_twice(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text(GOOD + "  - {model: a, row: A again, trained_on: X, figures: [2.5, null]}\n")
    with pytest.raises(OutputError, match="the row a stands there twice"):
        papers.read(path)
    path.write_text(
        GOOD.replace("{group: G, title: own, unit: raw, better: lower}", '"zero-shot/imagenet:top1"')
    )
    with pytest.raises(OutputError, match="the column zero-shot/imagenet:top1 stands there twice"):
        papers.read(path)
