"""Paired comparison: differences and intervals from per-item outcomes, and what cannot be paired."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from hierbench import registry
from hierbench.contracts import Estimate
from hierbench.errors import OutputError, UnknownNameError
from hierbench.leaderboard.compare import against_published, compare
from hierbench.metrics import bootstrap, multilabel
from hierbench.metrics.multilabel import map_statistic
from hierbench.results import Record, write_record

VERSIONS = {task.spec.name: task.spec.version for task in registry.list_tasks()}


def save(folder, model, task, metrics, items, **fields):
    defaults = {
        "task_version": VERSIONS.get(task, 1), "dataset": "d", "protocol": "released", "family": "random", "n": 40,
        "provenance": {"dataset_fingerprint": "f" * 64, "checkpoint_sha256": model * 8},
    }  # fmt: skip
    metrics = {name: Estimate(value) for name, value in metrics.items()}
    write_record(folder, Record(model=model, task=task, metrics=metrics, **{**defaults, **fields}), items)


def zero_shot(predicted, label, ids=None):
    ids = [f"i{k}" for k in range(len(label))] if ids is None else ids
    return {
        "images": {"image_id": ids, "label": label, "predicted": predicted, "correct": predicted == label}
    }


@pytest.fixture
def draws():
    """The same resamples as the module's, for independent figures."""
    return np.concatenate(list(bootstrap.draws(40)))


def test_accuracy(tmp_path, draws):
    rng = np.random.default_rng(0)
    label = np.arange(40) % 4
    predicted = {
        m: np.where(rng.random(40) < share, label, 3 - label) for m, share in (("a", 0.9), ("b", 0.4))
    }
    hit = {m: predicted[m] == label for m in predicted}
    for m in predicted:
        save(tmp_path, m, "zero-shot/imagenet", {"top1": 100 * hit[m].mean()}, zero_shot(predicted[m], label))
    (found,) = compare("a", "b", [tmp_path])
    paired = draws @ (hit["a"].astype(float) - hit["b"]) / 40 * 100
    assert found.difference == pytest.approx(100 * (hit["a"].mean() - hit["b"].mean()))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(paired, [0.025, 0.975])))
    assert found.p == pytest.approx(2 * np.mean(paired <= 0))
    assert found.low > 0
    (reversed_,) = compare("b", "a", [tmp_path])
    assert (reversed_.low, reversed_.high) == pytest.approx((-found.high, -found.low))


def test_a_model_against_itself(tmp_path):
    label = np.arange(40) % 4
    for m in "ab":
        save(tmp_path, m, "zero-shot/imagenet", {"top1": 100.0}, zero_shot(label, label))
    (found,) = compare("a", "b", [tmp_path])
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_retrieval_resamples_images_with_their_captions(tmp_path, draws):
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(40), 2)
    rank = {m: rng.integers(1, 12, 80) for m in "ab"}
    for m in "ab":
        items = {
            "captions": {
                "caption": [f"c{k}" for k in range(80)], "image_id": [f"i{k}" for k in owner], "rank": rank[m],
            },
            "images": {"image_id": [f"i{k}" for k in range(40)], "captions": [2] * 40, "rank": rank[m][::2]},
        }  # fmt: skip
        save(tmp_path, m, "retrieval/coco", {"t2i_r5": 100 * np.mean(rank[m] <= 5), "i2t_r5": 1.0}, items)
    found = {entry.column.metric: entry for entry in compare("a", "b", [tmp_path])}
    gain = ((rank["a"] <= 5).astype(float) - (rank["b"] <= 5)).reshape(40, 2).sum(1)
    paired = 100 * draws @ gain / 80
    assert (found["t2i_r5"].low, found["t2i_r5"].high) == pytest.approx(
        tuple(np.quantile(paired, [0.025, 0.975]))
    )
    assert found["i2t_r5"].low is not None


def test_pep(tmp_path, draws):
    rng = np.random.default_rng(2)
    samples, relation = [f"s{k}" for k in range(40)], ["l1_image", "l4_image"]
    label = np.repeat([1, 0], [80, 200])
    image_of_negative = rng.integers(0, 40, 200)
    score = {}
    for m, signal in (("a", 2.0), ("b", 0.5)):
        score[m] = rng.normal(size=280) + signal * label
        pairs = {
            "sample_id": [*samples * 2, *[""] * 200],
            "general": ["g"] * 280,
            "specific": [*[f"i{k}" for k in range(40)] * 2, *[f"i{k}" for k in image_of_negative]],
            "relation": [*np.repeat(relation, 40), *["negative"] * 200],
            "label": label,
            "score": score[m],
            "similarity": rng.normal(size=280),
        }
        between = {
            "sample_id": samples * 2, "relation": np.repeat(["l1_l2", "negative_l2"], 40), "score": rng.normal(size=80)
        }  # fmt: skip
        backwards = {"sample_id": samples * 2, "score": rng.normal(size=80)}
        owners = {"sample_id": samples, "image_id": [f"i{k}" for k in range(40)]}
        tables = {
            "pairs": pairs, "reversed": backwards, "samples": owners, "images": {"image_id": owners["image_id"]},
            "captions": between,
        }  # fmt: skip
        figures = {"auc": roc_auc_score(label, score[m]), "ap": average_precision_score(label, score[m])}
        save(tmp_path, m, "pep-v2", figures, tables)
    auc, ap = compare("a", "b", [tmp_path])
    assert auc.difference == pytest.approx(
        roc_auc_score(label, score["a"]) - roc_auc_score(label, score["b"])
    )
    unit = np.concatenate([np.arange(40), np.arange(40), image_of_negative])
    times = draws[:, unit]  # how often each pair counts
    won = {m: score[m][:80, None] > score[m][None, 80:] for m in "ab"}
    paired = ((times[:, :80] @ (won["a"].astype(float) - won["b"])) * times[:, 80:]).sum(1)
    paired /= times[:, :80].sum(1) * times[:, 80:].sum(1)
    assert (auc.low, auc.high) == pytest.approx(tuple(np.quantile(paired, [0.025, 0.975])), abs=1e-9)
    assert 0 < auc.low < auc.difference < auc.high
    assert 0 < ap.low < ap.difference < ap.high
    assert auc.p == 0


def test_means_and_kendall(tmp_path):
    rng = np.random.default_rng(3)
    for m in "ab":
        images = {
            "image_id": [f"i{k}" for k in range(40)],
            "precision": rng.random(40),
            "recall": rng.random(40),
        }
        samples = {
            "sample_id": [f"s{k}" for k in range(40)],
            "image_id": images["image_id"],
            "tau": rng.random(40),
            "ties": np.zeros(40),
        }
        figures = {"precision": images["precision"].mean(), "recall": 0.5, "d_corr": samples["tau"].mean()}
        save(tmp_path, m, "hierarcaps", figures, {"images": images, "samples": samples})
    found = compare("a", "b", [tmp_path])
    assert [entry.column.metric for entry in found] == ["precision", "recall", "d_corr"]
    assert all(
        entry.low < entry.difference < entry.high for entry in found if entry.column.metric != "recall"
    )


@pytest.mark.parametrize(
    ("items", "note"),
    [
        ({}, "a run kept no per-item outcomes"),
        ({"other": {"image_id": ["i0"]}}, "the runs kept different per-item outcomes"),
        (zero_shot(np.zeros(2, int), np.zeros(2, int)), "measured on different items"),
        (zero_shot(np.zeros(3, int), np.zeros(3, int), ["i0", "i1", "x"]), "measured on different items"),
    ],
)
def test_what_cannot_be_paired_is_said(tmp_path, items, note):
    label = np.zeros(3, int)
    save(tmp_path, "a", "zero-shot/imagenet", {"top1": 40.0}, zero_shot(label, label))
    save(tmp_path, "b", "zero-shot/imagenet", {"top1": 30.0}, items)
    (found,) = compare("a", "b", [tmp_path])
    assert (found.difference, found.low, found.p, found.note) == (10.0, None, None, note)


def test_unknown_tables_are_not_guessed_at(tmp_path):
    for m in "ab":
        save(tmp_path, m, "zero-shot/imagenet", {"top1": 40.0}, {"odd": {"image_id": ["i0"], "x": [1]}})
    (found,) = compare("a", "b", [tmp_path])
    assert "have no column label in a table images" in found.note


def test_other_data_or_another_protocol(tmp_path):
    label = np.zeros(3, int)
    save(tmp_path, "a", "zero-shot/imagenet", {"top1": 40.0}, zero_shot(label, label))
    save(tmp_path, "b", "zero-shot/imagenet", {"top1": 40.0}, zero_shot(label, label), protocol="corrected")
    other = {"dataset_fingerprint": "0" * 64, "checkpoint_sha256": "c"}
    save(tmp_path, "c", "zero-shot/imagenet", {"top1": 40.0}, zero_shot(label, label), provenance=other)
    assert compare("a", "b", [tmp_path]) == []
    (found,) = compare("a", "c", [tmp_path])
    assert found.note == "measured on different data"


def test_names(tmp_path):
    save(tmp_path / "1", "model", "zero-shot/imagenet", {"top1": 40.0}, {})
    save(tmp_path / "2", "model", "pep-v2", {"auc": 0.5}, {}, provenance={"checkpoint_sha256": "other"})
    with pytest.raises(UnknownNameError, match="no model in these results 'modle': did you mean model"):
        compare("model", "modle", [tmp_path / "1"])
    with pytest.raises(OutputError, match="model means two different checkpoints here"):
        compare("model", "model", [tmp_path / "1", tmp_path / "2"])


def test_against_published(tmp_path):
    save(tmp_path, "a", "zero-shot/imagenet", {"top1": 40.0}, {})
    save(tmp_path, "a", "pep-v2", {"auc": 0.5, "ap": 0.4}, {}, protocol="corrected", limit=7)
    top1, auc, _ = against_published("a", "ARGENT-S", [tmp_path])
    assert top1.difference == pytest.approx(40.0 - 38.8)
    assert (top1.low, top1.note) == (None, "")
    assert auc.difference == pytest.approx(0.5 - 0.993)
    assert auc.note == "measured under protocol corrected, measured on at most 7 items"
    with pytest.raises(UnknownNameError, match="did you mean ARGENT-S"):
        against_published("a", "ARGENT-T", [tmp_path])


def test_multilabel(tmp_path, draws):
    """The statistic of the metric on the same resamples (tests/metrics holds it against scikit-learn)."""
    rng = np.random.default_rng(0)
    present, ignored = rng.random((40, 3)) < 0.3, rng.random((40, 3)) < 0.1
    scores = {
        m: np.float32(rng.integers(0, 9, (40, 3)) / 8 + present * gain) for m, gain in (("a", 0.4), ("b", 0))
    }

    ids = [f"i{k}" for k in range(40)]
    for m in "ab":
        items = {"images": {"image_id": ids, "scores": scores[m], "present": present, "ignored": ignored}}
        save(tmp_path, m, "multilabel/voc2007", multilabel(scores[m], present, ignored), items)
    (found,) = compare("a", "b", [tmp_path], "uncha")
    figures = {m: map_statistic(scores[m], present, ignored)(draws)["map"] for m in "ab"}
    paired = figures["a"] - figures["b"]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(paired, [0.025, 0.975])))
    assert found.difference > 0


def test_all_metrics_of_a_task_are_paired_and_no_others(tmp_path, draws):
    """The hierarchy task: its own, no accuracies; means over images, by hand on the same resamples."""
    rng = np.random.default_rng(5)
    ids, label = [f"i{k}" for k in range(40)], np.arange(40) % 4
    metrics = [metric.name for metric in registry.task("hierarchy/imagenet").spec.metrics]
    divisors = {name: np.full(40, 4.0) for name in ("true_depth", "tie_chance", "lca_chance")}
    kept = {m: {name: rng.random(40) for name in metrics} for m in "ab"}
    for m in "ab":
        items = {"images": {"image_id": ids, "label": label, "predicted": label, **divisors, **kept[m]}}
        save(tmp_path, m, "hierarchy/imagenet", {name: v.mean() for name, v in kept[m].items()}, items)
    found = {entry.column.metric: entry for entry in compare("a", "b", [tmp_path])}
    assert set(found) == set(metrics)
    for name, entry in found.items():
        if "_by_" in name:  # the error over a divisor that is 4 everywhere
            error = {"tie": "tie", "lca": "lca_symmetric"}[name[:3]]
            kept = {m: {**kept[m], name: kept[m][error] / 4} for m in kept}
        paired = draws @ (kept["a"][name] - kept["b"][name]) / 40
        assert (entry.low, entry.high) == pytest.approx(tuple(np.quantile(paired, [0.025, 0.975])))


def test_a_task_that_is_gone_or_has_another_version_is_not_paired(tmp_path):
    label = np.zeros(3, int)
    for m in "ab":
        save(tmp_path, m, "zero-shot/gone", {"top1": 40.0}, zero_shot(label, label))
        save(tmp_path, m, "zero-shot/imagenet", {"top1": 40.0}, zero_shot(label, label), task_version=99)
    notes = {entry.column.task: entry.note for entry in compare("a", "b", [tmp_path])}
    assert "the task is not known here" in notes["zero-shot/gone"]
    assert "measured with version 99 of the task" in notes["zero-shot/imagenet"]
