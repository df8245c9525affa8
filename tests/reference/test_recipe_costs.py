"""The table of what published recipes take: as printed, and one row worked by hand."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def costs(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import recipe_costs

    return recipe_costs


def test_the_docs_hold_the_table(costs):
    assert costs.table() in (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def test_hycoclip_vit_b_by_hand(costs):
    """An image takes 2 · 17.6 G (DeiT-B's multiply-adds); a text of 77 tokens, 12 layers of width 512, 12 times
    24 · 77 · 512² + 4 · 77² · 512. Three times that forward and backward, twice for the box, 384 M samples.
    """
    (recipe,) = [each for each in costs.RECIPES if each.models == "HyCoCLIP"]
    text = 12 * (24 * 77 * 512**2 + 4 * 77**2 * 512)
    by_hand = 500_000 * 768 * 2 * 3 * (2 * 17.6e9 + text)
    assert costs.operations(recipe, "b") == pytest.approx(by_hand, rel=0.01)
    assert costs.hours(by_hand) == pytest.approx(by_hand / (0.4 * 989.4e12 * 3600))


def test_argents_ablations_see_what_its_paper_says(costs):
    """40,000 iterations, 30 M data points."""
    (recipe,) = [each for each in costs.RECIPES if each.data == "CC3M"]
    assert recipe.steps * recipe.batch == pytest.approx(30e6, rel=0.03)
