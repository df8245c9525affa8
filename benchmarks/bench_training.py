"""A training step against plain versions of it, as the released codes have it: images and boxes in passes of their own.

    python benchmarks/bench_training.py [--setting miniature/hycoclip=128] [--setting hycoclip/vit-s=4] [--rounds 5]

Prints ratios of CPU time measured in one run: one thread, the variants interleaved, medians. The plain steps are
written here, as that code is not part of this package: texts padded to the batch's longest (what MERU's, HyCoCLIP's and
UNCHA's encoders do) or to 77, a pass each for whole images, captions, the boxes that there are and their phrases, the
dense loss in float32, torch's AdamW as its default is. Every variant tokenises inside the step (in training our workers
do that ahead), shares the weights, and gives the same loss up to rounding. Settings are CONFIG=BATCH, of families
hycoclip and uncha; those of the miniature train on its scenes, others on noise with captions of random words: 8 to 20
tokens, and phrases of 4 to 6, START and END counted. Of several slots all are filled but the second and later ones of
40.68 % of the samples, to the nearest whole number: the share of GRIT with one part. bench_training.txt holds a run.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from benchmarks.plain_objectives import plain_objective
from hierbench.miniature import training_sample, words
from hierbench.reference.configuration import resolve
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.encoders import TextTransformer
from hierbench.reference.packing import pack
from hierbench.reference.tokenizer import tokenize
from hierbench.reference.training.batches import TrainingBatch, places_of
from hierbench.reference.training.trainer import Trainer

SETTINGS = ("miniature/hycoclip=128", "hycoclip/vit-s=4", "miniature/uncha=128", "uncha/vit-s=5")
ONE_PART = 0.4068  # of the processed corpus, by its public figures


class Plain(nn.Module):
    """A text tower's own weights run the plain way: all tokens of a padded batch through all layers."""

    def __init__(self, tower: TextTransformer, length: int | None):
        super().__init__()
        self.tower, self.length = tower, length  # None = that of the batch's longest text
        self.attention = nn.ModuleList()
        for block in tower.resblocks:
            attention = nn.MultiheadAttention(tower.width, block.attn.heads, batch_first=True)
            for name in ("in_proj_weight", "in_proj_bias", "out_proj"):
                setattr(attention, name, getattr(block.attn, name))
            self.attention.append(attention)

    def forward(self, texts: Sequence[str]) -> Tensor:
        tower = self.tower
        rows = [tokenize([text])[0] for text in texts]
        length = self.length or max(map(len, rows))
        tokens = torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])
        mask = tower.attn_mask[:length, :length]
        x = tower.token_embed(tokens) + tower.posit_embed[:length]
        for block, attention in zip(tower.resblocks, self.attention, strict=True):
            y = block.ln_1(x)
            x = x + attention(y, y, y, need_weights=False, attn_mask=mask)[0]
            x = x + block.mlp(block.ln_2(x))
        return tower.ln_final(x)[torch.arange(len(rows)), tokens.argmax(-1)]


def plain_images(encoder: DualEncoder, pixels: Tensor) -> Tensor:
    """uint8 pixels -> features, all tokens through all layers as timm does it."""
    visual = encoder.visual
    x = visual._pos_embed(visual.patch_embed((pixels.float() / 255 - encoder.pixel_mean) / encoder.pixel_std))
    for block in visual.blocks:
        x = Block.forward(block, x)
    return encoder.visual_proj(visual.norm(x)[:, 0])


@dataclass(frozen=True)
class Samples:
    """B images (B, 3, H, W) uint8 with captions, and M boxes with phrases: what fills P slots, slot after slot."""

    images: Tensor
    captions: list[str]
    boxes: Tensor  # (M, 3, H, W) uint8
    phrases: list[str]
    valid: Tensor  # (B, P) bool, M of them

    @property
    def texts(self) -> list[str]:
        """Captions, then the phrases."""
        return [*self.captions, *self.phrases]


def filled(count: int, slots: int) -> Tensor:
    """(B, P) bool: the first slot of all, the others of those samples that have more parts than one."""
    valid = torch.ones(count, slots, dtype=torch.bool)
    valid[: round(ONE_PART * count), 1:] = False
    return valid


def plain_step(trainer: Trainer, length: int | None) -> Callable[[Samples], Tensor]:
    """Whole images, captions, all boxes and all phrases in a pass of its own each."""
    encoder, objective = trainer.model.encoder, plain_objective(trainer.model, trainer.config.family)
    groups = [
        {key: group[key] for key in ("params", "weight_decay", "lr", "betas")}
        for group in trainer.optimiser.param_groups
    ]
    optimiser = torch.optim.AdamW(groups)
    tower = Plain(encoder.textual, length)

    def step(samples: Samples) -> Tensor:
        encoder.clamp_scalars()
        optimiser.zero_grad(set_to_none=True)
        images = [plain_images(encoder, pixels) for pixels in (samples.images, samples.boxes)]
        texts = [encoder.textual_proj(tower(strings)) for strings in (samples.captions, samples.phrases)]
        owner = torch.arange(len(samples.valid)).repeat(samples.valid.shape[1])[samples.valid.T.flatten()]
        loss = objective(*images, *texts, owner)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def our_step(trainer: Trainer) -> Callable[[Samples], Tensor]:
    """One pass over everything, texts packed."""

    def step(samples: Samples) -> Tensor:
        texts = pack(tokenize(samples.texts))
        pixels = torch.cat([samples.images, samples.boxes])
        batch = TrainingBatch(pixels, (texts,), samples.valid, places_of(samples.valid))
        return trainer.step(batch, 0)["loss"]

    return step


def miniature_samples(count: int, slots: int, draw: random.Random) -> Samples:
    samples = [training_sample(index) for index in range(count)]
    images = torch.stack([torch.from_numpy(sample.pixels).permute(2, 0, 1) for sample in samples])
    captions = [draw.choice(sample.captions(draw.randint(1, 4))).text for sample in samples]
    valid = filled(count, slots)
    boxes, phrases = [], []
    for slot in range(slots):
        for row in valid[:, slot].nonzero().flatten().tolist():
            boxes.append(images[row - 1 - slot])
            phrases.append(draw.choice(samples[row].part_captions(0, draw.randint(1, 3))).text)
    return Samples(images, captions, torch.stack(boxes), phrases, valid)


def random_samples(count: int, slots: int, size: int, draw: random.Random) -> Samples:
    vocabulary = [word for word, tokens in zip(words(), tokenize(words()), strict=True) if len(tokens) == 3]

    def texts(number: int, shortest: int, longest: int) -> list[str]:
        return [
            " ".join(draw.choices(vocabulary, k=draw.randint(shortest, longest) - 2)) for _ in range(number)
        ]

    valid = filled(count, slots)
    parts = int(valid.sum())
    images, boxes = (
        torch.randint(0, 256, (number, 3, size, size), dtype=torch.uint8) for number in (count, parts)
    )
    return Samples(images, texts(count, 8, 20), boxes, texts(parts, 4, 6), valid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--setting", action="append", metavar="CONFIG=BATCH", help=f"default: {SETTINGS}")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for setting in options.setting or SETTINGS:
        compare(*setting.split("="), options.rounds)


def compare(name: str, batch: str, rounds: int) -> None:
    """One config at one batch, printed."""
    still = ["train.learning_rate=1e-12", "train.precision=float32", f"train.batch_size={batch}"]
    noise = not name.startswith("miniature/")
    config = resolve(name, [*still, *(["data.shards=none"] if noise else [])])
    slots, draw = config.data.boxes, random.Random(0)
    trainer = Trainer(config, torch.device("cpu"))
    samples = (
        random_samples(int(batch), slots, config.model.image_size, draw)
        if noise
        else miniature_samples(int(batch), slots, draw)
    )
    passes = "4 passes"
    ours = "ours: packed, two passes"
    steps = {
        f"padded to 77, {passes}": plain_step(trainer, 77),
        f"padded to the longest, {passes}": plain_step(trainer, None),
        ours: our_step(trainer),
    }
    lengths = [len(row) for row in tokenize(samples.texts)]
    print(f"{name}, batch {batch}, texts of {min(lengths)} to {max(lengths)} tokens", flush=True)
    times: dict[str, list[float]] = {variant: [] for variant in steps}
    losses = {variant: float(step(samples)) for variant, step in steps.items()}  # warms up, too
    for _ in range(rounds):
        for variant, step in steps.items():
            start = time.process_time()
            step(samples)
            times[variant].append(time.process_time() - start)
    least = statistics.median(times[ours])
    for variant, seconds in times.items():
        median = statistics.median(seconds)
        print(
            f"  {variant:32} {median:7.3f} s a step   ours is {median / least:4.2f} times as fast   "
            f"loss {losses[variant]:.6f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
