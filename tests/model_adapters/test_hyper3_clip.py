"""The hyper3_clip adapter against timm and transformers themselves, on tiny towers in the released layouts."""

import json

import pytest
import timm
import torch
import transformers
import yaml
from safetensors.torch import save_file
from torch.nn import LayerNorm, Linear

from hierbench.contracts import Fit
from hierbench.errors import CheckpointError, UsageError
from hierbench.models.conformance import TEXTS, check_adapter, drawn_images
from hierbench.models.reference import load_model

KAPPA = 0.7
MEAN, STD = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


class Parts:
    """The towers and projections as the public code makes them, and the state dict that it would save."""

    def __init__(self, pool, **norm):
        torch.manual_seed(7)
        self.vision = timm.create_model(
            "test_vit", pretrained=False, num_classes=0, global_pool=pool, **norm
        ).eval()
        config = transformers.CLIPTextConfig(
            vocab_size=49408, hidden_size=64, intermediate_size=48, num_hidden_layers=2, num_attention_heads=1,
            max_position_embeddings=77, eos_token_id=49407,
        )  # fmt: skip
        self.text = transformers.CLIPTextModel(config).eval()
        self.image_proj, self.text_proj = Linear(64, 24), Linear(64, 24)
        with torch.no_grad():  # as initialised, all features are nearly alike
            for module in (self.vision, self.text):
                for parameter in module.parameters():
                    if parameter.ndim == 2:
                        parameter.normal_(std=parameter.shape[1] ** -0.5)
        self.scalars = {
            "visual_alpha": -1.6,
            "textual_alpha": -1.5,
            "log_curv": float(torch.tensor(KAPPA).log()),
        }

    def state(self, text_prefix="text_encoder.backbone."):
        parts = {
            "vision_encoder.backbone.": self.vision, text_prefix: self.text, "image_proj.": self.image_proj,
            "text_proj.": self.text_proj,
        }  # fmt: skip
        # transformers 4 writes its wrapper's name, transformers 5 does not
        found = {
            prefix + name.removeprefix("text_model."): value.clone()
            for prefix, part in parts.items()
            for name, value in part.state_dict().items()
        }
        return found | {name: torch.tensor(value) for name, value in self.scalars.items()}


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """(parts, a folder as the public code's save_pretrained leaves it)."""
    parts, folder = Parts("token", norm_layer=LayerNorm), tmp_path_factory.mktemp("hyper3") / "tiny-hyper3"
    folder.mkdir()
    beside = {f"{name}_logit_scale": torch.tensor(2.0) for name in ("global", "local", "global_local")}
    save_file(
        parts.state() | beside | {"query_pooling.norm.weight": torch.ones(64)}, folder / "model.safetensors"
    )
    config = {
        "vision_backbone": "test_vit", "vision_global_pool": "token", "vision_norm_layer": "layer_norm",
        "text_model_name": "openai/clip-vit-base-patch32", "embed_dim": 24, "curv_init": 1.0,
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return parts, folder


@pytest.fixture(scope="module")
def tokenizer(tiny_hf_clip):
    return transformers.AutoTokenizer.from_pretrained(tiny_hf_clip())


def expected_texts(parts, tokenizer):
    """By the library's own tokenizer, padding and mask."""
    inputs = tokenizer(list(TEXTS), padding=True, truncation=True, max_length=77, return_tensors="pt")
    with torch.no_grad():
        return parts.text_proj(parts.text(**inputs).pooler_output) * torch.tensor(-1.5).exp()


def expected_images(parts, pixels):
    with torch.no_grad():
        return parts.image_proj(parts.vision((pixels - MEAN) / STD)) * torch.tensor(-1.6).exp()


def test_features_are_those_of_the_libraries(paper, tokenizer):
    parts, folder = paper
    adapter = load_model("hyper3_clip", folder)
    pixels = torch.stack([adapter.preprocess(image, Fit.CROP) for image in drawn_images()])
    assert pixels.shape[1:] == (3, 160, 160)
    texts, images = adapter.encode_texts(TEXTS), adapter.encode_images(pixels)
    torch.testing.assert_close(texts, expected_texts(parts, tokenizer), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(images, expected_images(parts, pixels), atol=1e-5, rtol=1e-5)
    # the order of the released evaluators: by the Lorentzian inner product of the lifted points
    x, y = (v.double() for v in (images, texts))
    (tx, px), (ty, py) = (
        (((KAPPA**0.5 * n).cosh() / KAPPA**0.5), v * (KAPPA**0.5 * n).sinh() / (KAPPA**0.5 * n))
        for v in (x, y)
        for n in (v.norm(dim=1, keepdim=True),)
    )
    inner = px @ py.T - tx @ ty.T
    ours = adapter.geometry.similarity(adapter.geometry.lift(images), adapter.geometry.lift(texts))
    assert (ours.argsort(dim=1) == inner.argsort(dim=1)).all()


def test_conforms_and_says_who_it_is(paper):
    adapter = load_model(f"hyper3_clip:{paper[1]}")
    assert check_adapter(adapter) == []
    assert (adapter.card.name, adapter.card.embedding_dim, adapter.card.image_size) == (
        "tiny-hyper3",
        24,
        160,
    )
    assert adapter.geometry.curvature == pytest.approx(KAPPA)
    assert adapter.card.notes["image tower"] == "test_vit, token pooling"


def test_the_layout_of_the_earlier_releases(tmp_path, tokenizer):
    """One temperature, average pooling, timm's own norm, the names of transformers 4, config.json."""
    parts = Parts("avg")
    state = parts.state("text_encoder.backbone.text_model.") | {"logit_scale": torch.tensor(2.0)}
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"vision_backbone": "test_vit", "curv_init": 0.05}))
    adapter = load_model("hyper3_clip", tmp_path)
    pixels = torch.rand(2, 3, 160, 160)
    torch.testing.assert_close(
        adapter.encode_images(pixels), expected_images(parts, pixels), atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(
        adapter.encode_texts(TEXTS), expected_texts(parts, tokenizer), atol=1e-5, rtol=1e-5
    )
    assert adapter.geometry.curvature == pytest.approx(0.5)  # ten times its start


def test_a_training_checkpoint(tmp_path, paper):
    torch.save({"model": paper[0].state(), "step": 3}, tmp_path / "last.pt")
    with pytest.raises(CheckpointError, match=r"beside .* stands no config"):
        load_model("hyper3_clip", tmp_path / "last.pt")
    config = yaml.safe_load((paper[1] / "config.yaml").read_text())
    (tmp_path / "config.yaml").write_text(
        yaml.safe_dump({"model": config, "data": {"image_normalization": "clip"}})
    )
    adapter = load_model("hyper3_clip", tmp_path / "last.pt")
    assert adapter.card.name == "last"
    assert adapter.card.preprocessing.endswith("mean 0.48145/0.45783/0.40821, std 0.26863/0.2613/0.27578")


@pytest.mark.parametrize(
    ("config", "change", "reason"),
    [
        ("vision_backbone: hf_clip:openai/clip-vit-base-patch32", {}, "which timm does not know"),
        ("vision_backbone: resnet18", {}, "is of another architecture"),
        ("text_model_name: google/siglip", {}, "openai/clip-… are offered"),
        ("text_pooling: mean", {}, "is not offered"),
        ("curv_init: 0", {}, "curv_init is 0: expected a number above 0"),
        ("data: {image_normalization: odd}", {}, "image_normalization is 'odd'"),
        ("vision_backbone: test_vit", {"log_curv": torch.zeros(3)}, "several curvatures"),
        ("vision_backbone: test_vit", {"log_curv": None}, "missing: log_curv"),
        ("vision_backbone: test_vit", {"extra.weight": torch.zeros(3)}, "unexpected: extra.weight"),
        ("vision_backbone: test_vit", {"image_proj.weight": None}, "is no Hyper3-CLIP: it has no"),
        ("vision_backbone: test_vit", {"visual_alpha": torch.tensor(float("nan"))}, "NaN or infinite"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, paper, config, change, reason):
    state = {name: value for name, value in (paper[0].state() | change).items() if value is not None}
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "config.yaml").write_text(config + "\n")
    with pytest.raises(CheckpointError, match=reason) as caught:
        load_model("hyper3_clip", tmp_path)
    assert "\n" not in str(caught.value)


def test_no_folder_and_no_name(tmp_path):
    with pytest.raises(UsageError, match="hyper3_clip needs a folder"):
        load_model("hyper3_clip", "")
    with pytest.raises(CheckpointError, match="no folder or file"):
        load_model("hyper3_clip", str(tmp_path / "none"))
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors"):
        load_model("hyper3_clip", tmp_path)
