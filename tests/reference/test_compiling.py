"""`train.compile`: the same figures, and no code made anew for texts of other lengths.

What is compiled is traced and differentiated as for a GPU, but run by torch itself: no C++ compiler is needed.
"""

import random

import pytest
import torch
from closeness import assert_same, assert_same_each
from small_training import batch_of, tiny
from torch._dynamo.utils import counters

from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.packing import pack
from hierbench.reference.training import compiling
from hierbench.reference.training.trainer import Trainer

REL = 1e-5


@pytest.fixture(autouse=True)
def traced_alone(monkeypatch):
    monkeypatch.setattr(compiling, "BACKEND", "aot_eager")
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def graphs():
    """How many pieces of code were made since the last call."""
    made = counters["stats"]["unique_graphs"]
    counters.clear()
    return made


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return DualEncoder.create(
        "hyperbolic", vision="vit_tiny_patch16_224", vision_sizes={"embed_dim": 64, "depth": 3}, image_size=32,
        text="L3_W64", vocabulary=200, embed_dim=16,
    )  # fmt: skip


def packs(count):
    """Packs of 3 to 40 texts of 3 to 70 tokens: no two with as many tokens, some with common beginnings."""
    draw = random.Random(0)
    made = []
    while len(made) < count:
        texts = [
            [198, *(draw.randrange(4) for _ in range(draw.randint(1, 68))), 199]
            for _ in range(draw.randint(3, 40))
        ]
        made.append(pack(texts, step=draw.choice([1, 8])))
    assert len({len(each.tokens) for each in made}) == count
    assert len({len(each.groups) for each in made}) > 2
    return made


def features_and_gradients(encoder, given):
    encoder.zero_grad()
    features = encoder.encode_text(given)
    features.square().sum().backward()
    return features.detach(), {n: p.grad for n, p in encoder.textual.named_parameters() if p.grad is not None}


def test_texts_of_any_length_share_one_code_of_each_piece(encoder):
    given = packs(6)
    expected = [features_and_gradients(encoder, each) for each in given]
    names = list(encoder.state_dict())
    compiling.compile_towers(encoder)
    found = [features_and_gradients(encoder, each) for each in given]
    assert graphs() == len(compiling.TEXT_PIECES)  # for six lengths and three layers
    for (features, gradients), (ours, slopes) in zip(expected, found, strict=True):
        assert_same(ours, features, rel=REL)
        assert_same_each(slopes, gradients, rel=REL)
    assert list(encoder.state_dict()) == names
    with torch.no_grad():  # as cached gradients begin
        for each in given[:3]:
            encoder.encode_text(each)
    assert graphs() == len(compiling.TEXT_PIECES)
    for each in given:
        features_and_gradients(encoder, each)
    assert graphs() == 0


def test_layers_of_the_image_tower_share_their_code(encoder):
    pixels = torch.rand(4, 3, 32, 32)
    expected = encoder.encode_image(pixels)
    compiling.compile_towers(encoder)
    for _ in range(3):
        assert_same(encoder.encode_image(pixels), expected, rel=REL)
    assert graphs() == 2  # the last one, for the class token alone, is of another kind


def test_a_step_has_the_same_gradients():
    """With features first and gradients later, and what is inside a layer computed again."""
    found = []
    for compiled in ("false", "true"):
        asked = ["train.micro_batch=4", "train.checkpoint_activations=true", f"train.compile={compiled}"]
        config = tiny("hycoclip", "model.text=L2_W16", *asked)
        trainer = Trainer(config, torch.device("cpu"))
        trainer._apply = lambda train, number: torch.zeros(())  # keep the gradients, do not step
        trainer.step(batch_of(config), 0)
        found.append({n: p.grad for n, p in trainer.model.named_parameters() if p.grad is not None})
    assert graphs() > 0
    assert_same_each(found[1], found[0], rel=REL)
