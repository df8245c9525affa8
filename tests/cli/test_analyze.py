"""`hierbench analyze` from the command line: one's own images and captions, and what a geometry cannot answer."""

import csv
import json

import pytest

from hierbench.miniature.datasets import dataset

SOME = ("--limit", 12, "--device", "cpu", "--json")

FLAT = '''"""A flat space with an origin, lengths and no angles."""
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hierbench.errors import GeometryError
from hierbench.model_adapters import random


@dataclass(frozen=True)
class Flat:
    name: ClassVar[str] = "flat"
    has_origin: ClassVar[bool] = True
    has_cones: ClassVar[bool] = CONES
    entailment_definition: ClassVar[str] = "none"

    def describe(self):
        return {"name": "flat"}

    def lift(self, tangent):
        return tangent

    def mean(self, tangents):
        return tangents.mean(-2)

    def similarity(self, a, b, *, paired=False):
        return -self.distance(a, b, paired=paired)

    def distance(self, a, b, *, paired=False):
        return (a - b).norm(dim=-1) if paired else torch.cdist(a, b)

    def radius(self, points, *, root=None):
        return points.norm(dim=-1)

    def exterior_angle(self, general, specific, *, paired=False, root=None):
        raise GeometryError("no angles")

    half_aperture = entailment = exterior_angle


def load(checkpoint=None, **options):
    return replace(random.load(checkpoint, **options), geometry=Flat())
'''


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def picture(tmp_path):
    images = dataset("miniature-chains").images
    (tmp_path / "pictures").mkdir()
    path = tmp_path / "pictures" / "mine.png"
    path.write_bytes(images.read(images.ids[3]))
    return path


def test_an_image_of_ones_own_by_path(hierbench, picture, tmp_path):
    """The same picture as a file and as an image of the dataset meets the same captions."""
    done = hierbench(
        "analyze", "traversal", "random", "--image", picture, "--all-captions", "-o", "own", *SOME
    )
    assert done.status == 0, done.err
    own = json.loads(done.out)["rows"]
    assert {row["image"] for row in own} == {str(picture)}
    assert own[-1]["caption"] == "[ROOT]"
    assert [row["caption"] for row in rows(tmp_path / "own" / "traversal.csv")] == [r["caption"] for r in own]
    ids = dataset("miniature-chains").limited(12).images.ids
    done = hierbench(
        "analyze", "traversal", "random", "--image", ids[0], "--image", "pictures/mine.png", "--all-captions",
        "-o", "both", *SOME,
    )  # fmt: skip
    assert done.status == 0, done.err
    both = json.loads(done.out)["rows"]
    assert list(dict.fromkeys(row["image"] for row in both)) == [ids[0], "pictures/mine.png"]
    assert [row["caption"] for row in both if row["image"] != ids[0]] == [row["caption"] for row in own]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--image", "nowhere.png"), "no image 'nowhere.png': it is no file, and miniature-chains has test-"),
        (("--captions", "nowhere.txt"), "--captions nowhere.txt: there is no such file"),
        (("--image", "empty.png"), "empty.png is empty (0 bytes)"),
    ],
)
def test_bad_images_and_captions_are_one_line(hierbench, tmp_path, words, says):
    (tmp_path / "empty.png").write_bytes(b"")
    done = hierbench("analyze", "traversal", "random", *words, *SOME)
    assert done.status == 2
    assert says in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("cones", [True, False])
def test_a_geometry_without_angles(hierbench, tmp_path, cones):
    name = f"flat_{cones}".lower()
    (tmp_path / f"{name}.py").write_text(FLAT.replace("CONES", str(cones)))
    words = ("analyze", "traversal", name, "--adapter", f"{name}.py", "--count", 2, "-o", "out", *SOME)
    done = hierbench(*words)
    if cones:  # it says that it has them, and cannot tell which
        assert done.status == 2
        assert "the geometry 'flat' has no angles, by which cones are told: use --all-captions" in done.err
        assert len(done.err.splitlines()) == 1
        done = hierbench(*words, "--all-captions")
    assert done.status == 0, done.err
    found = json.loads(done.out)["rows"]
    assert {row["within_cones"] for row in found} == {False}
    assert found[-1]["caption"] == "[ROOT]"
    done = hierbench("analyze", "uncertainty", name, "--adapter", f"{name}.py", "-o", "out", *SOME)
    assert done.status == 0, done.err  # it has an origin, and lengths


def test_uncertainty_says_where_a_model_was_not_trained_with_it(hierbench, tmp_path):
    done = hierbench("analyze", "uncertainty", "random", "-o", "out", *SOME)
    assert done.status == 0, done.err
    assert {row["trained"] for row in json.loads(done.out)["rows"]} == {False}
    assert "random: not trained with this uncertainty" in done.err
    assert "uncertainty (the model was not trained with it)" in rows(tmp_path / "out" / "uncertainty.csv")[0]
    done = hierbench("analyze", "uncertainty", "random:sphere", "-o", "out", *SOME)
    assert done.status == 2
    assert "in the geometry 'sphere' norms say nothing" in done.err
    done = hierbench("analyze", "uncertainty", "miniature-uncha", "-o", "out", *SOME)
    assert done.status == 0, done.err
    assert {row["trained"] for row in json.loads(done.out)["rows"]} == {True}
    assert set(rows(tmp_path / "out" / "uncertainty.csv")[0]) == {"model", "group", "item", "uncertainty"}


def test_where_no_cone_holds_the_way_the_nearest_captions_are_met(hierbench):
    """The built-in MERU saw full captions alone: for some images no shorter one's cone holds the way to the root."""
    done = hierbench("analyze", "traversal", "miniature-meru", "--count", 3, "-o", "out", *SOME)
    assert done.status == 0, done.err
    found = json.loads(done.out)["rows"]
    outside = {row["image"] for row in found if not row["within_cones"]}
    assert outside
    for image in outside:
        met = [row["caption"] for row in found if row["image"] == image]
        assert len(met) > 1
        assert met[-1] == "[ROOT]"
    assert f"from {len(outside)} of 3 images to the root: there the nearest captions are shown" in done.err


def test_the_report_on_a_geometry(hierbench, tmp_path):
    """The built-in ARGENT's depth is in its radii; a sphere has none. The file holds what the screen says, and more."""
    words = (
        "analyze",
        "geometry",
        "miniature-argent",
        "miniature-clip",
        "--on",
        "miniature-chains",
        "--limit",
        40,
    )
    done = hierbench(*words, "--device", "cpu", "-o", "out")
    assert done.status == 0, done.err
    said = " ".join(done.out.split())
    assert (
        "Depth: in radius and direction (argent); in the direction, without radii (clip). AUC: radii help"
        in said
    )
    first, second = json.loads((tmp_path / "out" / "geometry.json").read_text())["looks"]
    assert (first["model"], second["model"]) == ("miniature-argent", "miniature-clip")
    found = first["radius"]["correlation"]
    assert 0 < found["low"] <= found["value"] <= found["high"] <= 1
    assert first["conclusion"].startswith("Depth is in the radius and in the direction.")
    assert second["conclusion"].startswith("Depth is in the direction; there are no radii.")
    assert (tmp_path / "out" / "geometry.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nobody", "--on", "miniature-chains"), "nobody"),
        (("random", "--on", "nothing"), "nothing"),
        (("random", "--on", "cars"), "hierbench data prepare cars"),
    ],
)
def test_a_report_on_what_is_not_there_is_one_line(hierbench, tmp_path, words, says):
    done = hierbench("analyze", "geometry", *words, "--device", "cpu", "-o", "out")
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert says in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("entailment", "random", "--dataset", "miniature"),
            "choose hierarcaps, hierarcaps-clean, miniature-chains",
        ),
        (("entailment", "nobody"), "nobody"),
        (
            ("confusion", "random", "--dataset", "miniature"),
            "--dataset miniature has no tree of its classes: choose ",
        ),
        (("confusion", "random", "--dataset", "pets"), "hierbench data prepare pets"),
        (("entailment", "random", "--format", "gif"), "'gif' is not one of 'png', 'pdf', 'svg'"),
        (("norms", "random", "nobody"), "nobody"),
        (("horopca", "random", "random:sphere"), "the geometry of random:sphere is 'sphere'"),
        (("uncertainty", "random", "random:sphere"), "random:sphere: uncertainty goes by the norm"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(hierbench, tmp_path, words, says):
    done = hierbench("analyze", *words, "-o", "out", *SOME)
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert says in done.err
    assert not (tmp_path / "out").exists()


def test_entailment_on_the_screen(hierbench, tmp_path):
    """What is printed is what the PEP task records of the same items, in percent."""
    done = hierbench(
        "analyze", "entailment", "miniature-argent", "--limit", 30, "--device", "cpu", "-o", "out"
    )
    assert done.status == 0, done.err
    ran = hierbench(
        "run",
        "miniature-argent",
        "--task",
        "pep-v2/miniature",
        "--limit",
        30,
        "--device",
        "cpu",
        "--out",
        "run",
    )
    assert ran.status == 0, ran.err
    (path,) = (tmp_path / "run" / "results").rglob("pep-v2*.json")
    figures = json.loads(path.read_text())["metrics"]
    found = {row["group"]: row for row in rows(tmp_path / "out" / "entailment.csv")}
    for group, suffix in (("all", ""), ("level 1", "_l1_image"), ("level 4", "_l4_image")):
        for name in ("auc", "ap"):
            assert float(found[group][name]) == pytest.approx(100 * figures[name + suffix]["value"])
    assert f"{100 * figures['auc']['value']:.1f}" in done.out


def test_confusion_on_the_screen(hierbench, tmp_path):
    words = (
        "analyze",
        "confusion",
        "miniature-meru",
        "random",
        "--limit",
        60,
        "--device",
        "cpu",
        "-n",
        2,
        "-o",
        "out",
    )
    done = hierbench(*words)
    assert done.status == 0, done.err
    models = json.loads((tmp_path / "out" / "confusion.json").read_text())["models"]
    for one in models:
        assert f"{one['right']:.1f}" in done.out
        assert one["confusions"][0]["true_name"] in done.out
        assert sum(entry["images"] for entry in one["distances"]) == 60
        assert sum(map(sum, one["matrix"])) == 60
    asked = json.loads(hierbench(*words, "--json").out)["rows"]
    assert [row["confusions"] for row in asked] == [one["confusions"][:2] for one in models]


@pytest.mark.parametrize("what", ["norms", "entailment", "traversal", "geometry", "ambiguity"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(hierbench, tmp_path, what):
    (tmp_path / "file").write_text("")
    done = hierbench("analyze", what, "no-such-model", "-o", "file")
    assert (done.status, done.err) == (
        2,
        "hierbench: error: cannot write to file (it is a file): choose another --out\n",
    )


def test_analyses_and_trainings_of_the_same_second_have_a_folder_each(tmp_path, monkeypatch):
    from hierbench.cli._shared import output_folder, run_folder

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form, *moment: "now")
    assert [run_folder(None, "{}-analyze").name for _ in range(2)] == ["now-analyze", "now-analyze-2"]
    found = []
    for _ in range(3):
        with output_folder(None, "{}-clip") as folder:
            found.append(folder.name)
    assert found == ["now-clip", "now-clip-2", "now-clip-3"]
