"""The cleaning end to end: finds planted noise, survives kills, shares work, never repeats it."""

import os
import random

import numpy as np
import pytest

import hierbench.files
from hierbench.cleaning import answers, pipeline, sources
from hierbench.cleaning.estimate import estimate
from hierbench.cleaning.oracle import cast as cast_of
from hierbench.cleaning.roles import Cast
from hierbench.cleaning.select import Rules
from hierbench.errors import EncodingError, HierbenchError, OutputError, UsageError
from hierbench.miniature import is_true
from hierbench.miniature.datasets import scene_by_id
from hierbench.miniature.noise import noisy_chains


def test_an_oracle_finds_the_planted_noise(clean, source, noisy, tmp_path):
    outcome = clean(tmp_path)
    dropped = [not kept for kept in outcome.kept]
    assert dropped == [fault is not None for fault in noisy.faults]  # precision and recall 1
    words = {"other scene": "not describe", "wrong colour": "not describe", "wrong thing": "not describe",
             "swapped levels": "not follow", "duplicate": "fits too"}  # fmt: skip
    for decision, fault in zip(outcome.decisions, noisy.faults, strict=True):
        assert (fault is None) == (decision.reason == "")
        assert fault is None or words[fault] in decision.reason


def test_generic_first_levels_are_nobody_s_ambiguity(clean, noisy, tmp_path):
    outcome = clean(tmp_path, rules=Rules(negatives=20, ambiguity_level=1))
    assert outcome.kept == [fault is None for fault in noisy.faults]
    near = outcome.findings.neighbours
    generic = {
        i for i, c in enumerate(outcome.source.captions) if c in {ch[0] for ch in noisy.dataset.captions}
    }
    fitting = {int(c) for c, r in zip(near.caption, outcome.findings.relevance, strict=True) if r == 1}
    assert fitting & generic  # although other samples' first captions do fit


def test_no_negative_caption_is_true_of_an_image_it_is_compared_with(clean, source, noisy, tmp_path):
    outcome = clean(tmp_path)
    for negative in outcome.pool:
        caption = source.captions[negative.caption]
        for sample, chain, kept in zip(
            noisy.dataset.sample_ids, noisy.dataset.captions, outcome.kept, strict=True
        ):
            if kept and caption not in chain:
                assert not is_true(noisy.meanings[caption], scene_by_id(sample))


def test_exact_counts(clean, tmp_path):
    outcome = clean(tmp_path, rules=Rules(keep=30, negatives=10))
    assert sum(outcome.kept) == 30
    assert len(outcome.pool) == 10
    kept = [d.quality for d in outcome.decisions if d.kept]
    dropped = [d.quality for d in outcome.decisions if not d.kept]
    assert min(kept) >= max(dropped)
    perfect = [d.sample_id for d in outcome.decisions if d.quality == 1]
    assert [d.sample_id for d in outcome.decisions if d.kept] == perfect[:30]  # ties by id


def test_nothing_is_asked_twice(clean, counting, contents, tmp_path):
    cast, role = counting()
    clean(tmp_path, cast)
    first, before = role.asked, contents(tmp_path)
    clean(tmp_path, cast)
    assert role.asked == first
    assert contents(tmp_path) == before
    clean(tmp_path, cast, rules=Rules(keep=20, negatives=5))  # other rules, the same answers
    assert role.asked == first
    assert contents(tmp_path) != before


def test_another_model_is_asked_anew(clean, counting, tmp_path):
    cast, role = counting()
    clean(tmp_path, cast)
    first = role.asked
    role.identity = {**role.identity, "revision": "2"}
    clean(tmp_path, cast)
    assert role.asked == 2 * first


def test_killed_anywhere_it_resumes_to_the_same_bytes(clean, contents, forked, tmp_path, monkeypatch):
    """Ten random points among all calls of a role and all files that take their place."""
    events = []
    replace = os.replace
    few = {"given": sources.miniature(12, 0.25, "noise"), "rules": Rules(negatives=3), "chunk": 16}
    oracle = cast_of(noisy_chains(12, 0.25, "noise")).verifier

    def dying_at(point, folder):
        left = iter(range(point))

        def dies(*_):
            events.append(None)
            if next(left, None) is None:
                os._exit(9)

        monkeypatch.setattr(hierbench.files.os, "replace", lambda *names: (dies(), replace(*names)))
        role = Before(oracle, dies)
        clean(folder, Cast(role, role, role), **few)

    dying_at(10**9, tmp_path / "whole")
    monkeypatch.setattr(hierbench.files.os, "replace", replace)
    wanted, last = contents(tmp_path / "whole"), len(events)
    assert last > 40
    for point in random.Random(7).sample(range(last), 10):
        folder = tmp_path / str(point)
        assert forked(lambda point=point, folder=folder: dying_at(point, folder)) == 9
        clean(folder, Cast(oracle, oracle, oracle), **few)
        assert contents(folder) == wanted


class Before:
    """A role before whose every call something happens."""

    def __init__(self, role, happens):
        self.role, self.happens, self.identity = role, happens, role.identity

    def __getattr__(self, name):
        method = getattr(self.role, name)

        def call(items):
            self.happens()
            return method(items)

        return call


def test_answers_given_before_a_failure_are_kept(clean, counting, contents, tmp_path):
    def fails(items):
        if role.asked > 200:
            raise HierbenchError("the server at http://localhost:1/v1 is down")

    cast, role = counting(fails)
    with pytest.raises(HierbenchError, match="down"):
        clean(tmp_path, cast, chunk=8)
    first = role.asked
    assert first > 200
    cast, role = counting()
    clean(tmp_path, cast, chunk=8)
    again = role.asked
    cast, role = counting()
    clean(tmp_path / "whole", cast)
    assert first + again == role.asked
    assert contents(tmp_path / "whole") == {
        name: content for name, content in contents(tmp_path).items() if not name.startswith("whole")
    }


def test_shards_in_one_folder(clean, counting, contents, tmp_path):
    clean(tmp_path / "whole")
    shards, asked = [(number, 3) for number in range(3)], 0
    for _ in range(4):  # each stage needs all answers of the one before
        for shard in shards:
            cast, role = counting()
            outcome = clean(tmp_path / "parts", cast, shard=shard)
            asked += role.asked
        if isinstance(outcome, pipeline.Outcome):
            break
        assert outcome.missing >= 0
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    cast, role = counting()
    clean(tmp_path / "again", cast)
    assert asked == role.asked  # no item went to two shards


def test_shards_in_folders_of_their_own_are_merged(clean, counting, contents, tmp_path):
    for number in range(2):
        waiting = clean(tmp_path / str(number), shard=(number, 2))
        assert isinstance(waiting, pipeline.Waiting)
        assert waiting.missing > 0
    parts = [tmp_path / str(number) / pipeline.ANSWERS for number in range(2)]
    assert answers.merge(parts, tmp_path / "all" / pipeline.ANSWERS) > 0
    assert answers.merge(parts, tmp_path / "all" / pipeline.ANSWERS) == 0
    cast, role = counting()
    clean(tmp_path / "all", cast)
    clean(tmp_path / "whole")
    assert contents(tmp_path / "all") == contents(tmp_path / "whole")
    assert role.asked < 40 * 50  # verify and embed were there


def test_the_estimate_counts_what_is_left(clean, source, counting, tmp_path):
    cast, role = counting()
    before = estimate(source, cast, tmp_path)
    assert role.asked == 0
    assert [e.seconds for e in before] == [None] * 6
    probed = estimate(source, cast, tmp_path, timed=4)
    assert 0 < role.asked <= 24
    assert all(e.seconds is not None for e in probed)
    clean(tmp_path, cast)
    after = estimate(source, cast, tmp_path)
    assert [e.missing for e in after] == [0] * 6
    assert [e.at_most for e in before] == [False, False, False, False, True, True]
    assert all(a.calls <= b.calls for a, b in zip(after, before, strict=True))


class Broken:
    """An oracle whose answers are spoilt."""

    def __init__(self, role, spoil):
        self.role, self.spoil, self.identity = role, spoil, role.identity

    def __getattr__(self, name):
        method = getattr(self.role, name)
        return lambda items: self.spoil(method(items))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda rows: rows[:-1], "for 32 items"),
        (lambda rows: rows * np.nan, "not finite"),
        (lambda rows: rows + 0.5, "not probabilities"),
    ],
)
def test_answers_that_are_none(clean, truth, tmp_path, spoil, says):
    role = Broken(truth.verifier, spoil)
    with pytest.raises(EncodingError, match=says):
        clean(tmp_path, Cast(role, role, role))


def test_a_folder_that_takes_no_answers_is_told_before_anyone_is_asked(clean, counting, tmp_path):
    (tmp_path / "file").write_text("in the way")
    cast, role = counting()
    with pytest.raises(OutputError, match=r"answers cannot be kept in .*choose another -o"):
        clean(tmp_path / "file", cast)
    assert role.asked == 0


def test_rules_that_keep_nothing_lose_nothing(clean, counting, tmp_path):
    class Doubting(Broken):
        pass

    cast, role = counting()
    doubting = Doubting(role, lambda rows: rows * 0.4)
    with pytest.raises(
        UsageError, match=r"keep none of 50 samples.*0\.4 \(--min-verify 0\.5\).*answers are kept"
    ):
        clean(tmp_path, Cast(doubting, truth_of(cast), doubting))
    asked = role.asked
    clean(tmp_path, Cast(doubting, truth_of(cast), doubting), rules=Rules(0.3, 0.3, negatives=5))
    assert role.asked == asked
    with pytest.raises(UsageError, match="only 50 samples"):
        clean(tmp_path, Cast(doubting, truth_of(cast), doubting), rules=Rules(keep=51))
    with pytest.raises(UsageError, match="--negatives 5000: only"):
        clean(tmp_path, Cast(doubting, truth_of(cast), doubting), rules=Rules(0.3, 0.3, negatives=5000))


def truth_of(cast):
    return cast.embedder
