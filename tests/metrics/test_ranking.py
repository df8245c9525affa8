import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierbench import metrics
from hierbench.errors import MetricError
from hierbench.geometry import Lorentz, Sphere
from hierbench.metrics import bootstrap
from hierbench.metrics.ranking import recall_statistic, retrieval_ranks


class Dot:
    """A geometry of whole numbers: similarities are exact, so ties are real."""

    def lift(self, tangent):
        return tangent

    def similarity(self, a, b):
        return a @ b.T


@pytest.mark.parametrize(("name", "geometry"), [("lorentz", Lorentz(0.37)), ("cosine", Sphere())])
def test_golden(recipe, golden, name, geometry):
    figures = metrics.retrieval(geometry, *recipe.retrieval_case(7))
    recorded = golden("eval_7")
    assert set(figures) == {f"{way}_r{k}" for way in ("t2i", "i2t") for k in (1, 5, 10)}
    for metric, value in figures.items():
        assert value == pytest.approx(recorded[f"retrieval_{name}_{metric}"], abs=1e-6)


def naive(image, caption, owner, ks):
    """Recall by sorting; equal scores in order of position."""
    scores = image @ caption.T
    figures = {}
    for k in ks:
        by_caption = [owner[j] in np.argsort(-scores[:, j], kind="stable")[:k] for j in range(len(caption))]
        by_image = [i in owner[np.argsort(-scores[i], kind="stable")[:k]] for i in range(len(image))]
        figures[f"t2i_r{k}"], figures[f"i2t_r{k}"] = 100 * np.mean(by_caption), 100 * np.mean(by_image)
    return figures


@st.composite
def cases(draw):
    """Few small whole numbers, so that ties abound; captions in any order, at least one an image."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    images, extra, width = draw(st.integers(1, 12)), draw(st.integers(0, 20)), draw(st.integers(1, 4))
    owner = generator.permutation(np.concatenate([np.arange(images), generator.integers(0, images, extra)]))
    features = [generator.integers(-2, 3, (n, width)).astype(np.float32) for n in (images, len(owner))]
    return (*features, owner)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_against_sorting_with_ties(case):
    assert metrics.retrieval(Dot(), *case, ks=(1, 2, 7)) == pytest.approx(naive(*case, (1, 2, 7)))


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 60))
def test_block_size_does_not_matter(case, block):
    whole, tiled = retrieval_ranks(Dot(), *case), retrieval_ranks(Dot(), *case, block=block)
    assert all((a == b).all() for a, b in zip(whole, tiled, strict=True))


def test_order_of_items_does_not_matter(recipe):
    image, caption, owner = recipe.retrieval_case(2)
    generator = np.random.default_rng(0)
    of_images, of_captions = generator.permutation(len(image)), generator.permutation(len(caption))
    moved = np.argsort(of_images)[owner[of_captions]]
    for geometry in (Lorentz(0.37), Sphere()):
        shuffled = metrics.retrieval(geometry, image[of_images], caption[of_captions], moved)
        assert shuffled == pytest.approx(metrics.retrieval(geometry, image, caption, owner))


def test_scores_may_be_negative():
    """Lorentzian inner products are at most −1/κ; a metric that takes scores below 0 for misses would give 0."""
    features = np.eye(3, 8, dtype=np.float32)
    assert metrics.retrieval(Lorentz(1.0), features, features, [0, 1, 2], ks=(1,)) == {
        "t2i_r1": 100,
        "i2t_r1": 100,
    }


def test_counts_are_repetitions(recipe):
    """An image drawn twice counts twice with all its captions; the candidates stay as they are."""
    image, caption, owner = recipe.retrieval_case(3)
    by_caption, by_image, owner = retrieval_ranks(Sphere(), image, caption, owner)
    [counts] = bootstrap.draws(len(image), resamples=30)
    drawn = recall_statistic(by_caption, by_image, owner, (1, 5))(counts)
    for row, count in enumerate(counts.astype(int)):
        for k in (1, 5):
            captions = np.repeat(by_caption, count[owner])
            assert drawn[f"t2i_r{k}"][row] == pytest.approx(100 * np.mean(captions <= k))
            assert drawn[f"i2t_r{k}"][row] == pytest.approx(100 * np.mean(np.repeat(by_image, count) <= k))


IMAGE, CAPTION = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"owner": [0, 1, 2]}, "owner: value 2 at position 2 is outside 0 … 1"),
        ({"owner": [0, 0, 0]}, r"owner: image 1 has no captions \(1 such images of 2\)"),
        ({"owner": [0, 1]}, "owner: expected 3 values, got 2"),
        ({"caption": np.ones((3, 5), np.float32)}, "embeddings of different widths: image 4, caption 5"),
        ({"image": np.full((2, 4), np.nan)}, "image features: row 0 holds NaN or infinity"),
        ({"caption": CAPTION * [[1], [np.inf], [1]]}, "caption features: row 1 holds NaN or infinity"),
        ({"image": IMAGE[0]}, "image features: expected 2 axes"),
        ({"image": IMAGE[:0]}, "image features: expected 2 axes, none empty"),
        ({"image": "pixels"}, "image features: expected an array of numbers, got str"),
        ({"ks": (0,)}, "ks must be whole numbers from 1 up"),
        ({"ks": ()}, "ks must be whole numbers from 1 up"),
    ],
)
def test_bad_input(changes, complaint):
    arguments = {"image": IMAGE, "caption": CAPTION, "owner": [0, 1, 1], **changes}
    with pytest.raises(MetricError, match=complaint):
        metrics.retrieval(Sphere(), **arguments)
