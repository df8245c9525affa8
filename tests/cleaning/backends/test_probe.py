"""The probe against servers that know the drawn scenes, and that misbehave in ways which raise no error."""

import io
import json
import logging
import math

import numpy as np
import pytest
from judge_server import MODELS, Handler, picture
from PIL import Image

from hierbench.cleaning import pipeline, probe, sources
from hierbench.cleaning.backends import server
from hierbench.cleaning.questions import Describes, understood
from hierbench.cleaning.select import Rules
from hierbench.errors import JudgeError
from hierbench.miniature.captions import chain, is_true
from hierbench.miniature.scenes import all_scenes, render


@pytest.fixture(scope="module")
def world():
    """The scenes of the probe as the miniature has them, found by their pixels."""
    by_pixels = {render(scene).pixels.tobytes(): scene for scene in all_scenes("test")[:400]}
    shown = [np.asarray(Image.open(io.BytesIO(scene.image)))[::6, ::6] for scene in probe.scenes()]
    return [by_pixels[pixels.tobytes()] for pixels in shown]


def test_one_caption_is_true_of_each_scene(world):
    told = [
        next(caption for caption in chain(scene) if caption.text == asked.caption)
        for scene, asked in zip(world, probe.scenes(), strict=True)
    ]
    assert [[is_true(c.meaning, scene) for c in told] for scene in world] == np.eye(8, dtype=bool).tolist()
    assert len({asked.general for asked in probe.scenes()}) == 8


class Knowing:
    """What a server that knows the scenes answers; tests change one of its answers."""

    def yes(self, text, image):
        asked, shown = understood(text), probe.scenes()
        if isinstance(asked, Describes):
            return 0.9 if (image, asked.caption) in [(s.image, s.caption) for s in shown] else 0.1
        return 0.9 if (asked.specific, asked.general) in [(s.caption, s.general) for s in shown] else 0.1

    def tokens(self, text, image):
        yes = self.yes(text, image)
        return {"Yes": yes, "No": 0.99 - yes, "Well": 0.01}

    def scores(self, image, texts):
        (own,) = (s.caption for s in probe.scenes() if s.image == image)
        return [0.8 if text == own else 0.05 + 0.01 * len(text) / 30 for text in texts]

    def vector(self, text, image):
        row = [s.image == image or s.caption == text for s in probe.scenes()]
        return [0.2 + value for value in row]


@pytest.fixture
def served(fake, monkeypatch):
    """served(knowing) -> the three roles of a server that answers as told."""

    def make(knowing):
        def chat(self, body):
            content = body["messages"][0]["content"]
            masses = knowing.tokens(content[-1]["text"], picture(content))
            top = [{"token": token, "logprob": math.log(mass)} for token, mass in masses.items()]
            return {"choices": [{"logprobs": {"content": [{**top[0], "top_logprobs": top}]}}]}

        def embed(self, body):
            content = body["messages"][-1]["content"]
            return {"data": [{"embedding": knowing.vector(content[-1].get("text"), picture(content))}]}

        def score(self, body):
            scores = knowing.scores(picture(body["text_1"]["content"]), body["text_2"])
            return {"data": [{"index": number, "score": score} for number, score in enumerate(scores)]}

        for name, method in {"chat": chat, "embed": embed, "score": score}.items():
            monkeypatch.setattr(Handler, name, method)
        return server.cast(MODELS, dict.fromkeys(MODELS, fake.url), retries=0)

    return make


def test_a_server_that_knows_passes_and_what_was_seen_is_told(served):
    cast = served(Knowing())
    assert probe.probe("verifier", cast.verifier) == {
        "version": 1, "asked": 32, "wrong": 0, "mean_of_true": pytest.approx(0.909, abs=1e-3),
        "mean_of_false": pytest.approx(0.101, abs=1e-3), "moved_with_order": 0,
    }  # fmt: skip
    assert probe.probe("reranker", cast.reranker)["mean_of_true"] == 0.8
    # vectors of 0.2 with 1.2 in one place: 7 x 0.04 + 1.44 = 1.72 is the square of their length; two of them that
    # differ have 6 x 0.04 + 2 x 0.24 = 0.72 in common
    seen = probe.probe("embedder", cast.embedder)
    assert (seen["mean_of_true"], seen["mean_of_false"]) == (1.0, round(0.72 / 1.72, 3))


class AlwaysYes(Knowing):
    def yes(self, text, image):
        return 0.97


class AlwaysNo(Knowing):
    def yes(self, text, image):
        return 0.02


class ThinkingAloud(Knowing):
    def tokens(self, text, image):
        return {"<think>": 0.98, "Yes": 0.01 * self.yes(text, image), "No": 0.001}


class Guessing(Knowing):
    """Right and wrong by turns, the same in any order."""

    def yes(self, text, image):
        return 0.9 if len(text) % 2 else 0.1


class Sorting(Knowing):
    def scores(self, image, texts):
        return sorted(super().scores(image, texts), reverse=True)


class WithoutTemplate(Knowing):
    def scores(self, image, texts):
        return [0.48 + 0.04 * score for score in super().scores(image, texts)]


class Reversed(Knowing):
    def scores(self, image, texts):
        return [1 - score for score in super().scores(image, texts)]


class Collapsed(Knowing):
    def vector(self, text, image):
        return [1.0, 0.001 * len(text or "")]


class TextsElsewhere(Knowing):
    def vector(self, text, image):
        row = super().vector(text, image)
        return row[1:] + row[:1] if text else row


MISFITS = [
    ("verifier", AlwaysYes, "it says yes to 16 of 16 false captions: ask a model that follows instructions"),
    ("verifier", AlwaysNo, "it says no to 16 of 16 true captions"),
    ("verifier", ThinkingAloud, "32 of 32 answers were neither yes nor no: it may think aloud first"),
    ("verifier", Guessing, r"it says (yes|no) to \d+ of 16 (true|false) captions"),
    ("reranker", Sorting, r"in another order answers differ by up to 0.7\d: each score must carry the index"),
    (
        "reranker",
        WithoutTemplate,
        r"all scores lie between 0.48\d and 0.512: .*hierbench.cleaning.backends.prompts",
    ),
    (
        "reranker",
        Reversed,
        "100% of what it was asked came out wrong, true captions score 0.20 and false ones 0.9",
    ),
    ("embedder", Collapsed, "all scores lie between 1.000 and 1.000: serve an embedding model"),
    ("embedder", TextsElsewhere, "came out wrong"),
]


@pytest.mark.parametrize(("role", "kind", "says"), MISFITS, ids=[kind.__name__ for _, kind, _ in MISFITS])
def test_a_judge_that_would_write_noise_is_refused(served, fake, role, kind, says):
    player = getattr(served(kind()), role)
    start = f"the {role}'s server at {fake.url}, {MODELS[role]}: on drawn scenes of known truth "
    with pytest.raises(JudgeError, match=says) as caught:
        probe.probe(role, player)
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith("; --no-probe goes on regardless")
    assert "\n" not in str(caught.value)


def test_a_misfit_is_refused_before_its_first_question(served, fake, clean, tmp_path, caplog):
    given, rules = sources.miniature(12, 0.3, "noise"), Rules(keep=5, negatives=3, ambiguity_level=1)

    class General(Knowing):  # knows nothing of the chains, and says so
        def yes(self, text, image):
            return 0.5

        def scores(self, image, texts):
            return [0.5] * len(texts)

        def vector(self, text, image):
            return [1.0, len(text or "")]

    cast = served(General())
    with pytest.raises(JudgeError, match="verifier"):
        clean(tmp_path, cast=cast, rules=rules, given=given)
    assert len(fake.bodies) == 2 * 32
    assert not list((tmp_path / "answers").rglob("*.answers"))
    with caplog.at_level(logging.WARNING, "hierbench"):
        clean(tmp_path, cast=cast, rules=rules, given=given, probe=False)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["probes"] == dict.fromkeys(MODELS, "not probed")
    assert [warning.partition(":")[0] for warning in manifest["warnings"]] == ["verify", "rerank"]
    assert "the 48 scores of V hardly vary (0.505 to 0.505): does it play the verifier?" in caplog.text


def test_a_role_is_probed_once_in_a_folder(served, fake, tmp_path):
    given = sources.miniature(12, 0.3, "noise")
    cast = served(Knowing())
    asking = pipeline.Asking(given, cast, tmp_path, 4, 1)
    for _ in range(2):
        probes = probe.Probes({"reranker": cast.reranker}, asking.answers(), True)
        probes.before("reranker")
        assert len(fake.bodies) == 2 * 4
        assert probes.record()["reranker"]["wrong"] == 0


def test_one_cause_for_nearly_all_drops_is_told(clean, truth, source, tmp_path, caplog):
    class Doubting:
        """Finds three captions of a hundred true."""

        def __init__(self):
            self.identity = {**truth.verifier.identity, "model": "doubting"}

        def probability_of_yes(self, asked):
            found = truth.verifier.probability_of_yes(asked)
            first = {source.dataset.captions[row] for row in range(50) if source.faults[row] is None}
            kept = {caption for chain in sorted(first)[:3] for caption in chain}
            return np.array([
                value if not isinstance(understood(q.text), Describes) or understood(q.text).caption in kept else 0.0
                for q, value in zip(asked, found, strict=True)
            ])  # fmt: skip

    cast = type(truth)(Doubting(), truth.embedder, truth.reranker)
    with caplog.at_level(logging.WARNING, "hierbench"):
        outcome = clean(tmp_path, cast=cast, rules=Rules(negatives=1))
    dropped = 50 - sum(outcome.kept)
    assert 45 < dropped < 50
    told = (
        f"{dropped} of 50 samples are dropped for one cause, truth: see audit.html before the result is used"
    )
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["warnings"] == [told]
    assert told in caplog.text
    assert manifest["probes"]["verifier"].startswith("exempt")
