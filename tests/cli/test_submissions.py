"""`hierbench leaderboard submit`, `verify`, `add`: what is printed, exit statuses, mistakes in one line."""

import json

import pytest
from submitted import TASK, run_of

from hierbench.results import record_path


@pytest.fixture
def run_folder(tmp_path):
    return run_of(tmp_path / "run", {"good": 800, "poor": 400})


def test_from_a_run_to_the_board(hierbench, run_folder):
    packed = hierbench("leaderboard", "submit", run_folder, "good", "-o", "b.zip")
    assert packed.status == 0, packed.err
    assert "good   1      2        sound" in packed.out
    assert packed.err.endswith("written: b.zip\n")
    assert hierbench("leaderboard", "verify", "b.zip").status == 0
    added = hierbench("leaderboard", "add", "b.zip", "-o", "board")
    assert (added.status, added.err) == (0, "filed: board/good\n")
    document = json.loads(hierbench("leaderboard", "verify", "board", "--against", "board", "--json").out)
    assert document["sound"] is True
    assert [entry["model"] for entry in document["submissions"]] == ["good"]
    assert "good" in hierbench("leaderboard", "show", "board/good").out


def test_what_is_not_sound_is_said_and_not_filed(hierbench, run_folder, tmp_path):
    assert hierbench("leaderboard", "submit", run_folder, "-o", "b").status == 0
    path = record_path(tmp_path / "b" / "good", "good", TASK)
    path.write_text(path.read_text().replace("80.0", "99.0"))
    verified = hierbench("leaderboard", "verify", "b")
    assert verified.status == 1
    assert "NOT SOUND: good: results/good/zero-shot__miniature-colours.json was changed" in verified.out
    added = hierbench("leaderboard", "add", "b", "-o", "board")
    assert (added.status, added.out) == (2, "")
    assert added.err.startswith("hierbench: error: b does not verify: good: results/good/")
    assert added.err.count("\n") == 1
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("submit gone -o b", "no results in gone"),
        ("submit run godo -o b", "did you mean good"),
        ("submit run -o run", "run exists already"),
        ("submit run -o b --card gone.yaml", "tells of one model"),
        ("submit run good -o b --card gone.yaml", "card gone.yaml cannot be read"),
        ("verify gone", "there is no bundle gone"),
        ("verify run", "is no submission"),
        ("add gone", "there is no bundle gone"),
    ],
)
def test_mistakes(hierbench, run_folder, words, line):
    done = hierbench("leaderboard", *words.split())
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("hierbench: error: ")
    assert done.err.count("\n") == 1
    assert line in done.err
