"""A training step against plain versions of it: texts padded, images and boxes in passes of their own.

    python benchmarks/bench_training.py [--setting miniature/hycoclip=128] [--setting hycoclip/vit-s=4] [--rounds 5]

Prints ratios measured in one run: two threads, the variants interleaved, medians. Every variant tokenises inside the
step (in training our workers do that ahead), shares weights, objective and optimiser, and gives the same loss up to
rounding. Settings are CONFIG=BATCH; those of the miniature train on its scenes, others on noise with captions of random
words: 8 to 20 tokens, and phrases of 4 to 6, START and END counted.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from hierbench.miniature import training_sample, words
from hierbench.reference.configuration import resolve
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.encoders import TextTransformer
from hierbench.reference.packing import pack
from hierbench.reference.tokenizer import tokenize
from hierbench.reference.training.batches import TrainingBatch
from hierbench.reference.training.trainer import Trainer

SETTINGS = ("miniature/hycoclip=128", "hycoclip/vit-s=4")


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


Samples = tuple[Tensor, list[str], Tensor, list[str]]  # (B, 3, H, W) uint8 images, captions, boxes, phrases


def plain_step(trainer: Trainer, length: int | None) -> Callable[[Samples], Tensor]:
    """Whole images, boxes, captions and phrases each in a pass of their own."""
    encoder, optimiser = trainer.model.encoder, trainer.optimiser
    texts = Plain(encoder.textual, length)

    def step(samples: Samples) -> Tensor:
        images, captions, boxes, phrases = samples
        encoder.clamp_scalars()
        optimiser.zero_grad(set_to_none=True)
        image = torch.cat([plain_images(encoder, pixels) for pixels in (images, boxes)])
        text = torch.cat([encoder.textual_proj(texts(strings)) for strings in (captions, phrases)])
        loss, _ = trainer.model.objective(image, text, torch.ones(len(images), 1, dtype=torch.bool))
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def our_step(trainer: Trainer) -> Callable[[Samples], Tensor]:
    """One pass over everything, texts packed."""

    def step(samples: Samples) -> Tensor:
        images, captions, boxes, phrases = samples
        texts = pack(tokenize([*captions, *phrases]))
        valid = torch.ones(len(images), 1, dtype=torch.bool)
        return trainer.step(TrainingBatch(torch.cat([images, boxes]), (texts,), valid), 0)["loss"]

    return step


def miniature_samples(count: int, draw: random.Random) -> Samples:
    samples = [training_sample(index) for index in range(count)]
    images = torch.stack([torch.from_numpy(sample.pixels).permute(2, 0, 1) for sample in samples])
    captions = [draw.choice(sample.captions(draw.randint(1, 4))).text for sample in samples]
    phrases = [draw.choice(sample.part_captions(0, draw.randint(1, 3))).text for sample in samples]
    return images, captions, images.roll(1, 0), phrases


def random_samples(count: int, size: int, draw: random.Random) -> Samples:
    vocabulary = [word for word, tokens in zip(words(), tokenize(words()), strict=True) if len(tokens) == 3]

    def text(shortest: int, longest: int) -> str:
        return " ".join(draw.choices(vocabulary, k=draw.randint(shortest, longest) - 2))

    images, boxes = torch.randint(0, 256, (2, count, 3, size, size), dtype=torch.uint8)
    return images, [text(8, 20) for _ in range(count)], boxes, [text(4, 6) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--setting", action="append", metavar="CONFIG=BATCH", help=f"default: {SETTINGS}")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(2)
    for setting in options.setting or SETTINGS:
        name, batch = setting.split("=")
        still = ["train.learning_rate=1e-12", "train.precision=float32", f"train.batch_size={batch}"]
        data = [] if name.startswith("miniature/") else ["data.shards=none"]
        config = resolve(name, [*still, *data])
        trainer, draw = Trainer(config, torch.device("cpu")), random.Random(0)
        samples = (
            random_samples(int(batch), config.model.image_size, draw)
            if data
            else miniature_samples(int(batch), draw)
        )
        lengths = [len(row) for row in tokenize([*samples[1], *samples[3]])]
        steps = {
            "padded to 77, four passes": plain_step(trainer, 77),
            "padded to the longest, four passes": plain_step(trainer, None),
            "ours: packed, two passes": our_step(trainer),
        }
        print(f"{name}, batch {batch}, texts of {min(lengths)} to {max(lengths)} tokens")
        times: dict[str, list[float]] = {variant: [] for variant in steps}
        losses = {variant: float(step(samples)) for variant, step in steps.items()}  # warms up, too
        for _ in range(options.rounds):
            for variant, step in steps.items():
                start = time.perf_counter()
                step(samples)
                times[variant].append(time.perf_counter() - start)
        ours = statistics.median(times["ours: packed, two passes"])
        for variant, seconds in times.items():
            median = statistics.median(seconds)
            print(
                f"  {variant:36} {median:7.3f} s a step   ours is {median / ours:4.2f} times as fast   "
                f"loss {losses[variant]:.6f}"
            )


if __name__ == "__main__":
    main()
