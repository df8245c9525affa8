"""What is filed of the built-in models was measured with the weights that the package holds."""

import hashlib
import json
from pathlib import Path

import pytest

FAMILIES = ("clip", "meru", "hycoclip", "uncha", "argent", "phyclip")
TABLES = (
    {
        "hierarchy/miniature-things": ("tie", "tie_by_chance", "lca_by_depth"),
        "levels/miniature-things": (
            "leaf", "hca", "por", "strict_por", "tor", "consistency", "gain", "mta",
        ),
    },
    {
        "which-caption/miniature": ("text", *(f"text_{kind}" for kind in (
            "swap_colours", "swap_relation", "replace_thing", "replace_colour", "replace_place"))),
        "himo/miniature": ("himo", "himo_rank", "rising"),
    },
)  # fmt: skip
"""The columns of the tables in docs/hierarchies.md."""

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = sorted((ROOT / "hierbench" / "reference" / "bundled").glob("*.safetensors"))


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda path: path.stem)
def test_filed_results_are_of_the_bundled_weights(weights):
    folder = ROOT / "leaderboard" / "results" / f"miniature-{weights.stem}"
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("results/*/*.json"))]
    measured = [record for record in records if record["metrics"] is not None]
    assert measured
    said = {record["provenance"]["checkpoint_sha256"] for record in measured}
    told = "results of older weights: file them anew (CONTRIBUTING.md, The built-in models)"
    assert said == {hashlib.sha256(weights.read_bytes()).hexdigest()}, told


def shown(family, task, metric):
    name = f"miniature-{family}"
    path = ROOT / "leaderboard" / "results" / name / "results" / name / f"{task.replace('/', '__')}.json"
    record = json.loads(path.read_text())
    value, unit = record["metrics"][metric]["value"], record["specs"][metric]["unit"]
    return f"{value:.2f}" if unit == "raw" else f"{value * (100 if unit == 'fraction' else 1):.1f}"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_docs_show_the_filed_figures_on_trees_and_captions(family):
    page = (ROOT / "docs" / "hierarchies.md").read_text(encoding="utf-8")
    for columns in TABLES:
        figures = [shown(family, task, metric) for task, metrics in columns.items() for metric in metrics]
        assert f"| {family} | {' | '.join(figures)} |" in page


@pytest.mark.parametrize(
    ("task", "metric"),
    [
        ("levels/miniature-things", "hca"),
        ("levels/miniature-things", "gain"),
        ("which-caption/miniature", "text_swap_colours"),
    ],
)
def test_the_readme_shows_the_filed_figures_on_trees(task, metric):
    row = " | ".join(shown(family, task, metric) for family in FAMILIES)
    assert f" | {row} |" in (ROOT / "README.md").read_text(encoding="utf-8")
