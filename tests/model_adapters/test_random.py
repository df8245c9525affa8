"""The random baseline: the same everywhere, sensitive to what it is given, quick."""

import pytest
import torch

from hierbench.contracts import Fit
from hierbench.errors import CheckpointError
from hierbench.geometry import Lorentz, Sphere
from hierbench.models.conformance import check_adapter, drawn_images
from hierbench.models.reference import load_model


@pytest.mark.parametrize("settings", [None, "lorentz", "sphere", "sphere:3"])
def test_conforms(settings):
    assert check_adapter(load_model("random", settings)) == []


def test_settings_choose_geometry_name_and_seed():
    assert load_model("random").geometry == load_model("random:lorentz").geometry == Lorentz(1.0)
    assert load_model("random:sphere").geometry == Sphere()
    assert load_model("random").card.name == "random"
    assert load_model("random:sphere:3").card.name == "random-sphere-3"
    assert load_model("random:sphere:3", name="mine").card.name == "mine"
    hashes = {load_model("random", s).card.sha256 for s in (None, "lorentz:0", "lorentz:1", "sphere")}
    assert len(hashes) == 3  # the first two are the same model
    a, b = (load_model("random", s).encode_texts(["dog"]) for s in ("lorentz:0", "lorentz:1"))
    assert not torch.allclose(a, b)


@pytest.mark.parametrize("wrong", ["euclid", "sphere:x", "sphere:-1", "weights.pth"])
def test_other_settings_are_refused(wrong):
    with pytest.raises(CheckpointError, match="random takes 'lorentz' or 'sphere'"):
        load_model("random", wrong)


def test_another_process_and_platform_gives_the_same_features():
    """Recorded once. Python's own hash differs between processes, normal draws between platforms."""
    adapter = load_model("random")
    text = adapter.encode_texts(["a large dog"])[0, :4]
    image = adapter.encode_images(torch.linspace(0, 1, 3 * 64 * 64).view(1, 3, 64, 64))[0, :4]
    recorded = torch.tensor([-0.0494521, -0.0005479, 0.0573808, -0.0087151])
    torch.testing.assert_close(text, recorded, atol=1e-6, rtol=0)
    recorded = torch.tensor([0.1409426, -0.0228130, -0.0386013, 0.0582425])
    torch.testing.assert_close(image, recorded, atol=1e-5, rtol=0)


def test_general_captions_lie_nearer_to_the_origin():
    chain = ["", "animal", "an orange fish", "a large orange fish above a small purple airplane at night"]
    lengths = load_model("random").encode_texts(chain).norm(dim=1)
    assert bool((lengths.diff() > 0.05).all())
    assert 0 < float(lengths[0]) < 0.05


def test_similar_inputs_have_similar_features():
    adapter = load_model("random")
    cosine = torch.nn.CosineSimilarity(dim=0)
    dog, dogs, car, caption = adapter.encode_texts(["dog", "dogs", "car", "A DOG!"])
    assert cosine(dog, dogs) > cosine(dog, car) + 0.1
    assert torch.equal(caption, adapter.encode_texts(["a dog"])[0])
    image = drawn_images()[3]
    same, shifted, other = adapter.encode_images(
        torch.stack(
            [
                adapter.preprocess(image, Fit.SQUEEZE),
                adapter.preprocess(image.crop((3, 3, 300, 200)), Fit.SQUEEZE),
                adapter.preprocess(drawn_images()[0], Fit.SQUEEZE),
            ]
        )
    )
    assert (same - shifted).norm() < 0.3 * (same - other).norm()
