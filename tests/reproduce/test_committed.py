"""The reproductions in leaderboard/: each table and verdict is what its JSON says, and the study is the present one."""

import re
from collections import Counter
from pathlib import Path

import pytest

from hierbench.reproduce import report
from hierbench.reproduce.study import read_study

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(folder for folder in (ROOT / "leaderboard" / "reproductions").iterdir() if folder.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_table_is_that_of_the_json(folder):
    result = report.read(folder / report.RESULT)
    assert report.markdown(result) == (folder / report.TABLE).read_text(encoding="utf-8")
    assert result["study"] == folder.name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_figures_of_the_paper_are_the_studys(folder):
    result, study = report.read(folder / report.RESULT), read_study(folder.name)
    assert {row: result["measures"][row]["metrics"] for row in result["measures"]} == {
        name: measure.metrics for name, measure in study.measures.items()
    }
    printed = [list(line["paper"].values()) for group in result["lines"] for line in group["lines"]]
    assert printed == [line.paper for line in study.all_lines()]
    assert [claim["says"] for claim in result["claims"]] == [c.says for c in study.claims for _ in c.by]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_verdicts_follow_from_the_figures(folder):
    """The mean advantage is that of the rows' figures by seed, and the verdict that of its interval."""
    result = report.read(folder / report.RESULT)
    for claim in result["claims"]:
        first, second = (
            result["rows"][claim[side]]["figures"][claim["measure"]]["by_seed"] for side in ("better", "than")
        )
        sign = 1 if result["measures"][claim["measure"]]["better"] == "higher" else -1
        by_seed = [sign * (first[seed] - second[seed]) for seed in first if seed in second]
        assert claim["by_seed"] == pytest.approx(by_seed, abs=1e-3)
        assert claim["advantage"] == pytest.approx(sum(by_seed) / len(by_seed), abs=1e-3)
        told = "holds" if claim["low"] > 0 else "does not hold" if claim["high"] < 0 else "cannot be told"
        assert claim["verdict"] == (told if len(by_seed) > 1 else "cannot be told")


def told(text):
    """What a passage says: (trainings, claims, those that hold, that do not, that cannot be told)."""
    (trainings,) = re.findall(r"\((\d+) trainings", text)
    (claims,) = re.findall(r"(?i)of (\d+) claims", text)
    holding, not_holding = (re.findall(pattern, text) for pattern in (r"(\d+) hold\b", r"(\d+) do not"))
    open_ = re.findall(r"(\d+) cannot be told", text) or [claims] * ("none of" in text)
    return tuple(
        int(found) for found in (trainings, claims, *(holding or [0]), *(not_holding or [0]), *open_)
    )


def test_the_pages_count_as_the_json_does():
    page = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    said = {
        name: told(line)
        for name, line in re.findall(r"reproductions/([\w-]+)/table\.md\)\s(\(\d+ trainings[^)]+)\)", page)
    }
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    passage = readme.partition("## A paper's claims in small")[2].partition("\n## ")[0]
    assert told(passage) == said["argent-table3"]
    counted = {}
    for folder in FOLDERS:
        result = report.read(folder / report.RESULT)
        verdicts = Counter(claim["verdict"] for claim in result["claims"])
        kinds = (verdicts[kind] for kind in ("holds", "does not hold", "cannot be told"))
        counted[folder.name] = (result["trainings"]["done"], len(result["claims"]), *kinds)
    assert said == counted
