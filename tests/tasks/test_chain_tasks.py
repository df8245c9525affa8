import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from hierbench import metrics, registry
from hierbench.contracts import Embeddings
from hierbench.data.datasets import subset
from hierbench.errors import DataError, GeometryError
from hierbench.geometry import Lorentz, Sphere
from hierbench.tasks import _pairs

LORENTZ, SPHERE = Lorentz(0.7), Sphere()
POOL = tuple(f"pool {number}" for number in range(100))
RELATIONS = ["l1_l2", "l1_l3", "l1_l4", "l2_l3", "l2_l4", "l3_l4"]
RELATIONS += ["l1_image", "l2_image", "l3_image", "l4_image"]


def values(scores):
    return {name: estimate.value for name, estimate in scores.metrics.items()}


def scored(task, geometry, dataset, embed):
    return task.score(geometry, embed(task.requests(dataset)), dataset)


# ------------------------------------------------------------------------------------------------ which pairs count


def test_the_cleaned_split_has_2088_positives_and_52200_negatives(chains):
    """ARGENT's printed figures fix the ratio at 4 : 100 an image."""
    dataset = chains(range(522), POOL)
    pool, counted = _pairs.CLEANED.negatives(dataset)
    assert pool == POOL
    assert counted.sum() == 52_200
    assert len(_pairs.WITH_IMAGE) * len(dataset.sample_ids) == 2_088
    assert [_pairs.relation_name(r) for r in (*_pairs.BETWEEN, *_pairs.WITH_IMAGE)] == RELATIONS


def test_a_caption_of_an_image_is_not_its_negative(chains):
    """Compared as strings, whichever of the image's samples and levels it comes from."""
    captions = (
        ("animal", "dog", "a dog", "a red dog"),
        ("plant", "tree", "a tree", "an oak"),
        ("animal", "x", "y", "z"),
    )
    dataset = chains([0, 1, 0], ("an oak", "animal", "z", "nothing"), captions)
    _, counted = _pairs.CLEANED.negatives(dataset)
    assert counted.tolist() == [[True, False], [False, True], [False, True], [True, True]]


def test_the_uncleaned_list_has_4000_positives_and_100000_negatives(chains):
    dataset = chains(range(1000))
    pool, counted = _pairs.UNCLEANED.negatives(dataset)
    assert (counted.sum(0) == 100).all()
    assert len(_pairs.WITH_IMAGE) * 1000 == 4000
    for image in (0, 57, 99, 100, 999):
        used = [pool[row] for row in np.flatnonzero(counted[:, image])]
        assert used == [f"s{s} level 4" for s in range(101) if s != image][:100]


def test_uncleaned_negatives_of_images_with_several_samples(chains):
    """Samples of the same image are not other samples; few samples give few negatives."""
    captions = tuple((f"a{s}", f"b{s}", f"c{s}", "twin" if s in (1, 3) else f"d{s}") for s in range(5))
    dataset = chains([0, 1, 0, 2, 3], captions=captions)
    pool, counted = _pairs.finest_of_others(dataset, others=2)
    used = [[pool[row] for row in np.flatnonzero(counted[:, image])] for image in range(4)]
    assert used[0] == ["twin", "twin"]  # samples 1 and 3
    assert used[1] == ["d0", "d2"]
    assert used[2] == ["d0"]  # of samples 0 and 1, the latter's caption is the image's own too
    assert used[3] == ["d0", "twin"]
    _, all_others = _pairs.finest_of_others(dataset, others=100)
    assert all_others.sum(0).tolist() == [3, 3, 3, 4]


def test_a_dataset_without_pool_says_which_file_is_missing(chains):
    task = registry.task("pep-v2")
    with pytest.raises(DataError, match=r"chains has no negative captions: put pool.csv"):
        task.requests(chains([0, 1]))


def test_too_few_samples_for_a_negative_pair(chains, embed):
    with pytest.raises(
        DataError, match="chains leaves no negative pair for pep-uncleaned: evaluate more samples"
    ):
        scored(registry.task("pep-uncleaned"), LORENTZ, chains([0]), embed)


def test_requests(chains):
    dataset = chains([0, 1, 0], ("p", "s0 level 1"))
    own = [caption for chain in dataset.captions for caption in chain]
    for name, first, last in (
        ("pep-v2", [], ["p"]),
        ("pep-v2-radial", [""], ["p"]),
        ("pep-uncleaned", [], []),
        ("hierarcaps", [""], []),
    ):
        requests = registry.task(name).requests(dataset)
        assert requests.images == ("000.jpg", "001.jpg")
        assert list(requests.texts) == [*first, *own, *last]


# ------------------------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize(
    ("name", "geometry"),
    [
        ("pep-v2", LORENTZ),
        ("pep-v2-radial", SPHERE),
        ("pep-uncleaned", LORENTZ),
        ("pep-uncleaned-radial", SPHERE),
    ],
)
def test_figures_against_scikit_learn_pair_by_pair(chains, embed, name, geometry):
    dataset = chains([0, 1, 2, 0, 3, 4], POOL[:7])
    task = registry.task(name)
    embeddings = embed(task.requests(dataset))
    root = geometry.lift(embeddings.texts([""])[0]) if "radial" in name else None

    def ends(general, specific):
        return [
            geometry.lift(embeddings.images([end]) if end.endswith(".jpg") else embeddings.texts([end]))
            for end in (general, specific)
        ]

    def p(general, specific):
        return float(geometry.entailment(*ends(general, specific), paired=True, root=root)[0])

    def margin(general, specific):
        angle = float(geometry.exterior_angle(*ends(general, specific), paired=True, root=root)[0])
        return 1 - 2 * angle / np.pi

    def similarity(general, specific):
        return float(geometry.similarity(*ends(general, specific), paired=True)[0])

    chain = [
        (*captions, f"00{image}.jpg") for captions, image in zip(dataset.captions, dataset.owner, strict=True)
    ]
    related = {r: [] for r in RELATIONS if "uncleaned" not in name or "image" in r}
    for places in chain:
        for (i, general), (j, specific) in itertools.combinations(enumerate(places), 2):
            relation = f"l{i + 1}_" + ("image" if j == 4 else f"l{j + 1}")
            if relation in related:
                related[relation].append((general, specific))
    images = dataset.images.ids
    if "uncleaned" in name:
        negative = [(places[3], image) for image in images for places in chain if places[4] != image]
    else:
        negative = [(caption, image) for image in images for caption in dataset.pool]

    def expect(positive, negative, score=p):
        labels = [1] * len(positive) + [0] * len(negative)
        scores = [score(*pair) for pair in [*positive, *negative]]
        return roc_auc_score(labels, scores), average_precision_score(labels, scores)

    figures = values(task.score(geometry, embeddings, dataset))
    headline = [pair for r in RELATIONS[6:] for pair in related[r]]

    def check(group, expected):
        for metric, value in zip(("auc", "ap"), expected, strict=True):
            assert figures.pop(f"{metric}{group}") == pytest.approx(value, abs=1e-6)

    auc, ap = expect(headline, negative)
    alone = expect(headline, negative, similarity)
    check("", (auc, ap))
    check("_signed", expect(headline, negative, margin))
    check("_similarity", alone)
    check("_gain", (auc - alone[0], ap - alone[1]))
    for relation, pairs in related.items():
        check(f"_{relation}", expect(pairs, negative))
    if "uncleaned" not in name:
        between = [pair for r in RELATIONS[:6] for pair in related[r]]
        check("_text_text", expect(between, negative))
        captions = {
            level: [(text, places[level]) for text in dataset.pool for places in chain] for level in (1, 2, 3)
        }
        check("_text_text_vs_text", expect(between, [pair for level in captions.values() for pair in level]))
        for relation in RELATIONS[:6]:
            check(f"_{relation}_vs_text", expect(related[relation], captions[int(relation[-1]) - 1]))
    reverse = [(specific, general) for general, specific in headline]
    assert figures.pop("direction_auc") == pytest.approx(expect(headline, reverse)[0], abs=1e-6)
    every = np.array([p(*pair) for pair in [*headline, *negative]])
    assert 0 < np.mean(every == 0) < 1
    assert figures.pop("zero_fraction") == pytest.approx(np.mean(every == 0))
    assert figures.pop("distinct") == len(np.unique(every))
    tie = every[: len(headline), None] == every[None, len(headline) :]
    assert figures.pop("tied_fraction") == pytest.approx(tie.mean())
    assert figures == {}


PRINTED = [(0.584, 0.199), (0.555, 0.144), (0.604, 0.238), (0.711, 0.444)]
"""AUC and AP of MERU-S, -B and -L in ARGENT's Table 2, and of MERU-S with h on any pair in its Table 3b."""


@pytest.mark.parametrize(("auc", "ap"), PRINTED)
def test_the_printed_figures_fix_the_pairs(auc, ap):
    """A share t of 2,088 positives above 0, all else 0: AUC = (1 + t) / 2, AP = t + (1 − t) π, as printed."""
    fits = []
    for positives in (3, 4, 5, 6, 10):
        hits = np.arange(
            round(522 * positives * (2 * auc - 1.002)), round(522 * positives * (2 * auc - 0.998))
        )
        t = hits / (522 * positives)
        share = positives / (positives + 100)
        rounded = np.round((1 + t) / 2, 3) == auc, np.round(t + (1 - t) * share, 3) == ap
        fits += [positives] if np.any(rounded[0] & rounded[1]) else []
    assert fits == [4]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2_088))
def test_clamped_scores_obey_the_identity(hits):
    scores = np.zeros(2_088 + 52_200)
    scores[:hits] = np.linspace(0.1, 0.9, hits) if hits else 0
    labels = np.repeat([1, 0], [2_088, 52_200])
    found = metrics.entailment(scores, labels)
    t, share = hits / 2_088, 2_088 / 54_288
    assert found["auc"] == pytest.approx((1 + t) / 2)
    assert found["ap"] == pytest.approx(t + (1 - t) * share)


def test_a_perfect_hierarchy(chains):
    """Each sample on its own ray, levels ever farther out; pool captions point elsewhere: all figures are 1."""
    dataset = chains([0, 1, 2], ("elsewhere",))
    task = registry.task("pep-v2")
    requests = task.requests(dataset)
    texts = [
        torch.eye(4)[3] if text == "elsewhere" else 0.2 * int(text[-1]) * torch.eye(4)[int(text[1])]
        for text in requests.texts
    ]
    scores = task.score(LORENTZ, Embeddings(requests, torch.eye(4)[:3], torch.stack(texts)), dataset)
    figures = values(scores)
    assert figures.pop("distinct") == 2  # 1 along a ray, 0 elsewhere
    assert figures.pop("zero_fraction") == pytest.approx(3 / 15)
    assert figures.pop("tied_fraction") == 0
    gains = figures.pop("auc_gain"), figures.pop("ap_gain")
    told_apart = figures.pop("auc_similarity"), figures.pop("ap_similarity")
    assert np.add(gains, told_apart) == pytest.approx([1, 1])
    assert set(figures.values()) == {1.0}
    assert scores.notes == ("12 positive and 3 negative pairs",)
    assert scores.definition == "cone-angle"
    assert scores.degenerate == {}
    assert scores.n == 3


@pytest.mark.parametrize(
    ("name", "geometry"),
    [("pep-v2", LORENTZ), ("pep-v2-radial", SPHERE), ("hierarcaps", LORENTZ), ("hierarcaps", SPHERE)],
)
def test_order_of_samples_does_not_matter(chains, embed, name, geometry):
    dataset = chains([0, 1, 2, 2, 3, 1, 4, 5], POOL[:9])
    samples, images = np.random.default_rng(0).permutation(8), np.random.default_rng(1).permutation(6)
    shuffled = replace(
        dataset,
        images=subset(dataset.images, images),
        sample_ids=tuple(dataset.sample_ids[s] for s in samples),
        captions=tuple(dataset.captions[s] for s in samples),
        owner=np.argsort(images)[dataset.owner[samples]],
        pool=dataset.pool[::-1],
    )
    task = registry.task(name)
    before = values(scored(task, geometry, dataset, embed))
    assert values(scored(task, geometry, shuffled, embed)) == pytest.approx(before)


def test_pair_tables(chains, embed):
    dataset = chains([0, 1, 0], ("p", "q", "s1 level 2"))
    task = registry.task("pep-v2")
    scores = scored(task, LORENTZ, dataset, embed)
    pairs, reverse, captions = (scores.items[table] for table in ("pairs", "reversed", "captions"))
    assert {len(column) for column in pairs.values()} == {12 + 5}
    assert {len(column) for column in reverse.values()} == {12}
    rows = list(zip(pairs["sample_id"], pairs["general"], pairs["specific"], pairs["relation"], strict=True))
    assert ("2", "s2 level 3", "000.jpg", "l3_image") in rows
    assert [row for row in rows if row[3] == "negative"] == [
        ("", caption, image, "negative")
        for caption, image in (
            ("p", "000.jpg"),
            ("p", "001.jpg"),
            ("q", "000.jpg"),
            ("q", "001.jpg"),
            ("s1 level 2", "000.jpg"),
        )
    ]
    assert metrics.entailment(pairs["score"], pairs["label"])["auc"] == scores.metrics["auc"].value
    back = list(zip(reverse["general"], reverse["specific"], reverse["relation"], strict=True))
    assert ("000.jpg", "s2 level 3", "image_l3") in back
    rows = list(
        zip(*(captions[c] for c in ("sample_id", "general", "specific", "relation", "label")), strict=True)
    )
    assert ("1", "s1 level 2", "s1 level 4", "l2_l4", 1) in rows
    assert ("2", "q", "s2 level 3", "negative_l3", 0) in rows
    assert len(rows) == 18 + 3 * 8  # 3 x 3 pool captions and samples a level, less the sample's own caption
    assert not any(row[0] == "1" and row[1] == "s1 level 2" for row in rows if row[4] == 0)


def test_intervals_hold_the_figures(chains, embed):
    metrics_of = scored(registry.task("pep-v2"), LORENTZ, chains(range(40), POOL), embed).metrics
    for name, estimate in metrics_of.items():
        if name in ("zero_fraction", "distinct", "tied_fraction"):
            assert estimate.low is estimate.high is None
        else:
            assert estimate.low < estimate.value < estimate.high


def test_hierarcaps_is_the_metric_of_its_embeddings(chains, embed):
    dataset = chains([0, 1, 2, 0, 3])
    task = registry.task("hierarcaps")
    embeddings = embed(task.requests(dataset))
    texts = [caption for chain in dataset.captions for caption in chain]
    for geometry in (LORENTZ, SPHERE):
        scores = task.score(geometry, embeddings, dataset)
        expected = metrics.hierarcaps(
            geometry,
            embeddings.image_features,
            embeddings.texts(texts),
            dataset.owner,
            dataset.captions,
            embeddings.texts([""])[0],
        )
        assert values(scores) == pytest.approx(expected | {"tied": 0})
        assert scores.degenerate == {}
        assert scores.n == 4
        assert scores.items["samples"]["image_id"] == [f"00{image}.jpg" for image in dataset.owner]
        assert np.mean(scores.items["samples"]["tau"]) == pytest.approx(expected["d_corr"])


@pytest.mark.parametrize(("protocol", "d_corr"), [("released", 1.0), ("corrected", 0.0)])
def test_a_collapsed_model_never_wins_hierarcaps(chains, embed, protocol, d_corr):
    """All captions at one point: every pair of radii ties, which says nothing of their order."""
    dataset = chains([0, 1, 2])
    task = registry.under("hierarcaps", protocol)
    embeddings = embed(task.requests(dataset))
    embeddings.text_features[1:] = embeddings.text_features[1]  # all but the root
    scores = task.score(LORENTZ, embeddings, dataset)
    assert (values(scores)["d_corr"], values(scores)["tied"]) == (d_corr, 1.0)
    assert "100.0 % of the pairs of radii tie" in scores.degenerate["d_corr"]


def test_scores_that_are_all_the_same_are_degenerate(chains, embed):
    dataset = chains([0, 1, 2], POOL)
    task = registry.task("pep-v2")
    embeddings = embed(task.requests(dataset))
    embeddings.text_features[:] = embeddings.image_features[:] = 0.5
    found = task.score(LORENTZ, embeddings, dataset).degenerate
    assert set(found.values()) == {"all pairs have the same score"}
    assert {
        "auc",
        "ap",
        "auc_signed",
        "auc_similarity",
        "auc_gain",
        "direction_auc",
        "ap_l1_image",
    } <= found.keys()


def test_figures_made_of_ties_say_so(chains):
    """One caption of twenty points to its image, all others away from all images: 95 % of the comparisons tie."""
    dataset = chains(range(5), ("elsewhere",))
    task = registry.task("pep-v2")
    requests = task.requests(dataset)
    texts = -torch.ones(len(requests.texts), 6)
    texts[requests.texts.index("s0 level 1")] = 0.1 * torch.eye(6)[0]
    scores = task.score(LORENTZ, Embeddings(requests, torch.eye(6)[:5], texts), dataset)
    assert scores.metrics["tied_fraction"].value == pytest.approx(19 / 20)
    assert scores.metrics["auc"].value == pytest.approx((1 + 1 / 20) / 2)
    assert scores.degenerate["auc"].startswith("95.0 % of the comparisons")
    assert "auc_l1_image" not in scores.degenerate  # one of five: 80 %
    assert scores.degenerate["auc_l2_image"] == "all pairs have the same score"


def test_a_geometry_without_angles_has_no_signed_figures_and_its_own_definition(chains, embed):
    @dataclass(frozen=True)
    class Ordered(Lorentz):
        entailment_definition = "order"

        def exterior_angle(self, general, specific, *, paired=False, root=None):
            raise GeometryError("no angles")

    scores = scored(registry.task("pep-v2"), Ordered(0.7), chains(range(5), POOL[:9]), embed)
    assert scores.definition == "order"
    assert not any("signed" in name for name in scores.metrics)
    assert {"auc", "direction_auc", "auc_gain"} <= scores.metrics.keys()


# ------------------------------------------------------------------------------------------------------ applicability


def test_tasks_say_which_geometries_they_are_for():
    for base in ("pep-v2", "pep-uncleaned"):
        plain, radial = registry.task(base), registry.task(f"{base}-radial")
        assert plain.inapplicable(LORENTZ) is None
        assert plain.inapplicable(SPHERE) == f"the model has no entailment cones: see {base}-radial"
        assert radial.inapplicable(SPHERE) is None
        assert radial.inapplicable(LORENTZ) == f"the model has entailment cones: see {base}"
    assert (
        registry.task("pep-v2/miniature").inapplicable(SPHERE)
        == "the model has no entailment cones: see pep-v2-radial/miniature"
    )
    assert registry.task("pep-v2-radial/miniature").inapplicable(LORENTZ).endswith("see pep-v2/miniature")
    for name in ("zero-shot/imagenet", "hierarchy/imagenet", "retrieval/coco", "hierarcaps"):
        assert registry.task(name).inapplicable(SPHERE) is registry.task(name).inapplicable(LORENTZ) is None
