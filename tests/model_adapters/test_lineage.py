"""The five families of the lineage: figures of the released code, cards, geometry, bad input."""

import copy
import math

import pytest
import torch
from closeness import assert_same
from PIL import Image

from hierbench.contracts import Fit, ModelAdapter, ProtocolAware
from hierbench.engine.store import EmbeddingStore
from hierbench.errors import CheckpointError, EncodingError, UsageError
from hierbench.geometry import Lorentz, Sphere
from hierbench.model_adapters import _lineage, argent, clip, hycoclip, meru, phyclip, uncha
from hierbench.models.checkpoints import sha256
from hierbench.models.reference import load_model
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.tokenizer import tokenize

FAMILIES = {"clip": clip, "meru": meru, "hycoclip": hycoclip, "uncha": uncha, "phyclip": phyclip}
GOLDEN = {
    "clip": ("meru_tiny_7", "CLIPBaseline"),
    "meru": ("meru_tiny_7", "MERU"),
    "hycoclip": ("hycoclip_tiny_7", "HyCoCLIP"),
    "uncha": ("uncha_tiny_7", "UNCHA"),
    "phyclip": ("phyclip_tiny_7", "PHyCLIP"),
}
LONG = "word " * 100


@pytest.fixture
def small():
    torch.manual_seed(0)
    sizes = {"embed_dim": 64, "depth": 2}
    return DualEncoder.create("hyperbolic", vision_sizes=sizes, image_size=32, text="L2_W16", embed_dim=16)


@pytest.mark.parametrize("family", FAMILIES)
def test_lifted_features_are_the_released_embeddings(family, golden, recipe, tiny_checkpoint):
    file, model = GOLDEN[family]
    figures, arrays = golden(file), golden(file, arrays=True)
    adapter = FAMILIES[family].load(tiny_checkpoint(family))
    image = adapter.encode_images(torch.from_numpy(recipe.images(8, 7)))
    text = adapter.encode_texts(figures["captions"])
    for name, features in (("image", image), ("text", text)):
        assert features.dtype == torch.float32
        found = adapter.geometry.lift(features)
        torch.testing.assert_close(found, torch.from_numpy(arrays[f"{model}.{name}"]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_card_says_what_the_checkpoint_says(family, golden, tiny_checkpoint):
    path = tiny_checkpoint(family)
    file, model = GOLDEN[family]
    recorded = golden(file)["models"][model]
    adapter = FAMILIES[family].load(path, name="mine")
    assert isinstance(adapter, ModelAdapter)
    card = adapter.card
    assert (card.name, card.family, card.source, card.sha256) == ("mine", family, str(path), sha256(path))
    assert (card.image_size, card.embedding_dim) == (224, 512 if family == "uncha" else 64)
    assert card.parameters == sum(
        math.prod(shape)
        for key, shape in recorded["state_dict_shapes"].items()
        if key not in ("pixel_mean", "pixel_std", "textual.attn_mask")
    )
    mean = "0.485/0.456/0.406" if family in ("clip", "meru", "phyclip") else "0.229/0.224/0.225"
    assert f"mean {mean}, std 0.229/0.224/0.225" in card.preprocessing
    if family == "clip":
        assert adapter.geometry == Sphere()
        assert set(card.notes) == {"logit_scale"}
    elif family == "phyclip":
        assert card.notes["curvature"] == pytest.approx(recorded["curvatures"], rel=1e-6)
        assert len(card.notes["visual_concept_alphas"]) == 8
    else:
        assert isinstance(adapter.geometry, Lorentz)
        assert adapter.geometry.curvature == pytest.approx(recorded["curvature"], rel=1e-6)
        assert card.notes["curvature"] == adapter.geometry.curvature
    scales = {"uncha": {"global_logit_scale": "global_scale", "local_logit_scale": "local_scale"}}
    for note, logged in scales.get(family, {"logit_scale": "logit_scale"}).items():
        assert card.notes[note] == pytest.approx(recorded["logging"][logged], rel=1e-6)


def test_argent_reads_the_same_layout(tiny_checkpoint):
    adapter = argent.load(tiny_checkpoint("hycoclip"))
    assert adapter.card.family == "argent"
    assert adapter.card.name == "hycoclip_tiny_7"


def test_texts_in_any_number_and_order(small):
    adapter = _lineage.adapt(small, "meru", name="small")
    texts = ["a photo of a dog", "", "a photo of a cat", LONG, "a photo of a dog", "dog"]
    together = adapter.encode_texts(texts)
    apart = torch.cat([adapter.encode_texts([text]) for text in texts])
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-6)
    assert adapter.encode_texts([]).shape == (0, 16)
    assert adapter.encode_images(torch.empty(0, 3, 32, 32)).shape == (0, 16)


def test_images_in_batches_are_images_one_by_one(small):
    adapter = _lineage.adapt(small, "meru", name="small")
    pixels = torch.rand(2 * _lineage.IMAGES_AT_ONCE["cpu"] + 1, 3, 32, 32)
    apart = torch.cat([adapter.encode_images(image[None]) for image in pixels])
    torch.testing.assert_close(adapter.encode_images(pixels), apart, rtol=0, atol=1e-6)


def test_small_packs_change_nothing(small, monkeypatch):
    adapter = _lineage.adapt(small, "meru", name="small")
    texts = [f"a photo of {n} {thing}s" for n in range(5) for thing in ("dog", "cat", "tree")]
    whole = adapter.encode_texts(texts)
    monkeypatch.setitem(_lineage.TOKENS_AT_ONCE, "cpu", 20)
    torch.testing.assert_close(adapter.encode_texts(texts), whole, rtol=0, atol=1e-6)


def test_truncation_is_part_of_what_identifies_the_features(small):
    kept = _lineage.adapt(small, "uncha", name="small")
    lost = _lineage.adapt(small, "uncha", name="small", keep_end=False)
    assert kept.card.tokenizing != lost.card.tokenizing
    assert kept.card.preprocessing == lost.card.preprocessing  # images are the same
    assert torch.equal(kept.encode_texts(["a dog"]), lost.encode_texts(["a dog"]))
    with torch.no_grad():
        start = small.text_tangents(
            [tokenize([""])[0][:1]]
        )  # the released code then reads at the start token
    torch.testing.assert_close(lost.encode_texts([LONG]), start, rtol=0, atol=1e-6)
    assert not torch.allclose(kept.encode_texts([LONG]), start)


def test_a_model_in_training_is_left_as_it_is(small):
    small.train()
    before = copy.deepcopy(small.state_dict())
    adapter = _lineage.adapt(small, "meru", name="small")
    adapter.encode_images(torch.rand(2, 3, 32, 32))
    adapter.encode_texts(["a dog"])
    assert small.training
    assert all(torch.equal(value, before[key]) for key, value in small.state_dict().items())
    assert all(p.requires_grad for name, p in small.named_parameters() if name != "visual.pos_embed")
    assert adapter.card.sha256 is None  # its embeddings are not kept


def test_images_are_squared_as_asked(small):
    adapter = _lineage.adapt(small, "meru", name="small")
    image = Image.new("RGB", (80, 40), "red")
    image.paste("blue", (0, 0, 20, 40))  # the left quarter: cropped away, or squeezed in
    crop, squeeze = (adapter.preprocess(image, fit) for fit in (Fit.CROP, Fit.SQUEEZE))
    assert crop.shape == squeeze.shape == (3, 32, 32)
    assert not crop[2, :, 1:].any()
    assert bool((squeeze[2, :, :6] == 1).all())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_arithmetic_gives_float32_features_nearby(small, dtype):
    exact, half = (_lineage.adapt(small, "meru", name="small", dtype=d) for d in ("float32", dtype))
    pixels, texts = torch.rand(3, 3, 32, 32), ["a dog", "a dog on a beach"]
    for found, expected in (
        (half.encode_images(pixels), exact.encode_images(pixels)),
        (half.encode_texts(texts), exact.encode_texts(texts)),
    ):
        assert found.dtype == torch.float32
        assert not torch.equal(found, expected)
        torch.testing.assert_close(found, expected, rtol=0.05, atol=0.02 * float(expected.abs().max()))
    assert half.card.dtype == dtype
    assert {p.dtype for p in small.parameters()} == {torch.float32}


# ------------------------------------------------------------------------------------------------ bad input


def test_no_checkpoint():
    with pytest.raises(CheckpointError, match="meru needs a checkpoint: give --checkpoint FILE"):
        meru.load(None)


def test_another_familys_file(tiny_checkpoint):
    with pytest.raises(CheckpointError, match="those of --family meru, hycoclip or argent"):
        clip.load(tiny_checkpoint("meru"))
    with pytest.raises(CheckpointError, match="those of --family clip"):
        hycoclip.load(tiny_checkpoint("clip"))
    with pytest.raises(CheckpointError, match="those of --family uncha"):
        argent.load(tiny_checkpoint("uncha"))


def test_a_dtype_and_a_device_that_do_not_exist(tiny_checkpoint, monkeypatch):
    with pytest.raises(UsageError, match="dtype 'int8' is not offered"):
        meru.load(tiny_checkpoint("meru"), dtype="int8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="no CUDA"):
        meru.load(tiny_checkpoint("meru"), device="cuda")


def test_images_of_another_size(small):
    adapter = _lineage.adapt(small, "meru", name="small")
    with pytest.raises(EncodingError, match=r"reads images as \(B, 3, 32, 32\), got \(1, 3, 64, 64\)"):
        adapter.encode_images(torch.zeros(1, 3, 64, 64))


def test_a_curvature_beyond_floats(small):
    with torch.no_grad():
        small.curv.fill_(1000.0)
    with pytest.raises(
        CheckpointError, match=r"checkpoint small\.pth: curvature must be positive and finite"
    ):
        _lineage.adapt(small, "meru", name="small", source="small.pth")


@pytest.mark.gpu
def test_cuda_gives_the_same_features(tiny_checkpoint, golden, recipe):
    texts, pixels = golden("hycoclip_tiny_7")["captions"], torch.from_numpy(recipe.images(4, 7))
    host, device = (hycoclip.load(tiny_checkpoint("hycoclip"), device=d) for d in ("cpu", "cuda"))
    torch.testing.assert_close(device.encode_texts(texts).cpu(), host.encode_texts(texts), rtol=0, atol=1e-4)
    torch.testing.assert_close(
        device.encode_images(pixels).cpu(), host.encode_images(pixels), rtol=0, atol=1e-4
    )


def test_uncha_loses_the_end_token_under_released_alone(tiny_checkpoint):
    """As its released evaluator does; whoever settles it when loading is not overruled."""
    path = tiny_checkpoint("uncha")
    adapter, lost, kept = (
        load_model("uncha", path),
        *(uncha.load(path, keep_end=keep) for keep in (False, True)),
    )
    assert isinstance(adapter, ProtocolAware)
    features = {
        "released": adapter.under("released").encode_texts([LONG, "a dog"]),
        "corrected": adapter.under("corrected").encode_texts([LONG, "a dog"]),
    }
    assert torch.equal(features["released"], lost.encode_texts([LONG, "a dog"]))
    assert torch.equal(features["corrected"], kept.encode_texts([LONG, "a dog"]))
    assert torch.equal(features["corrected"], adapter.encode_texts([LONG, "a dog"]))
    assert not torch.allclose(features["released"][0], features["corrected"][0])
    torch.testing.assert_close(features["released"][1], features["corrected"][1], rtol=0, atol=1e-6)
    assert "lost" in adapter.under("released").card.tokenizing
    assert adapter.under("released").under("corrected").card == adapter.card
    for settled in (lost, kept):
        assert all(settled.under(protocol) is settled for protocol in ("released", "corrected"))


def test_phyclip_ranks_by_inner_products_under_released_alone(tiny_checkpoint, golden, recipe):
    """The sum that the released evaluators rank by, and the metric that was trained (erratum 12)."""
    arrays = golden("phyclip_tiny_7", arrays=True)
    adapter = load_model(None, tiny_checkpoint("phyclip"))
    image = adapter.encode_images(torch.from_numpy(recipe.images(8, 7)))
    text = adapter.encode_texts(golden("phyclip_tiny_7")["captions"])
    for protocol, array, sign in (("released", "similarity_released", 1), ("corrected", "mean_dist", -1)):
        geometry = adapter.under(protocol).geometry
        found = geometry.similarity(geometry.lift(image), geometry.lift(text))
        assert_same(found, sign * torch.from_numpy(arrays[f"PHyCLIP.{array}"]))
    assert adapter.geometry == adapter.under("corrected").geometry
    assert adapter.under("released").card == adapter.card  # the features are the same
    three = torch.from_numpy(arrays["PHyCLIP.class_of_three_prompts"])
    assert_same(adapter.geometry.mean(text[:3]), three)


@pytest.mark.parametrize("family", ["clip", "meru", "hycoclip"])
def test_the_others_are_the_same_under_every_protocol(family, tiny_checkpoint):
    adapter = load_model(family, tiny_checkpoint(family))
    assert not isinstance(adapter, ProtocolAware)
    assert "end token kept" in adapter.card.tokenizing


def test_the_store_keeps_the_two_protocols_texts_apart(tiny_checkpoint, tmp_path):
    adapter, store = load_model("uncha", tiny_checkpoint("uncha")), EmbeddingStore(tmp_path)
    released, corrected = (adapter.under(protocol).card for protocol in ("released", "corrected"))
    assert store.section(released, "text").folder != store.section(corrected, "text").folder
    assert store.section(released, Fit.CROP).folder == store.section(corrected, Fit.CROP).folder
