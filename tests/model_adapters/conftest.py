"""Tiny models of the foreign libraries, made on the spot: nothing is downloaded."""

import shutil
from pathlib import Path

import open_clip
import pytest
import torch

TINY_OPEN_CLIP = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
}


@pytest.fixture(scope="session")
def open_clip_weights(tmp_path_factory):
    """A file of the weights of the tiny architecture, made once."""
    file = tmp_path_factory.mktemp("open_clip") / "weights.pt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(open_clip.factory._MODEL_CONFIGS, "Tiny-32", TINY_OPEN_CLIP)
        torch.manual_seed(3)
        torch.save(open_clip.create_model("Tiny-32").state_dict(), file)
    return file


@pytest.fixture
def tiny_open_clip(open_clip_weights, monkeypatch, tmp_path):
    """(name of a tiny architecture that open_clip knows during the test, a file of its weights)."""
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "Tiny-32", TINY_OPEN_CLIP)
    return "Tiny-32", Path(shutil.copy(open_clip_weights, tmp_path / "tiny weights.pt"))


@pytest.fixture(scope="session")
def tiny_hf_clip(tmp_path_factory):
    """tiny_hf_clip() -> a new folder with a tiny CLIPModel, CLIP's tokenizer and an image processor."""
    import transformers

    text = {"vocab_size": 49408, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    vision = {"image_size": 32, "patch_size": 16, "hidden_size": 32, "intermediate_size": 48}
    config = transformers.CLIPConfig(
        text_config={**text, "num_attention_heads": 2, "max_position_embeddings": 77, "projection_dim": 24},
        vision_config={**vision, "num_hidden_layers": 2, "num_attention_heads": 2, "projection_dim": 24},
        projection_dim=24,
    )
    torch.manual_seed(5)
    model = transformers.CLIPModel(config)
    with torch.no_grad():  # as initialised, all features are nearly alike
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=parameter.shape[1] ** -0.5)
    clip = open_clip.SimpleTokenizer()
    vocabulary = {
        {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}.get(word, word): number
        for word, number in clip.encoder.items()
    }
    tokenizer = transformers.CLIPTokenizer(vocab=vocabulary, merges=list(clip.bpe_ranks))
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 36}, crop_size={"height": 32, "width": 32}, image_mean=[0.4, 0.5, 0.6]
    )

    whole = tmp_path_factory.mktemp("hf") / "tiny-clip"
    for part in (model, tokenizer, processor):
        part.save_pretrained(whole)

    def make(with_tokenizer=True, with_processor=True):
        left_out = [] if with_tokenizer else ["*token*", "vocab.json", "merges.txt"]
        left_out += [] if with_processor else ["*processor*"]
        folder = tmp_path_factory.mktemp("hf") / "tiny-clip"
        return shutil.copytree(whole, folder, ignore=shutil.ignore_patterns(*left_out))

    return make
