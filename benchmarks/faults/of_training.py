"""Malformed inputs of trainings: configs, folders to resume, raw and prepared shards."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from benchmarks.faults import spoil
from benchmarks.faults.kind import Kind

TINY = [
    "model.vision_sizes.embed_dim=64", "model.vision_sizes.depth=1", "model.vision_sizes.patch_size=16",
    "model.text=L1_W64", "model.embed_dim=32", "train.batch_size=4", "train.warmup_steps=1", "train.steps=2",
    "train.log_every=1", "train.save_every=1", "data.workers=0",
]  # fmt: skip


def _config(folder: Path) -> None:
    from hierbench.reference.configuration import resolve

    config = resolve("miniature/argent", TINY).model_dump(mode="json", exclude_none=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def _train(folder: Path) -> None:
    """Resolve, and train where that takes a moment: a large model is no malformed one."""
    from hierbench.reference.configuration import resolve
    from hierbench.reference.training.launch import launch

    config = resolve(folder / "config.yaml")
    if _is_quick(config):
        launch(config, folder / "out", device="cpu")


def _is_quick(config: Any) -> bool:
    """Whether training as a config says takes a moment."""
    model, data, train = config.model, config.data, config.train
    sizes = model.vision_sizes
    weights = sizes.get("embed_dim", 384) ** 2 * sizes.get("depth", 12) * (8 + 4 * sizes.get("mlp_ratio", 4))
    layers, width = map(int, model.text[1:].split("_W"))
    pixels = train.batch_size * (1 + data.boxes) * model.image_size**2
    patches = (model.image_size / sizes.get("patch_size", 16)) ** 2
    if (
        max(weights, layers * width**2, pixels * sizes.get("depth", 12), train.steps * 1e6, patches * 1e4)
        > 8e6
    ):
        return False
    return not train.compile and data.workers <= 2 and model.embed_dim <= 512


def _training_folder(folder: Path) -> None:
    from hierbench.reference.configuration import resolve
    from hierbench.reference.training.launch import launch

    launch(resolve("miniature/clip", TINY), folder / "run", device="cpu")
    (folder / "run" / "model.safetensors").unlink()
    shutil.rmtree(folder / "run" / "checkpoints" / "step-0000002")  # one step is left to do


def _resume(folder: Path) -> None:
    from hierbench.reference.configuration import resolve
    from hierbench.reference.training.launch import launch

    config = resolve(folder / "run" / "config.yaml")
    if _is_quick(config):
        launch(config, folder / "run", device="cpu", resume=True)


def _raw_tar(folder: Path) -> None:
    picture = io.BytesIO()
    Image.effect_noise((80, 40), 90).convert("RGB").save(picture, "JPEG")
    told = {"caption": "a red dog", "noun_chunks": [[2, 9, 0.0, 0.0, 0.5, 1.0, 0.9]], "ref_exps": []}
    with tarfile.open(folder / "00000.tar", "w") as archive:
        for key in range(4):
            for name, content in (
                (f"{key}.jpg", picture.getvalue()),
                (f"{key}.json", json.dumps(told).encode()),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def _grit(folder: Path) -> None:
    from hierbench.reference.training import grit

    grit.prepare([folder / "00000.tar"], folder / "out")


def _shards(folder: Path) -> None:
    _raw_tar(folder)
    _grit(folder)
    (folder / "00000.tar").unlink()


def _read_shards(folder: Path) -> None:
    from hierbench.reference.configuration import resolve
    from hierbench.reference.training.launch import launch

    shards = [
        *TINY,
        "data.kind=grit",
        f"data.shards={folder / 'out'}",
        "data.boxes=1",
        "data.shuffle_buffer=2",
    ]
    launch(resolve("miniature/hycoclip", shards), folder / "run", device="cpu")


def _typed_train(folder: Path) -> list[list[str]]:
    from hierbench.errors import HierbenchError
    from hierbench.reference.configuration import resolve

    path = str(folder / "config.yaml")
    try:
        if not _is_quick(resolve(path)):
            return []
    except HierbenchError:
        pass  # the command must say it as well
    return [["train", path, "-o", str(folder / "out"), "--device", "cpu"]]


def _typed_resume(folder: Path) -> list[list[str]]:
    run = folder / "run"
    return [["train", "status", str(run)], ["train", str(run / "config.yaml"), "--resume", "--device", "cpu"]]


def _typed_grit(folder: Path) -> list[list[str]]:
    out = str(folder / "out")
    return [
        ["data", "grit-prepare", str(folder / "00000.tar"), "-o", out, "--workers", "0"],
        ["data", "grit-check", out, "--workers", "0"],
    ]


def _typed_shards(folder: Path) -> list[list[str]]:
    shards = [
        *TINY,
        "data.kind=grit",
        f"data.shards={folder / 'out'}",
        "data.boxes=1",
        "data.shuffle_buffer=2",
    ]
    return [
        ["data", "grit-check", str(folder / "out"), "--workers", "0"],
        ["train", "miniature/hycoclip", *shards, "-o", str(folder / "run"), "--device", "cpu"],
    ]


KINDS: dict[str, Kind] = {
    "training config": Kind(_config, spoil.one_yaml, _train, _typed_train, 2.0),
    "training folder": Kind(_training_folder, spoil.folder, _resume, _typed_resume, 0.6),
    "raw GRIT tar": Kind(_raw_tar, spoil.folder, _grit, _typed_grit),
    "training shards": Kind(_shards, spoil.folder, _read_shards, _typed_shards, 0.4),
}
