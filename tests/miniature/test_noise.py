"""Planted faults: real ones by the exact truth, of every kind, the same for the same seed."""

from collections import Counter
from itertools import pairwise

import pytest

from hierbench.errors import UsageError
from hierbench.miniature import entails, is_true
from hierbench.miniature.datasets import retrieval_scenes, scene_by_id
from hierbench.miniature.noise import FAULTS, labelled_pairs, noisy_chains


@pytest.fixture(scope="module")
def noisy():
    return noisy_chains(120)


def told(noisy):
    """(fault, scene, meanings of the four captions) of every sample."""
    chains = [[noisy.meanings[caption] for caption in chain] for chain in noisy.dataset.captions]
    return list(zip(noisy.faults, map(scene_by_id, noisy.dataset.sample_ids), chains, strict=True))


def test_so_many_of_every_kind_are_planted(noisy):
    counts = Counter(noisy.faults)
    assert counts.pop(None) == 84
    assert set(counts) == set(FAULTS)
    assert min(counts.values()) >= 6  # 36 faults of five kinds; not every scene has a partner for a duplicate


def test_faults_are_what_they_are_called(noisy):
    for fault, scene, chain in told(noisy):
        truths = [is_true(meaning, scene) for meaning in chain]
        ordered = [entails(finer, coarser) for coarser, finer in pairwise(chain)]
        if fault is None:
            assert all(truths)
            assert all(ordered)
        elif fault == "swapped levels":
            assert all(truths)
            assert not all(ordered)
        elif fault == "wrong colour":
            assert truths == [True, True, False, False]
        elif fault in ("other scene", "wrong thing"):
            assert not truths[3]
        else:  # the duplicate is true, in order, and another sample's third caption
            assert all(truths)
            assert all(ordered)
            row = noisy.dataset.sample_ids.index(scene.id)
            finest = noisy.dataset.captions[row][3]
            twins = [i for i, c in enumerate(noisy.dataset.captions) if c[2] == finest and i != row]
            assert any(noisy.faults[i] is None and is_true(chain[3], retrieval_scenes()[i]) for i in twins)


def test_no_faultless_sample_has_a_rival(noisy):
    """What is true of a faultless sample's image is no more than its finest caption says."""
    everything = set(noisy.meanings.values())
    for fault, scene, chain in told(noisy):
        if fault is None:
            assert all(entails(chain[3], meaning) for meaning in everything if is_true(meaning, scene))


def test_the_seed_decides():
    assert noisy_chains(30, 0.3, "a").faults == noisy_chains(30, 0.3, "a").faults
    assert noisy_chains(30, 0.3, "a").faults != noisy_chains(30, 0.3, "b").faults
    assert set(noisy_chains(30, 0).faults) == {None}


@pytest.mark.parametrize(("count", "share"), [(9, 0.3), (5000, 0.3), (30, -0.1), (30, 0.6)])
def test_numbers_out_of_range(count, share):
    with pytest.raises(UsageError, match="choose"):
        noisy_chains(count, share)


def test_labelled_pairs_hold_both_kinds_at_every_level():
    pairs = labelled_pairs(40)
    assert {(caption.level, truth) for _, caption, truth in pairs} == {
        (level, truth) for level in (1, 2, 3, 4) for truth in (True, False)
    }
    assert all(truth == is_true(caption.meaning, scene) for scene, caption, truth in pairs)
    assert {scene.split for scene, _, _ in pairs} == {"train"}
