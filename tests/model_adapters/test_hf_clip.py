"""The hf_clip adapter against transformers itself, on a tiny CLIPModel with random weights."""

import json

import pytest
import torch
import transformers
from PIL import Image

from hierbench.contracts import Fit
from hierbench.errors import CheckpointError, UsageError
from hierbench.geometry import Sphere
from hierbench.models import checkpoints
from hierbench.models.catalog import ModelEntry
from hierbench.models.conformance import TEXTS, check_adapter, drawn_images
from hierbench.models.reference import load_model


def tensor(output):
    return output if isinstance(output, torch.Tensor) else output.pooler_output


def test_texts_equal_transformers_own(tiny_hf_clip):
    folder = tiny_hf_clip()
    adapter = load_model("hf_clip", folder)
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(list(TEXTS), padding=True, truncation=True, max_length=77, return_tensors="pt")
    with torch.no_grad():
        expected = tensor(model.get_text_features(**inputs))
    torch.testing.assert_close(adapter.encode_texts(TEXTS), expected, atol=1e-5, rtol=1e-5)


def test_images_equal_transformers_own(tiny_hf_clip):
    folder = tiny_hf_clip()
    adapter = load_model("hf_clip", folder)
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    # The PIL-backed processor; transformers 4 has no other. Shapes whose margins are even: PIL and transformers
    # round the others differently, by one pixel, and we keep to the protocol's torchvision rounding.
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    processor = kind.from_pretrained(folder)
    images = [image for image in drawn_images() if image.size in {(64, 64), (300, 200)}]
    inputs = processor(images=images, return_tensors="pt")
    pixels = torch.stack([adapter.preprocess(image, Fit.CROP) for image in images])
    with torch.no_grad():
        expected = tensor(model.get_image_features(**inputs))
    torch.testing.assert_close(adapter.encode_images(pixels), expected, atol=1e-5, rtol=1e-5)


def test_conforms_and_says_who_it_is(tiny_hf_clip):
    folder = tiny_hf_clip()
    adapter = load_model(f"hf_clip:{folder}")
    assert check_adapter(adapter) == []
    assert adapter.geometry == Sphere()
    card = adapter.card
    assert (card.name, card.embedding_dim, card.image_size) == ("tiny-clip", 24, 32)
    assert card.notes == {
        "tokenizer": "the folder's own",
        "image processor": "the folder's own",
        "pooled token": "the first 49407 of a text, its end token",
    }
    assert "shorter side to 36, centre crop to 32 (bicubic), mean 0.4/0.5/0.6" in card.preprocessing


def test_a_folder_of_weights_alone_gets_clips_tokenizer_and_pixels(tiny_hf_clip):
    bare = load_model("hf_clip", tiny_hf_clip(with_tokenizer=False, with_processor=False))
    own = load_model("hf_clip", tiny_hf_clip())
    texts = [text for text in TEXTS if text.isascii()]
    torch.testing.assert_close(bare.encode_texts(texts), own.encode_texts(texts))
    assert "as the folder has none" in bare.card.notes["tokenizer"]
    assert "shorter side to 32, centre crop to 32 (bicubic), mean 0.48145" in bare.card.preprocessing


def test_squeeze_and_a_processor_that_squeezes(tiny_hf_clip):
    image = drawn_images()[3]
    squeezed = torch.tensor(list(image.resize((32, 32), Image.Resampling.BICUBIC).tobytes()))
    squeezed = squeezed.view(32, 32, 3).permute(2, 0, 1) / 255
    folder = tiny_hf_clip(with_tokenizer=False)
    assert torch.equal(load_model("hf_clip", folder).preprocess(image, Fit.SQUEEZE), squeezed)
    change_processor(folder, size={"height": 32, "width": 32}, do_center_crop=False)
    adapter = load_model("hf_clip", folder)
    assert torch.equal(adapter.preprocess(image, Fit.CROP), squeezed)
    assert adapter.card.preprocessing.startswith("squeezed to 32")


@pytest.mark.parametrize(
    "switches",
    [
        {"do_normalize": False},
        {"do_rescale": False},
        {"rescale_factor": 1 / 127.5},
        {"do_rescale": False, "do_normalize": False},
        {"image_mean": 0.5, "image_std": 0.25},
        {"resample": 2},
        {"size": {"shortest_edge": 32}},
        {"size": {"height": 32, "width": 32}, "do_center_crop": False},
        {"size": {"height": 32, "width": 32}},
    ],
    ids=str,
)
def test_each_switch_of_the_processor_is_as_transformers_has_it(tiny_hf_clip, switches):
    folder = tiny_hf_clip(with_tokenizer=False)
    change_processor(folder, **switches)
    adapter = load_model("hf_clip", folder)
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    images = [image for image in drawn_images() if image.size in {(64, 64), (300, 200)}]
    expected = kind.from_pretrained(folder)(images=images, return_tensors="pt")["pixel_values"].float()
    pixels = torch.stack([adapter.preprocess(image, Fit.CROP) for image in images])
    assert float(pixels.max()) <= 1
    scale = float(expected.abs().max())
    torch.testing.assert_close(adapter.pixels.scaling(pixels), expected, atol=1e-6 * scale, rtol=0)


def change_text_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    config["text_config"].update(changes)
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("end", [2, 49407])
def test_the_pooled_token_of_added_tokens_is_transformers_own_and_told(tiny_hf_clip, end):
    """A config with the old end token 2 reads a text at its largest id: an added token, where it has one."""
    folder = tiny_hf_clip()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<style>"])
    tokenizer.save_pretrained(folder)
    change_weights(
        folder,
        "text_model.embeddings.token_embedding.weight",
        lambda w: torch.cat([w, torch.linspace(-1, 1, w.shape[1])[None]]),
    )
    change_text_config(folder, eos_token_id=end, vocab_size=len(tokenizer))
    adapter = load_model("hf_clip", folder)
    told = "the largest id of a text" if end == 2 else "the first 49407 of a text"
    assert adapter.card.notes["pooled token"].startswith(told)
    texts = ["a <style> dog", "a photo of a dog", "<style>"]
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = torch.cat(
            [tensor(model.get_text_features(**tokenizer([text], return_tensors="pt"))) for text in texts]
        )
    torch.testing.assert_close(adapter.encode_texts(texts), expected, atol=1e-5, rtol=1e-5)


def change_processor(folder, **changes):
    file = next(
        folder / name
        for name in ("preprocessor_config.json", "processor_config.json")
        if (folder / name).exists()
    )
    content = json.loads(file.read_text())
    (content.get("image_processor") or content).update(changes)
    file.write_text(json.dumps(content))


def test_old_end_token_and_old_weight_files(tiny_hf_clip):
    """OpenAI's configs name end token 2 and their files are pickled; both must work as transformers has them."""
    folder = tiny_hf_clip()
    expected = load_model("hf_clip", folder).encode_texts(TEXTS)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["eos_token_id"] = 2
    (folder / "config.json").write_text(json.dumps(config))
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    weights["text_model.embeddings.position_ids"] = torch.arange(77)[None]
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    torch.testing.assert_close(load_model("hf_clip", folder).encode_texts(TEXTS), expected)


def test_the_hash_covers_all_that_shapes_the_features(tiny_hf_clip):
    """The embedding store goes by it."""
    folder = tiny_hf_clip()
    before = load_model("hf_clip", folder).card.sha256
    assert load_model("hf_clip", tiny_hf_clip()).card.sha256 == before
    bare = tiny_hf_clip(with_tokenizer=False)
    of_bare = load_model("hf_clip", bare).card.sha256
    assert of_bare != before
    change_processor(bare, image_mean=[0.1, 0.1, 0.1])
    assert load_model("hf_clip", bare).card.sha256 != of_bare


def test_hub_names_and_catalog_entries_go_through_the_fetcher(tiny_hf_clip, monkeypatch):
    folder, asked = tiny_hf_clip(with_tokenizer=False), []

    def snapshot(repo, revision=None, offline=False):
        asked.append((repo, revision, offline))
        return folder

    monkeypatch.setattr(checkpoints, "hub_snapshot", snapshot)
    assert load_model("hf_clip:org/some-clip@v2").card.name == "some-clip"
    entry = ModelEntry(name="m", family="hf_clip", repo="malper/hierarcaps-clip-b")
    assert checkpoints.checkpoint(entry, offline=True) == folder
    assert asked == [("org/some-clip", "v2", False), ("malper/hierarcaps-clip-b", None, True)]


def test_a_hub_name_offline_is_one_line(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match="not in the hub cache"):
        load_model("hf_clip:org/some-clip", offline=True)


def change_weights(folder, name, change):
    """Put `change(weight)` in a weight's place, or leave it out where that is None."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights[name] = change(weights[name])
    kept = {key: value for key, value in weights.items() if value is not None}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


def with_projection(change):
    """A spoiler that changes the projection of images."""
    return lambda folder: change_weights(folder, "visual_projection.weight", change)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "line 1: not JSON"),
        (lambda f: (f / "config.json").write_text('{"model_type": "bert"}'), "type 'bert'"),
        (lambda f: (f / "config.json").write_text("[]"), "holds no fields"),
        (lambda f: (f / "model.safetensors").unlink(), "has no weights"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 50), "is truncated or not a safetensors file"),
        (with_projection(lambda w: None), r"missing keys visual_projection\.weight"),
        (with_projection(lambda w: w * float("nan")), "visual_projection.weight holds NaN"),
        (lambda f: change_processor(f, crop_size={"height": 16, "width": 16}), "the model reads squares of 32"),
        (with_projection(lambda w: (w * 100).to(torch.int8)), r"in visual_projection\.weight \(int8\)"),
        (lambda f: change_processor(f, do_resize=False), "does not resize"),
        (lambda f: change_processor(f, do_pad=True), "pads images"),
        (lambda f: change_processor(f, do_center_crop=False), r"not cut: the model reads squares of 32"),
        (lambda f: change_processor(f, size={"height": 36, "width": 36}), "the model reads squares of 32"),
        (lambda f: change_processor(f, size={"longest_edge": 32}), "expected whole numbers of shortest_edge"),
        (lambda f: change_processor(f, rescale_factor=0), "expected a positive factor"),
        (lambda f: change_processor(f, rescale_factor="x"), "could not convert string to float"),
        (lambda f: change_processor(f, image_std=[0.1, 0.0, 0.1]), "stds that are not zero"),
        (lambda f: change_processor(f, image_mean=[0.1]), "three means"),
        (lambda f: change_processor(f, resample=99), "resample: 99 is not a valid Resampling"),
        (lambda f: change_processor(f, image_processor_type="SiglipImageProcessor"), "is of a SiglipImageProcessor"),
        (lambda f: change_text_config(f, eos_token_id=5), "read at the token 5 .* tokenizer ends them with 49407"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer in .* does not load"),
    ],
    ids=["no config", "broken config", "another model", "odd config", "no weights", "damaged", "incomplete", "NaN",
         "small crop", "int8", "no resizing", "padding", "no crop", "no squeeze with a crop", "longest edge",
         "zero factor", "factor", "zero std", "one mean", "resample", "another processor",
         "another end", "broken tokenizer"],
)  # fmt: skip
def test_bad_folders_are_one_line(tiny_hf_clip, spoil, message, capfd):
    folder = tiny_hf_clip(with_tokenizer="tokenizer" in message)  # reading one takes longer than all the rest
    spoil(folder)
    capfd.readouterr()
    with pytest.raises(CheckpointError, match=message) as caught:
        load_model("hf_clip", folder)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_other_bad_names(tmp_path):
    (tmp_path / "file.bin").write_text("")
    with pytest.raises(CheckpointError, match="is a file"):
        load_model("hf_clip", tmp_path / "file.bin")
    with pytest.raises(CheckpointError, match="no folder"):
        load_model("hf_clip", tmp_path / "not" / "there")
    with pytest.raises(UsageError, match="needs a folder"):
        load_model("hf_clip")
