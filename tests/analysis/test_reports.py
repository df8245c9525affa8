"""Groups, radii, uncertainty, and the files of each analysis, from Python and from the command line."""

import csv
import itertools
import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle
from PIL import Image

from hierbench.analysis import reports
from hierbench.analysis.figures import traversal
from hierbench.analysis.groups import Embedded, Group, gather, with_own
from hierbench.analysis.norms import radii, summary
from hierbench.analysis.uncertainty import uncertainty
from hierbench.cli.analyze import app
from hierbench.contracts import Fit
from hierbench.data.locate import Locations
from hierbench.data.readers import open_dataset
from hierbench.engine.session import Session
from hierbench.errors import DataError, OutputError, UsageError
from hierbench.geometry import Lorentz, Sphere
from hierbench.models.reference import load_model


@pytest.fixture(scope="module")
def chains():
    return open_dataset("miniature-chains", Locations()).limited(20)


@pytest.fixture(scope="module")
def embedded(chains):
    return gather(Session(load_model("random"), workers=0), chains, Fit.CROP)


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_groups_are_the_levels_then_the_images(chains, embedded):
    assert list(embedded.groups) == ["level 1", "level 2", "level 3", "level 4", "images"]
    for number in range(4):
        labels = embedded.groups[f"level {number + 1}"].labels
        assert len(set(labels)) == len(labels)
        assert set(labels) == {captions[number] for captions in chains.captions}
    adapter = load_model("random")
    torch.testing.assert_close(embedded.root, adapter.encode_texts([""])[0])
    last = embedded.groups["level 4"]
    torch.testing.assert_close(last.tangents, adapter.encode_texts(last.labels))


@pytest.mark.parametrize(("name", "group"), [("miniature", "captions"), ("miniature-colours", "prompts")])
def test_other_datasets_have_one_group_of_strings(name, group):
    found = gather(
        Session(load_model("random"), workers=0), open_dataset(name, Locations()).limited(3), Fit.CROP
    )
    assert list(found.groups) == [group, "images"]


def test_radii_are_distances_from_the_root():
    group = Group(("a", "b"), torch.tensor([[0.3, 0.4], [0.0, 0.0]]))
    hyperbolic = radii(Embedded(Lorentz(2.0), {"g": group}, torch.zeros(2)))["g"]
    np.testing.assert_allclose(hyperbolic, [0.5, 0], atol=1e-6)  # the length of the tangent
    group = Group(("a", "b"), torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    spherical = radii(Embedded(Sphere(), {"g": group}, torch.tensor([5.0, 0.0])))["g"]
    np.testing.assert_allclose(spherical, [0, math.sqrt(2)], atol=1e-6)
    (row,) = summary({"g": np.array([1.0, 2.0, 3.0])})
    assert row == {
        "group": "g",
        "n": 3,
        "mean": 2.0,
        "std": pytest.approx(math.sqrt(2 / 3)),
        "p5": 1.1,
        "p50": 2.0,
        "p95": 2.9,
    }


def test_uncertainty_falls_with_the_norm():
    points = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    expected = [math.log(2), math.log1p(math.exp(-5))]
    assert uncertainty(Lorentz(1.0), points).tolist() == pytest.approx(expected)
    with pytest.raises(UsageError, match="norms say nothing"):
        uncertainty(Sphere(), points)


def test_norms_and_uncertainties_as_files(embedded, tmp_path):
    rows = reports.norms({"m": embedded}, tmp_path, "title")
    assert [row["group"] for row in rows] == list(embedded.groups)
    items = table(tmp_path / "norms.csv")
    assert len(items) == sum(row["n"] for row in rows)
    radius = {(item["group"], item["item"]): float(item["radius"]) for item in items}
    assert radius["images", embedded.groups["images"].labels[7]] == pytest.approx(
        float(radii(embedded)["images"][7])
    )
    reports.uncertainties({"m": embedded}, tmp_path, "title")
    assert len(table(tmp_path / "uncertainty.csv")) == len(items)
    assert is_png(tmp_path / "norms.png")
    assert is_png(tmp_path / "uncertainty.png")


def test_horopca_as_files(embedded, tmp_path, chains):
    (row,) = reports.horopca_plane({"m": embedded}, tmp_path, "title")
    places = table(tmp_path / "horopca.csv")
    assert len(places) == row["n"]
    assert 0 < row["by_one_direction"] < row["variance_kept"] <= 1
    assert all(float(item["x"]) ** 2 + float(item["y"]) ** 2 < 1 for item in places)
    assert is_png(tmp_path / "horopca.png")
    flat = gather(Session(load_model("random:sphere"), workers=0), chains, Fit.CROP)
    with pytest.raises(UsageError, match="the geometry of flat is 'sphere'"):
        reports.horopca_plane({"m": embedded, "flat": flat}, tmp_path / "none", "title")
    assert not (tmp_path / "none").exists()


def test_horopca_sees_curvature(tmp_path):
    """Points of another curvature are the same picture, scaled by √κ."""
    tangents = torch.randn(12, 4, generator=torch.Generator().manual_seed(2)).double()
    pictures = []
    for curvature in (1.0, 0.25):
        group = Group(tuple("abcdefghijkl"), tangents / curvature**0.5)
        found = Embedded(Lorentz(curvature), {"g": group}, torch.zeros(4))
        reports.horopca_plane({"m": found}, tmp_path, "title")
        pictures.append([(float(row["x"]), float(row["y"])) for row in table(tmp_path / "horopca.csv")])
    np.testing.assert_allclose(pictures[0], pictures[1], atol=1e-6)


def test_traversals_as_rows(embedded, chains, tmp_path):
    image = embedded.groups["images"].labels[0]
    rows = reports.traversals({"m": embedded}, chains.images, tmp_path, [image], within_cones=False)
    assert rows[-1]["caption"] == "[ROOT]"
    assert {row["image"] for row in rows} == {image}
    assert [row["step"] for row in rows] == sorted(row["step"] for row in rows)
    assert [row["caption"] for row in table(tmp_path / "traversal.csv")] == [row["caption"] for row in rows]
    with pytest.raises(UsageError, match="no image 'nothing'"):
        reports.traversals({"m": embedded}, chains.images, tmp_path, ["nothing"])


@pytest.mark.parametrize("form", ["png", "pdf", "svg"])
def test_traversals_are_drawn_the_same_twice(embedded, chains, tmp_path, form):
    """Every caption that is met stands in the picture, and the image; models stand below each other."""
    models = {"one": embedded, "$another$": embedded}
    ids = list(embedded.groups["images"].labels[:2])
    for folder in ("a", "b"):
        rows = reports.traversals(
            models, chains.images, tmp_path / folder, ids, within_cones=False, form=form
        )
    first, second = ((tmp_path / folder / f"traversal.{form}").read_bytes() for folder in ("a", "b"))
    assert first == second
    if form == "svg":
        root = ElementTree.fromstring(first.decode("utf-8"))
        words = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for row in rows:
            assert any(word and row["caption"].startswith(word) for word in words), row["caption"]
        assert words.count("[ROOT]") == 4
        assert words.count("one") == words.count("$another$") == 2
        assert len(list(root.iter("{http://www.w3.org/2000/svg}image"))) == 2


def test_captions_of_any_kind_fit_their_strip():
    """Boxes stay within the strip and apart; the bar has each caption for its part of the way."""
    met = [("word " * 60, 0.0), ("x" * 400, 0.2), ("$", 0.4), ("", 0.6), ("[ROOT]", 0.8)]
    way = traversal.Way("m", met)
    boxes = list(traversal._boxes(way, 0, 0, 300))
    assert len(boxes) == 5
    assert all(box.x >= 0 and box.x + box.width <= 300 for box in boxes)
    for one, other in itertools.combinations(boxes, 2):
        beside = one.x + one.width < other.x or other.x + other.width < one.x
        assert beside or one.y - one.height >= other.y or other.y - other.height >= one.y
    strip = traversal.Strip("image", Image.new("L", (10, 300)), [way, traversal.Way("n", [])])
    bars = [
        patch for patch in traversal.traversals([strip]).axes[0].patches
        if isinstance(patch, Rectangle) and patch.get_facecolor()[3]
    ]  # fmt: skip
    whole = sum(bar.get_width() for bar in bars)
    assert [bar.get_width() / whole for bar in bars] == pytest.approx([0.2] * 5)


def test_a_folder_that_cannot_be_written_is_one_line(embedded, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="choose another folder"):
        reports.norms({"m": embedded}, tmp_path / "file", "title")


def test_own_images_and_captions(chains, tmp_path):
    picture, captions = tmp_path / "mine.png", tmp_path / "captions.txt"
    content = chains.images.read(chains.images.ids[0])
    picture.write_bytes(content)
    captions.write_text("a dog\n\n a cat \n")
    mine = with_own(chains, [str(picture), chains.images.ids[1]], captions)
    assert mine.captions == ("a dog", "a cat")
    assert mine.images.ids == (str(picture), chains.images.ids[1])
    assert [mine.images.read(i) for i in mine.images.ids] == [
        content,
        chains.images.read(chains.images.ids[1]),
    ]
    assert set(with_own(chains, chains.images.ids).captions) == {
        c for chain in chains.captions for c in chain
    }
    captions.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read"):
        with_own(chains, [], captions)
    captions.write_text("\n")
    with pytest.raises(DataError, match="holds none"):
        with_own(chains, [], captions)
    with pytest.raises(
        UsageError, match=r"no image 'mine\.jpg': it is no file, and miniature-chains has test-"
    ):
        with_own(chains, ["mine.jpg"])


def run(capsys, *arguments):
    app([*arguments, "--limit", "12", "--json", "--device", "cpu"], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def test_the_commands(capsys, tmp_path):
    for command, files in {
        "norms": ["norms.csv", "norms.png"],
        "uncertainty": ["uncertainty.csv", "uncertainty.png"],
        "horopca": ["horopca.csv", "horopca.png"],
        "traversal": ["traversal.csv", "traversal.png"],
    }.items():
        out = tmp_path / command
        document = run(capsys, command, "random", "--out", str(out))
        assert document["folder"] == str(out)
        assert document["rows"]
        assert sorted(path.name for path in out.iterdir()) == files
    (tmp_path / "captions.txt").write_text("a large animal\n")
    options = [
        "--captions",
        str(tmp_path / "captions.txt"),
        "--count",
        "2",
        "--all-captions",
        "--out",
        str(tmp_path),
    ]
    rows = run(capsys, "traversal", "random:sphere", *options)["rows"]
    assert {row["caption"] for row in rows} <= {"a large animal", "[ROOT]"}
    assert len({row["image"] for row in rows}) == 2
    with pytest.raises(UsageError, match="there is no such file"):
        run(capsys, "traversal", "random", "--captions", "nowhere.txt", "--out", str(tmp_path))
