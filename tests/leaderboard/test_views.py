"""Seeds in one row, columns chosen, gains over a baseline: by hand."""

import pytest

from hierbench.contracts import Estimate
from hierbench.errors import UnknownNameError
from hierbench.leaderboard import tables, views
from hierbench.results import Record


def record(model, value, task="zero-shot/imagenet", metric="top1", **fields):
    defaults = {
        "task_version": 1, "dataset": "imagenet", "protocol": "released", "family": "meru", "n": 1000,
        "metrics": {metric: Estimate(value, value - 1, value + 1)},
        "provenance": {"dataset_fingerprint": "f" * 64, "checkpoint_sha256": model * 8},
    }  # fmt: skip
    return Record(model=model, task=task, **{**defaults, **fields})


def cells(table):
    return {row.model: row.cells[0] for row in table.rows}


def test_seeds_are_one_row_with_mean_and_standard_deviation():
    table = views.together(
        tables.build([record("a@1", 40.0), record("b", 42.5), record("a@2", 42.0), record("a@seed3", 44.0)])
    )
    assert [row.model for row in table.rows] == ["a (3 seeds)", "b"]
    found = cells(table)["a (3 seeds)"]
    assert (found.estimate.value, found.sd, found.n) == (42.0, 2.0, 1000)  # by hand: deviations −2, 0, 2
    assert (found.estimate.low, found.best) == (None, False)
    assert cells(table)["b"].best


def test_one_seed_alone_other_families_and_other_names_stay_as_they_are():
    table = views.together(
        tables.build(
            [
                record("a@1", 40.0),
                record("b@1", 41.0),
                record("b@2", 42.0, family="clip"),
                record("c@x", 43.0),
            ]
        )
    )
    assert [row.model for row in table.rows] == ["a@1", "b@1", "b@2", "c@x"]


def test_a_card_may_say_recipe_and_seed():
    def carded(model, value, seed):
        notes = {"model_notes": {"recipe": "long", "seed": seed}, "checkpoint_sha256": model}
        return record(model, value, provenance=notes)

    table = views.together(tables.build([carded("first", 40.0, 1), carded("other", 41.0, 2)]))
    assert [row.model for row in table.rows] == ["long (2 seeds)"]


def test_a_seed_that_lacks_a_figure_leaves_the_cell_empty():
    table = views.together(
        tables.build(
            [record("a@1", 40.0), record("a@2", 0.0, metrics=None, error="no memory"), record("b", 41.0)]
        )
    )
    found = cells(table)["a (2 seeds)"]
    assert found.estimate is None
    assert table.footnotes[found.notes[0]] == "zero-shot/imagenet: measured alike for 1 of 2 seeds"


def test_a_seed_on_other_data_is_not_averaged():
    other = {"dataset_fingerprint": "0" * 64, "checkpoint_sha256": "x"}
    table = views.together(
        tables.build([record("a@1", 40.0), record("b", 41.0), record("a@2", 42.0, provenance=other)])
    )
    assert cells(table)["a (2 seeds)"].estimate is None


def test_gains_have_the_sign_of_the_difference():
    table = views.against(tables.build([record("a", 40.0), record("b", 42.5)]), "a")
    assert cells(table)["b"].gain == 2.5
    assert cells(table)["a"].gain is None
    assert table.baseline == "a"
    with pytest.raises(UnknownNameError, match="no row in this table 'c'"):
        views.against(table, "c")


def test_a_degenerate_figure_has_no_gain():
    table = tables.build([record("a", 40.0), record("b", 42.5, degenerate={"top1": "always the same"})])
    assert cells(views.against(table, "a"))["b"].gain is None


def test_columns_are_chosen_by_key_task_group_or_wildcard():
    table = tables.build(
        [
            record("a", 40.0),
            record("a", 3.0, "hierarchy/imagenet", "tie"),
            record("a", 50.0, "retrieval/coco", "t2i_r5"),
        ]
    )

    def keys(*patterns):
        return [column.key for column in views.chosen(table, patterns).columns]

    assert keys("zero-shot/*") == ["zero-shot/imagenet:top1"]
    assert keys("WordNet", "retrieval/coco:t2i_r5") == ["retrieval/coco:t2i_r5", "hierarchy/imagenet:tie"]
    with pytest.raises(UnknownNameError, match="did you mean WordNet"):
        views.chosen(table, ["WordNett"])


def test_footnotes_of_columns_that_are_left_out_go_with_them():
    table = tables.build(
        [
            record("a", 40.0),
            record("b", 0.0, metrics=None, skipped="no data"),
            record("a", 50.0, "retrieval/coco", "t2i_r5"),
        ]
    )
    assert len(table.footnotes) == 2
    kept = views.chosen(table, ["retrieval/*"])
    assert kept.footnotes == ("retrieval/coco: not run for this model",)
    assert kept.rows[1].cells[0].notes == (0,)


def test_second_best_is_marked_of_three_or_more():
    found = cells(tables.build([record("a", 40.0), record("b", 42.5), record("c", 42.46)]))
    assert [(model, cell.best, cell.second) for model, cell in found.items()] == [
        ("a", False, True), ("b", True, False), ("c", True, False),  # 42.46 prints as 42.5
    ]  # fmt: skip
    assert not any(
        cell.second for cell in cells(tables.build([record("a", 40.0), record("b", 42.5)])).values()
    )
