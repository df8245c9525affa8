"""The running average of the weights: its recurrence, its file, its resumption."""

import json

import pytest
import small_training
import torch
from safetensors.torch import load_file
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import hierbench
from hierbench.errors import OutputError, UsageError
from hierbench.reference.training import midway
from hierbench.reference.training.average import Average
from hierbench.reference.training.batches import Batches
from hierbench.reference.training.loop import train
from hierbench.reference.training.trainer import Trainer

SHORT = ("train.warmup_steps=1", "train.log_every=2", "train.steps=4", "train.save_every=2", "train.ema=0.9")


def tiny(family, *overrides):
    return small_training.tiny(family, *SHORT, *overrides)


def test_the_average_by_hand():
    """Decay 0.75: 4 -> 3 + 0.25 · 8 = 5 -> 3.75 + 0.25 · 0 = 3.75. What is frozen has no average."""
    model = torch.nn.Linear(1, 1)
    model.bias.requires_grad_(False)
    torch.nn.init.constant_(model.weight, 4)
    average = Average(model, 0.75)
    for weight, expected in ((8, 5), (0, 3.75)):
        torch.nn.init.constant_(model.weight, weight)
        average.update()
        assert average.tensors["weight"].item() == expected
    assert average.tensors.keys() == {"weight"}
    assert average.state_dict()["bias"] is not None


def test_the_average_of_a_training_is_that_of_torch():
    config = tiny("uncha")
    trainer = Trainer(config, torch.device("cpu"))
    theirs = AveragedModel(trainer.model.encoder, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    theirs.update_parameters(trainer.model.encoder)  # the first time it copies
    batches = iter(Batches(config.data, image_size=config.model.image_size, rows=8, seed=0))
    for number in range(3):
        trainer.step(next(batches), number)
        theirs.update_parameters(trainer.model.encoder)
    weights = trainer.weights()
    expected = theirs.module.state_dict()
    ours = weights["ema.safetensors"]
    assert ours.keys() == expected.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0, msg=name)
    assert not torch.equal(ours["curv"], weights["model.safetensors"]["curv"])


def test_a_resumed_run_has_the_average_of_an_uninterrupted_one(tmp_path, monkeypatch):
    straight = train(tiny("meru"), tmp_path / "straight", device="cpu", quiet=True).with_name(
        "ema.safetensors"
    )
    step = Trainer.step

    def fail(trainer, batch, number):
        if number == 3:
            raise KeyboardInterrupt
        return step(trainer, batch, number)

    broken = tmp_path / "broken"
    monkeypatch.setattr(Trainer, "step", fail)
    with pytest.raises(KeyboardInterrupt):
        train(tiny("meru"), broken, device="cpu", quiet=True)
    assert (broken / "checkpoints/step-0000002/ema.safetensors").is_file()
    monkeypatch.setattr(Trainer, "step", step)
    train(tiny("meru"), broken, device="cpu", resume=True, quiet=True)
    one, two = load_file(straight), load_file(broken / "ema.safetensors")
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(
        one["visual_proj.weight"], load_file(broken / "model.safetensors")["visual_proj.weight"]
    )
    model = hierbench.load_model("meru", broken / "ema.safetensors")  # a model reference as any
    assert len(model.encode_texts(["a red circle"])) == 1


def test_a_checkpoint_without_the_average_is_refused_in_one_line(tmp_path):
    train(tiny("clip"), tmp_path / "run", device="cpu", quiet=True)
    (tmp_path / "run/checkpoints/step-0000004/ema.safetensors").unlink()
    with pytest.raises(OutputError, match="the checkpoint of step 4 does not fit its run, remove it"):
        train(tiny("clip"), tmp_path / "run", device="cpu", resume=True, quiet=True)


def test_an_evaluation_may_measure_the_average(tmp_path, monkeypatch):
    measured = []

    class Process:
        returncode = 0

        def __init__(self, command, **how):
            measured.append(load_file(command[command.index("--checkpoint") + 1]))

        def poll(self):
            return 0

        wait = poll

    monkeypatch.setattr(midway.subprocess, "Popen", Process)
    config = tiny("clip", "train.evaluate={suite: miniature, every: 4, weights: ema}")
    train(config, tmp_path / "run", device="cpu", quiet=True)
    (told,) = map(json.loads, (tmp_path / "run/evaluations.jsonl").read_text().splitlines())
    assert told["weights"] == "ema"
    average = load_file(tmp_path / "run/ema.safetensors")
    assert all(torch.equal(value, average[name]) for name, value in measured[0].items())


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["train.ema=1"], "config train.ema: Input should be less than 1"),
        (["train.ema=0"], "config train.ema: Input should be greater than 0"),
        (["train.ema=true"], "config train.ema: Input should be a number"),
        (
            ["train.ema=null", "train.evaluate={suite: a, every: 1, weights: ema}"],
            "needs the average that train.ema",
        ),
        (
            ["train.evaluate={suite: a, every: 1, weights: emma}"],
            "config train.evaluate.weights: Input should be",
        ),
    ],
)
def test_wrong_averages(overrides, told):
    with pytest.raises(UsageError) as caught:
        tiny("clip", *overrides)
    assert told in str(caught.value)


def test_a_run_of_an_older_version_goes_on(tmp_path):
    """Keys that its config.yaml is too old to have are at their defaults."""
    config = tiny("clip", "train.ema=null")
    final = train(config, tmp_path / "run", device="cpu", quiet=True)
    recorded = tmp_path / "run/config.yaml"
    old = [line for line in recorded.read_text().splitlines() if not line.startswith("  ema:")]
    recorded.write_text("\n".join(old))
    before = load_file(final)
    final.unlink()
    train(config, tmp_path / "run", device="cpu", resume=True, quiet=True)
    assert all(torch.equal(value, before[name]) for name, value in load_file(final).items())
    with pytest.raises(UsageError, match=r"it differs in: train\.ema \(.*\), train\.seed \(.*\)$"):
        train(tiny("clip", "train.seed=1"), tmp_path / "run", device="cpu", resume=True, quiet=True)
