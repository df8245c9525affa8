"""Text encoding: the ImageNet classifier and captions in packs, against padded batches as the released code makes them.

    python benchmarks/bench_text.py [--classes 1000] [--captions FILE] [--repeats 3]

Prints ratios measured in one run: two threads, the variants interleaved, medians. The tower is L12_W512 with 49,408
tokens and random weights; tokenising is left out of both sides.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import open_clip
import torch
from torch import Tensor, nn

from hierbench.model_adapters._lineage import TOKENS_AT_ONCE
from hierbench.reference.encoders import TextTransformer, text_tower
from hierbench.reference.packing import chunks, pack
from hierbench.reference.tokenizer import END, START, tokenize

TEMPLATES = (  # the ImageNet prompts of the lineage
    "i took a picture : itap of a {}.",
    "pics : a bad photo of the {}.",
    "pics : a origami {}.",
    "pics : a photo of the large {}.",
    "pics : a {} in a video game.",
    "pics : art of the {}.",
    "pics : a photo of the small {}.",
)
COCO_LENGTHS = {9: 1, 10: 2, 11: 12, 12: 20, 13: 21, 14: 16, 15: 11, 16: 7, 17: 4, 18: 2, 20: 2, 24: 1, 30: 1}
"""Tokens a caption, START and END counted: roughly the shares of COCO's in percent."""


class Padded(nn.Module):
    """The same weights run the plain way: pad to the longest, all tokens through all layers, nn.MultiheadAttention."""

    def __init__(self, tower: TextTransformer):
        super().__init__()
        self.tower = tower
        self.attention = nn.ModuleList()
        for block in tower.resblocks:
            attention = nn.MultiheadAttention(tower.width, block.attn.heads, batch_first=True)
            attention.load_state_dict(block.attn.state_dict())
            self.attention.append(attention)

    def forward(self, rows: Sequence[Sequence[int]]) -> Tensor:
        tower, longest = self.tower, max(map(len, rows))
        tokens = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        mask = tower.attn_mask[:longest, :longest]
        x = tower.token_embed(tokens) + tower.posit_embed[:longest]
        for block, attention in zip(tower.resblocks, self.attention, strict=True):
            y = block.ln_1(x)
            x = x + attention(y, y, y, need_weights=False, attn_mask=mask)[0]
            x = x + block.mlp(block.ln_2(x))
        return tower.ln_final(x)[torch.arange(len(rows)), tokens.argmax(-1)]


def in_groups(padded: Padded, rows: Sequence[Sequence[int]], size: int) -> Tensor:
    return torch.cat([padded(rows[start : start + size]) for start in range(0, len(rows), size)])


def in_packs(tower: TextTransformer, rows: Sequence[Sequence[int]], share: bool | None = None) -> Tensor:
    """As the adapters do it."""
    features = torch.empty(len(rows), tower.width)
    for chunk in chunks(rows, TOKENS_AT_ONCE["cpu"]):
        features[chunk] = tower(pack([rows[row] for row in chunk], share=share))
    return features


def compare(title: str, repeats: int, variants: dict[str, Callable[[], Tensor]]) -> None:
    """Time the variants in turn; the first is what the others are measured against."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    results = {}
    for _ in range(repeats):
        for name, run in variants.items():
            start = time.perf_counter()
            results[name] = run()
            seconds[name].append(time.perf_counter() - start)
    first = next(iter(variants))
    print(title)
    for name, times in seconds.items():
        median, difference = statistics.median(times), (results[name] - results[first]).abs().max()
        ratio = statistics.median(seconds[first]) / median
        print(f"  {name:44} {median:8.2f} s   {ratio:5.2f} times as fast   differs by {difference:.1e}")


def coco_like(count: int) -> list[list[int]]:
    """Random tokens in lengths as COCO's: nothing is common but START, so sharing gains the least it can."""
    rng = random.Random(0)
    lengths = rng.choices(list(COCO_LENGTHS), list(COCO_LENGTHS.values()), k=count)
    return [[START, *(rng.randrange(START) for _ in range(length - 2)), END] for length in lengths]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--count", type=int, default=1000, help="captions to encode")
    parser.add_argument(
        "--captions", help="COCO's captions_val2017.json; default: random tokens in COCO's lengths"
    )
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    tower = text_tower("L12_W512").eval()
    padded = Padded(tower).eval()

    names = open_clip.IMAGENET_CLASSNAMES[:: max(1, 1000 // options.classes)]
    prompts = tokenize(template.format(name) for name in names for template in TEMPLATES)
    if options.captions:
        with open(options.captions, encoding="utf-8") as file:
            captions = tokenize(entry["caption"] for entry in json.load(file)["annotations"][: options.count])
    else:
        captions = coco_like(options.count)
    with torch.inference_mode():
        in_groups(padded, prompts[:70], 7), in_packs(tower, prompts[:70])  # warm up
        compare(
            f"ImageNet classifier, {len(names)} classes x {len(TEMPLATES)} prompts",
            options.repeats,
            {
                "class by class, 7 padded prompts at a time": lambda: in_groups(padded, prompts, 7),
                "packs without sharing": lambda: in_packs(tower, prompts, share=False),
                "packs": lambda: in_packs(tower, prompts),
            },
        )
        compare(
            f"{len(captions)} {'COCO' if options.captions else 'COCO-like random'} captions",
            options.repeats,
            {
                "five padded captions at a time": lambda: in_groups(padded, captions, 5),
                "packs without sharing": lambda: in_packs(tower, captions, share=False),
                "packs": lambda: in_packs(tower, captions),
            },
        )


if __name__ == "__main__":
    main()
