"""The blip adapter against transformers itself, on a tiny BLIP-ITM with random weights."""

import json
import shutil

import pytest
import torch
import transformers

from hierbench.contracts import Fit
from hierbench.errors import CheckpointError, UsageError
from hierbench.geometry import Sphere
from hierbench.models.conformance import TEXTS, check_adapter, drawn_images
from hierbench.models.reference import load_model

TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder laid out as the published BLIP-ITM ones."""
    path = tmp_path_factory.mktemp("blip") / "tiny-blip"
    path.mkdir()
    letters = [chr(code) for code in range(33, 127)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = path / "vocab.txt"
    vocabulary.write_text("\n".join(tokens), encoding="utf-8")
    words = transformers.BertTokenizer(vocab={token: number for number, token in enumerate(tokens)})
    config = transformers.BlipConfig(
        text_config={
            **TOWER,
            "vocab_size": len(tokens),
            "max_position_embeddings": 64,
            "encoder_hidden_size": 16,
        },
        vision_config={**TOWER, "image_size": 32, "patch_size": 8, "initializer_range": 0.2},
        image_text_hidden_size=12,
    )
    torch.manual_seed(5)
    transformers.BlipForImageTextRetrieval(config).save_pretrained(path)
    pixels = transformers.BlipImageProcessor(
        size={"height": 32, "width": 32}, image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.25]
    )
    transformers.BlipProcessor(pixels, words).save_pretrained(path)
    return path


def test_features_equal_transformers_own(folder):
    adapter = load_model("blip", folder)
    model = transformers.BlipForImageTextRetrieval.from_pretrained(folder).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    kind = getattr(transformers, "BlipImageProcessorPil", None) or transformers.BlipImageProcessor
    images = drawn_images()[:4]
    pixels = kind.from_pretrained(folder)(images=images, return_tensors="pt")["pixel_values"]
    texts = [text for text in TEXTS if len(text) < 60]
    tokens = words(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], pixel_values=pixels,
            use_itm_head=False,
        ).itm_score  # fmt: skip
    lift = adapter.geometry.lift
    ours = torch.stack([adapter.preprocess(image, Fit.SQUEEZE) for image in images])
    cosines = lift(adapter.encode_images(ours)) @ lift(adapter.encode_texts(texts)).T
    torch.testing.assert_close(cosines, expected, atol=2e-3, rtol=0)  # PIL and torchvision resize differently
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.4, 0.5, 0.6), (0.2, 0.3, 0.25)))
    with torch.no_grad():
        same = model(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], pixel_values=(ours - mean) / std,
            use_itm_head=False,
        ).itm_score  # fmt: skip
    torch.testing.assert_close(cosines, same, atol=1e-5, rtol=0)


def test_conforms_and_says_who_it_is(folder):
    adapter = load_model(f"blip:{folder}")
    assert check_adapter(adapter) == []
    assert adapter.geometry == Sphere()
    assert (adapter.card.name, adapter.card.embedding_dim, adapter.card.image_size) == ("tiny-blip", 12, 32)
    assert adapter.card.preprocessing == "to 32 (bicubic), mean 0.4/0.5/0.6, std 0.2/0.3/0.25"
    assert len(adapter.card.sha256) == 64


def test_folders_of_the_wrong_kind(folder, tmp_path):
    with pytest.raises(UsageError, match="blip needs a folder"):
        load_model("blip")
    with pytest.raises(CheckpointError, match="neither a folder nor a hub name"):
        load_model("blip", tmp_path / "nothing")
    other = shutil.copytree(folder, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    for changes, words in (
        ({"model_type": "clip"}, "of type 'clip': blip reads BlipForImageTextRetrieval"),
        ({"architectures": ["BlipForConditionalGeneration"]}, "holds BlipForConditionalGeneration"),
        ({"image_text_hidden_size": 20}, "no complete BLIP retrieval model|does not load"),
    ):
        (other / "config.json").write_text(json.dumps(config | changes))
        with pytest.raises(CheckpointError, match=words):
            load_model("blip", other)
    (other / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        load_model("blip", other)
