"""The recorded tiny models: weights by the recipe, the batches that their losses were recorded on.

For tests and for `benchmarks/gpu_check.py`, which holds another device to the same figures.
"""

import importlib.util
import json
from functools import cache
from pathlib import Path

import numpy as np
import torch

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

MODELS = {  # kind -> (file of figures, model name in it)
    "clip": ("meru_tiny_7", "CLIPBaseline"),
    "meru": ("meru_tiny_7", "MERU"),
    "hycoclip": ("hycoclip_tiny_7", "HyCoCLIP"),
    "uncha": ("uncha_tiny_7", "UNCHA"),
    "phyclip": ("phyclip_tiny_7", "PHyCLIP"),
}


@cache
def recipe():
    """The module that makes golden inputs (weights, images, features) from a seed."""
    spec = importlib.util.spec_from_file_location("golden_recipe", GOLDEN / "recipe.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(file, arrays=False):
    """figures("eval_7") -> the recorded JSON; figures("meru_tiny_7", arrays=True) -> its arrays."""
    return np.load(GOLDEN / f"{file}.npz") if arrays else json.loads((GOLDEN / f"{file}.json").read_text())


def tiny_state(kind, seed=7):
    """A state dict in the released layout with the recipe's weights."""
    file, model = MODELS[kind]
    entry = figures(file)["models"][model]
    return {
        key: _kept_buffer(key, shape, entry["buffers"])
        if key in recipe().KEPT_BUFFERS
        else torch.from_numpy(np.asarray(recipe().weight(key, tuple(shape), seed)))
        for key, shape in entry["state_dict_shapes"].items()
    }


def tiny_model(kind):
    """The recorded model with its objective, to train."""
    from hierbench.reference import build  # not of every test: it takes seconds

    sizes = {"vision": "vit_tiny_patch16_224", "text": "L3_W128", "embed_dim": 512 if kind == "uncha" else 64}
    model = build({"extends": f"{kind}/vit-s", "model": sizes})
    model.load_state_dict(tiny_state(kind), strict=True)
    return model


def recorded_batch(kind):
    """What the losses and gradients of a kind were recorded on."""
    from hierbench.reference import Batch

    known = figures(MODELS[kind][0])
    images = torch.from_numpy(recipe().images(8, 7))
    if kind in ("clip", "meru"):
        return Batch(images, known["captions"])
    boxes, captions = torch.from_numpy(recipe().images(8, 1007)), known["box_captions"]
    if kind in ("hycoclip", "phyclip"):
        return Batch(images, known["captions"], boxes[:, None], [[caption] for caption in captions])
    other = [(b + 3) % 8 for b in range(8)]
    return Batch(
        images,
        known["captions"],
        torch.stack([boxes, boxes[other]], 1),
        [[captions[b], captions[other[b]]] for b in range(8)],
        torch.tensor([[True, b % 2 == 0] for b in range(8)]),
    )


def _kept_buffer(key, shape, buffers):
    if key in buffers:
        return torch.tensor(buffers[key]).reshape(shape)
    if key == "textual.attn_mask":
        return torch.full(shape, float("-inf")).triu(1)
    width = shape[-1]  # visual.pos_embed: fixed 2-D sine-cosine positions
    side = int((shape[1] - 1) ** 0.5)
    omega = 10000 ** (-torch.arange(width // 4, dtype=torch.float64) / (width / 4))
    i, j = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    parts = [f(axis.reshape(-1, 1) * omega) for axis in (i, j) for f in (torch.sin, torch.cos)]
    return torch.cat([torch.zeros(1, width), torch.cat(parts, 1).float()]).reshape(shape)
