"""Malformed checkpoints and datasets: weights, manifests, sources in their layouts, Parquet, images, archives."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks.faults import spoil
from benchmarks.faults.kind import ROOT, Kind


def _checkpoint(folder: Path) -> None:
    shutil.copy(ROOT / "hierbench/reference/bundled/hycoclip.safetensors", folder / "m.safetensors")


def _spoil_checkpoint(folder: Path, rng: Random) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "m.safetensors"
    if rng.random() < 0.3:
        path.write_bytes(spoil.octets(path.read_bytes(), rng))
        return
    if rng.random() < 0.1:
        spoil.presence(path, rng)
        return
    state: dict[Any, Any] = dict(load_file(path))
    name = rng.choice(sorted(state))
    tensor = state[name]
    ways: list[Callable[[], Any]] = [
        lambda: state.pop(name),
        lambda: state.update({name + rng.choice([".x", "2", ""]): tensor.clone()}),
        lambda: state.update(
            {name: tensor.to(rng.choice([torch.int8, torch.bool, torch.float64, torch.bfloat16]))}
        ),
        lambda: state.update(
            {name: torch.full_like(tensor, rng.choice([float("nan"), float("inf"), 0.0, 1e30]))}
        ),
        lambda: state.update({name: tensor[None].contiguous()}),
        lambda: state.update({name: tensor.flatten()[: rng.choice([0, 1, 5])].clone()}),
        lambda: state.update({name: torch.zeros(rng.choice([(), (0,), (3, 3), (1, 1, 1, 1)]))}),
        lambda: state.update({f"visual.blocks.{rng.choice([7, 99999999])}.norm1.weight": tensor.clone()}),
    ]
    pickled: list[Callable[[], Any]] = [
        lambda: state.update({name: tensor.to_sparse()}),
        lambda: state.update({name: tensor.to(torch.complex64)}),
        lambda: state.update({name: torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.qint8)}),
        lambda: state.update({name: tensor.to("meta")}),
        lambda: state.update({name: rng.choice([None, 5, "x", [tensor], {}])}),
        lambda: state.update({rng.choice([5, None, ("a", 1), ""]): tensor}),
        lambda: state.update({name: tensor.reshape(-1)[:1].expand(10**9)}),
    ]
    as_pickle = rng.random() < 0.5
    rng.choice([*ways, *pickled] if as_pickle else ways)()
    if as_pickle:
        path.unlink()
        torch.save(rng.choice([state, {"model": state}, {"state_dict": state}, [state]]), folder / "m.pth")
    else:
        save_file({name: value.contiguous() for name, value in state.items()}, path)


def _load(folder: Path) -> None:
    import hierbench

    path = next(
        (folder / name for name in ("m.pth", "m.safetensors") if os.path.lexists(folder / name)),
        folder / "m.pth",
    )
    adapter = hierbench.load_model("hycoclip", path)
    with torch.inference_mode():
        assert adapter.encode_texts(["a red dog"]).shape[0] == 1


def _manifest(folder: Path) -> None:
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    (folder / "mine.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    (folder / "tree.tsv").write_text("animal\tfeline\nanimal\tcanine\nfeline\tcat\ncanine\tdog\n")
    for number in range(6):
        path = folder / "mine" / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (40 * number, 90, 200)).save(path)


def _spoil_manifest(folder: Path, rng: Random) -> None:
    if rng.random() < 0.15:
        path = folder / "tree.tsv"
        path.write_bytes(spoil.octets(path.read_bytes(), rng))
    else:
        spoil.one_yaml(folder, rng)


def _use_manifest(folder: Path) -> None:
    from hierbench.data.manifests import load_manifest_file
    from hierbench.data.readers import open_folder

    manifest = load_manifest_file(folder / "mine.yaml")
    read_all(open_folder(manifest, folder / "mine"))


def read_all(dataset: Any) -> None:
    """Decode every image of a dataset, and ask for what tasks ask."""
    from hierbench.data.images import decode

    assert len(set(dataset.images.ids)) == len(dataset.images.ids)
    for image_id in dataset.images.ids[:40]:
        decode(dataset.images.read(image_id), image_id)
    dataset.facts()


def layouts() -> Any:
    """The module of the tests that builds small sources in the datasets' true layouts."""
    if "data_layouts" not in sys.modules:
        spec = importlib.util.spec_from_file_location("data_layouts", ROOT / "tests" / "data" / "layouts.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules["data_layouts"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["data_layouts"])
    return sys.modules["data_layouts"]


SOURCES = (
    "aircraft", "caltech101", "cars", "cifar10", "cifar100", "coco", "coco-objects", "country211", "cub2011", "dtd",
    "eurosat", "flickr30k", "flowers102", "food101", "imagenet", "pets", "resisc45", "stl10", "sun397", "voc2007",
)  # fmt: skip


def _sources(folder: Path) -> None:
    for name in SOURCES:
        layouts().build(name, folder / name)


def _spoil_source(folder: Path, rng: Random) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    notes = [path for path in files if path.suffix not in (".jpg", ".png", ".JPEG", ".tif")]
    if notes and rng.random() < 0.7:
        path = rng.choice(sorted(notes))
        if rng.random() < 0.15:
            spoil.presence(path, rng)
        elif path.suffix == ".json":
            path.write_bytes(spoil.json_text(path.read_text(), rng))
        else:
            path.write_bytes(spoil.octets(path.read_bytes(), rng))
    else:
        spoil.folder(folder, rng)


def _open_source(folder: Path) -> None:
    from hierbench.data.manifests import load_manifest
    from hierbench.data.readers import open_folder

    for path in sorted(folder.iterdir()):
        read_all(open_folder(load_manifest(path.name), path))


def _parquet(folder: Path) -> None:
    from hierbench.acquire.prepare import prepare as prepare_dataset
    from hierbench.data.manifests import load_manifest

    layouts().build("eurosat", folder / "source")
    prepare_dataset("eurosat", [folder / "source"], folder / "prepared", workers=0, progress=False)
    made = layouts().build("food101", folder / "food")
    layouts().write_hf_parquet(folder / "hub", made.samples, load_manifest("food101").class_ids)
    for name in ("source", "food"):
        shutil.rmtree(folder / name)


def _open_parquet(folder: Path) -> None:
    from hierbench.data.manifests import load_manifest
    from hierbench.data.readers import open_folder

    read_all(open_folder(load_manifest("eurosat"), folder / "prepared"))
    read_all(open_folder(load_manifest("food101"), folder / "hub"))


def _images(folder: Path) -> None:
    picture = Image.fromarray(np.arange(40 * 30 * 3, dtype=np.uint8).reshape(30, 40, 3))
    for form in ("jpeg", "png", "webp", "gif", "bmp", "tiff", "ppm"):
        picture.save(folder / f"a.{form}")


def _decode(folder: Path) -> None:
    from hierbench.data.images import decode

    for path in sorted(folder.iterdir()):
        decode(path.read_bytes(), path.name)


def _spoil_image(folder: Path, rng: Random) -> None:
    path = rng.choice(sorted(folder.iterdir()))
    path.write_bytes(spoil.octets(path.read_bytes(), rng))


def _archives(folder: Path) -> None:
    source = folder / "source"
    layouts().build("eurosat", source)
    files = sorted(path for path in source.rglob("*") if path.is_file())
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(source))
    for suffix, mode in (("tar", "w"), ("tar.gz", "w:gz"), ("tar.bz2", "w:bz2"), ("tar.xz", "w:xz")):
        with tarfile.open(folder / f"a.{suffix}", mode) as tar:  # type: ignore[call-overload]
            for path in files:
                tar.add(path, path.relative_to(source))
    shutil.rmtree(source)


def _unpack(folder: Path) -> None:
    from hierbench.acquire.archives import unpack

    for path in sorted(folder.iterdir()):
        unpack(path, folder.parent / "unpacked", progress=False)
    for path in (folder.parent / "unpacked").rglob("*"):
        assert path.resolve().is_relative_to((folder.parent / "unpacked").resolve()), "left its folder"


def _typed_load(folder: Path) -> list[list[str]]:
    path = next((name for name in ("m.pth", "m.safetensors") if os.path.lexists(folder / name)), "m.pth")
    words = [
        "--family",
        "hycoclip",
        "--checkpoint",
        str(folder / path),
        "--task",
        "zero-shot/miniature-colours",
    ]
    return [["run", *words, "--limit", "4", "--workers", "0", "-o", str(folder / "out")]]


def _typed_manifest(folder: Path) -> list[list[str]]:
    mine = ["--manifest", str(folder / "mine.yaml")]
    words = ["miniature-clip", "--task", "zero-shot/mine", "--task", "hierarchy/mine", "--workers", "0"]
    return [
        ["datasets", *mine],
        ["run", *words, *mine, "--data", f"mine={folder / 'mine'}", "-o", str(folder / "out")],
    ]


def _typed_source(folder: Path) -> list[list[str]]:
    return [
        ["data", "verify", path.name, "--data", f"{path.name}={path}", "--workers", "0"]
        for path in sorted(folder.iterdir())
    ]


def _typed_parquet(folder: Path) -> list[list[str]]:
    lie = {"eurosat": folder / "prepared", "food101": folder / "hub"}
    return [
        ["data", "verify", name, "--data", f"{name}={path}", "--workers", "0"] for name, path in lie.items()
    ]


def _typed_decode(folder: Path) -> list[list[str]]:
    words = [
        "analyze",
        "traversal",
        "miniature-clip",
        "--no-cache",
        "--workers",
        "0",
        "-o",
        str(folder / "out"),
    ]
    return [[*words, *(word for path in sorted(folder.iterdir()) for word in ("--image", str(path)))]]


def _typed_unpack(folder: Path) -> list[list[str]]:
    words = ["data", "prepare", "eurosat", "--workers", "0"]
    return [
        [*words, "--from", str(path), "-o", str(folder.parent / f"prepared {path.name}")]
        for path in sorted(folder.iterdir())
    ]


KINDS: dict[str, Kind] = {
    "checkpoint": Kind(_checkpoint, _spoil_checkpoint, _load, _typed_load, 1.5),
    "manifest": Kind(_manifest, _spoil_manifest, _use_manifest, _typed_manifest, 2.0),
    "dataset source": Kind(_sources, _spoil_source, _open_source, _typed_source, 2.0, parts=True),
    "parquet": Kind(_parquet, spoil.folder, _open_parquet, _typed_parquet, 1.5),
    "image": Kind(_images, _spoil_image, _decode, _typed_decode, 2.0),
    "archive": Kind(_archives, spoil.folder, _unpack, _typed_unpack, 1.5),
}
