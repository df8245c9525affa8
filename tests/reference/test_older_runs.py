"""Runs whose config.yaml is older than a key go on as they were begun; another config is refused with both values."""

import io
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from shard_files import write_shard
from small_training import tiny

from hierbench.errors import OutputError, UsageError
from hierbench.reference.training import folder
from hierbench.reference.training.loop import train


def photograph(width):
    """A JPEG large enough that a part of it is decoded where that is asked."""
    grain = np.random.default_rng(width).integers(0, 256, (480, width, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(grain).save(out, "JPEG")
    return out.getvalue()


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A config on shards of large JPEGs, as overrides that leave data.draft open."""
    shards = tmp_path_factory.mktemp("shards")
    members = []
    for row in range(8):
        members += [
            (f"{row}.jpg", photograph(640 - 8 * row)),
            (f"{row}.txt", f"a picture of {row}".encode()),
        ]
    write_shard(shards / "0.tar", members)
    return [
        *("data.kind=pairs", f"data.shards={shards}", "data.shuffle_buffer=2"),
        *("train.steps=3", "train.save_every=1", "train.batch_size=4"),
    ]


@pytest.fixture(scope="module")
def older(asked, tmp_path_factory):
    """The folder of a run that decoded whole images, and was recorded before there was a key for it."""
    out = tmp_path_factory.mktemp("older") / "run"
    train(tiny("clip", *asked, "data.draft=false"), out, device="cpu", quiet=True)
    recorded = out / "config.yaml"
    lines = recorded.read_text().splitlines(keepends=True)
    recorded.write_text("".join(line for line in lines if not line.startswith("  draft:")))
    assert len(recorded.read_text().splitlines()) == len(lines) - 1
    return out


def test_a_run_older_than_a_key_goes_on_as_it_was_begun(asked, older, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(older, out)
    (out / "model.safetensors").unlink()
    shutil.rmtree(out / "checkpoints/step-0000003")
    train(tiny("clip", *asked), out, device="cpu", resume=True, quiet=True)
    found, whole = (load_file(run / "model.safetensors") for run in (out, older))
    assert all(torch.equal(found[name], whole[name]) for name in whole)
    train(tiny("clip", *asked), tmp_path / "now", device="cpu", quiet=True)
    now = load_file(tmp_path / "now/model.safetensors")
    assert not all(torch.equal(now[name], whole[name]) for name in whole)  # or the test would show nothing


def test_another_config_is_refused_with_what_differs(asked, older):
    for override, told in (
        ("data.draft=true", r"differs in: data\.draft \(false there, true here\)$"),
        ("data.workers=2", r"differs in: data\.workers \(0 there, 2 here\)$"),
        ("train.seed=7", r"differs in: train\.seed \(0 there, 7 here\)$"),
    ):
        with pytest.raises(UsageError, match=told):
            train(tiny("clip", *asked, override), older, device="cpu", resume=True, quiet=True)


def test_the_miniature_goes_on_with_other_workers(tmp_path):
    """What a step holds is drawn by its number alone there; shards are read by readers, as many as there were."""
    out = tmp_path / "run"
    train(tiny("clip", "train.steps=3"), out, device="cpu", quiet=True)
    restored, _ = folder.restore(tiny("clip", "train.steps=3", "data.workers=2"), out, 1)
    assert restored.state["step"] == 3


def test_a_state_without_what_is_needed_is_told(asked, older, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(older, out)
    file = sorted(out.glob("checkpoints/*/state.pt"))[-1]
    state = torch.load(file)
    del state["losses"]  # older than the watch over diverging runs: as if it began now
    torch.save(state, file)
    train(tiny("clip", *asked), out, device="cpu", resume=True, quiet=True)
    file = sorted(out.glob("checkpoints/*/state.pt"))[-1]
    torch.save({"step": 3}, file)
    with pytest.raises(OutputError, match=r"of another version, its state\.pt has no bad_steps"):
        train(tiny("clip", *asked), out, device="cpu", resume=True, quiet=True)
