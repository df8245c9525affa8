"""Ambiguity of caption chains: similar images, removing their captions, recall in the local pool; files, command."""

import csv
import json

import numpy as np
import pytest
import torch

from hierbench.analysis import ambiguity, reports
from hierbench.analysis.groups import Embedded, Group, gather
from hierbench.cli.analyze import app
from hierbench.contracts import Fit
from hierbench.data.datasets import CaptionChains, ImageFiles
from hierbench.data.locate import Locations
from hierbench.data.readers import open_dataset
from hierbench.engine.session import Session
from hierbench.errors import UsageError
from hierbench.geometry import Lorentz, Sphere
from hierbench.models.reference import load_model


def small(captions, features, images, geometry=None):
    """Chains with one image each; `features` by caption, `images` (N, D)."""
    ids = tuple(f"{number}.png" for number in range(len(captions)))
    dataset = CaptionChains("chains", ImageFiles(None, ids), ids, tuple(captions), np.arange(len(ids)))
    groups = {}
    for level in range(4):
        labels = tuple(dict.fromkeys(chain[level] for chain in captions))
        groups[f"level {level + 1}"] = Group(labels, torch.tensor([features[label] for label in labels]))
    groups["images"] = Group(ids, torch.tensor(images))
    return Embedded(geometry or Lorentz(1.0), groups, torch.zeros(len(images[0]))), dataset


def two_alike():
    """Images 0 and 1 nearly coincide; image 2 is elsewhere. The finest caption of 1 fits 0 better than its own."""
    captions = [
        ("animal", "dog", "brown dog", "brown dog runs"),
        ("animal", "puppy", "small puppy", "small puppy runs"),
        ("vehicle", "car", "red car", "red car parks"),
    ]
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    features = {
        "animal": 0.2 * east, "dog": 0.5 * east + 0.1 * north, "puppy": 0.5 * east,
        "brown dog": 0.8 * east, "small puppy": 0.8 * east + 0.2 * north,
        "brown dog runs": 1.0 * east + 0.3 * north, "small puppy runs": 1.0 * east,
        "vehicle": 0.2 * north, "car": 0.5 * north, "red car": 0.8 * north, "red car parks": 1.0 * north,
    }  # fmt: skip
    features = {text: point.astype(np.float32).tolist() for text, point in features.items()}
    return small(captions, features, [[1.2, 0.0], [1.2, 0.2], [0.0, 1.2]])


def test_similar_images_are_the_nearest_others():
    embedded, _ = two_alike()
    images = embedded.groups["images"].tangents
    assert ambiguity.similar_images(embedded.geometry, images, 2).tolist() == [[1, 2], [0, 2], [1, 0]]
    assert ambiguity.similar_images(embedded.geometry, images, 0).shape == (3, 0)
    same = torch.ones(4, 2)
    assert ambiguity.similar_images(Sphere(), same, 2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]
    with pytest.raises(UsageError, match="3 similar images of 3: there are 2 others at most"):
        ambiguity.similar_images(embedded.geometry, images, 3)


def test_local_recall_counts_equal_strings_as_own():
    embedded, dataset = two_alike()
    levels = ambiguity.local_recall(embedded, dataset, np.array([[1], [0], [1]]))
    hits = np.stack([level.hits for level in levels])
    assert hits.tolist() == [
        [True, True, True],  # "animal" is both images' own
        [False, False, True],  # "puppy" is nearer to 0, "dog" to 1
        [True, True, True],
        [False, False, True],
    ]
    assert [level.recall.value for level in levels] == pytest.approx([1, 1 / 3, 1, 1 / 3])
    assert [level.chance for level in levels] == pytest.approx([(1 + 1 + 0.5) / 3, 0.5, 0.5, 0.5])


def test_removing_captions_of_similar_images_finds_more():
    embedded, dataset = two_alike()
    similar = np.array([[1, 2], [0, 2], [1, 0]])
    before, after, all_gone = ambiguity.removals(embedded, dataset, similar, (0, 1, 2))
    assert (before.k, after.k, all_gone.k) == (0, 1, 2)
    assert before.recall.value < after.recall.value
    assert before.precision.value < after.precision.value
    assert all_gone.precision.value == 1  # nothing but own captions is left
    assert all_gone.recall.value >= after.recall.value


def test_nothing_removed_is_the_task(tmp_path):
    from hierbench import registry

    dataset = open_dataset("miniature-chains", Locations()).limited(30)
    adapter = load_model("random")
    task = registry.task("hierarcaps/miniature")
    found = Session(adapter, workers=0).embed(dataset, task.requests(dataset), task.spec.fit)
    scores = task.score(adapter.geometry, found, dataset)
    embedded = gather(Session(adapter, workers=0), dataset, task.spec.fit)
    (entry,) = ambiguity.removals(embedded, dataset, np.zeros((30, 0), int), (0,))
    assert entry.precision == scores.metrics["precision"]
    assert entry.recall == scores.metrics["recall"]


def test_files(tmp_path):
    dataset = open_dataset("miniature-chains", Locations()).limited(30)
    embedded = gather(Session(load_model("random"), workers=0), dataset, Fit.SQUEEZE)
    finder = gather(Session(load_model("random:sphere"), workers=0), dataset, Fit.SQUEEZE)
    rows = reports.ambiguities({"m": embedded}, dataset, finder, tmp_path, "title", ks=(0, 5), pool=3)
    assert [(row["figure"], row["at"]) for row in rows] == [
        ("precision", "k=0"), ("precision", "k=5"), ("recall", "k=0"), ("recall", "k=5"),
        *(("recall@1", f"level {level}") for level in (1, 2, 3, 4)),
    ]  # fmt: skip
    assert rows[0]["change"] == 0
    assert rows[1]["change"] == pytest.approx(rows[1]["value"] - rows[0]["value"])
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    with open(tmp_path / "ambiguity.csv", encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert [float(row["value"]) for row in written] == [row["value"] for row in rows]
    assert json.loads((tmp_path / "ambiguity.json").read_text()) == {
        "title": "title", "images": 30, "pool": 3, "rows": rows,
    }  # fmt: skip
    with open(tmp_path / "similar.csv", encoding="utf-8", newline="") as file:
        similar = list(csv.DictReader(file))
    assert len(similar) == 30 * 5
    expected = ambiguity.similar_images(finder.geometry, finder.groups["images"].tangents, 5)
    assert similar[0]["similar"] == dataset.images.ids[expected[0, 0]]
    assert (tmp_path / "ambiguity.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="there are 29 others at most"):
        reports.ambiguities({"m": embedded}, dataset, finder, tmp_path, "title", ks=(0, 30))


def test_the_command(capsys, tmp_path):
    words = ["ambiguity", "random", "--limit", "12", "--device", "cpu", "--out", str(tmp_path), "--json"]
    app([*words, "--similar-by", "random:sphere"], standalone_mode=False)
    document = json.loads(capsys.readouterr().out)
    assert [row["at"] for row in document["rows"][:3]] == ["k=0", "k=5", "k=10"]
    app([*words[:-1], "--k", "0", "--k", "2", "--pool", "2"], standalone_mode=False)
    assert "recall@1" in capsys.readouterr().out
    app([*words, "--k", "2", "--k", "0", "--k", "2"], standalone_mode=False)  # change is from the smallest k
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["figure"], row["at"]) for row in rows[:3]] == [
        ("precision", "k=0"), ("precision", "k=2"), ("recall", "k=0"),
    ]  # fmt: skip
    assert rows[0]["change"] == 0
    with pytest.raises(UsageError, match="has no chains of captions: choose hierarcaps or miniature-chains"):
        app([*words, "--dataset", "miniature"], standalone_mode=False)


@pytest.mark.shared
def test_hierarcaps(shared_data):
    dataset = open_dataset("hierarcaps", Locations({"hierarcaps": shared_data / "hierarcaps"})).limited(25)
    embedded = gather(Session(load_model("random"), workers=0), dataset, Fit.CROP)
    similar = ambiguity.similar_images(embedded.geometry, embedded.groups["images"].tangents, 5)
    entries = ambiguity.removals(embedded, dataset, similar, (0, 5))
    assert entries[0].recall.value <= entries[1].recall.value
    assert len(ambiguity.local_recall(embedded, dataset, similar)) == 4
