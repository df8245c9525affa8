"""A model cut over processes is the whole one: steps, averages, checkpoints read by any number of processes."""

import json
import shutil

import pytest
import torch
from closeness import assert_same_each
from processes import ROOT, torchrun
from safetensors.torch import load_file

from hierbench.errors import OutputError, UsageError
from hierbench.reference.configuration import resolve
from hierbench.reference.training import sharded
from hierbench.reference.training import state as checkpoints
from hierbench.reference.training import trainer as training
from hierbench.reference.training.batches import Batches
from hierbench.reference.training.loop import train
from hierbench.reference.training.trainer import Processes, Trainer

CPU = torch.device("cpu")
TINY = [
    *("model.vision_sizes.embed_dim=64", "model.vision_sizes.depth=2", "model.vision_sizes.patch_size=16"),
    *("model.text=L2_W64", "model.embed_dim=32", "train.batch_size=8", "train.warmup_steps=1"),
    *(
        "train.log_every=1",
        "data.workers=0",
        "train.ema=0.9",
        "data.caption_levels=[0,0,0,1]",
        "data.close_ups=0",
    ),
]
"""No caption equals the phrase of its part: see APART in test_training."""

FAMILIES = {
    "hycoclip": ["train.clip_norm=0.5", "train.micro_batch=2", "train.loss_tile_mib=1"],
    "phyclip": ["train.checkpoint_activations=true"],
    "uncha": ["train.decay_gains_and_biases=true"],
}
STEPS = 3


def tiny(family, *overrides):
    return resolve(f"miniature/{family}", [*TINY, *overrides])


def stepped(family, sharding, processes=Processes()):
    """A trainer in float64 after a few steps, and the losses and gradients' norms of those."""
    build = training.build
    training.build = lambda config: build(config).double()  # a statement about algebra
    config = tiny(family, *FAMILIES[family], f"train.sharding={sharding}")
    trainer = Trainer(config, CPU, processes)
    training.build = build
    batches = iter(
        Batches(
            config.data,
            image_size=config.model.image_size,
            rows=trainer.rows,
            micro_batch=config.train.micro_batch,
            rank=processes.rank,
            world=processes.world,
            seed=0,
        )
    )
    figures = [trainer.step(next(batches), number) for number in range(STEPS)]
    return trainer, {"norms": torch.stack([each["gradient_norm"] for each in figures])}


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = {tests!r}
import torch, torch.distributed as dist
from hierbench.reference.training import sharded
from hierbench.reference.training.launch import _of_the_first
from hierbench.reference.training.trainer import Processes
from test_sharding import FAMILIES, stepped
dist.init_process_group("gloo")
processes = Processes(dist.get_rank(), dist.get_world_size())
assert _of_the_first(Path(f"by the clock of {{processes.rank}}")) == Path("by the clock of 0")
for family in FAMILIES:
    trainer, figures = stepped(family, "full", processes)
    held = sum(p.to_local().numel() for p in trainer.encoders.parameters())
    figures["share"] = torch.tensor(held / sum(p.numel() for p in trainer.encoders.parameters()))
    found = trainer.weights()
    run = Path({out!r}) / family
    state = {{"step": 3, "scaler": trainer.scaler.state_dict(), "bad_steps": float(trainer.bad_steps)}}
    lead = processes.rank == 0
    sharded.save(run, 3, trainer.tensors(), state, keep=2, temporary=".step-0000003.tmp", lead=lead)
    if lead:
        torch.save(found | {{"figures": figures}}, run / "whole.pt")
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """Every family after a few steps of two processes that share the model."""
    out = tmp_path_factory.mktemp("cut")
    script = out / "script.py"
    imported = [str(ROOT / "tests/reference"), str(ROOT / "tests/support")]
    script.write_text(SCRIPT.format(tests=imported, out=str(out)))
    done = torchrun(script)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_cut_over_two_processes_trains_as_a_whole_one(family, cut):
    found = torch.load(cut / family / "whole.pt", weights_only=True)
    trainer, figures = stepped(family, "none")
    whole = trainer.weights()
    for file in ("model.safetensors", "ema.safetensors"):
        assert found[file].keys() == whole[file].keys()
        assert_same_each(found[file], whole[file])
    torch.testing.assert_close(found["figures"]["norms"], figures["norms"], rtol=1e-5, atol=0)
    assert found["figures"]["share"] < 0.6  # of this process


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sharded_checkpoint_is_read_by_one_process_and_consolidated(family, cut):
    found = torch.load(cut / family / "whole.pt", weights_only=True)
    (folder,) = checkpoints.saved(cut / family)
    assert not (folder / "model.safetensors").exists()
    fresh = Trainer(tiny(family, *FAMILIES[family]), CPU)
    fresh.model.double()
    fresh.average.tensors = {name: tensor.double() for name, tensor in fresh.average.tensors.items()}
    fresh.load(checkpoints.load(folder))
    for file, entries in fresh.weights().items():
        assert all(torch.equal(value, found[file][name]) for name, value in entries.items())
    moments = fresh.tensors()
    assert moments["optimiser/encoder.visual_proj.weight/step"].item() == STEPS
    assert sharded.consolidate(folder) == folder / "model.safetensors"
    for file in ("model.safetensors", "ema.safetensors"):
        written = load_file(folder / file)
        assert written.keys() == found[file].keys()
        assert all(torch.equal(value, found[file][name]) for name, value in written.items())


def test_a_damaged_sharded_checkpoint_is_one_line(cut, tmp_path):
    folder = tmp_path / "run/checkpoints/step-0000003"
    shutil.copytree(cut / "uncha/checkpoints/step-0000003", folder)
    with pytest.raises(OutputError, match=r"does not fit its run, remove it .* is in one of them alone"):
        Trainer(tiny("hycoclip"), CPU).load(checkpoints.load(folder))
    for share in (folder / "sharded").glob("*.distcp"):
        share.write_bytes(share.read_bytes()[:100])
    with pytest.raises(OutputError, match="cannot be read, remove it to resume from an older one") as caught:
        sharded.consolidate(folder)
    assert "\n" not in str(caught.value)
    (folder / "sharded/.metadata").unlink()
    with pytest.raises(OutputError, match="cannot be read"):
        Trainer(tiny("uncha"), CPU).load(checkpoints.load(folder))
    with pytest.raises(UsageError, match=r"no checkpoint in .*: give a run that has one"):
        sharded.consolidate(tmp_path)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["train.sharding=half"], "config train.sharding: Input should be 'none' or 'full'"),
        (
            ["train.sharding=full", "train.precision=float16"],
            "train.sharding=full has no train.precision=float16",
        ),
        (["train.sharding=full"], "cuts the model over processes and this is one: start it with torchrun"),
    ],
)
def test_wrong_sharding(overrides, told, tmp_path):
    with pytest.raises(UsageError) as caught:
        train(tiny("clip", *overrides), tmp_path / "run", device="cpu")
    assert told in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_sharded_run_of_two_processes_goes_on_with_one(tmp_path):
    settings = [*TINY, "train.steps=4", "train.save_every=2", "train.precision=float32"]
    run = tmp_path / "run"
    words = ["-m", "hierbench", "train", "miniature/hycoclip", *settings, "train.sharding=full"]
    done = torchrun(words, "--out", run, "--device", "cpu")
    assert done.returncode == 0, done.stderr[-3000:]
    straight, log = load_file(run / "model.safetensors"), run / "train.jsonl"
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    shutil.rmtree(run / "checkpoints/step-0000004")  # as a kill before it leaves the run
    config = resolve("miniature/hycoclip", settings)
    final = train(config, run, device="cpu", resume=True, quiet=True)
    assert [json.loads(line)["loss"] for line in log.read_text().splitlines()] == pytest.approx(
        losses, rel=1e-5
    )
    assert_same_each(load_file(final), straight)
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["step-0000002", "step-0000004"]
