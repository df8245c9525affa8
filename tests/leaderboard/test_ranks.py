"""Rankings: intervals of ranks, letters, Borda's order, who is unranked and why; by hand and as properties."""

import json
from itertools import combinations

import numpy as np
import pytest
from outcomes import many, save, zero_shot

from hierbench import registry
from hierbench.errors import OutputError
from hierbench.leaderboard import ranks, resampling
from hierbench.results import Record, write_record


def by_name(ranking):
    return {place.model: place for place in ranking.places}


def spans(ranking):
    return {place.model: (place.rank, place.low, place.high, place.groups) for place in ranking.places}


def test_models_far_apart_have_one_rank_and_models_alike_share_theirs(tmp_path):
    many(tmp_path, {"a": 0.3, "b": 0.0, "c": 0.0, "d": -0.3})
    (ranking,) = ranks.rank([tmp_path]).columns
    found = spans(ranking)
    assert (found["a"], found["d"]) == ((1, 1, 1, "a"), (4, 4, 4, "c"))
    assert {found[m][1:] for m in "bc"} == {(2, 3, "b")}
    assert [place.value for place in ranking.places] == sorted(
        (p.value for p in ranking.places), reverse=True
    )


def test_where_lower_is_better_the_lowest_is_first(tmp_path):
    rng = np.random.default_rng(0)
    ids, label = [f"i{k}" for k in range(40)], np.arange(40) % 4
    names = [metric.name for metric in registry.task("hierarchy/imagenet").spec.metrics]
    names += ["true_depth", "tie_chance", "lca_chance"]
    for m, level in (("a", 0.9), ("b", 0.1)):
        kept = {name: np.clip(level + 0.01 * rng.random(40), 0, 1) for name in names}
        items = {"images": {"image_id": ids, "label": label, "predicted": label, **kept}}
        save(tmp_path, m, "hierarchy/imagenet", {"tie": kept["tie"].mean()}, items)
    (ranking,) = ranks.rank([tmp_path]).columns
    assert spans(ranking) == {"b": (1, 1, 1, "a"), "a": (2, 2, 2, "b")}


def test_letters_by_hand():
    """The first and the last are apart, the one between is neither."""
    better = np.zeros((3, 3), bool)
    better[0, 2] = True
    assert ranks.letter_groups(better, [0, 1, 2]) == ["a", "ab", "b"]
    assert ranks.letter_groups(np.zeros((3, 3), bool), [2, 0, 1]) == ["a", "a", "a"]


@pytest.mark.parametrize("seed", range(20))
def test_two_models_share_a_letter_if_and_only_if_they_cannot_be_told_apart(seed):
    rng = np.random.default_rng(seed)
    better = np.triu(rng.random((7, 7)) < 0.4, 1)
    letters = ranks.letter_groups(better, list(range(7)))
    assert all(letters)
    for first, second in combinations(range(7), 2):
        assert bool(set(letters[first]) & set(letters[second])) != better[first, second]


def test_bordas_order_by_hand(tmp_path):
    """a beats both in one task, b in the other, c nobody: (1 + ½)/2, (½ + 1)/2, 0."""
    many(tmp_path, {"a": 0.4, "b": 0.1, "c": -0.3})
    many(tmp_path, {"b": 0.4, "a": 0.1, "c": -0.3}, task="zero-shot/cifar10")
    found = ranks.rank([tmp_path])
    assert {m: place.value for m, place in by_name(found.overall).items()} == {"a": 0.75, "b": 0.75, "c": 0.0}
    assert {m: p.rank for m, p in by_name(found.overall).items()} == {"a": 1, "b": 1, "c": 3}
    assert found.voting == ("zero-shot/imagenet:top1", "zero-shot/cifar10:mean_per_class")
    low, high = by_name(found.overall)["c"].points
    assert low == high == 0.0


def test_columns_of_one_task_share_a_vote(tmp_path):
    """Two columns of retrieval, where b wins, weigh as much as the one of classification, where a wins."""
    many(tmp_path, {"a": 0.4, "b": 0.0})
    ids = [f"i{k}" for k in range(40)]
    for m, rank in (("b", 1), ("a", 20)):
        captions = {"caption": ids, "image_id": ids, "rank": np.full(40, rank)}
        images = {"image_id": ids, "captions": np.ones(40, int), "rank": np.full(40, rank)}
        value = 100.0 * (rank == 1)
        figures = {"t2i_r5": value, "i2t_r5": value}
        save(tmp_path, m, "retrieval/coco", figures, {"captions": captions, "images": images})
    found = ranks.rank([tmp_path])
    assert len(found.voting) == 3
    assert {m: place.value for m, place in by_name(found.overall).items()} == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"limit": 50}, "measured otherwise: limit 50"),
        ({"protocol": "corrected"}, "measured otherwise: corrected"),
        ({"n": 399}, "measured on 399 of 400 items"),
        ({"provenance": {"dataset_fingerprint": "0" * 64}}, "measured on other images or labels"),
        ({"task_version": 99}, "measured otherwise: v99"),
    ],
    ids=str,
)
def test_who_was_measured_in_part_or_otherwise_is_unranked(tmp_path, fields, reason):
    many(tmp_path, {"a": 0.1, "b": 0.0})
    many(tmp_path, {"c": 0.2}, **fields)
    found = ranks.rank([tmp_path])
    (ranking,) = found.columns
    assert [place.model for place in ranking.places] == ["a", "b"]
    assert ranking.unranked == {"c": reason}
    assert found.overall.unranked["c"].startswith("zero-shot/imagenet:top1")
    assert found.overall.unranked["c"].endswith(reason)
    assert [place.model for place in found.overall.places] == ["a", "b"]


def test_missing_edited_and_nan_figures_are_unranked(tmp_path):
    many(tmp_path, dict.fromkeys("abcde", 0.0))
    many(tmp_path, {"a": 0.1, "b": 0.0}, task="zero-shot/cifar10")
    for m, value in (("c", 99.5), ("d", None)):
        path = tmp_path / "results" / m / "zero-shot__imagenet.json"
        content = json.loads(path.read_text())
        content["metrics"]["top1"]["value"] = value
        path.write_text(json.dumps(content))
    found = ranks.rank([tmp_path])
    unranked = found.columns[0].unranked
    assert unranked["c"].startswith("zero-shot/imagenet: the recorded 99.5 of c is not the ")
    assert unranked["d"] == "the recorded figure is not a number"
    assert (
        "zero-shot/imagenet:top1" in found.voting
    )  # that somebody edited a record takes no vote from a column
    assert (
        found.overall.unranked["e"]
        == "zero-shot/cifar10:mean_per_class: zero-shot/cifar10: not run for this model"
    )
    assert [place.model for place in found.overall.places] == ["a", "b"]


def test_a_column_that_does_not_concern_a_model_has_no_vote(tmp_path):
    many(tmp_path, {"a": 0.1, "b": 0.0})
    many(tmp_path, {"a": 0.1}, task="zero-shot/cifar10")
    skipped = Record(
        model="b", task="zero-shot/cifar10", task_version=1, dataset="d", protocol="released", family="random",
        skipped="the model has no cones", provenance={"inapplicable": True},
    )  # fmt: skip
    write_record(tmp_path, skipped)
    found = ranks.rank([tmp_path])
    assert found.voting == ("zero-shot/imagenet:top1",)
    assert found.silent == {
        "zero-shot/cifar10:mean_per_class": "it does not concern b: zero-shot/cifar10: skipped: the model has no cones"
    }
    assert [place.model for place in found.overall.places] == ["a", "b"]


def test_degenerate_figures_are_never_ranked(tmp_path):
    many(tmp_path, {"a": 0.1, "b": 0.0})
    many(tmp_path, {"c": 0.4}, degenerate={"top1": "every image is given the same class"})
    found = ranks.rank([tmp_path])
    assert found.columns[0].unranked == {"c": "zero-shot/imagenet: every image is given the same class"}
    assert found.voting == ()


def test_definitions_of_entailment_are_never_ranked_together(tmp_path):
    many(tmp_path, {"a": 0.1, "b": 0.0}, definition="cone-angle")
    many(tmp_path, {"c": 0.4}, definition="product-mean-of-clamped")
    found = ranks.rank([tmp_path])
    (ranking,) = found.columns
    assert [place.model for place in ranking.places] == ["a", "b"]
    assert "product-mean-of-clamped" in ranking.unranked["c"]
    assert found.voting == ()


def test_seeds_are_one_entry_and_their_spread_widens_the_interval_of_the_rank(tmp_path):
    many(tmp_path, {"a": 0.06, "b": 0.0}, seeds=("@1", "@2"), spread=0.05)
    many(tmp_path, {"c": -0.4})
    (ranking,) = ranks.rank([tmp_path]).columns
    assert set(by_name(ranking)) == {"a", "b", "c"}
    assert by_name(ranking)["a"].sd > 0
    assert {by_name(ranking)[m].groups for m in "ab"} == {"a"}
    assert len(ranks.rank([tmp_path], each_seed=True).columns[0].places) == 5


def test_a_column_that_nobody_can_be_ranked_in_says_why(tmp_path):
    many(tmp_path, {"a": 0.1, "b": 0.0})
    for m in "ab":
        save(tmp_path, m, "zero-shot/cifar10", {"mean_per_class": 50.0}, {})
    found = ranks.rank([tmp_path])
    assert found.columns[1].places == ()
    assert found.columns[1].unranked == dict.fromkeys("ab", "a run kept no per-item outcomes")
    assert "fewer than two models" in found.silent["zero-shot/cifar10:mean_per_class"]
    assert [place.model for place in found.overall.places] == ["a", "b"]


def test_rankings_are_remembered_by_the_records_they_come_from(tmp_path, monkeypatch):
    many(tmp_path, {"a": 0.3, "b": 0.0, "c": 0.0})
    first = ranks.rank([tmp_path])
    with monkeypatch.context() as patched:
        patched.setattr(ranks, "_computed", lambda *_: pytest.fail("computed again"))
        assert ranks.rank([tmp_path]) == first
    reads = []
    read = resampling.read
    monkeypatch.setattr(
        resampling, "read", lambda folder, record: reads.append(record.model) or read(folder, record)
    )
    many(tmp_path, {"d": 0.1})
    second = ranks.rank([tmp_path])
    assert {place.model for place in second.columns[0].places} == set("abcd")
    assert set(reads) == {"d"}  # of the others, their figures on resamples are remembered


def test_a_cache_that_holds_something_else_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("HIERBENCH_CACHE", str(tmp_path / "cache"))
    many(tmp_path / "run", {"a": 0.3, "b": 0.0})
    first = ranks.rank([tmp_path / "run"])
    files = [path for kind in ("ranks", "drawn") for path in (tmp_path / "cache" / kind).iterdir()]
    assert len(files) == 3
    for path in files:
        path.write_text('{"columns": 3}')
    assert ranks.rank([tmp_path / "run"]) == first


def test_two_checkpoints_of_one_name_are_two_models(tmp_path):
    """As in the table: each row is a model, told apart by the start of the hash."""
    many(tmp_path / "one", {"a": 0.3, "b": 0.0})
    many(
        tmp_path / "two",
        {"a": -0.3},
        provenance={"dataset_fingerprint": "f" * 64, "checkpoint_sha256": "e" * 64},
    )
    (ranking,) = ranks.rank([tmp_path / "one", tmp_path / "two"]).columns
    assert [place.model for place in ranking.places] == ["a (aaaaaaaa)", "b", "a (eeeeeeee)"]


def test_one_model_cannot_be_ranked(tmp_path):
    save(tmp_path, "a", "zero-shot/imagenet", {"top1": 100.0}, zero_shot(np.zeros(3, int), np.zeros(3, int)))
    with pytest.raises(OutputError, match="a ranking needs two models"):
        ranks.rank([tmp_path])
