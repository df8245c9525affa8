"""The kinds of malformed input: a sound input of each kind, how it is spoiled, and the code that reads it."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image

from benchmarks.faults import spoil
from benchmarks.faults.pool import Case

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    "model.vision_sizes.embed_dim=64", "model.vision_sizes.depth=1", "model.vision_sizes.patch_size=16",
    "model.text=L1_W64", "model.embed_dim=32", "train.batch_size=4", "train.warmup_steps=1", "train.steps=2",
    "train.log_every=1", "train.save_every=1", "data.workers=0",
]  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """`make(folder)` writes a sound input, once; `change(folder, rng)` spoils a copy; `use(folder)` reads that."""

    make: Callable[[Path], None]
    change: Callable[[Path, Random], None]
    use: Callable[[Path], None]
    share: float = 1.0  # of the cases, beside the other kinds
    parts: bool = False  # each folder in the sound input is one of its own: a case takes one of them


def prepare(base: Path, names: list[str]) -> None:
    """The sound inputs of the named kinds, each in its folder below `base`; each is read once, and must be sound."""
    for name in names:
        folder = base / name
        folder.mkdir(parents=True)
        KINDS[name].make(folder)
        copy = base / f"{name}.try"
        shutil.copytree(folder, copy, symlinks=True)
        KINDS[name].use(copy)
        shutil.rmtree(copy)


def worker(base: Path) -> Callable[[Case, Path], None]:
    """What a process of the pool does with a case."""

    def work(case: Case, folder: Path) -> None:
        kind = KINDS[case.kind]
        here, sound = folder / "input", base / case.kind
        rng = Random(f"{case.kind} {case.number}")
        part = rng.choice(sorted(path.name for path in sound.iterdir())) if kind.parts else "."
        shutil.copytree(sound / part, here / part, symlinks=True, dirs_exist_ok=True)
        kind.change(here, rng)
        os.environ["HIERBENCH_CACHE"] = str(folder / "cache")
        kind.use(here)

    return work


# ------------------------------------------------------------------------------------------------ training


def _config(folder: Path) -> None:
    from hierbench.reference.configuration import resolve

    config = resolve("miniature/argent", TINY).model_dump(mode="json", exclude_none=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def _spoil_yaml(folder: Path, rng: Random) -> None:
    path = rng.choice(sorted(folder.glob("*.yaml")))
    path.write_bytes(spoil.yaml_text(path.read_text(), rng))


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


# ---------------------------------------------------------------------------------------------- checkpoints


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


# ------------------------------------------------------------------------------------------------- datasets


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
        _spoil_yaml(folder, rng)


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
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"in/{number}.txt", b"content" * 50)
    for suffix, mode in (("tar", "w"), ("tar.gz", "w:gz"), ("tar.bz2", "w:bz2"), ("tar.xz", "w:xz")):
        with tarfile.open(folder / f"a.{suffix}", mode) as tar:  # type: ignore[call-overload]
            for number in range(3):
                member = tarfile.TarInfo(f"in/{number}.txt")
                member.size = 350
                tar.addfile(member, io.BytesIO(b"content" * 50))


def _unpack(folder: Path) -> None:
    from hierbench.acquire.archives import unpack

    for path in sorted(folder.iterdir()):
        unpack(path, folder.parent / "unpacked", progress=False)
    for path in (folder.parent / "unpacked").rglob("*"):
        assert path.resolve().is_relative_to((folder.parent / "unpacked").resolve()), "left its folder"


# -------------------------------------------------------------------------------------------------- results


def _results(folder: Path) -> None:
    import hierbench

    chosen = ["zero-shot/miniature-colours", "hierarchy/miniature-things", "pep-v2/miniature"]
    hierbench.run(
        ["miniature-meru", "miniature-clip"],
        tasks=chosen,
        limit=6,
        out=folder / "run",
        workers=0,
        cache=False,
    )


def _show(folder: Path) -> None:
    from hierbench.leaderboard import compare, render, tables

    table = tables.read([folder / "run"])
    for form in (render.terminal, render.markdown, render.csv, render.json):
        assert isinstance(form(table), str)
    compare.compare("miniature-meru", "miniature-clip", [folder / "run"])


def _layout(folder: Path) -> None:
    for path in sorted((ROOT / "leaderboard" / "layouts").glob("*.yaml")):
        shutil.copy(path, folder)


def _use_layouts(folder: Path) -> None:
    from hierbench.leaderboard.columns import read_layout

    for path in sorted(folder.iterdir()):
        read_layout(path)


def _cleaning(folder: Path) -> None:
    """Clean the built-in world, or finish a cleaning that is there."""
    from hierbench.cli import _run

    words = ["clean", "miniature", "--count", "20", "--negatives", "4", "-o", str(folder / "out")]
    if _run(words, True) != 0:
        raise RuntimeError("hierbench clean ended with status 2")


def _read_clean(folder: Path) -> None:
    from hierbench.cleaning import report
    from hierbench.data.locate import Locations

    for _, _, dataset in report.settings(folder / "out", Locations()):
        read_all(dataset)


def _spoil_clean(folder: Path, rng: Random) -> None:
    shutil.rmtree(folder / "out" / "answers", ignore_errors=True)
    spoil.folder(folder / "out", rng)


def _embedded(folder: Path) -> None:
    """Measure with what is stored; a damaged store must give the same figures as none."""
    import hierbench

    os.environ["HIERBENCH_CACHE"] = str(folder / "cache")
    found = hierbench.run(["miniature-clip"], tasks=["zero-shot/miniature-colours"], limit=6, workers=0)
    (record,) = found
    assert record.metrics is not None, record.error
    figures = {name: estimate.value for name, estimate in record.metrics.items()}
    kept = folder / "figures.json"
    if not kept.exists():
        kept.write_text(json.dumps(figures))
        return
    assert figures == json.loads(kept.read_text()), "other figures than without damage"


def _spoil_store(folder: Path, rng: Random) -> None:
    spoil.folder(folder / "cache", rng)


KINDS: dict[str, Kind] = {
    "training config": Kind(_config, _spoil_yaml, _train, 2.0),
    "training folder": Kind(_training_folder, spoil.folder, _resume, 0.6),
    "raw GRIT tar": Kind(_raw_tar, spoil.folder, _grit),
    "training shards": Kind(_shards, spoil.folder, _read_shards, 0.4),
    "checkpoint": Kind(_checkpoint, _spoil_checkpoint, _load, 1.5),
    "manifest": Kind(_manifest, _spoil_manifest, _use_manifest, 2.0),
    "dataset source": Kind(_sources, _spoil_source, _open_source, 2.0, parts=True),
    "parquet": Kind(_parquet, spoil.folder, _open_parquet, 1.5),
    "image": Kind(_images, _spoil_image, _decode, 2.0),
    "archive": Kind(_archives, spoil.folder, _unpack, 1.5),
    "result folder": Kind(_results, spoil.folder, _show, 2.0),
    "table layout": Kind(_layout, _spoil_yaml, _use_layouts),
    "clean folder": Kind(_cleaning, _spoil_clean, _read_clean, 1.0),
    "embedding store": Kind(_embedded, _spoil_store, _embedded, 0.6),
}
