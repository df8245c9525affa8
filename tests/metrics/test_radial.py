import csv
import re

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from hierbench import metrics
from hierbench.errors import GeometryError, MetricError
from hierbench.geometry import Lorentz, Sphere
from hierbench.metrics import bootstrap
from hierbench.metrics.radial import radial_retrieval


@pytest.mark.shared
def test_golden(recipe, golden, shared_data):
    with open(shared_data / "hierarcaps" / "hierarcaps_test.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    texts = [[text.strip() for text in row["captions"].split("=>")] for row in rows]
    images: dict[str, list[list[str]]] = {}  # an image may own several rows
    for row, chain in zip(rows, texts, strict=True):
        number = str(int(re.search(r"_(\d+)\.", row["image_url"]).group(1)))
        images.setdefault(number, []).append(chain)
        row["image"] = list(images).index(number)
    image = np.stack([recipe.hierarcaps_image(number, chains, 7) for number, chains in images.items()])
    caption = np.stack([[recipe.hierarcaps_text(text, 7) for text in chain] for chain in texts])
    owner = [row["image"] for row in rows]
    figures = metrics.hierarcaps(Sphere(), image, caption, owner, texts, recipe.hierarcaps_text("", 7))
    recorded = golden("hierarcaps_7")
    for name in ("precision", "recall", "d_corr"):
        assert figures[name] == pytest.approx(recorded[name], abs=1e-9)


def case(seed, images=6, samples=9, width=8, words=14):
    """Chains whose strings repeat, with images that own several; equal strings have equal features."""
    generator = np.random.default_rng(seed)
    vocabulary = generator.normal(size=(words, width)).astype(np.float32)
    owner = np.concatenate([np.arange(images), generator.integers(0, images, samples - images)])
    chains = generator.integers(0, words, (samples, 4))
    image = 0.5 * generator.normal(size=(images, width)).astype(np.float32)
    np.add.at(image, owner, vocabulary[chains[:, 3]])
    texts = [[f"w{word}" for word in chain] for chain in chains]
    return image, vocabulary[chains], owner, texts, generator.normal(size=width).astype(np.float32)


def naive(geometry, image, caption, owner, texts, root, steps):
    """One image and one threshold at a time."""
    image, caption, root = (geometry.lift(torch.from_numpy(x)) for x in (image, caption, root))
    radius = geometry.radius(caption.reshape(-1, caption.shape[-1]), root=root).tolist()
    flat = [text for chain in texts for text in chain]
    precisions, recalls = [], []
    for i, point in enumerate(image):
        scores = geometry.similarity(point[None], caption.reshape(-1, caption.shape[-1]))[0].tolist()
        predictions = set()
        for threshold in np.linspace(min(radius), max(radius), steps).astype(np.float32):
            within = [j for j in range(len(flat)) if np.float32(radius[j]) <= threshold]
            predictions.add(flat[max(within, key=lambda j: (scores[j], -j))])
        own = [chain for chain, image_of in zip(texts, owner, strict=True) if image_of == i]
        strings = {text for chain in own for text in chain}
        precisions.append(len(predictions & strings) / len(predictions))
        recalls.append(np.mean([any(chain[level] in predictions for chain in own) for level in range(4)]))
    taus = [
        kendalltau(np.argsort(radii, kind="stable"), range(4)).statistic
        for radii in np.reshape(radius, (-1, 4))
    ]
    return {"precision": np.mean(precisions), "recall": np.mean(recalls), "d_corr": np.mean(taus)}


@pytest.mark.parametrize("geometry", [Sphere(), Lorentz(0.6)], ids=lambda g: g.name)
@pytest.mark.parametrize(("seed", "steps"), [(0, 50), (1, 5), (2, 1), (3, 17), (4, 50)])
def test_against_one_at_a_time(geometry, seed, steps):
    assert metrics.hierarcaps(geometry, *case(seed), steps=steps) == pytest.approx(
        naive(geometry, *case(seed), steps)
    )


def test_by_hand():
    """Captions ever farther out along one axis of hyperbolic space; images at two of them."""
    at = np.array([[0.1, 0.2, 0.3, 0.4], [0.15, 0.25, 0.5, 0.45]], np.float32)  # the second is out of order
    caption = np.stack([at, 0 * at], -1)
    image = np.array([[0.3, 0.0], [0.45, 0.0]], np.float32)
    texts = [["a", "b", "c", "d"], ["e", "f", "g", "h"]]
    outcome = radial_retrieval(
        Lorentz(1e-4), image, caption, [0, 1], texts, None, steps=9
    )  # thresholds 0.1, 0.15, …
    names = np.array(texts).ravel()
    assert names[outcome.predicted[0]].tolist() == ["a", "e", "b", "f", "c", "c", "c", "c", "c"]
    assert names[outcome.predicted[1]].tolist() == ["a", "e", "b", "f", "c", "c", "d", "h", "h"]
    assert outcome.precision.tolist() == [3 / 5, 3 / 7]  # {a, b, c} of {a, e, b, f, c}; {e, f, h} of 7
    assert outcome.recall.tolist() == [3 / 4, 3 / 4]
    assert outcome.tau == pytest.approx([1, 2 / 3])  # one pair of six inverted


def test_layouts_and_kinds_agree():
    image, caption, owner, texts, root = case(5)
    expected = metrics.hierarcaps(Sphere(), image, caption, owner, texts, root)
    flat = (
        caption.reshape(-1, caption.shape[-1]),
        np.repeat(owner, 4),
        [text for chain in texts for text in chain],
    )
    assert metrics.hierarcaps(Sphere(), image, *flat, root) == expected
    assert metrics.hierarcaps(Sphere(), image, *flat, root[None]) == expected
    spaced = [tuple(f" {text}\n" for text in chain) for chain in texts]
    tensors = [torch.from_numpy(x) for x in (image, caption, owner)]
    assert metrics.hierarcaps(Sphere(), *tensors, spaced, torch.from_numpy(root)) == expected


def test_an_origin_needs_no_root():
    image, caption, owner, texts, root = case(6)
    expected = metrics.hierarcaps(Lorentz(1.0), image, caption, owner, texts, None)
    assert metrics.hierarcaps(Lorentz(1.0), image, caption, owner, texts, root) == expected
    with pytest.raises(GeometryError, match="root"):
        metrics.hierarcaps(Sphere(), image, caption, owner, texts, None)


def test_order_does_not_matter():
    image, caption, owner, texts, root = case(7, images=20, samples=30, words=60)
    generator = np.random.default_rng(0)
    of_images, of_samples = generator.permutation(len(image)), generator.permutation(len(owner))
    moved = np.argsort(of_images)[owner[of_samples]]
    shuffled = [texts[row] for row in of_samples]
    for geometry in (Sphere(), Lorentz(0.6)):
        assert metrics.hierarcaps(
            geometry, image[of_images], caption[of_samples], moved, shuffled, root
        ) == pytest.approx(metrics.hierarcaps(geometry, image, caption, owner, texts, root))


def test_collapsed_radii():
    """All captions in one place: one prediction for all, radii that tie count as ordered."""
    caption = np.ones((2, 4, 3), np.float32)
    figures = metrics.hierarcaps(Sphere(), caption[:, 0], caption, [0, 1], list("abcdefgh"), np.eye(3)[0])
    assert figures == pytest.approx({"precision": 0.5, "recall": 0.125, "d_corr": 1.0})


def test_ties_order_nothing_where_the_protocol_is_corrected():
    """Radii 1, 1, 3, 2: pairs in order 1 < 3, 1 < 2, 1 < 3, 1 < 2; against it 3 > 2; one tie. Six pairs in all."""
    caption = np.zeros((1, 4, 2), np.float32)
    caption[0, :, 0] = [1, 1, 3, 2]
    chain = (Lorentz(1.0), caption[:, 3], caption, [0], list("abcd"), None)
    found = {protocol: radial_retrieval(*chain, protocol=protocol) for protocol in ("released", "corrected")}
    assert [float(outcome.ties[0]) for outcome in found.values()] == pytest.approx([1 / 6, 1 / 6])
    assert float(found["released"].tau[0]) == pytest.approx((5 - 1) / 6)
    assert float(found["corrected"].tau[0]) == pytest.approx((4 - 1) / 6)
    with pytest.raises(MetricError, match="no protocol 'mine'"):
        radial_retrieval(*chain, protocol="mine")


def test_counts_are_repetitions():
    outcome = radial_retrieval(Sphere(), *case(8))
    [counts] = bootstrap.draws(6, resamples=40)
    drawn = outcome.statistic()(counts)
    for row, count in enumerate(counts.astype(int)):
        assert drawn["precision"][row] == pytest.approx(np.repeat(outcome.precision, count).mean())
        assert drawn["d_corr"][row] == pytest.approx(np.repeat(outcome.tau, count[outcome.owner]).mean())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"caption": np.ones((9, 3, 8))},
            r"caption features: expected \(samples, 4, width\), got \(9, 3, 8\)",
        ),
        ({"caption": np.ones((35, 8))}, r"caption features: expected \(samples, 4, width\), got \(35, 8\)"),
        ({"texts": ["abcd"] * 8}, "texts: 8 strings for 36 caption features"),
        ({"owner": [0, 1, 2, 3, 4, 0, 0, 0, 0]}, "owner: image 5 has no captions"),
        ({"owner": [0, 1, 2, 3, 4, 6, 0, 0, 0]}, "owner: value 6 at position 5 is outside 0 … 5"),
        ({"owner": np.arange(36) % 6}, "owner: the four captions of a sample belong to different images"),
        ({"root": np.ones(7)}, "embeddings of different widths: caption 8, root 7"),
        ({"root": np.full(8, np.nan)}, "root: row 0 holds NaN or infinity"),
        ({"image": np.ones((6, 9))}, "embeddings of different widths: image 9, caption 8"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_bad_input(changes, complaint):
    names = ("image", "caption", "owner", "texts", "root")
    with pytest.raises(MetricError, match=complaint):
        metrics.hierarcaps(Sphere(), **{**dict(zip(names, case(0), strict=True)), **changes})


def test_removed_captions_are_never_predicted():
    """Removing a caption of an image equals scoring that image against the others, at the same thresholds."""
    image, caption, owner, _, root = case(3)
    texts = [[f"{sample} {level}" for level in range(4)] for sample in range(len(owner))]  # all different
    removed = np.random.default_rng(0).random((len(image), 4 * len(owner))) < 0.5
    removed[np.repeat(owner, 4) == np.arange(len(image))[:, None]] = False
    for geometry in (Lorentz(1.0), Sphere()):
        found = radial_retrieval(geometry, image, caption, owner, texts, root, 20, removed=removed)
        points = geometry.lift(torch.from_numpy(caption.reshape(-1, caption.shape[-1])))
        scores = geometry.similarity(geometry.lift(torch.from_numpy(image)), points).numpy()
        radius = found.radius.reshape(-1)
        thresholds = np.linspace(float(radius.min()), float(radius.max()), 20).astype(radius.dtype)
        for row in range(len(image)):
            for step, threshold in enumerate(thresholds):
                within = [at for at in range(len(radius)) if radius[at] <= threshold and not removed[row, at]]
                best = max(within, key=lambda at: (scores[row, at], -at)) if within else -1
                assert found.predicted[row, step] == best
        assert (found.predicted == -1).any()  # some thresholds hold removed captions alone
        assert (found.precision <= 1).all()
        whole = radial_retrieval(geometry, image, caption, owner, texts, root, 20)
        nothing = radial_retrieval(
            geometry, image, caption, owner, texts, root, 20, removed=np.zeros_like(removed)
        )
        np.testing.assert_array_equal(whole.predicted, nothing.predicted)
    with pytest.raises(MetricError, match="expected shape"):
        radial_retrieval(Lorentz(1.0), image, caption, owner, texts, root, removed=removed.T)
    with pytest.raises(MetricError, match="image 0 keeps no caption of its own"):
        radial_retrieval(Lorentz(1.0), image, caption, owner, texts, root, removed=np.ones_like(removed))
