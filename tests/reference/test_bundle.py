"""Bundled models: small files with a card, loaded like any other, that know the miniature's words alone."""

import pytest
import torch
import yaml
from safetensors.torch import load_file

from hierbench import registry
from hierbench.contracts import EmbeddingRequests
from hierbench.data.readers import open_dataset
from hierbench.errors import EncodingError, OutputError, UsageError
from hierbench.miniature import captions, scene
from hierbench.models import reference
from hierbench.models.catalog import read_catalog
from hierbench.models.reference import load_model
from hierbench.reference.bundle import MAX_BYTES, bundle, miniature_tokens
from hierbench.reference.configuration import build, resolve
from hierbench.reference.tokenizer import tokenize
from hierbench.reference.training.state import save_weights

FACTS = {"command": "hierbench train miniature/argent", "seconds": 612.34, "figures": {"top1": 61.23456}}


def finished_run(folder, config):
    """What a training run leaves, with untrained weights."""
    folder.mkdir()
    (folder / "config.yaml").write_text(
        yaml.safe_dump({**yaml.safe_load(config.model_dump_json()), "processes": 1})
    )
    model = build(config)
    save_weights(folder / "model.safetensors", model.state_dict())
    return model


@pytest.fixture(scope="module")
def argent(tmp_path_factory):
    """(an untrained model of the miniature's size, the file bundled of it)."""
    folder = tmp_path_factory.mktemp("bundle")
    model = finished_run(folder / "run", resolve("miniature/argent", ["train.seed=3"]))
    return model, bundle(folder / "run", folder / "bundled", **FACTS)


@pytest.mark.parametrize("family", ["clip", "uncha"])  # the smallest layout and the largest
def test_the_miniatures_models_fit_in_four_megabytes(family, tmp_path):
    finished_run(tmp_path / "run", resolve(f"miniature/{family}"))
    assert bundle(tmp_path / "run", tmp_path / "out", **FACTS).stat().st_size < MAX_BYTES == 4_000_000


def test_all_but_unused_token_rows_is_as_trained(argent):
    model, path = argent
    state, stored = model.state_dict(), load_file(path)
    assert stored.keys() - state.keys() == {"textual.token_ids"}
    ids = stored.pop("textual.token_ids")
    assert ids.tolist() == sorted(miniature_tokens())
    assert torch.equal(stored.pop("textual.token_embed.weight"), state.pop("textual.token_embed.weight")[ids])
    assert stored.keys() == state.keys()
    assert all(torch.equal(stored[name], state[name]) for name in state)


def test_the_card_says_how_the_model_came_about(argent):
    card = yaml.safe_load(argent[1].with_suffix(".yaml").read_text())
    assert (card["family"], card["seed"], card["seconds"]) == ("argent", 3, 612.3)
    assert card["command"] == "hierbench train miniature/argent"
    assert card["figures"] == {"top1": 61.2346}
    assert resolve(card["config"]) == resolve("miniature/argent", ["train.seed=3"])


def test_it_is_loaded_by_its_name_in_the_catalog(argent, monkeypatch):
    model, path = argent
    entry = f"miniature-argent: {{family: argent, builtin: {path}}}"  # an absolute path stays as it is
    monkeypatch.setattr(reference, "catalog", lambda: read_catalog(entry))
    adapter = load_model("miniature-argent", offline=True)
    assert (adapter.card.name, adapter.card.family) == ("miniature-argent", "argent")
    no_parameters = ("textual.attn_mask", "textual.token_ids", "pixel_mean", "pixel_std")
    stored = {name: value for name, value in load_file(path).items() if name not in no_parameters}
    assert adapter.card.parameters == sum(value.numel() for value in stored.values())
    texts = [caption.text for level in captions(scene("test", 0)) for caption in level]
    expected = model.encoder.eval().text_tangents(tokenize(texts))
    torch.testing.assert_close(adapter.encode_texts(texts), expected, rtol=1e-5, atol=1e-6)


def test_every_text_of_the_miniatures_tasks_is_known():
    known = miniature_tokens()
    for name in registry.suite("miniature")["tasks"]:
        task = registry.task(name)
        asked = task.requests(open_dataset(task.spec.dataset, None))
        assert isinstance(asked, EmbeddingRequests)
        for text, tokens in zip(asked.texts, tokenize(asked.texts), strict=True):
            assert known.issuperset(tokens), (name, text)


@pytest.mark.parametrize("text", ["a photo of a zeppelin.", "ein Hund", "zeppelin " + "dog " * 100])
def test_other_words_are_refused_in_one_line(argent, text):
    adapter = load_model("argent", argent[1])
    with pytest.raises(EncodingError, match="this bundled model knows only the miniature's words") as caught:
        adapter.encode_texts(["a dog", text])
    assert repr(text[:20])[:-1] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_run_that_has_not_finished(tmp_path):
    with pytest.raises(UsageError, match="no finished training run"):
        bundle(tmp_path, tmp_path / "out", **FACTS)


def test_a_model_too_large_for_the_package(tmp_path):
    finished_run(tmp_path / "run", resolve("miniature/clip", ["model.vision_sizes.depth=6"]))
    with pytest.raises(OutputError, match="more than 4,000,000: train a smaller model"):
        bundle(tmp_path / "run", tmp_path / "out", **FACTS)
    assert not (tmp_path / "out").exists()
