"""A model cut over processes with what else a training may ask for: precision, compiling, less memory, a full disk."""

import json

import pytest
from processes import together
from small_teams import deeper, launched_each, launched_on_a_full_disk

from hierbench.reference.training.loop import train
from hierbench.reference.training.state import saved

STEPS = ["train.steps=3", "train.save_every=3"]
CUT = ["train.sharding=full"]
EXACT = ["train.precision=float32"]
WITH = {
    "all": [*EXACT, "train.compile=true", "train.checkpoint_activations=true"],
    "bfloat16": ["train.precision=bfloat16"],
}
APART = {"bfloat16": 0.02}
"""Relative, of a loss: roundings of 2⁻⁹ each on the way, in sums of other orders; float32 is held to 1e-5."""


def losses(run):
    return [json.loads(line)["loss"] for line in (run / "train.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Cut over two processes with each of these, and plain trainings of one process in both precisions."""
    folder = tmp_path_factory.mktemp("runs")
    together(
        launched_each, {name: deeper("clip", *STEPS, *CUT, *more) for name, more in WITH.items()}, folder
    )
    for name, precision in (("one", EXACT), ("one-bfloat16", WITH["bfloat16"])):
        train(deeper("clip", *STEPS, *precision), folder / name, device="cpu", quiet=True)
    return folder


@pytest.mark.parametrize("name", WITH)
def test_losses_are_those_of_one_plain_process(name, runs):
    plain = runs / ("one-bfloat16" if name == "bfloat16" else "one")
    assert losses(runs / name) == pytest.approx(losses(plain), rel=APART.get(name, 1e-5))
    assert len(losses(plain)) == 3


def test_a_disk_that_is_full_for_one_process_ends_all_with_a_line(tmp_path):
    said = together(launched_on_a_full_disk, deeper("clip", *STEPS, *CUT), tmp_path / "run", 20_000)
    for rank in (0, 1):
        assert "step-0000003 could not be written, earlier ones are whole: the disk took less" in said[rank]
        assert "\n" not in said[rank]
    assert saved(tmp_path / "run") == []
    assert list((tmp_path / "run/checkpoints").iterdir()) == []
    assert not (tmp_path / "run/model.safetensors").exists()
