"""What the published recipes take, by the formula of `hierbench/reference/training/flops.py`: the table of the docs.

    python benchmarks/recipe_costs.py

Hours are those of one GPU that reaches `SHARE` of an H100's peak in bfloat16: reckoned, not measured. Texts count as
padded to 77 tokens, as the released codes pad to the longest of a batch.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from hierbench.reference.configuration import resolve
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.training import flops

SHARE = 0.4
SIZES = ("s", "b", "l")


@dataclass(frozen=True)
class Recipe:
    """A published training run: how much it sees, and who says so."""

    models: str
    data: str
    steps: int
    batch: int
    images: int  # with their texts, a sample: the whole and its boxes
    source: str


RECIPES = (
    Recipe("MERU, CLIP", "RedCaps", 120_000, 2048, 1, "MERU (Desai et al., 2023), training details"),
    Recipe("MERU, CLIP", "GRIT", 500_000, 768, 1, "HyCoCLIP (Pal et al., 2025), appendix"),
    Recipe("HyCoCLIP", "GRIT", 500_000, 768, 2, "HyCoCLIP, appendix: one random box an image"),
    Recipe("PHyCLIP", "GRIT", 500_000, 768, 2, "PHyCLIP (Yoshikawa and Matsubara, 2026): HyCoCLIP's schedule"),
    Recipe("UNCHA", "GRIT", 500_000, 768, 3, "HyCoCLIP's schedule with the two boxes of UNCHA's code"),
    Recipe("ARGENT", "GRIT", 500_000, 768, 2, "ARGENT (Huynh et al., 2026), §6: HyCoCLIP's code; its schedule assumed"),
    Recipe("ARGENT's ablations", "CC3M", 40_000, 768, 2, "ARGENT, §6.3: 40,000 iterations, 30 M samples"),
)  # fmt: skip


@cache
def cost_of(size: str) -> flops.Cost:
    """What a pair costs at ViT-S, B or L."""
    model = resolve(f"clip/vit-{size}", ["data.shards=none"]).model
    with torch.device("meta"):
        return flops.Cost.of(DualEncoder.create(**model.model_dump()))


def operations(recipe: Recipe, size: str) -> float:
    """Floating-point operations of the whole run at ViT-S, B or L."""
    cost = cost_of(size)
    _, padded = cost.step(recipe.images, [cost.context] * recipe.images)
    return recipe.steps * recipe.batch * padded


def hours(count: float) -> float:
    """GPU-hours of so many operations."""
    return count / (SHARE * flops.PEAKS["H100"]["bfloat16"] * 1e12) / 3600


def table() -> str:
    """All recipes, as Markdown."""
    lines = [
        "| recipe | data | steps x batch | images a sample | ViT-S | ViT-B | ViT-L | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for recipe in RECIPES:
        counts = [operations(recipe, size) for size in SIZES]
        cells = [f"{count / 1e18:.3g} EFLOP, {hours(count):.3g} h" for count in counts]
        seen = f"{recipe.steps:,} x {recipe.batch:,}"
        lines.append(
            f"| {recipe.models} | {recipe.data} | {seen} | {recipe.images} | {' | '.join(cells)} | {recipe.source} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
