"""The two towers of the lineage: a timm ViT and a causal text transformer, with the released state-dict names.

MERU, HyCoCLIP and UNCHA share them (MERU §4): pre-norm, exact GELU, LayerNorm eps 1e-5, images read at
a class token with fixed 2-D sine-cosine positions, texts at their end token.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import timm
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Attention as VisionAttention
from timm.models.vision_transformer import Block as VisionBlock
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hierbench.errors import UsageError
from hierbench.reference.packing import Pack, SequenceGroup, pack

VOCABULARY = 49_408
CONTEXT = 77


# ------------------------------------------------------------------------------------------------------- images


def image_heads(width: int) -> int:
    """Attention heads of an image tower: one per 64 features, but 12 at width 384 (the lineage's ViT-S)."""
    return 12 if width == 384 else text_heads(width)


SIZES = ("embed_dim", "depth", "patch_size", "mlp_ratio")
"""What can replace a ViT's own sizes. timm takes much more, and would fetch weights for some of it."""


def vision_tower(
    name: str = "vit_small_patch16_224", *, image_size: int | None = None, **sizes: Any
) -> VisionTransformer:
    """A timm ViT as the lineage uses it: (B, 3, H, W) normalised pixels -> (B, width) class-token features.

    `name` is any ViT of timm; `sizes`, of the keys in SIZES, replace its own. The number of heads
    follows the width, because checkpoints do not hold it. Positions are fixed, not learned.
    Raises UsageError for a name that timm does not have, another key, and a width that cannot be split into heads.
    """
    for key in sizes:
        if key not in SIZES:
            raise UsageError(f"no size {key!r} of an image tower: choose {', '.join(SIZES)}")
    sizes |= {} if image_size is None else {"img_size": image_size}
    sizes |= {"num_classes": 0, "global_pool": "token", "class_token": True, "norm_layer": nn.LayerNorm}
    if name not in timm.list_models("vit_*"):
        raise UsageError(f"no ViT {name!r} in timm {timm.__version__}: see timm.list_models('vit_*')")
    try:
        if "embed_dim" not in sizes:
            with torch.device("meta"):
                sizes["embed_dim"] = timm.create_model(name, **sizes).embed_dim
        tower: Any = timm.create_model(name, num_heads=image_heads(sizes["embed_dim"]), **sizes)
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        raise UsageError(f"timm's {name} cannot be built as an image tower: {error}") from error
    if getattr(tower, "pos_embed", None) is not None:
        rows, columns = tower.patch_embed.grid_size
        positions = sine_cosine_positions(rows, columns, tower.embed_dim)
        prefix = positions.new_zeros(tower.pos_embed.shape[1] - len(positions), tower.embed_dim)
        tower.pos_embed = nn.Parameter(
            torch.cat([prefix, positions])[None].to(tower.pos_embed.device), requires_grad=False
        )
    if _is_plain(tower.blocks[-1]):
        tower.blocks[-1].__class__ = ClassTokenBlock  # the same weights under the same names
    return tower


class ClassTokenBlock(VisionBlock):
    """The last layer of a tower, for the class token alone: (B, N, W) -> (B, 1, W). Nothing else of it is read."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """timm's, with one query an image: no other row of the attention, the output or the MLP is computed."""
        x = x[:, :1] + self.drop_path1(self.ls1(self._attend(self.norm1(x))))
        return x + self.drop_path2(self.ls2(self.mlp(self.norm2(x))))

    def _attend(self, y: Tensor) -> Tensor:
        attn: Any = self.attn
        parts = [attn.qkv.out_features // 3, attn.qkv.out_features * 2 // 3]
        weight = attn.qkv.weight.split(parts)
        bias = (None, None) if attn.qkv.bias is None else attn.qkv.bias.split(parts)
        q, kv = F.linear(y[:, :1], weight[0], bias[0]), F.linear(y, weight[1], bias[1])
        q, k, v = (t.unflatten(-1, (attn.num_heads, -1)).transpose(1, 2) for t in (q, *kv.chunk(2, -1)))
        drop = attn.attn_drop.p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=drop)
        return attn.proj_drop(attn.proj(mixed.transpose(1, 2).flatten(2)))


def _is_plain(block: nn.Module) -> bool:
    """Whether a layer is one that `ClassTokenBlock` knows; timm's ViTs have some of other kinds."""
    if type(block) is not VisionBlock or type(block.attn) is not VisionAttention:
        return False
    extras = [getattr(block.attn, name, None) for name in ("q_norm", "k_norm", "norm", "gate")]
    return all(extra is None or isinstance(extra, nn.Identity) for extra in extras)


def sine_cosine_positions(rows: int, columns: int, width: int) -> Tensor:
    """(rows · columns, width) positions of a grid, row by row: [sin iω, cos iω, sin jω, cos jω].

    ω_m = 10000^(−m / (width / 4)).
    """
    if width % 4:
        raise UsageError(f"image width {width} is not divisible by 4: sine-cosine positions need that")
    omega = 10_000 ** -(torch.arange(width // 4, device="cpu", dtype=torch.float64) / (width // 4))
    grid = torch.meshgrid(
        torch.arange(rows, device="cpu"), torch.arange(columns, device="cpu"), indexing="ij"
    )
    i, j = (axis.reshape(-1, 1) * omega for axis in grid)
    return torch.cat([i.sin(), i.cos(), j.sin(), j.cos()], 1).float()


# -------------------------------------------------------------------------------------------------------- texts


def text_heads(width: int) -> int:
    """Attention heads of a text tower: one per 64 features, at least one. Raises UsageError where that fails."""
    heads = max(1, width // 64)
    if width % heads:
        raise UsageError(f"width {width} cannot be split into {heads} heads: take a multiple of 64")
    return heads


def text_tower(name: str = "L12_W512", **options) -> TextTransformer:
    """A text transformer by the lineage's short name: L = layers, W = width. Raises UsageError for another form."""
    match = re.fullmatch(r"L(\d+)_W(\d+)", name)
    if not match:
        raise UsageError(f"text tower {name!r} is not of the form L12_W512 (layers, width)")
    depth, width = map(int, match.groups())
    return TextTransformer(width, depth, **options)


class TextTransformer(nn.Module):
    """Token sequences -> (B, width) features of their end tokens.

    The end token has the largest id of the vocabulary; as in the released models the feature is read at the first
    place of a sequence's largest id. Nothing is padded and beginnings that sequences share are computed once
    (`packing`); the last layer runs for the end tokens alone. The results are those of padding, to rounding.
    """

    def __init__(
        self,
        width: int,
        depth: int,
        vocabulary: int = VOCABULARY,
        context: int = CONTEXT,
        min_radius_head: bool = False,
    ):
        super().__init__()
        self.width, self.context = width, context
        self.grad_checkpointing = False  # as timm's: keep no activations of a layer, compute them again
        self.known_tokens: frozenset[int] | None = None  # None = all; see checkpoint.with_token_rows
        self.posit_embed = nn.Parameter(torch.empty(context, width))
        # The mask belongs to the released layout; attention here makes its own from the packed batch.
        self.register_buffer("attn_mask", torch.ones(context, context, dtype=torch.bool).triu(1))
        self.token_embed = nn.Embedding(vocabulary, width)
        self.resblocks = nn.ModuleList(Block(width, text_heads(width), depth) for _ in range(depth))
        self.ln_final = nn.LayerNorm(width)
        if min_radius_head:  # UNCHA's files carry it, nothing uses it
            self.min_radius_head = nn.Sequential(nn.Linear(width, 1)).requires_grad_(False)
        nn.init.normal_(self.token_embed.weight, std=0.02)
        nn.init.normal_(self.posit_embed, std=0.01)

    def forward(self, texts: Sequence[Sequence[int]] | Pack) -> Tensor:
        """B token sequences of 1 to `context` ids, or their `Pack` -> (B, width)."""
        device = self.posit_embed.device
        batch = texts if isinstance(texts, Pack) else pack(texts, step=pack_step(device))
        if batch.longest > self.context:
            raise ValueError(f"a sequence of {batch.longest} tokens: this tower reads {self.context}")
        batch = batch.to(device)
        x = self.token_embed(batch.tokens) + F.embedding(batch.positions, self.posit_embed)
        for block in self.resblocks[:-1]:
            if self.grad_checkpointing and torch.is_grad_enabled():
                x = checkpoint(block, x, batch.groups, use_reentrant=False)
            else:
                x = block(x, batch.groups)
        last: Any = self.resblocks[-1]
        return self.ln_final(last.at_ends(x, batch.groups))[batch.order]


def pack_step(device: torch.device) -> int:
    """Multiple to which a pack's sequences are padded: few large groups where launches are what costs."""
    return 1 if device.type == "cpu" else 8


class Block(nn.Module):
    """A pre-norm transformer layer over the nodes of a pack. Initialised as CLIP (Radford et al., 2021, §2.4)."""

    def __init__(self, width: int, heads: int, depth: int):
        super().__init__()
        self.attn = Attention(width, heads)
        self.ln_1 = nn.LayerNorm(width)
        fc, proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(OrderedDict(c_fc=fc, gelu=nn.GELU(), c_proj=proj))
        self.ln_2 = nn.LayerNorm(width)
        residual_std = (2 * width * depth) ** -0.5
        nn.init.normal_(self.attn.out_proj.weight, std=residual_std)
        nn.init.normal_(fc.weight, std=(2 * width) ** -0.5)
        nn.init.normal_(proj.weight, std=residual_std)

    def forward(self, x: Tensor, groups: Sequence[SequenceGroup]) -> Tensor:
        """(N, width) -> (N, width)"""
        q, kv = self.opening(x)
        return self.closing(x, self.attn(q, kv, groups))

    def at_ends(self, x: Tensor, groups: Sequence[SequenceGroup]) -> Tensor:
        """(N, width) -> (sequences, width): the layer's output for the last tokens alone, group after group."""
        ends = torch.cat([group.ends for group in groups])
        y = self.ln_1(x)
        q, kv = self.attn.project(y[ends], y)
        return self.closing(x[ends], self.attn.at_ends(q, kv, groups))

    # All of a layer but its attention sees a flat list of tokens, whatever the groups: `compiling` compiles these two.

    def opening(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(N, width) -> queries (N, width), keys and values (N, 2 · width)"""
        y = self.ln_1(x)
        return self.attn.project(y, y)

    def closing(self, x: Tensor, mixed: Tensor) -> Tensor:
        """A layer's input and the attention's heads, (N, width) each -> (N, width)"""
        x = x + self.attn.out_proj(mixed)
        return x + self.mlp(self.ln_2(x))


class Attention(nn.Module):
    """Causal self-attention along each sequence's path through a pack; names as nn.MultiheadAttention's."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.normal_(self.in_proj_weight, std=width**-0.5)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, q: Tensor, kv: Tensor, groups: Sequence[SequenceGroup]) -> Tensor:
        """Projected (N, width), (N, 2 · width) -> (N, width): the heads side by side."""
        mixed = []
        for group in groups:
            queries = q[group.rows].unflatten(0, (group.count, group.length))
            mixed.append(self._attend(queries, self._keys(kv, group), group.mask, causal=group.mask is None))
        return torch.cat(mixed)

    def at_ends(self, q: Tensor, kv: Tensor, groups: Sequence[SequenceGroup]) -> Tensor:
        """(sequences, width) queries of the last tokens, (N, 2 · width) -> (sequences, width)"""
        queries = q.split([group.count for group in groups])
        mixed = [
            self._attend(query[:, None], self._keys(kv, group), group.end_mask)
            for query, group in zip(queries, groups, strict=True)
        ]
        return torch.cat(mixed)

    def project(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """(M, width), (N, width) -> (M, width), (N, 2 · width)"""
        parts = [queries.shape[-1], 2 * queries.shape[-1]]
        weight, bias = self.in_proj_weight.split(parts), self.in_proj_bias.split(parts)
        return F.linear(queries, weight[0], bias[0]), F.linear(keys, weight[1], bias[1])

    @staticmethod
    def _keys(kv: Tensor, group: SequenceGroup) -> Tensor:
        """(N, 2 · width) -> (n, K, 2 · width): keys and values on the paths of a group's sequences."""
        if group.keys is None:
            return kv[group.rows].unflatten(0, (group.count, group.length))
        return kv.index_select(0, group.keys.flatten()).unflatten(0, group.keys.shape)

    def _attend(self, q: Tensor, kv: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """(n, S, width), (n, K, 2 · width) -> (n · S, width)"""
        k, v = kv.chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return mixed.transpose(1, 2).flatten(2).flatten(0, 1)


def full_precision(features: Tensor) -> Tensor:
    """Features of half precision as float32; float32 and float64 stay as they are."""
    return features.to(torch.promote_types(features.dtype, torch.float32))
