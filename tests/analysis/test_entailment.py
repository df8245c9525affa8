"""What is told of entailment scores against scikit-learn, on drawn scores and on all that tie; the files twice."""

import csv
import json
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from hierbench import registry
from hierbench.analysis import entailment, reports
from hierbench.contracts import Embeddings
from hierbench.data.locate import Locations
from hierbench.data.readers import open_dataset
from hierbench.geometry import Flat, Lorentz, Sphere
from hierbench.metrics.entailment import Curves


def scored(kind, samples=12, task="pep-v2/miniature", geometry=None):
    """The task and its scores of embeddings that are drawn, or all the same."""
    dataset = open_dataset("miniature-chains", Locations()).limited(samples)
    task = registry.task(task)
    wanted = task.requests(dataset)
    draw = torch.Generator().manual_seed(1)
    images, texts = (torch.randn(len(of), 4, generator=draw) for of in (wanted.images, wanted.texts))
    if kind == "same":
        images, texts = torch.ones_like(images), torch.ones_like(texts)
    found = Embeddings(wanted, images + 2, texts)
    return task, task.score(geometry or Lorentz(0.5), found, dataset)


def of_group(scores, group):
    """Labels and scores of a group's positives with all negatives, read from the pairs one by one."""
    pairs = scores.items["pairs"]
    wanted = {"all": None, **{f"level {n}": f"l{n}_image" for n in (1, 2, 3, 4)}}[group]
    rows = [
        (label, score)
        for label, score, relation in zip(pairs["label"], pairs["score"], pairs["relation"], strict=True)
        if not label or wanted in (None, relation)
    ]
    return np.array([label for label, _ in rows]), np.array([score for _, score in rows])


def test_figures_and_curves_are_scikit_learns():
    task, scores = scored("drawn")
    found = entailment.separation(task, scores)
    assert (found.task, found.definition, found.drawn) == ("pep-v2/miniature", "cone-angle", "margin")
    assert [one.group for one in found.told] == ["all", "level 1", "level 2", "level 3", "level 4"]
    for one in found.told:
        labels, values = of_group(scores, one.group)
        assert one.positives == labels.sum()
        assert one.auc.value == pytest.approx(roc_auc_score(labels, values), abs=1e-12)
        assert one.ap.value == pytest.approx(average_precision_score(labels, values), abs=1e-12)
        assert one.zero == np.mean(values[labels == 1] == 0)
        ties = np.mean(values[labels == 1][:, None] == values[labels == 0][None])
        assert one.tied == pytest.approx(ties, abs=1e-12)
        false, true, _ = roc_curve(labels, values, drop_intermediate=False)
        np.testing.assert_allclose(one.curves.false_positive_rate, false)
        np.testing.assert_allclose(one.curves.recall, true)
        precision, recall, _ = precision_recall_curve(labels, values)
        pairs = set(zip(recall.round(9), precision.round(9), strict=True))
        assert set(zip(one.curves.recall.round(9), one.curves.precision.round(9), strict=True)) == pairs
    assert found.negatives == (np.array(scores.items["pairs"]["label"]) == 0).sum()
    assert {name: counts.sum() for name, counts in found.histogram.items()} == {
        "negatives": found.negatives, "level 1": 12, "level 2": 12, "level 3": 12, "level 4": 12,
    }  # fmt: skip
    assert found.degenerate.startswith(f"{100 * found.told[0].tied:.1f} % of the comparisons")  # beyond 90 %


def test_a_thinned_curve_is_a_part_of_the_curve():
    draw = np.random.default_rng(0)
    false, true = (np.sort(np.append(draw.random(5000), [0, 1])) for _ in range(2))
    whole = Curves(np.arange(5002.0)[::-1], false, true, draw.random(5002))
    few = entailment.thinned(whole, 100)
    assert 50 < len(few.recall) <= 102
    kept = set(zip(whole.threshold, whole.false_positive_rate, whole.recall, whole.precision, strict=True))
    assert set(zip(few.threshold, few.false_positive_rate, few.recall, few.precision, strict=True)) <= kept
    assert (few.recall[0], few.recall[-1]) == (0, 1)
    short = Curves(*(np.array([0.0, 0.5, 1.0]) for _ in range(4)))
    np.testing.assert_array_equal(entailment.thinned(short).recall, short.recall)


def test_scores_that_all_tie_are_told(tmp_path):
    task, scores = scored("same", 3)
    found = entailment.separation(task, scores)
    assert found.degenerate == "all pairs have the same score"
    assert {one.tied for one in found.told} == {1.0}
    assert found.told[0].auc.value == 0.5
    rows = reports.entailments({"m": (task, scores)}, tmp_path, "title", "svg")
    assert {row["degenerate"] for row in rows} == {"all pairs have the same score"}
    words = " ".join(text_of(tmp_path / "entailment.svg"))
    assert words.count("all pairs have the same") == 2  # over both curves


def text_of(path):
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("form", ["png", "pdf", "svg"])
def test_the_files_are_the_same_twice_and_agree(tmp_path, form):
    made = {"one": scored("drawn", 1), "two" * 40: scored("drawn", 6)}
    for folder in ("a", "b"):
        rows = reports.entailments(made, tmp_path / folder, "title", form)
    for name in (f"entailment.{form}", "entailment.json", "entailment.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with open(tmp_path / "a" / "entailment.csv", encoding="utf-8", newline="") as file:
        assert [float(row["auc"]) for row in csv.DictReader(file)] == [row["auc"] for row in rows]
    document = json.loads((tmp_path / "a" / "entailment.json").read_text())
    assert [row for one in document["models"] for row in one["rows"]] == rows
    curve = document["models"][1]["curves"]["all"]
    assert curve["threshold"][0] is None
    area = np.trapezoid(curve["recall"], curve["false_positive_rate"])
    assert 100 * area == pytest.approx(rows[5]["auc"], abs=0.5)


def test_models_without_cones_are_seen_from_the_empty_caption():
    tasks = [registry.task("pep-v2/miniature"), registry.task("pep-v2-radial/miniature")]
    assert entailment.applicable(tasks, Sphere(), "m") is tasks[1]
    assert entailment.applicable(tasks, Lorentz(1.0), "m") is tasks[0]
    assert entailment.applicable(tasks, Flat(), "m") is tasks[1]
    found = entailment.separation(*scored("drawn", 4, "pep-v2-radial/miniature", Sphere()))
    assert found.definition == "radial"
