"""Any adapter in the three roles: probabilities that follow the truth, one item at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hierbench.cleaning import adapter_roles, questions
from hierbench.cleaning.roles import Embedder, Pair, Question, Reranker, Verifier
from hierbench.contracts import Fit, ModelCard
from hierbench.errors import UsageError
from hierbench.geometry import Sphere
from hierbench.miniature.captions import full_meaning
from hierbench.miniature.datasets import scene_by_id


class Knowing:
    """An adapter whose features are the oracle's, found by the image's size and content."""

    geometry = Sphere()

    def __init__(self, features, texts, width):
        self.features, self.text_features = features, texts
        self.card = ModelCard("knowing", "test", "", width, 64, 0, "none", sha256="0" * 64)

    def preprocess(self, image, fit):
        return torch.tensor(np.asarray(image), dtype=torch.float32).permute(2, 0, 1) / 255

    def encode_images(self, pixels):
        return torch.stack([self.features[(p * 255).byte().numpy().tobytes()] for p in pixels])

    def encode_texts(self, texts):
        return torch.stack([self.text_features[text] for text in texts])


@pytest.fixture(scope="module")
def role(noisy, source):
    """An adapter role that is shown some of the noisy chains as labelled pairs."""
    from hierbench.cleaning.oracle import _features
    from hierbench.data.images import decode
    from hierbench.miniature import entails, is_true

    scenes = [scene_by_id(name) for name in source.dataset.images.ids]
    meanings = [noisy.meanings[caption] for caption in source.captions]
    names = sorted({f for m in [*meanings, *map(full_meaning, scenes)] for f in _features(m)})

    def vector(meaning):
        found = set(_features(meaning))
        return torch.tensor([float(name in found) for name in names] + [0.3])

    contents = [source.dataset.images.read(name) for name in source.dataset.images.ids]
    images = {}
    for scene, content in zip(scenes, contents, strict=True):
        pixels = torch.tensor(np.asarray(decode(content, "x")), dtype=torch.float32).permute(2, 0, 1) / 255
        images[(pixels * 255).byte().numpy().tobytes()] = vector(full_meaning(scene))
    texts = {c: vector(m) for c, m in zip(source.captions, meanings, strict=True)}
    texts[""] = torch.tensor([0.0] * len(names) + [1.0])
    n = len(meanings)
    labelled = adapter_roles.Labelled(
        tuple(contents), source.captions,
        tuple((i, c, is_true(meanings[c], scenes[i])) for i in range(50) for c in range(i % 3, n, 3)),
        tuple((a, b, entails(meanings[a], meanings[b])) for a in range(0, n, 4) for b in range(n)),
    )  # fmt: skip
    return adapter_roles.AdapterRole(Knowing(images, texts, len(names) + 1), Fit.SQUEEZE, labelled)


def test_it_plays_all_roles(role):
    assert isinstance(role, Verifier)
    assert isinstance(role, Embedder)
    assert isinstance(role, Reranker)
    assert role.identity["model"] == "knowing"


def test_probabilities_follow_the_truth(role, noisy, source):
    from hierbench.metrics.entailment import entailment
    from hierbench.miniature.captions import is_true
    from hierbench.miniature.datasets import scene_by_id

    asked, true = [], []
    for name, chain in zip(source.dataset.images.ids, source.dataset.captions, strict=True):
        content = source.dataset.images.read(name)
        asked += [Question(questions.describes(caption), content) for caption in chain]
        true += [is_true(noisy.meanings[caption], scene_by_id(name)) for caption in chain]
    answers = role.probability_of_yes(asked)
    assert answers.min() >= 0
    assert answers.max() <= 1
    assert entailment(answers, np.array(true))["auc"] > 0.95
    pairs = [Pair(question.image, questions.understood(question.text).caption) for question in asked]
    assert np.array_equal(role.relevance(pairs), answers)


def test_no_answer_depends_on_the_others(role, source):
    texts = [Question(questions.entails(chain[3], chain[1])) for chain in source.dataset.captions[:9]]
    together = role.probability_of_yes(texts)
    assert np.array_equal(together, [role.probability_of_yes([text])[0] for text in texts])
    captions = source.captions[:7]
    rows = role.embed_texts(captions)
    assert np.array_equal(rows[3:4], role.embed_texts(captions[3:4]))
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


def test_the_miniature_labels_both_kinds():
    labelled = adapter_roles.labelled_miniature(12)
    assert len(labelled.images) == 12
    assert {true for _, _, true in labelled.pairs} == {True, False}
    assert {true for _, _, true in labelled.implications} == {True, False}
    assert labelled.digest == adapter_roles.labelled_miniature(12).digest
    assert labelled.digest != adapter_roles.labelled_miniature(13).digest


def test_a_dataset_too_small_to_label_itself(source):
    with pytest.raises(UsageError, match=r"1 samples of .* give none: take more rows"):
        adapter_roles.labelled_by_itself(replace(source, dataset=source.dataset.limited(1)))
    alike = replace(source.dataset.limited(3), captions=(("a",) * 4,) * 3)
    with pytest.raises(UsageError, match="3 samples of 1 captions give none"):
        adapter_roles.labelled_by_itself(replace(source, dataset=alike))


def test_a_dataset_labels_itself(source):
    labelled = adapter_roles.labelled_by_itself(source, 20)
    chains = source.chains.tolist()
    own = {(row, caption) for row, chain in enumerate(chains) for caption in chain}
    assert len(labelled.images) == 20  # every second, up to 20
    true = [(2 * image, caption) for image, caption, fits in labelled.pairs if fits]
    assert set(true) <= own
    assert sum(not fits for *_, fits in labelled.pairs) > 50
