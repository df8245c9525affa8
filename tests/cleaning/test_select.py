"""The rules on hand-made scores."""

import numpy as np
import pytest

from hierbench.cleaning.select import Findings, Rules, against_truth, decide, negatives, normal, to_relate
from hierbench.cleaning.sources import Source
from hierbench.cleaning.stages import Neighbours, neighbours
from hierbench.contracts import Fit
from hierbench.data.datasets import CaptionChains, ImageFiles
from hierbench.errors import UsageError

CHAINS = (
    ("animal", "dog", "brown dog", "a brown dog on a sofa"),
    ("animal", "cat", "black cat", "a black cat at night"),
    ("thing", "sofa", "old sofa", "an old sofa with a dog"),
)


def sourced(chains=CHAINS, owner=None, ids=None):
    ids = ids or tuple(str(number) for number in range(len(chains)))
    images = tuple(f"{number}.jpg" for number in range(max(owner or range(len(chains))) + 1))
    dataset = CaptionChains(
        "made", ImageFiles(None, images), ids, chains,
        np.array(owner if owner is not None else range(len(chains))),
    )  # fmt: skip
    return Source(dataset, Fit.CROP, {}, {})


def found(source, relevance, general=(), verify=None, order=None):
    """`relevance`: (image, caption) -> score, nearest first."""
    pairs = sorted((image, source.position[caption]) for image, caption in relevance)
    text = {source.position[caption]: caption for _, caption in relevance}
    image, caption = np.array(pairs).reshape(-1, 2).T
    n = len(source.chains)
    return Findings(
        verify=np.ones((n, 4)) if verify is None else np.array(verify, float),
        order=np.ones((n, 3)) if order is None else np.array(order, float),
        neighbours=Neighbours(image, caption, np.zeros(len(pairs)), *np.zeros((2, len(pairs)), int)),
        relevance=np.array([relevance[i, text[c]] for i, c in pairs]),
        more_general={(s, source.position[c]): value for (s, c), value in dict(general).items()},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [("A dog.", "dog"), ("the  DOG", "a dog"), ("Dogs, on grass", "dogs on the grass"), ("ﬁsh", "fish")],
)
def test_normal_forms(one, other):
    assert normal(one) == normal(other)


def test_what_is_more_general_is_no_rival():
    source = sourced()
    scores = found(source, {(0, "old sofa"): 0.9, (0, "black cat"): 0.01}, {(0, "old sofa"): 0.95})
    first = decide(source, scores, Rules())[0]
    assert first.kept
    assert first.ambiguity == pytest.approx((0.045, 0.045, 0.045, 0.0))


def test_what_says_something_else_and_fits_is_a_rival():
    source = sourced()
    scores = found(source, {(0, "an old sofa with a dog"): 0.9}, {(0, "an old sofa with a dog"): 0.0})
    first, *others = decide(source, scores, Rules())
    assert not first.kept
    assert first.reason == "ambiguous (0.9): “an old sofa with a dog” of 2 fits too"
    assert first.ambiguity == pytest.approx((0.9,) * 4)
    assert (first.rival.level, first.rival.sample) == (4, 2)
    assert first.quality == pytest.approx(0.1)
    assert all(decision.kept for decision in others)


def test_coarse_rivals_count_at_coarse_levels_only():
    source = sourced()
    scores = found(source, {(0, "sofa"): 0.9}, {(0, "sofa"): 0.0})
    assert decide(source, scores, Rules())[0].kept
    assert decide(source, scores, Rules())[0].ambiguity == pytest.approx((0.9, 0.9, 0, 0))
    assert not decide(source, scores, Rules(ambiguity_level=2))[0].kept


def test_a_duplicate_of_the_finest_caption_is_a_rival_whatever_its_letters():
    chains = (*CHAINS, ("animal", "dog", "A brown dog on the sofa.", "a brown dog on a sofa, asleep"))
    source = sourced(chains)
    scores = found(source, {(0, "A brown dog on the sofa."): 0.8})
    assert to_relate(source, scores.verify, scores.neighbours, scores.relevance) == []  # nothing to ask
    assert not decide(source, scores, Rules())[0].kept


def test_own_coarser_captions_are_none():
    chains = (*CHAINS, ("animal", "dog", "the brown dog", "a small brown dog"))
    source = sourced(chains)
    scores = found(source, {(0, "the brown dog"): 1.0})
    assert decide(source, scores, Rules())[0].kept


def test_captions_that_are_wrong_where_they_stand_compete_with_nobody():
    source = sourced()
    verify = np.ones((3, 4))
    verify[2, 3] = 0.02
    scores = found(source, {(0, "an old sofa with a dog"): 0.9}, verify=verify)
    assert to_relate(source, verify, scores.neighbours, scores.relevance) == []
    first, second, third = decide(source, scores, Rules())
    assert first.kept
    assert second.kept
    assert third.reason == "level 4 does not describe the image (0.02)"


def test_samples_of_one_image_are_no_rivals():
    source = sourced((*CHAINS, ("animal", "dog", "sleeping dog", "a sleeping dog")), owner=[0, 1, 2, 0])
    scores = found(source, {(0, "a sleeping dog"): 1.0})
    assert all(decision.kept for decision in decide(source, scores, Rules()))


def test_reasons_of_exact_counts():
    source = sourced(ids=("1", "2", "²"))
    verify = np.ones((3, 4))
    verify[1, 2] = 0.9
    decisions = decide(source, found(source, {(0, "sofa"): 0.0}, verify=verify), Rules(keep=1))
    assert [(d.kept, d.cause) for d in decisions] == [(True, ""), (False, "truth"), (False, "tie")]
    assert decisions[1].reason == "truth of level 3 is 0.9; the last one kept has quality 1"
    assert decisions[2].reason == "as good as the last one kept (quality 1), which comes before it by id"


def test_the_cause_is_the_worst_finding():
    source = sourced()
    verify, order = np.ones((3, 4)), np.ones((3, 3))
    verify[0, 1], order[0, 2], order[1, 0] = 0.4, 0.1, 0.2
    scores = found(source, {(2, "a black cat at night"): 0.9}, verify=verify, order=order)
    decisions = decide(source, scores, Rules(min_order=0.2))
    assert [d.cause for d in decisions] == ["order", "", "ambiguity"]  # at a threshold is within it
    assert decisions[0].reason == (
        "level 3 does not follow from level 4 (0.1); level 2 does not describe the image (0.4)"
    )


def test_ties_go_by_id_as_number():
    source = sourced(ids=("10", "9", "2"))
    scores = found(source, {(0, "sofa"): 0.0})
    kept = [decision.sample_id for decision in decide(source, scores, Rules(keep=2)) if decision.kept]
    assert kept == ["9", "2"]  # in the order of the file; the ids 2 and 9 come first


def test_the_pool_is_ordered_by_degree_then_relevance():
    source = sourced()
    scores = found(source, {(0, "cat"): 0.3, (1, "dog"): 0.2, (2, "dog"): 0.1, (0, "black cat"): 0.1})
    pool = negatives(source, scores, [True, True, True], Rules(negatives=11))
    order = [source.captions[negative.caption] for negative in pool]
    assert order[-3:] == ["black cat", "cat", "dog"]
    assert [(n.degree, n.relevance) for n in pool[-3:]] == [(1, 0.1), (1, 0.3), (2, 0.2)]


def test_the_pool_never_holds_a_twin_of_a_kept_sample_s_caption():
    chains = (*CHAINS, ("animal", "A dog.", "spotted dog", "a spotted dog"))
    source = sourced(chains)
    scores = found(source, {(0, "sofa"): 0.0})

    def strings(kept):
        pool = negatives(source, scores, kept, Rules(negatives=5))
        count = len(source.captions)
        for most in range(count, 0, -1):
            try:
                pool = negatives(source, scores, kept, Rules(negatives=most))
                break
            except UsageError:
                continue
        return {source.captions[negative.caption] for negative in pool}

    assert not strings([True] * 4) & {"dog", "A dog."}  # each has a twin that PEP would take for another
    assert "A dog." not in strings([True, True, True, False])
    assert "dog" in strings([True, True, True, False])  # PEP leaves it out where it is an image's own


def test_neighbours_are_other_samples_captions():
    source = sourced()
    images = np.eye(3, 4, dtype=np.float32)
    captions = np.random.default_rng(1).normal(size=(len(source.captions), 4)).astype(np.float32)
    near = neighbours(source, images, captions, 20, 1)
    pairs = {(int(i), source.captions[c]) for i, c in zip(near.image, near.caption, strict=True)}
    assert not any(caption in CHAINS[image] for image, caption in pairs)
    assert len(pairs) == 3 * len(source.captions) - 12
    assert (2, "animal") in pairs


@pytest.mark.parametrize(
    "wrong",
    [{"min_verify": 1.5}, {"max_ambiguity": -1}, {"ambiguity_level": 5}, {"keep": 0}, {"negatives": 0}],
)
def test_rules_out_of_range(wrong):
    with pytest.raises(UsageError, match="--" + next(iter(wrong)).replace("_", "-")):
        Rules(**wrong)


def test_against_truth():
    told = against_truth(["a", "b", None, None], [False, True, False, True])
    assert (told["precision"], told["recall"]) == (0.5, 0.5)
    assert told["found_by_fault"] == {"a": "1 of 1", "b": "0 of 1"}
