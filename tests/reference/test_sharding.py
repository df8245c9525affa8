"""A model cut over processes is the whole one: steps, averages, checkpoints read by any number of processes."""

import shutil

import pytest
import torch
from closeness import assert_same_each
from processes import together
from safetensors.torch import load_file
from small_teams import CPU, FAMILIES, STEPS, cut_families, deeper, stepped

from hierbench.errors import OutputError, UsageError
from hierbench.reference.training import sharded
from hierbench.reference.training import state as checkpoints
from hierbench.reference.training.loop import train
from hierbench.reference.training.trainer import Trainer


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """Every family after a few steps of two processes that share the model."""
    out = tmp_path_factory.mktemp("cut")
    together(cut_families, out)
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
    fresh = Trainer(deeper(family, *FAMILIES[family], "train.ema=0.9"), CPU)
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
    folder = tmp_path / "run/checkpoints/step-0000002"
    shutil.copytree(cut / "uncha/checkpoints/step-0000002", folder)
    with pytest.raises(OutputError, match=r"does not fit its run, remove it .* is in one of them alone"):
        Trainer(deeper("hycoclip", "train.ema=0.9"), CPU).load(checkpoints.load(folder))
    for share in (folder / "sharded").glob("*.distcp"):
        share.write_bytes(share.read_bytes()[:100])
    with pytest.raises(OutputError, match="cannot be read, remove it to resume from an older one") as caught:
        sharded.consolidate(folder)
    assert "\n" not in str(caught.value)
    (folder / "sharded/.metadata").unlink()
    with pytest.raises(OutputError, match="cannot be read"):
        Trainer(deeper("uncha", "train.ema=0.9"), CPU).load(checkpoints.load(folder))
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
        train(deeper("clip", *overrides), tmp_path / "run", device="cpu")
    assert told in str(caught.value)
    assert list(tmp_path.iterdir()) == []
