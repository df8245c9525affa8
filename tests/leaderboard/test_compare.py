"""Paired comparison: differences, intervals, tests and claims from per-item outcomes, and what cannot be paired."""

import json

import numpy as np
import pytest
from outcomes import many, save, zero_shot
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score

from hierbench import registry
from hierbench.errors import OutputError, UnknownNameError
from hierbench.leaderboard import compare as comparing
from hierbench.leaderboard.compare import against_published
from hierbench.metrics import bootstrap, multilabel
from hierbench.metrics.multilabel import map_statistic
from hierbench.results import read_items, read_results


def compare(*names, **options):
    """The differences alone."""
    return list(comparing.compare(*names, **options).differences)


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
    assert found.low > 0
    only = [int((hit[m] & ~hit[other]).sum()) for m, other in ("ab", "ba")]
    exact = stats.binomtest(only[0], sum(only)).pvalue  # McNemar's exact test
    assert found.p == pytest.approx(exact, abs=4 * np.sqrt(exact / 2000) + 1 / 2001)
    assert found.adjusted == found.p
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

    def figures(ranks):
        return {"t2i_r5": 100 * np.mean(ranks <= 5), "i2t_r5": 100 * np.mean(ranks[::2] <= 5)}

    for m in "ab":
        items = {
            "captions": {
                "caption": [f"c{k}" for k in range(80)], "image_id": [f"i{k}" for k in owner], "rank": rank[m],
            },
            "images": {"image_id": [f"i{k}" for k in range(40)], "captions": [2] * 40, "rank": rank[m][::2]},
        }  # fmt: skip
        save(tmp_path, m, "retrieval/coco", figures(rank[m]), items)
    found = {entry.column.metric: entry for entry in compare("a", "b", [tmp_path])}
    gain = ((rank["a"] <= 5).astype(float) - (rank["b"] <= 5)).reshape(40, 2).sum(1)
    paired = 100 * draws @ gain / 80
    assert (found["t2i_r5"].low, found["t2i_r5"].high) == pytest.approx(
        tuple(np.quantile(paired, [0.025, 0.975]))
    )
    assert found["i2t_r5"].low is not None
    test = stats.permutation_test(
        (gain,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(0)
    )
    assert found["t2i_r5"].p == pytest.approx(test.pvalue, abs=0.05)  # four standard errors of 2,000 draws


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
    auc, ap = compare("a", "b", [tmp_path], patterns=["pep-v2:auc", "pep-v2:ap"])
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
    assert auc.p == 1 / 2001


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
        figures = {
            "precision": images["precision"].mean(),
            "recall": images["recall"].mean(),
            "d_corr": samples["tau"].mean(),
        }
        save(tmp_path, m, "hierarcaps", figures, {"images": images, "samples": samples})
    found = compare("a", "b", [tmp_path])
    assert [entry.column.metric for entry in found] == ["precision", "recall", "d_corr"]
    assert all(entry.low < entry.difference < entry.high for entry in found)


@pytest.mark.parametrize(
    ("items", "note"),
    [
        ({}, "a run kept no per-item outcomes"),
        (
            {"other": {"image_id": ["i0"]}},
            "the per-item outcomes have no column label in a table images: run the task again",
        ),
        (zero_shot(np.zeros(2, int), np.zeros(2, int)), "measured on different items"),
        (zero_shot(np.zeros(3, int), np.zeros(3, int), ["i0", "i1", "x"]), "measured on different items"),
    ],
)
def test_what_cannot_be_paired_is_said(tmp_path, items, note):
    label = np.zeros(3, int)
    save(tmp_path, "a", "zero-shot/imagenet", {"top1": 100.0}, zero_shot(label, label), n=3)
    n = len(items.get("images", {}).get("label", label))
    save(tmp_path, "b", "zero-shot/imagenet", {"top1": 90.0}, items, n=n)
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
    (found,) = compare("a", "b", [tmp_path], layout="uncha")
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
        for name in metrics:
            if "_by_" in name:  # the error over a divisor that is 4 everywhere
                kept[m][name] = kept[m][{"tie": "tie", "lca": "lca_symmetric"}[name[:3]]] / 4
        items = {"images": {"image_id": ids, "label": label, "predicted": label, **divisors, **kept[m]}}
        save(tmp_path, m, "hierarchy/imagenet", {name: v.mean() for name, v in kept[m].items()}, items)
    found = {entry.column.metric: entry for entry in compare("a", "b", [tmp_path], every_metric=True)}
    assert set(found) == set(metrics)
    for name, entry in found.items():
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


# ------------------------------------------------------------------------------------------- permutation, Holm, claims


def test_scores_are_exchanged_as_ranks(tmp_path):
    """Two rankings alike in quality on scales far apart: exchanging raw scores would make any AUC of 0.5 ± 0.5."""
    rng = np.random.default_rng(7)
    present = rng.random((40, 2)) < 0.4
    ids = [f"i{k}" for k in range(40)]
    for m, scale in (("a", 1.0), ("b", 1000.0)):
        scores = np.float32(scale * (rng.random((40, 2)) + present * 0.5))
        items = {
            "images": {"image_id": ids, "scores": scores, "present": present, "ignored": present & False}
        }
        save(tmp_path, m, "multilabel/voc2007", multilabel(scores, present, present & False), items)
    (found,) = compare("a", "b", [tmp_path], layout="uncha")
    both = comparing._Readings(comparing.found_in([tmp_path]))
    exchanged = both.exchanged("a", "b", "multilabel/voc2007")["map"]
    assert np.std(exchanged) < 2 * (found.high - found.low) / 3.92
    assert found.p > 0.01


def test_the_claim_names_what_is_better_and_how_far_it_reaches(tmp_path):
    many(tmp_path, {"a": 0.2, "b": 0.0})
    many(tmp_path, {"a": 0.0, "b": 0.0}, task="zero-shot/cifar10")
    found = comparing.compare("a", "b", [tmp_path])
    assert found.claim == (
        "Of 2 metrics at the 5 % level (paired permutation of items, Holm's correction): a is better than b in 1 "
        "(Classification INet), 1 does not tell them apart. This holds for these two checkpoints; one seed each says "
        "nothing about how they were trained."
    )
    assert comparing.compare("b", "a", [tmp_path]).claim.count("a is better than b in 1") == 1
    p = sorted(entry.p for entry in found.differences)
    assert sorted(entry.adjusted for entry in found.differences) == [2 * p[0], max(p[1], 2 * p[0])]


def test_recipes_are_compared_by_seeds_and_items(tmp_path):
    many(tmp_path, {"a": 0.1, "b": 0.0}, seeds=("@1", "@2", "@3"), spread=0.005)
    (found,) = comparing.compare("a", "b", [tmp_path]).differences
    per_seed = {m: [r.metrics["top1"].value for r in read_results(tmp_path) if r.model[0] == m] for m in "ab"}
    assert found.first == pytest.approx(np.mean(per_seed["a"]))
    assert found.spread == pytest.approx([np.std(per_seed[m], ddof=1) for m in "ab"])
    hits = {}
    for record in read_results(tmp_path):
        images = read_items(tmp_path, record)["images"]
        hits.setdefault(record.model[0], []).append(images["predicted"] == images["label"])
    drawn = {m: np.concatenate(list(bootstrap.draws(400))) @ np.array(hits[m]).T / 4 for m in "ab"}
    items = (drawn["a"].mean(1) - drawn["b"].mean(1)).var(ddof=1)
    twice = sum((drawn[m].var(0, ddof=1).mean() - drawn[m].mean(1).var(ddof=1)) / 2 for m in "ab")
    parts = [np.var(per_seed[m], ddof=1) / 3 for m in "ab"]
    error = np.sqrt(max(sum(parts) + items - twice, items))
    freedom = error**4 / sum(part**2 / 2 for part in parts)  # Satterthwaite
    margin = stats.t.ppf(0.975, freedom) * error
    assert (found.low, found.high) == pytest.approx((found.difference - margin, found.difference + margin))
    assert found.p == pytest.approx(2 * stats.t.sf(found.difference / error, freedom))
    assert "by 3 and 3 seeds" in comparing.compare("a", "b", [tmp_path]).claim
    assert "nothing about how they were trained" in comparing.compare("a@1", "b@1", [tmp_path]).claim
    assert "single seed" in comparing.compare("a", "b@2", [tmp_path]).claim


def test_an_edited_figure_is_not_tested(tmp_path):
    many(tmp_path, {"a": 0.1, "b": 0.0})
    path = tmp_path / "results" / "a" / "zero-shot__imagenet.json"
    content = json.loads(path.read_text())
    content["metrics"]["top1"]["value"] = 99.9
    path.write_text(json.dumps(content))
    (found,) = comparing.compare("a", "b", [tmp_path]).differences
    assert (found.p, found.low) == (None, None)
    assert found.note.startswith("the recorded 99.9 of a is not the ")
    assert "Nothing may be claimed" in comparing.compare("a", "b", [tmp_path]).claim


def test_a_number_of_items_that_is_not_the_items_own_is_not_tested(tmp_path):
    many(tmp_path, {"a": 0.1, "b": 0.0})
    path = tmp_path / "results" / "a" / "zero-shot__imagenet.json"
    content = json.loads(path.read_text())
    scored = content["n"]
    path.write_text(json.dumps(content | {"n": 10 * scored}))
    (found,) = comparing.compare("a", "b", [tmp_path]).differences
    assert (found.p, found.low) == (None, None)
    assert found.note == (
        f"the record of a does not fit its items (n is {10 * scored}, its items are of {scored:,}): run it again"
    )


def test_degenerate_figures_and_averages_are_not_tested(tmp_path):
    many(tmp_path, {"a": 0.1}, degenerate={"top1": "every image is given the same class"})
    many(tmp_path, {"b": 0.0})
    (found,) = comparing.compare("a", "b", [tmp_path]).differences
    assert (found.p, found.note) == (None, "degenerate: the figure says little")


def test_what_only_one_has_or_what_is_not_a_number_is_left_out_with_the_reason(tmp_path):
    many(tmp_path, {"a": 0.1, "b": 0.0})
    many(tmp_path, {"a": 0.1}, task="zero-shot/cifar10")
    many(tmp_path, {"a": 0.1, "b": 0.1}, task="zero-shot/stl10")
    path = tmp_path / "results" / "b" / "zero-shot__stl10.json"
    content = json.loads(path.read_text())
    content["metrics"]["mean_per_class"]["value"] = None
    path.write_text(json.dumps(content))
    found = comparing.compare("a", "b", [tmp_path])
    assert [entry.column.task for entry in found.differences] == ["zero-shot/imagenet"]
    assert found.left_out == (
        "zero-shot/cifar10: not run for this model",
        "zero-shot/stl10:mean_per_class: the recorded figure is not a number",
    )


def test_a_record_that_lies_there_twice_is_refused(tmp_path):
    many(tmp_path, {"a": 0.1, "b": 0.0})
    path = tmp_path / "results" / "a" / "zero-shot__imagenet.json"
    copy = path.with_name("zero-shot__imagenet (copy).json")
    copy.write_bytes(path.read_bytes())
    with pytest.raises(OutputError, match=r"holds zero-shot/imagenet of a a second time.*delete one"):
        comparing.compare("a", "b", [tmp_path])
