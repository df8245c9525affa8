"""The open_clip adapter against open_clip itself, on a tiny architecture with random weights."""

import json
import pickle

import open_clip
import pytest
import torch

from hierbench.contracts import Fit
from hierbench.errors import CheckpointError, HierbenchError, UnknownNameError, UsageError
from hierbench.geometry import Sphere
from hierbench.models import checkpoints
from hierbench.models.catalog import catalog
from hierbench.models.conformance import TEXTS, check_adapter, drawn_images
from hierbench.models.reference import load_model


def reference(name, file, **options):
    model, _, transform = open_clip.create_model_and_transforms(name, pretrained=str(file), **options)
    return model.eval(), transform, open_clip.get_tokenizer(name)


def features(adapter, fit=Fit.CROP):
    pixels = torch.stack([adapter.preprocess(image, fit) for image in drawn_images()])
    return adapter.encode_images(pixels), adapter.encode_texts(TEXTS)


def test_equals_open_clip_with_its_own_transform_and_tokenizer(tiny_open_clip):
    name, file = tiny_open_clip
    model, transform, tokenizer = reference(name, file)
    adapter = load_model("open_clip", f"{name}@{file}")
    images, texts = features(adapter)
    with torch.no_grad():
        expected = model.encode_image(torch.stack([transform(image) for image in drawn_images()]))
        torch.testing.assert_close(images, expected, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(texts, model.encode_text(tokenizer(list(TEXTS))), atol=1e-6, rtol=1e-5)
    assert adapter.geometry == Sphere()
    assert adapter.card.name == "tiny weights"
    assert adapter.card.sha256 == checkpoints.sha256(file)
    assert (adapter.card.embedding_dim, adapter.card.image_size) == (24, 32)


def test_conforms(tiny_open_clip):
    name, file = tiny_open_clip
    assert check_adapter(load_model("open_clip", f"{name}@{file}")) == []


def test_squeeze_resizes_both_sides(tiny_open_clip):
    name, file = tiny_open_clip
    adapter = load_model("open_clip", f"{name}@{file}")
    image = drawn_images()[3]
    expected = torch.tensor(list(image.resize((32, 32), 3).tobytes())).view(32, 32, 3).permute(2, 0, 1) / 255
    assert torch.equal(adapter.preprocess(image, Fit.SQUEEZE), expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_near_and_comes_back_as_float32(tiny_open_clip, dtype):
    name, file = tiny_open_clip
    full = features(load_model("open_clip", f"{name}@{file}"))
    adapter = load_model("open_clip", f"{name}@{file}", dtype=dtype)
    for exact, rough in zip(full, features(adapter), strict=True):
        assert rough.dtype == torch.float32
        assert not torch.equal(exact, rough)
        torch.testing.assert_close(rough, exact, atol=0.03 * float(exact.abs().max()), rtol=0)
    assert adapter.card.dtype == dtype


@pytest.fixture
def tagged(tiny_open_clip, monkeypatch):
    """The tiny architecture with two published tags; the second was trained with the quick GELU."""
    name, file = tiny_open_clip
    config = {"file": str(file), "mean": (0.1, 0.2, 0.3), "std": (0.5, 0.5, 0.5), "interpolation": "bilinear"}
    tags = {"plain": config, "quick": {**config, "quick_gelu": True, "resize_mode": "squash"}}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, name, tags)
    return name, file


@pytest.mark.parametrize("tag", ["plain", "quick"])
def test_a_tag_brings_its_own_preprocessing_and_activation(tagged, tag):
    name, _ = tagged
    quick = tag == "quick"
    model, transform, tokenizer = reference(name, tag, force_quick_gelu=quick)
    adapter = load_model(f"open_clip:{name}/{tag}")
    images, texts = features(adapter)
    with torch.no_grad():
        expected = model.encode_image(torch.stack([transform(image) for image in drawn_images()]))
        torch.testing.assert_close(images, expected, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(texts, model.encode_text(tokenizer(list(TEXTS))), atol=1e-6, rtol=1e-5)
    assert adapter.card.name == f"Tiny-32-{tag}"
    assert adapter.card.notes["quick_gelu"] is quick
    assert ("quick GELU" in adapter.card.preprocessing) is quick  # which the embedding store goes by
    assert "bilinear" in adapter.card.preprocessing


def test_random_weights_are_always_the_same_and_leave_the_generator_alone(tiny_open_clip):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first, second = load_model("open_clip", "Tiny-32/random"), load_model("open_clip:Tiny-32/random")
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.encode_texts(TEXTS), second.encode_texts(TEXTS))
    assert first.card.sha256 == second.card.sha256
    assert first.card.name == "Tiny-32-random"


def test_a_folder_in_open_clips_layout(tiny_open_clip, tmp_path):
    name, file = tiny_open_clip
    folder = tmp_path / "exported"
    folder.mkdir()
    config = {"model_cfg": open_clip.get_model_config(name), "preprocess_cfg": {"mean": [0.5] * 3}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    with pytest.raises(
        CheckpointError, match="exported has no weights: expected open_clip"
    ):  # never random weights in silence
        load_model("open_clip", f"local-dir:{folder}")
    torch.save(torch.load(file), folder / "open_clip_pytorch_model.bin")
    adapter = load_model("open_clip", f"local-dir:{folder}")
    assert torch.equal(
        adapter.encode_texts(TEXTS), load_model(f"open_clip:{name}@{file}").encode_texts(TEXTS)
    )
    assert adapter.config.mean == [0.5] * 3
    assert adapter.card.name == "exported"
    state = torch.load(file)
    torch.save(
        {**state, "text_projection": state["text_projection"].int()}, folder / "open_clip_pytorch_model.bin"
    )
    with pytest.raises(CheckpointError, match=r"not floating point, in text_projection \(int32\)"):
        load_model("open_clip", f"local-dir:{folder}")


def test_names_are_helped_along(tagged):
    for wrong, error, message in [
        (None, UsageError, "needs MODEL/TAG"),
        ("ViT-B-32", UsageError, r"needs weights: ViT-B-32/TAG with TAG one of openai, .*random"),
        ("ViT-B/32", UsageError, r"needs weights: ViT-B-32/TAG"),
        ("ViT-B-33/openai", UnknownNameError, "did you mean ViT-B-32"),
        ("ViT-B-32/opnai", UnknownNameError, "did you mean openai"),
        ("Tiny-33@weights.pt", UnknownNameError, "did you mean Tiny-32"),
        ("Tiny-32@nowhere.pt", CheckpointError, r"no file nowhere\.pt"),
        ("local-dir:nowhere", CheckpointError, "not found"),
    ]:
        with pytest.raises(error, match=message) as caught:
            load_model("open_clip", wrong)
        assert "\n" not in str(caught.value)


def test_offline_without_the_weights_is_one_line(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match="connect once") as caught:
        load_model("open_clip", "ViT-B-32/openai", offline=True)
    assert "\n" not in str(caught.value)


class Harmful:
    def __reduce__(self):
        return (print, ("code from a checkpoint ran",))


def changed(**entries):
    """A spoiler that saves the state with some entries replaced by what functions make of them."""
    return lambda state, file: torch.save(
        {**state, **{key: change(state[key]) for key, change in entries.items()}}, file
    )


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state, file: file.write_bytes(b""), "is empty"),
        (lambda state, file: file.write_bytes(file.read_bytes()[:1000]), "is truncated or no torch checkpoint"),
        (lambda state, file: file.write_bytes(pickle.dumps({"model": Harmful()})), "pickled Python objects"),
        (lambda state, file: torch.save({"one": torch.zeros(1)}, file), "missing: .*unexpected: one"),
        (lambda state, file: torch.save({"model": torch.nn.Linear(1, 1)}, file),
         r"objects \(torch\.nn\.modules\.linear\.Linear\)"),
        (changed(text_projection=lambda w: w * float("nan")), "NaN or infinite weights in text_projection"),
        (changed(text_projection=lambda w: w.to(torch.int8)), r"not floating point, in text_projection \(int8\)"),
        (changed(**{"visual.positional_embedding": lambda w: torch.zeros(10, 64)}),
         r"of another shape: visual\.positional_embedding \[10, 64\] instead of \[5, 64\]"),
    ],
    ids=["empty", "truncated", "code", "other architecture", "module", "NaN", "int8", "other image size"],
)  # fmt: skip
def test_bad_files_are_one_line_and_run_nothing(tiny_open_clip, spoil, message, capsys):
    name, file = tiny_open_clip
    spoil(torch.load(file), file)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_model("open_clip", f"{name}@{file}")
    assert "\n" not in str(caught.value)
    assert "code from a checkpoint ran" not in capsys.readouterr().out


def test_an_unknown_dtype_is_refused(tiny_open_clip):
    with pytest.raises(UsageError, match="int8"):
        load_model("open_clip", "Tiny-32/random", dtype="int8")


def test_the_catalog_names_existing_tags():
    entries = [entry for entry in catalog().values() if entry.family == "open_clip"]
    assert entries
    for entry in entries:
        model, tag = entry.reference.split("/")
        assert (model, tag) in open_clip.list_pretrained()


def test_library_noise_does_not_reach_the_terminal(tiny_open_clip, capfd):
    with pytest.raises(HierbenchError):
        load_model("open_clip", f"{tiny_open_clip[0]}@{__file__}")
    load_model("open_clip", "Tiny-32/random")
    assert capfd.readouterr() == ("", "")


# ------------------------------------------------------------------------------- what a file does not say itself


def test_a_file_is_preprocessed_as_all_tags_of_its_architecture_are(tagged):
    name, file = tagged
    del open_clip.pretrained._PRETRAINED[name]["quick"]
    adapter = load_model("open_clip", f"{name}@{file}")
    assert (adapter.config.mean, adapter.config.std) == ((0.1, 0.2, 0.3), (0.5, 0.5, 0.5))
    assert adapter.config.interpolation == "bilinear"
    expected = load_model("open_clip", f"{name}/plain").encode_texts(TEXTS)
    assert torch.equal(adapter.encode_texts(TEXTS), expected)


@pytest.mark.parametrize("tag", ["plain", "quick"])
def test_where_tags_differ_a_file_needs_one(tagged, tag):
    name, file = tagged
    with pytest.raises(UsageError, match=r"differ in resize_mode, quick_gelu, .* Tiny-32/quick@") as caught:
        load_model("open_clip", f"{name}@{file}")
    assert "\n" not in str(caught.value)
    with pytest.raises(UnknownNameError, match="did you mean quick"):
        load_model("open_clip", f"{name}/quik@{file}")
    from_file, from_tag = (
        load_model("open_clip", f"{name}/{tag}@{file}"),
        load_model("open_clip", f"{name}/{tag}"),
    )
    assert from_file.card.preprocessing == from_tag.card.preprocessing
    for one, other in zip(features(from_file), features(from_tag), strict=True):
        assert torch.equal(one, other)


def test_openclips_own_names_as_it_publishes_them():
    """open_clip's table: MobileCLIP-S1 is bilinear, unnormalised; ViT-B-32 comes with both activations."""
    from hierbench.model_adapters.open_clip import _as_tags_have_it

    preprocess, quick = _as_tags_have_it("MobileCLIP-S1", "", "f")
    assert preprocess["mean"] == (0.0, 0.0, 0.0)
    assert preprocess["std"] == (1.0, 1.0, 1.0)
    assert (preprocess["interpolation"], quick) == ("bilinear", False)
    with pytest.raises(UsageError, match=r"ViT-B-32 differ in quick_gelu, .* ViT-B-32/openai@f or "):
        _as_tags_have_it("ViT-B-32", "", "f")
    assert _as_tags_have_it("ViT-B-32", "openai", "f")[1]
    assert _as_tags_have_it("ViT-B-32-quickgelu", "", "f")[1]


def test_wrapped_and_prefixed_files_are_the_same_model(tiny_open_clip):
    name, file = tiny_open_clip
    state = torch.load(file)
    expected = load_model("open_clip", f"{name}@{file}").encode_texts(TEXTS)
    torch.save({"state_dict": {f"module.{key}": value for key, value in state.items()}, "epoch": 3}, file)
    assert torch.equal(load_model("open_clip", f"{name}@{file}").encode_texts(TEXTS), expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_openais_archives_are_told(tiny_open_clip, tmp_path):
    torch.jit.script(torch.nn.Linear(2, 2)).save(tmp_path / "ViT-B-32.pt")
    with pytest.raises(
        CheckpointError, match=r"is a TorchScript archive, .*open_clip:ViT-B-32/openai, without"
    ):
        load_model("open_clip", f"{tiny_open_clip[0]}@{tmp_path / 'ViT-B-32.pt'}")
