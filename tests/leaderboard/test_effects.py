"""How much mended errors move figures: both protocols paired by item, and what cannot be measured."""

import json
from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image

from hierbench import registry
from hierbench.contracts import ModelCard
from hierbench.engine import runner
from hierbench.errata import errata
from hierbench.geometry import Sphere
from hierbench.leaderboard import effects
from hierbench.metrics import accuracy, bootstrap
from hierbench.metrics.classification import accuracy_statistic
from hierbench.models.reference import load_model

LONG = "word " * 90
NAMES = ("missile", "projectile", "sunglass", "sunglasses", "tench", "tabby", "zebra", "cheesecake")
WNIDS = ("n03773504", "n04008634", "n04355933", "n04356056", "n01440764", "n02123045")


class Oracle:
    """Knows NAMES by heart: an image whose red is 30 k lies where prompts with name k do.

    Under `released` it reads nothing of texts with more than 77 words.
    """

    geometry = Sphere()

    def __init__(self, released=False):
        self.released = released
        self.card = ModelCard(
            "oracle", "oracle", "tests", 16, 8, 0, "none", "ab" * 32, "cut" if released else "whole"
        )

    def under(self, protocol):
        return Oracle(protocol == "released")

    def preprocess(self, image, fit):
        return torch.tensor([c / 255 for c in image.getpixel((0, 0))]).reshape(3, 1, 1).expand(3, 8, 8)

    def encode_images(self, pixels):
        return torch.stack([vector(NAMES[round(float(red) * 255 / 30)]) for red in pixels[:, 0, 0, 0]])

    def encode_texts(self, texts):
        words = ["" if self.released and len(text.split()) > 77 else text for text in texts]
        known = [
            next((name for name in sorted(NAMES, key=len)[::-1] if name in text), text) for text in words
        ]
        return torch.stack([vector(name) for name in known])


@cache
def vector(text):
    return torch.from_numpy(np.random.default_rng([len(text), *text.encode()]).normal(size=16)).float()


def plain(path, name):
    """A file that the oracle takes for NAMES[name]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (10, 10), (30 * name, 0, 0)).save(path)


@pytest.fixture
def imagenet(tmp_path):
    """Six images of each class that shares its name with another, and of two more; some look like a zebra."""
    for name, wnid in enumerate(WNIDS):
        for number in range(6):
            plain(tmp_path / "imagenet" / wnid / f"{number}.png", 6 if number == name == 5 else name)
    return tmp_path / "imagenet"


@pytest.fixture
def coco(tmp_path):
    """Seven images with a short and an over-long caption each."""
    rows = []
    for number, name in enumerate(NAMES[:7]):
        plain(tmp_path / "coco" / "val2017" / f"{number:012d}.png", number)
        rows += [(number, name), (number, f"{name} {LONG}")]
    images = [{"id": number, "file_name": f"{number:012d}.png"} for number in range(7)]
    captions = [{"id": k, "image_id": i, "caption": text} for k, (i, text) in enumerate(rows)]
    (tmp_path / "coco" / "annotations").mkdir()
    (tmp_path / "coco" / "annotations" / "captions_val2017.json").write_text(
        json.dumps({"images": images, "annotations": captions})
    )
    return tmp_path / "coco"


def by_place(found):
    return {(effect.erratum, effect.task, effect.metric): effect for effect in found}


def test_mended_errata_name_tasks_that_exist():
    for erratum in errata():
        assert bool(erratum.tasks) == erratum.mended, erratum.id
        assert set(erratum.tasks) <= set(registry.task_factories())
        assert erratum.mended or not (erratum.encoding or erratum.ranking)


def test_names_that_stand_twice(imagenet, monkeypatch):
    """The difference and its bounds are those of the two runs' predictions on the same resamples."""
    run, runs = runner.run, {}
    monkeypatch.setattr(runner, "run", lambda *a, **k: runs.setdefault(k["protocol"], run(*a, **k)))
    found, records = effects.measure(Oracle(), data={"imagenet": imagenet}, workers=0)
    places = by_place(found)
    assert (
        "4 classes with 24 images share names (missile, sunglasses)"
        in runs["released"].get("oracle", "zero-shot/imagenet").notes[-1]
    )
    assert not any("share names" in note for record in runs["corrected"] for note in record.notes)
    tables = {p: r.items["oracle", "zero-shot/imagenet"]["images"] for p, r in runs.items()}
    effect = places["repeated-class-names", "zero-shot/imagenet", "top1"]
    figures = {p: accuracy(t["predicted"], t["label"], 1000)["top1"] for p, t in tables.items()}
    assert (effect.released, effect.corrected) == pytest.approx((figures["released"], figures["corrected"]))
    assert effect.difference == pytest.approx(figures["corrected"] - figures["released"])
    assert effect.corrected == pytest.approx(100 * 35 / 36)
    assert effect.difference >= 100 / 6  # one class of each pair was never predicted
    assert effect.n == 36
    counts = np.concatenate(list(bootstrap.draws(36)))
    drawn = {
        p: accuracy_statistic(t["predicted"], t["label"], 1000)(counts)["top1"] for p, t in tables.items()
    }
    bounds = np.quantile(drawn["corrected"] - drawn["released"], [0.025, 0.975])
    assert (effect.low, effect.high) == pytest.approx(tuple(bounds))
    # `corrected` also averages over the classes that occur: what that alone does is told apart
    mean = places["repeated-class-names", "zero-shot/imagenet", "mean_per_class"]
    table = tables["corrected"]
    other = accuracy(table["predicted"], table["label"], 1000, "released")["mean_per_class"]
    share = mean.corrected - other
    assert share > 10  # six of seven classes right, or five and the zebra's 0
    assert mean.note == f"{share:+.2f} of it from averaging over the classes that occur"
    hierarchy = places["repeated-class-names", "hierarchy/imagenet", "tie"]
    assert (hierarchy.unit, hierarchy.low <= hierarchy.difference <= hierarchy.high) == ("raw", True)
    absent = places["shifted-labels", "zero-shot/food101", ""]
    assert absent.status == "skipped"
    assert absent.note.startswith("dataset food101 is not on this machine")
    assert {record.protocol for record in records} == {"corrected"}


def test_the_lost_end_token(coco):
    found, _ = effects.measure(Oracle(), data={"coco": coco}, workers=0)
    effect = by_place(found)["lost-end-token", "retrieval/coco", "t2i_r1"]
    assert effect.corrected == 100
    assert effect.released <= 100 * 8 / 14  # the long ones all find the same image
    assert effect.low < effect.difference < effect.high
    assert effect.n == 7
    assert by_place(found)["lost-end-token", "retrieval/flickr30k", ""].status == "skipped"


def test_two_classes_scored_against_each_others_names(tmp_path):
    """Food-101: what looks like cheesecake and is one counts as an error until the names are in the labels' order."""
    for number in range(4):
        plain(tmp_path / "food101" / "cheesecake" / f"{number}.png", 7)
    found, _ = effects.measure(Oracle(), data={"food101": tmp_path / "food101"}, workers=0)
    effect = by_place(found)["shifted-labels", "zero-shot/food101", "top1"]
    assert (effect.released, effect.corrected, effect.low, effect.high) == (0, 100, 100, 100)


def test_a_family_without_the_mistake_is_spared_the_work(coco):
    found, records = effects.measure(load_model("random"), data={"coco": coco}, workers=0)
    spared = by_place(found)["lost-end-token", "retrieval/coco", ""]
    assert (spared.status, spared.note) == ("", "the model's family does not make this mistake")
    assert "retrieval/coco" not in {record.task for record in records}


def test_only_a_product_ranks_by_another_measure(tiny_checkpoint):
    """PHyCLIP's erratum is its own; UNCHA's lost end token is not PHyCLIP's, though both change with the protocol."""
    mended = {erratum.id: erratum for erratum in errata() if erratum.mended}
    for family in ("phyclip", "uncha", "meru"):
        adapter = load_model(family, tiny_checkpoint(family))
        assert effects._has(adapter, mended["ranked-by-inner-products"]) == (family == "phyclip")
        assert effects._has(adapter, mended["lost-end-token"]) == (family == "uncha")
        assert effects._has(adapter, mended["shifted-labels"])


def test_a_failed_task_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    found, records = effects.measure(load_model("random"), data={"imagenet": tmp_path / "empty"}, workers=0)
    effect = by_place(found)["repeated-class-names", "zero-shot/imagenet", ""]
    assert effect.status == "failed"
    assert effect.note
    assert [record.task for record in records if record.error] == ["zero-shot/imagenet", "hierarchy/imagenet"]
