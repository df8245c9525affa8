"""The towers: shapes, heads, positions."""

import math
from copy import deepcopy

import pytest
import torch
from closeness import assert_same, assert_same_each

from hierbench.errors import UsageError
from hierbench.reference.encoders import (
    ClassTokenBlock,
    image_heads,
    sine_cosine_positions,
    text_heads,
    text_tower,
    vision_tower,
)


@pytest.mark.parametrize(("width", "heads"), [(192, 3), (384, 12), (768, 12), (1024, 16), (64, 1), (128, 2)])
def test_image_heads_follow_the_width(width, heads):
    assert image_heads(width) == heads


@pytest.mark.parametrize(("width", "heads"), [(32, 1), (128, 2), (384, 6), (512, 8)])
def test_text_heads_follow_the_width(width, heads):
    assert text_heads(width) == heads


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(UsageError, match="width 224 cannot be split into 3 heads"):
        text_heads(224)


@pytest.mark.parametrize(
    ("name", "heads", "depth", "parameters"),
    [  # counts of the ViTs of Dosovitskiy et al. (2021), without the classifier; the number of heads adds none
        ("vit_tiny_patch16_224", 3, 12, 5_524_416),
        ("vit_small_patch16_224", 12, 12, 21_665_664),
        ("vit_base_patch16_224", 12, 12, 85_798_656),
        ("vit_large_patch16_224", 16, 24, 303_301_632),
    ],
)
def test_the_lineages_vits(name, heads, depth, parameters):
    with torch.device("meta"):
        tower = vision_tower(name)
    assert {block.attn.num_heads for block in tower.blocks} == {heads}
    assert len(tower.blocks) == depth
    assert sum(p.numel() for p in tower.parameters()) == parameters
    assert {m.eps for m in tower.modules() if isinstance(m, torch.nn.LayerNorm)} == {1e-5}
    assert not tower.pos_embed.requires_grad
    assert tower(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, tower.embed_dim)


def test_any_vit_of_timm_in_any_size():
    tower = vision_tower("vit_small_patch32_224", image_size=64, embed_dim=64, depth=2, patch_size=8)
    assert tower(torch.zeros(1, 3, 64, 64)).shape == (1, 64)
    assert tower.pos_embed.shape == (1, 65, 64)
    with torch.device("meta"):  # register tokens, rotary positions: not of the lineage, but ViTs of timm
        assert vision_tower("vit_base_patch16_reg4_gap_256").reg_token is not None
        assert vision_tower("vit_small_patch16_rope_224").pos_embed is None


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_base_patch32_clip_224"])
def test_the_last_layer_for_the_class_token_alone_is_timms(name):
    torch.manual_seed(0)
    tower = vision_tower(name, image_size=64, embed_dim=64, depth=2, patch_size=16)
    whole = deepcopy(tower)
    whole.blocks[-1].__class__ = type(whole.blocks[0])
    assert type(tower.blocks[-1]) is ClassTokenBlock
    assert tower.state_dict().keys() == whole.state_dict().keys()
    tower, whole = tower.double(), whole.double()  # a statement about algebra
    pixels = torch.randn(3, 3, 64, 64, dtype=torch.float64)
    features = tower(pixels)
    assert_same(features, whole(pixels))
    features.square().sum().backward()
    whole(pixels).square().sum().backward()
    ours, theirs = (
        {key: p.grad for key, p in one.named_parameters() if p.requires_grad} for one in (tower, whole)
    )
    assert_same_each(ours, theirs)


def test_layers_of_other_kinds_stay_timms():
    with torch.device("meta"):
        for name in ("vit_medium_patch16_gap_256", "vit_small_patch16_rope_224", "vit_base_patch16_rpn_224"):
            tower = vision_tower(name)
            plain = type(tower.blocks[-1]) is ClassTokenBlock
            assert plain == (type(tower.blocks[0]).__name__ == "Block"), name


def test_names_that_are_no_towers():
    with pytest.raises(UsageError, match="no ViT 'resnet50' in timm"):
        vision_tower("resnet50")
    with pytest.raises(UsageError, match="cannot be built"):
        vision_tower("vit_tiny_patch16_224", embed_dim=64, depth="many")
    with pytest.raises(UsageError, match="not of the form L12_W512"):
        text_tower("W512_L12")


def test_positions_are_sines_and_cosines_of_row_and_column():
    """ω_m = 10000^(−m / (W/4)); columns [sin iω, cos iω, sin jω, cos jω]."""
    positions = sine_cosine_positions(3, 5, 8)
    assert positions.shape == (15, 8)
    i, j, omega = 2, 3, (1, 10_000**-0.5)
    expected = [f(place * w) for place in (i, j) for f in (math.sin, math.cos) for w in omega]
    torch.testing.assert_close(positions[i * 5 + j], torch.tensor(expected))
    tower = vision_tower("vit_tiny_patch16_224", image_size=32, depth=1)
    assert not tower.pos_embed[0, 0].any()  # the class token's row
    assert torch.equal(tower.pos_embed[0, 1:], sine_cosine_positions(2, 2, 192))
    with pytest.raises(UsageError, match="not divisible by 4"):
        sine_cosine_positions(2, 2, 66)


def test_a_text_tower_by_name():
    tower = text_tower("L3_W128", vocabulary=100, context=20)
    assert len(tower.resblocks) == 3
    assert tower.posit_embed.shape == (20, 128)
    assert tower([[98, 4, 99], [98, 99]]).shape == (2, 128)


@pytest.mark.parametrize("key", ["pretrained", "img_size", "checkpoint_path"])
def test_only_sizes_replace_a_vits_own(key):
    """timm would fetch weights for the first and read a file for the last."""
    with pytest.raises(UsageError, match=f"no size '{key}' of an image tower: choose embed_dim, depth"):
        vision_tower("vit_tiny_patch16_224", image_size=32, **{key: 1})
