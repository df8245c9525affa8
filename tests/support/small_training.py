"""Trainings that take no time: configs of the miniature with tiny towers, and one process's batch of a step."""

from hierbench.reference.configuration import resolve
from hierbench.reference.training.batches import Batches

TOWERS = [
    "model.vision_sizes.embed_dim=64",
    "model.vision_sizes.depth=1",
    "model.text=L1_W16",  # most of a tiny model is the vocabulary's embedding: width 64 takes five times as long
    "model.embed_dim=32",
]
TINY = [
    *TOWERS,
    "model.vision_sizes.patch_size=16",
    "train.batch_size=8",
    "train.warmup_steps=2",
    "train.log_every=1",
    "data.workers=0",
]


def tiny(family, *overrides):
    """The family's config for the miniature in tiny sizes."""
    return resolve(f"miniature/{family}", [*TINY, *overrides])


def batch_of(config, step=0, rank=0, world=1, pack_step=1):
    """What one process of `world` trains on in a step."""
    rows = config.train.batch_size // world
    batches = Batches(
        config.data,
        image_size=config.model.image_size,
        rows=rows,
        micro_batch=config.train.micro_batch,
        pack_step=pack_step,
        rank=rank,
        world=world,
        seed=0,
        start=step,
    )
    return next(iter(batches))
