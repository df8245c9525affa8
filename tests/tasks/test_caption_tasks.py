"""`which-caption` and `himo` on planted embeddings: their figures, kinds, ties and notes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hierbench import registry
from hierbench.contracts import Embeddings
from hierbench.data.datasets import CaptionChoices, ImageFiles
from hierbench.geometry import Lorentz, Sphere

GEOMETRIES = [Sphere(), Lorentz(1.0)]


def questions(shown, captions, kinds):
    ids = tuple(f"{image}.jpg" for image in range(1 + max(i for row in shown for i in row)))
    names = tuple(f"q{number}" for number in range(len(shown)))
    return CaptionChoices(
        "asked", ImageFiles(Path("nowhere"), ids), names, tuple(kinds), tuple(shown), tuple(captions)
    )


def planted(requests, angle):
    """Unit vectors in a plane: strings at the angle that they hold as a number, images at `angle[id]`, degrees."""

    def at(degrees):
        radians = torch.tensor(degrees, dtype=torch.float64).deg2rad()
        return torch.stack([radians.cos(), radians.sin()], 1).float()

    return Embeddings(
        requests, at([angle[i] for i in requests.images]), at([float(t) for t in requests.texts])
    )


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_one_image_each(geometry):
    captions = [("0", "9"), ("9", "0"), ("50", "70"), ("60", "60")]
    dataset = questions([(0,), (0,), (1,), (1,)], captions, ["swap_att", "swap_obj"] * 2)
    task = registry.task("which-caption/sugarcrepe")
    scores = task.score(geometry, planted(task.requests(dataset), {"0.jpg": 1.0, "1.jpg": 55.0}), dataset)
    figures = {name: estimate.value for name, estimate in scores.metrics.items()}
    assert figures["text"] == 50
    assert figures["text_swap_att"] == 100
    assert figures["text_swap_obj"] == 0
    assert figures["macro"] == 50
    assert figures["tied"] == 0.25
    assert np.isnan(figures["text_add_att"])
    assert scores.n == task.statistics(scores.items).n == 4  # of two images
    assert scores.notes == ("the captions of 1 of 4 questions are the same: they tie, and count as wrong",)
    assert scores.degenerate == {}
    assert set(figures) == {metric.name for metric in task.spec.metrics}


def test_a_model_that_tells_no_captions_apart_is_marked():
    dataset = questions([(0,), (1,)], [("20", "20.0"), ("40", "40.0")], ["swap_att", "swap_obj"])
    task = registry.task("which-caption/sugarcrepe")
    scores = task.score(Sphere(), planted(task.requests(dataset), {"0.jpg": 1.0, "1.jpg": 55.0}), dataset)
    assert scores.metrics["tied"].value == 1
    assert set(scores.degenerate) == set(scores.metrics)
    assert "every question ties" in scores.degenerate["text"]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_pairs_of_images(geometry):
    dataset = questions([(0, 1), (2, 3)], [("0", "90"), ("20", "30")], ["object", "relation"])
    task = registry.task("which-caption/winoground")
    # the first pair is plain; of the second both images are nearer to 30, yet each caption finds its own image
    angle = {"0.jpg": 5.0, "1.jpg": 80.0, "2.jpg": 26.0, "3.jpg": 33.0}
    scores = task.score(geometry, planted(task.requests(dataset), angle), dataset)
    figures = {name: estimate.value for name, estimate in scores.metrics.items()}
    assert (figures["text"], figures["image"], figures["group"]) == (50, 100, 50)
    assert (figures["text_object"], figures["text_relation"]) == (100, 0)
    assert np.isnan(figures["text_both"])


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.name)
def test_himo_on_a_rising_and_a_falling_chain(geometry, chains):
    dataset = chains([0, 1], captions=(("60", "40", "20", "5"), ("0", "20", "40", "60")))
    task = registry.task("himo")
    scores = task.score(geometry, planted(task.requests(dataset), {"000.jpg": 0.0, "001.jpg": 0.0}), dataset)
    table = scores.items["samples"]
    assert table["himo_rank"].tolist() == pytest.approx([1, -1])
    assert table["rising"].tolist() == [1, 0]
    assert scores.metrics["himo_rank"].value == pytest.approx(0)
    assert table["himo"][0] > 0.9
    near = np.stack([table[f"similarity_{level}"] for level in range(1, 5)], 1)
    assert table["himo"] == pytest.approx([np.corrcoef(range(4), row)[0, 1] for row in near])


def test_all_captions_alike_are_marked(chains):
    dataset = chains([0, 1], captions=(("7", "7", "7", "7"), ("8", "8", "8", "8")))
    task = registry.task("himo")
    scores = task.score(Sphere(), planted(task.requests(dataset), {"000.jpg": 0.0, "001.jpg": 3.0}), dataset)
    assert set(scores.degenerate) == {"himo", "himo_rank", "rising"}
    assert scores.metrics["himo"].value == 0


def test_order_of_questions_does_not_matter(embed):
    generator = np.random.default_rng(0)
    shown = [(int(i),) for i in generator.integers(0, 20, 60)]
    captions = [(f"caption {i}", f"other {i}") for i in range(60)]
    dataset = questions(shown, captions, ["swap_att", "swap_obj"] * 30)
    order = generator.permutation(60)
    again = replace(
        dataset, sample_ids=tuple(dataset.sample_ids[r] for r in order), kinds=tuple(dataset.kinds[r] for r in order),
        shown=tuple(dataset.shown[r] for r in order), captions=tuple(dataset.captions[r] for r in order),
    )  # fmt: skip
    task = registry.task("which-caption/sugarcrepe")
    one, other = (
        {k: e.value for k, e in task.score(Sphere(), embed(task.requests(d)), d).metrics.items()}
        for d in (dataset, again)
    )
    assert one == pytest.approx(other, nan_ok=True)
