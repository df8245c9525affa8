"""Every attention is torch's fused one, and is the plain softmax attention worked out here in float64."""

import math

import pytest
import torch
import torch.nn.functional as F
from closeness import assert_same
from torch import nn

from hierbench.reference.encoders import text_tower, vision_tower
from hierbench.reference.packing import pack

TEXTS = [[47, 1, 2, 3, 48], [47, 1, 2, 4, 5, 48], [47, 48], [47, 6, 48], [47, 1, 2, 3, 7, 8, 9, 48]]


@pytest.fixture
def fused(monkeypatch):
    """Calls of F.scaled_dot_product_attention: what went in, and what came out."""
    calls = []
    attend = F.scaled_dot_product_attention

    def watched(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, **more):
        assert dropout_p == 0.0
        out = attend(q, k, v, attn_mask=attn_mask, is_causal=is_causal, **more)
        calls.append((q, k, v, attn_mask, is_causal, out))
        return out

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    return calls


def plain(q, k, v, mask=None, causal=False):
    """softmax(q kᵀ / √d) v over the last two axes; True in `mask` = may attend."""
    scores = q.double() @ k.double().transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True) @ v.double()


def image_tower(dtype=torch.float64):
    torch.manual_seed(0)
    sizes = {"embed_dim": 128, "depth": 3}
    return vision_tower("vit_tiny_patch16_224", image_size=48, **sizes).to(dtype)


def test_image_tower(fused):
    tower = image_tower(torch.float32).train()
    tower(torch.rand(2, 3, 48, 48))
    assert len(fused) == 3
    assert [tuple(q.shape) for q, *_ in fused] == [(2, 2, 10, 64)] * 2 + [
        (2, 2, 1, 64)
    ]  # the class token at last
    for q, k, v, mask, causal, out in fused:
        assert (mask, causal) == (None, False)
        assert_same(out, plain(q, k, v), rel=1e-5)


def test_image_tower_is_that_of_plain_attention():
    tower, pixels = image_tower(), torch.rand(2, 3, 48, 48, dtype=torch.float64)
    with torch.no_grad():
        x = tower.norm_pre(tower._pos_embed(tower.patch_embed(pixels)))
        for block in tower.blocks:
            qkv = block.attn.qkv(block.norm1(x)).reshape(2, 10, 3, 2, 64).permute(2, 0, 3, 1, 4)
            x = x + block.attn.proj(plain(*qkv).transpose(1, 2).reshape(2, 10, 128))
            x = x + block.mlp(block.norm2(x))
        assert_same(tower(pixels), tower.norm(x)[:, 0])


@pytest.mark.parametrize("share", [False, True], ids=["apart", "common beginnings"])
def test_packed_text_tower(fused, share):
    torch.manual_seed(0)
    tower = text_tower("L2_W128", vocabulary=49, context=9)
    packed = pack(TEXTS, share=share)
    tower(packed)
    assert len(fused) == 2 * len(packed.groups)
    assert any(mask is not None for *_, mask, _, _ in fused) == share
    for q, k, v, mask, causal, out in fused:
        assert_same(out, plain(q, k, v, mask, causal), rel=1e-5)


@pytest.mark.parametrize("share", [False, True], ids=["apart", "common beginnings"])
def test_text_tower_is_that_of_plain_attention(share):
    """Each text by itself through the layers, with no packing at all."""
    torch.manual_seed(0)
    tower = text_tower("L2_W128", vocabulary=49, context=9).double()
    with torch.no_grad():
        nn.init.normal_(tower.resblocks[0].attn.in_proj_bias)
        found = tower(pack(TEXTS, share=share))
        for row, text in enumerate(TEXTS):
            x = tower.token_embed.weight[text] + tower.posit_embed[: len(text)]
            for block in tower.resblocks:
                weight, bias = block.attn.in_proj_weight, block.attn.in_proj_bias
                qkv = (block.ln_1(x) @ weight.T + bias).reshape(len(text), 3, 2, 64).permute(1, 2, 0, 3)
                heads = plain(*qkv, causal=True).transpose(0, 1).reshape(len(text), 128)
                x = x + heads @ block.attn.out_proj.weight.T + block.attn.out_proj.bias
                x = x + block.mlp(block.ln_2(x))
            assert_same(found[row], tower.ln_final(x)[-1])
