"""Figures held against the items beside them: edited records, edited items, missing items, what is remembered."""

import json
import shutil

import numpy as np
import pytest
from outcomes import save, zero_shot

from hierbench import results
from hierbench.leaderboard import checks, render, resampling
from hierbench.leaderboard.tables import gathered

TASK = "zero-shot/imagenet"
LABEL = np.arange(40) % 4


@pytest.fixture
def folder(tmp_path):
    """Two models with 30 and 20 of 40 right."""
    for model, right in (("better", 30), ("worse", 20)):
        predicted = np.where(np.arange(40) < right, LABEL, 3 - LABEL)
        save(tmp_path, model, TASK, {"top1": 100 * right / 40}, zero_shot(predicted, LABEL))
    return tmp_path


def edit(folder, model, change):
    """Change a record as an editor does."""
    path = results.record_path(folder, model, TASK)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def top1(folder):
    """Model -> its cell, and the footnotes of each."""
    table = checks.read([folder])
    return {
        row.model: (row.cells[0], [table.footnotes[note] for note in row.cells[0].notes])
        for row in table.rows
    }


def test_what_agrees_is_not_marked(folder):
    cells = top1(folder)
    assert [notes for _, notes in cells.values()] == [[], []]
    assert cells["better"][0].best
    assert not cells["worse"][0].best


def test_an_edited_figure_is_marked_and_never_the_best(folder):
    top1(folder)  # what agreed is remembered, and does not vouch for what is edited later
    edit(folder, "worse", lambda content: content["metrics"]["top1"].update(value=99.0, low=None, high=None))
    cells = top1(folder)
    assert cells["worse"][0].estimate.value == 99.0  # as recorded
    assert not cells["worse"][0].best
    assert cells["worse"][1] == [
        "zero-shot/imagenet: the recorded 99 of worse is not the 50 of its items: run it again"
    ]
    assert cells["better"][1] == []
    for form in render.FORMS:
        assert "the recorded 99 of worse is not the 50" in " ".join(
            render.text(form, [checks.read([folder])], width=500).split()
        )


def test_edited_items_are_marked(folder):
    other = results.items_path(folder, "better", TASK) / "images.parquet"
    shutil.copy(other, results.items_path(folder, "worse", TASK) / "images.parquet")
    cells = top1(folder)
    assert cells["worse"][1] == [
        "zero-shot/imagenet: the items of worse are not those that its record was computed from (their hash differs)"
    ]
    assert not cells["worse"][0].best


def test_a_record_that_lost_the_hash_of_its_items_is_marked(folder):
    edit(folder, "worse", lambda content: content.update(items_sha256=None))
    assert top1(folder)["worse"][1] == [
        "zero-shot/imagenet: there are items of worse of which its record has no hash"
    ]


def test_without_items_nothing_is_marked(folder):
    edit(folder, "worse", lambda content: content["metrics"]["top1"].update(value=99.0))
    shutil.rmtree(folder / "items")
    cells = top1(folder)
    assert [notes for _, notes in cells.values()] == [[], []]
    assert cells["worse"][0].best


def test_what_agreed_is_not_computed_again(folder, monkeypatch):
    top1(folder)
    monkeypatch.setattr(resampling, "read", lambda *_: pytest.fail("computed again"))
    assert [notes for _, notes in top1(folder).values()] == [[], []]


def test_a_cache_that_cannot_be_written_changes_nothing(folder, tmp_path_factory, monkeypatch):
    file = tmp_path_factory.mktemp("no") / "cache"
    file.write_text("a file where the folder should be")
    monkeypatch.setenv("HIERBENCH_CACHE", str(file))
    assert [notes for _, notes in top1(folder).values()] == [[], []]


def test_of_large_items_the_hash_alone_is_compared(folder, monkeypatch):
    monkeypatch.setattr(checks, "MOST_BYTES", 10)
    edit(folder, "worse", lambda content: content["metrics"]["top1"].update(value=99.0, low=None, high=None))
    ((_, folder_), (record, _)) = gathered([folder])
    assert checks.doubts(folder_, record) == {}
