"""What `gpu_check.py` measures on a device: each check is a function that returns findings, some with a bar."""

from __future__ import annotations

import gc
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import golden_models
import numpy as np
import torch
import torch._dynamo  # optimisers import it at their first step, and every check's process would
from safetensors.torch import load_file

from benchmarks.bench_pipeline import photographs
from hierbench.contracts import EmbeddingRequests, Fit
from hierbench.data.datasets import Classification, ImageFiles
from hierbench.engine.encoding import full_float32
from hierbench.engine.session import Session
from hierbench.model_adapters._lineage import adapt
from hierbench.reference.configuration import build, resolve
from hierbench.reference.encoders import pack_step
from hierbench.reference.packing import pack
from hierbench.reference.schema import ReferenceConfig
from hierbench.reference.tokenizer import tokenize
from hierbench.reference.training import compiling, flops
from hierbench.reference.training.batches import TrainingBatch
from hierbench.reference.training.loop import train
from hierbench.reference.training.trainer import Trainer

FAMILIES = ("clip", "hycoclip", "meru", "uncha", "argent", "phyclip")
SIZES = ("b", "l", "s")  # those with bars first, for runs that are cut short
BATCH = 768  # samples, as published; halved until it fits

FLOAT32_OFF, BFLOAT16_OFF, GRADIENTS_OFF = 1e-4, 1e-2, 5e-2
"""What a loss, and in bfloat16 the middle one of the gradients' norms, may differ by from the recorded figure."""
COMPILED_OFF = {"float32": 1e-4, "bfloat16": 1e-2}

BARS: dict[tuple[str, str], tuple[float | None, float | None]] = {
    ("clip", "b"): (3200, 0.40),
    ("hycoclip", "b"): (1600, None),
    ("clip", "l"): (None, 0.35),
    ("hycoclip", "l"): (None, 0.35),
}
"""(family, size) -> samples a second or share of the peak (by the texts' own tokens), of which one is to be reached."""
BARS_OF = ("H100", "H200")

TINY = (
    "model.vision_sizes.embed_dim=32", "model.vision_sizes.depth=1", "model.image_size=32", "model.text=L2_W32",
    "model.embed_dim=16",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Where and at what size checks run."""

    device: str
    tiny: bool = False

    @property
    def cuda(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def where(self) -> torch.device:
        return torch.device(self.device)

    @property
    def precision(self) -> str:
        return "bfloat16" if self.cuda else "float32"

    def barred(self) -> bool:
        """Whether the bars are meant for this device."""
        return self.cuda and any(name in torch.cuda.get_device_name(self.where) for name in BARS_OF)


@dataclass(frozen=True)
class Finding:
    """One figure, with what it has to be where there is such a bar; `more` goes to the JSON alone."""

    what: str
    shown: str
    bar: str = ""
    passed: bool | None = None
    more: dict[str, Any] = field(default_factory=dict)


Check = Callable[[Setting], list[Finding]]


def preload() -> None:
    """What every check's process would read anew otherwise."""
    tokenize(["a"])


def checks(setting: Setting) -> dict[str, tuple[Check, float]]:
    """All checks by name in the order of their worth, with the seconds after which each is ended on a GPU."""
    kinds = ("clip",) if setting.tiny else tuple(golden_models.MODELS)
    compiled = [pair for pair in BARS if not setting.tiny]
    found: dict[str, tuple[Check, float]] = {
        "golden float32": (partial(golden, kinds=kinds, precision="float32"), 60),
        "golden bfloat16": (partial(golden, kinds=kinds, precision="bfloat16"), 60),
        "waits": (waits, 60),
        "resume": (resume, 90),
    }  # fmt: skip
    for family, size in compiled:
        name = f"{family}/vit-{size} compiled"
        found[name] = (partial(throughput, family=family, size=size, compiled=True), 120)
    found |= {"compile": (on_and_off, 150), "evaluation": (evaluation, 120)}
    for size in SIZES:
        for family in FAMILIES:
            found[f"{family}/vit-{size}"] = (partial(throughput, family=family, size=size), 60)
    return found


# -------------------------------------------------------------------------------------------------------- parity


def golden(setting: Setting, kinds: tuple[str, ...], precision: str) -> list[Finding]:
    """Losses and gradients of the released models, recorded on a CPU in float32."""
    found = []
    for kind in kinds:
        file, name = golden_models.MODELS[kind]
        recorded = golden_models.figures(file)["models"][name]
        model = golden_models.tiny_model(kind).to(setting.where)
        batch = _moved(golden_models.recorded_batch(kind), setting.where)
        with full_float32(), _autocast(setting, precision):
            loss, _ = model.loss(batch)
        loss.backward()
        weights = dict(model.encoder.named_parameters())
        norms = [(_norm(weights[weight]), norm) for weight, norm in recorded["grad_norms"].items()]
        off = _off(loss.item(), recorded["loss"])
        each = sorted(_off(ours, theirs) for ours, theirs in norms)
        gradients = each[-1] if precision == "float32" else statistics.median(each)
        most = (FLOAT32_OFF,) * 2 if precision == "float32" else (BFLOAT16_OFF, GRADIENTS_OFF)
        found.append(
            Finding(
                f"golden {precision} {kind}",
                f"{off:.0e}, gradients {gradients:.0e}",
                f"≤ {most[0]:.0e}, {most[1]:.0e}",
                off <= most[0] and gradients <= most[1],
                {"loss": loss.item(), "recorded": recorded["loss"], "gradients_off": each},
            )
        )
    return found


def waits(setting: Setting) -> list[Finding]:
    """Whether a step of each family makes the host wait for the device."""
    if not setting.cuda:
        return [Finding("no waiting for the device", "needs CUDA")]
    found = []
    for family in FAMILIES:
        trainer, batches = prepared(setting, resolved(setting, family, "s", 32, tiny=True))
        for number in range(2):  # what is made once may wait
            trainer.step(batches[number], number)
        torch.cuda.set_sync_debug_mode("error")
        try:
            trainer.step(batches[0], 2)
            fault = ""
        except RuntimeError as error:
            fault = str(error).splitlines()[0]
        finally:
            torch.cuda.set_sync_debug_mode("default")
        more = {"fault": fault} if fault else {}
        found.append(
            Finding(f"no wait in a step of {family}", "waits" if fault else "none", "none", not fault, more)
        )
    return found  # fmt: skip


def resume(setting: Setting) -> list[Finding]:
    """A run that goes on from its middle against the same run in one piece, and two such runs against one another."""
    steps = 4 if setting.tiny else 40
    sizes = TINY if setting.tiny else ()
    asked = [
        *sizes, f"train.steps={steps}", f"train.save_every={steps // 2}", "train.keep_states=9",
        "train.warmup_steps=1", "data.workers=0", f"train.batch_size={8 if setting.tiny else 64}",
    ]  # fmt: skip
    config = resolve("miniature/hycoclip", asked)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch, _deterministic():
        runs = [Path(scratch, name) for name in ("whole", "again", "resumed")]
        for run in runs[:2]:
            train(config, run, device=setting.device, quiet=True)
        shutil.copytree(runs[0], runs[2])
        shutil.rmtree(runs[2] / "checkpoints" / f"step-{steps:07d}")
        train(config, runs[2], device=setting.device, resume=True, quiet=True)
        whole, again, resumed = (load_file(run / "model.safetensors") for run in runs)
    off, noise = _apart(whole, resumed), _apart(whole, again)
    passed = off == 0 or off <= 4 * noise
    bar = "0" if noise == 0 else f"≤ 4 x {noise:.1e} of two runs"
    more = {"off": off, "two_equal_runs": noise, "steps": steps}
    return [Finding(f"resumed at step {steps // 2} of {steps}", f"off by {off:.1e}", bar, passed, more)]


# ----------------------------------------------------------------------------------------------------- throughput


def throughput(setting: Setting, family: str, size: str, compiled: bool = False) -> list[Finding]:
    """Training steps on prepared batches: samples a second, share of the peak, memory."""
    rate = _measured(setting, family, size, compiled)
    shown = f"{rate['samples_per_second']:,.0f}/s"
    if "mfu" in rate:
        shown += f" {100 * rate['mfu']:.1f} % {rate['memory_gib']:.0f} GiB"
    pairs, share = BARS.get((family, size), (None, None)) if compiled or setting.tiny else (None, None)
    words = [f"≥ {pairs:,.0f}/s" if pairs else "", f"≥ {100 * share:.0f} %" if share else ""]
    passed = None
    if setting.barred() and (pairs or share):
        passed = bool(pairs and rate["samples_per_second"] >= pairs) or bool(share and rate["mfu"] >= share)
    name = f"{family}/vit-{size}" + " compiled" * compiled
    return [Finding(name, shown, " or ".join(filter(None, words)), passed, rate)]


def on_and_off(setting: Setting) -> list[Finding]:
    """`train.compile` on and off: the same loss, the ratio of speeds. Tiny models are traced and not compiled."""
    backend = compiling.BACKEND
    try:
        compiling.BACKEND = "aot_eager" if setting.tiny else backend
        eager, compiled = (_measured(setting, "hycoclip", "b", on) for on in (False, True))
    finally:
        compiling.BACKEND = backend
    off, most = _off(compiled["loss"], eager["loss"]), COMPILED_OFF[setting.precision]
    ratio = compiled["samples_per_second"] / eager["samples_per_second"]
    return [
        Finding("loss compiled", f"off by {off:.0e}", f"≤ {most:.0e}", off <= most),
        Finding(
            "speed compiled", f"{ratio:.2f} x", more={"first_step_seconds": compiled["first_step_seconds"]}
        ),
    ]


def resolved(
    setting: Setting, family: str, size: str, batch: int, *asked: str, tiny: bool = False
) -> ReferenceConfig:
    """The published config of a family and size for this device; `tiny`: of a model that takes no time."""
    most = ["data.shards=none", f"train.precision={setting.precision}", f"train.batch_size={batch}", *asked]
    return resolve(f"{family}/vit-{size}", [*most, *(TINY if tiny or setting.tiny else ())])


def prepared(setting: Setting, config: ReferenceConfig) -> tuple[Trainer, list[TrainingBatch]]:
    """A trainer and three batches of noise, in pinned memory where the device is a GPU."""
    draw = random.Random(0)
    torch.manual_seed(0)
    batches = [_noise(config, draw, pack_step(setting.where)) for _ in range(3)]
    if setting.cuda:
        batches = [batch.pin_memory() for batch in batches]
    return Trainer(config, setting.where), batches


def _noise(config: ReferenceConfig, draw: random.Random, step: int) -> TrainingBatch:
    """Captions of 8 to 20 tokens and phrases of 4 to 6, START and END counted; all parts are real."""
    rows, slots, size = config.train.batch_size, config.data.boxes, config.model.image_size
    words = ("a", "red", "dog", "on", "the", "grass", "near", "two", "old", "cars")

    def text(shortest: int, longest: int) -> str:
        return " ".join(draw.choices(words, k=draw.randint(shortest, longest) - 2))

    tokens = tokenize([text(8, 20) for _ in range(rows)] + [text(4, 6) for _ in range(rows * slots)])
    pixels = torch.randint(0, 256, (rows * (1 + slots), 3, size, size), dtype=torch.uint8)
    valid = torch.ones(rows, slots, dtype=torch.bool) if slots else None
    return TrainingBatch(pixels, (pack(tokens, step=step),), valid, text_lengths=tuple(map(len, tokens)))


def _measured(setting: Setting, family: str, size: str, compiled: bool) -> dict[str, Any]:
    """Figures of a config at the largest batch that fits: 768 samples, or that halved some times."""
    batch = 8 if setting.tiny else BATCH
    while True:
        try:
            config = resolved(setting, family, size, batch, f"train.compile={str(compiled).lower()}")
            return _rate(setting, config) | {"batch": batch}
        except torch.OutOfMemoryError:
            if batch < 32:
                raise
        batch //= 2
        torch._dynamo.reset()  # or it would make code for any size
        gc.collect()
        torch.cuda.empty_cache()


def _rate(setting: Setting, config: ReferenceConfig) -> dict[str, Any]:
    device = setting.where
    trainer, batches = prepared(setting, config)
    begun = time.perf_counter()
    loss = float(trainer.step(batches[0], 0)["loss"])
    first = time.perf_counter() - begun
    one = _timed(setting, trainer, batches, 3)  # also the last warm-up
    count = 2 if setting.tiny else min(60, max(5, round(5 / one)))
    seconds = _timed(setting, trainer, batches, count)
    cost = flops.Cost.of(trainer.model.encoder)
    works = [cost.step(len(batch.pixels), batch.text_lengths) for batch in batches]
    true, padded = (sum(work[kind] for work in works) / len(works) / seconds for kind in (0, 1))
    figures = {"loss": loss, "first_step_seconds": first, "seconds_per_step": seconds, "steps": count}
    figures |= {"samples_per_second": config.train.batch_size / seconds, "tflops": true / 1e12}
    if peak := flops.peak(device, config.train.precision):
        figures |= {"mfu": true / peak, "mfu_padded": padded / peak}
        figures["memory_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
    return figures


def _timed(setting: Setting, trainer: Trainer, batches: list[TrainingBatch], count: int) -> float:
    """Seconds a step, of so many."""
    _synchronise(setting)
    begun = time.perf_counter()
    for number in range(count):
        trainer.step(batches[number % len(batches)], number + 1)
    _synchronise(setting)
    return (time.perf_counter() - begun) / count


# ------------------------------------------------------------------------------------------------------ evaluation


def evaluation(setting: Setting) -> list[Finding]:
    """JPEG files of 500 x 375 pixels read, decoded, cropped and encoded; and the encoder alone."""
    count, size = (12, 32) if setting.tiny else (2000, 224)
    model = (
        build(resolved(setting, "hycoclip", "b", 2)).encoder.requires_grad_(False).eval().to(setting.where)
    )
    adapter = adapt(model, "hycoclip", name="random")
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
        dataset = _copies(Path(scratch), count)
        session = Session(adapter, device=setting.device, workers=0 if setting.tiny else None)
        some, every = (EmbeddingRequests(dataset.images.ids[:n], ()) for n in (count // 4, count))
        session.embed(dataset, some, Fit.CROP)  # warms up
        begun = time.perf_counter()
        session.embed(dataset, every, Fit.CROP)
        whole = count / (time.perf_counter() - begun)
    pixels = torch.rand(min(count, 256), 3, size, size, device=setting.where)
    with torch.inference_mode():
        adapter.encode_images(pixels)
        _synchronise(setting)
        begun = time.perf_counter()
        for _ in range(max(1, count // len(pixels))):
            adapter.encode_images(pixels)
        _synchronise(setting)
    alone = max(1, count // len(pixels)) * len(pixels) / (time.perf_counter() - begun)
    return [
        Finding(f"{count:,} images evaluated", f"{whole:,.0f}/s", more={"images_per_second": whole}),
        Finding("the encoder alone, float32", f"{alone:,.0f}/s", more={"images_per_second": alone}),
    ]


def _copies(folder: Path, count: int) -> Classification:
    """`count` files of different bytes, of fewer pictures: what follows a JPEG's end is not read."""
    few = photographs(folder, min(count, 100))
    ids = [f"copy-{number:05d}.jpg" for number in range(count)]
    for number, name in enumerate(ids):
        content = (folder / few.images.ids[number % len(few.images.ids)]).read_bytes()
        (folder / name).write_bytes(content + str(number).encode())
    labels = np.zeros(count, np.int64)
    return Classification(
        "photographs", ImageFiles(folder, tuple(ids)), labels, ("n",), ("thing",), ("a {}.",)
    )


# ---------------------------------------------------------------------------------------------------------- shared


def _off(found: float, expected: float) -> float:
    return abs(found - expected) / abs(expected)


def _norm(weight: torch.Tensor) -> float:
    assert weight.grad is not None
    return weight.grad.norm().item()


def _apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest difference of any entry; infinite where names differ."""
    if one.keys() != other.keys():
        return float("inf")
    return max((one[name].double() - other[name].double()).abs().max().item() for name in one)


def _moved(batch: Any, device: torch.device) -> Any:
    tensors = {key: value.to(device) for key, value in vars(batch).items() if isinstance(value, torch.Tensor)}
    return type(batch)(**{**vars(batch), **tensors})


def _autocast(setting: Setting, precision: str) -> Any:
    return torch.autocast(setting.where.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()


def _synchronise(setting: Setting) -> None:
    if setting.cuda:
        torch.cuda.synchronize(setting.where)


@contextmanager
def _deterministic() -> Iterator[None]:
    """Sums in one order where a kernel can; the others say so."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
