"""The built-in models over seeds: docs/training.md has the table of the figures in leaderboard/reproductions."""

import json
from pathlib import Path

import pytest

from benchmarks import builtin_models as script
from hierbench.yaml_files import read_yaml

ROOT = Path(__file__).resolve().parents[2]
FIGURES = json.loads((ROOT / "leaderboard" / "reproductions" / "builtin.json").read_text(encoding="utf-8"))


def test_mean_deviation_and_interval_by_hand():
    """1, 2, 3: mean 2, deviation 1, and Student's t of two degrees of freedom, 4.303, over the root of three."""
    name = script.COLUMNS["TIE", 1]
    told = script.table(
        {"clip": {"0": {name: 1.0}, "1": {name: 2.0}, "2": {name: 3.0}}, "meru": {"0": {name: 7.0}}}
    )
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ") for line in told.splitlines()}
    assert rows["clip"][-1] == "2.0 ± 1.0 [-0.5, 4.5]"
    assert rows["meru"][-1] == "7.0"
    assert rows["clip"][2] == "–"


def test_the_docs_table_is_the_figures():
    assert script.table(FIGURES) in (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("family", sorted(FIGURES))
def test_seed_0_is_the_bundled_model(family):
    """The card's figures were measured when the model was bundled; a little moves with the machine's sums."""
    card = read_yaml(ROOT / "hierbench" / "reference" / "bundled" / f"{family}.yaml", "card", ValueError)
    for name in ("zero-shot/miniature-things mean_per_class", "retrieval/miniature t2i_r1"):
        assert FIGURES[family]["0"][name] == pytest.approx(card["figures"][name], abs=0.2)
