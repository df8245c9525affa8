"""What is seen of a run while it trains: status, divergence, evaluations on the way, boards, how fast it goes."""

import json
import sys
import types

import pytest
import small_training
import torch
from safetensors.torch import load_file

from hierbench.errors import HierbenchError, UsageError
from hierbench.files import locked
from hierbench.reference.configuration import resolve
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.training import flops, midway, status
from hierbench.reference.training.loop import train
from hierbench.reference.training.meter import Meter
from hierbench.reference.training.watch import DivergedError, Watch

SHORT = ("train.log_every=10", "train.steps=20", "train.save_every=10")


def tiny(family, *overrides):
    return small_training.tiny(family, *SHORT, *overrides)


def trained(config, out):
    return train(config, out, device="cpu", quiet=True)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# -------------------------------------------------------------------------------------------------- divergence


def watched(losses, **changes):
    watch = Watch(tiny("clip", *(f"train.{key}={value}" for key, value in changes.items())).train)
    found = []
    for loss in losses:
        watch.see(loss)
        found.append((watch.suspect, watch.fault() is not None))
    return found


GOOD, SUSPECT, BAD = (False, False), (True, False), (True, True)


def test_five_bad_losses_in_a_row_end_a_run():
    assert watched([4.0, 5.9, 6.1, 6.1, 6.1, 6.1, 6.1]) == [GOOD, GOOD, *[SUSPECT] * 4, BAD]
    assert watched([4.0, *[6.1, 6.1, 6.1, 6.1, 5.9] * 3])[-1] == GOOD
    assert watched([4.0, *[float("nan")] * 5])[-1] == BAD
    assert watched([4.0, *[float("inf")] * 5], stop_diverged="false")[-1] == GOOD


def test_a_loss_that_is_back_at_its_start_after_learning_is_lost():
    assert watched([4.0, 1.9, *[3.9] * 5])[-1] == BAD
    assert watched([4.0, 2.1, *[3.9] * 5])[-1] == GOOD  # it had not learned half
    assert watched([4.0, 1.9, *[3.7] * 5])[-1] == GOOD


def test_bad_losses_of_fewer_than_fifty_steps_are_noise():
    found = watched([4.0, *[9.0] * 50], log_every=1)
    assert found[-2:] == [SUSPECT, BAD]
    assert watched([-1.0, *[9.0] * 9])[-1] == GOOD  # a loss without a scale


def test_a_watch_goes_on_from_its_state():
    config = tiny("clip").train
    before = Watch(config)
    for loss in (4.0, 1.0):
        before.see(loss)
    after = Watch(config, before.state())
    for _ in range(5):
        after.see(3.9)
    assert "3.9 after 4 at the start" in after.fault()


def test_a_diverged_run_ends_with_advice_and_keeps_its_last_good_checkpoint(tmp_path, monkeypatch):
    from hierbench.reference import model

    total_loss, calls = model.total_loss, []

    def explode(terms, batch):
        calls.append(1)
        loss, logged = total_loss(terms, batch)
        return (loss * 100 if len(calls) > 20 else loss), logged

    monkeypatch.setattr(model, "total_loss", explode)
    with pytest.raises(
        DivergedError, match=r"stopped after step 70: the loss is .* begin again in another --out"
    ):
        trained(tiny("meru", "train.steps=200"), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run/checkpoints").iterdir()) == [
        "step-0000010",
        "step-0000020",
    ]
    found = status.read(tmp_path / "run")
    assert (found.state, found.done, found.checkpoint) == ("diverged", 70, 20)
    assert "train.clip_norm=1" in status.told(found, tmp_path / "run")[-1]


# ------------------------------------------------------------------------------------------------------ status


def test_the_status_of_a_run(tmp_path):
    run = tmp_path / "run"
    trained(tiny("meru"), run)
    done = status.read(run)
    assert (done.state, done.done, done.steps, done.checkpoint) == ("done", 20, 20, 20)
    told = status.told(done, run)
    assert told[:2] == ["run: done", "step        20 of 20"]
    assert not any("time left" in line for line in told)
    (run / "model.safetensors").unlink()
    log = lines(run / "train.jsonl")
    log[0] |= {"samples_per_second": 16.0}
    (run / "train.jsonl").write_text(json.dumps(log[0]) + "\n" + '{"step": 19, "lo')  # as a kill leaves it
    with locked(run / ".lock"):
        assert status.read(run).state == "training"
        told = status.told(status.read(run), run)
    assert "step        10 of 20" in told
    assert "time left   0:00:05" in told  # 10 steps of 8 samples, 16 a second
    stopped = status.read(run)
    assert stopped.state == "stopped"
    assert status.told(stopped, run)[-1] == f"go on: hierbench train {run}/config.yaml --resume"


def test_what_has_no_status(tmp_path):
    with pytest.raises(UsageError, match="no training run in"):
        status.read(tmp_path)
    (tmp_path / "config.yaml").write_text("family: clip\n")
    with pytest.raises(UsageError, match="lacks name or"):
        status.read(tmp_path)


def test_the_log_tells_of_the_space_and_the_speed(tmp_path):
    trained(tiny("phyclip", "model.embed_dim=32", "train.steps=10"), tmp_path / "run")
    last = lines(tmp_path / "run/train.jsonl")[-1]
    assert len(last["curv"]) == 4
    assert {"image_norm", "text_norm", "logit_scale", "tflops", "memory_gib"} <= last.keys()
    assert 0 <= last["collapsed_cones"] <= 1
    assert 0 <= last["data_wait"] <= 1
    assert "mfu" not in last  # nobody knows the peak of a CPU


def test_collapsed_cones_are_those_inside_the_norm_boundary():
    """ARGENT's boundary is ‖x̃‖ = 2C/√κ with C = 0.1: at κ = 4 a point of norm 0.1."""
    from hierbench.geometry import Lorentz
    from hierbench.reference.model import _collapsed

    points = torch.tensor([[0.09, 0], [0, 0.0999], [0.11, 0], [3, 4]], dtype=torch.float64)
    assert _collapsed(Lorentz(4.0), points).item() == 0.5


# ------------------------------------------------------------------------------------------ evaluation on the way


@pytest.fixture
def quick(monkeypatch):
    """Evaluations by one task on four items."""
    words = midway.Midway._words

    def fewer(self, folder):
        asked = words(self, folder)
        at = asked.index("--suite")
        return [*asked[:at], "--task", "hierarcaps/miniature", *asked[at + 2 :], "--limit", "4"]

    monkeypatch.setattr(midway.Midway, "_words", fewer)


def test_evaluations_on_the_way_leave_the_run_as_it_is(tmp_path, quick, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    asked = ["train.evaluate.suite=miniature", "train.evaluate.every=10", "train.steps=10"]
    weights = trained(tiny("meru", *asked), tmp_path / "with")
    without = trained(tiny("meru", "train.steps=10"), tmp_path / "without")
    one, two = load_file(weights), load_file(without)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    (found,) = lines(tmp_path / "with/evaluations.jsonl")
    assert (found["step"], found["suite"]) == (9, "miniature")
    assert "failed" not in found
    assert 0 <= found["figures"]["hierarcaps/miniature precision"] <= 1
    assert not (tmp_path / "without/evaluations.jsonl").exists()
    assert not list((tmp_path / "with/evaluations").rglob("model.safetensors"))
    told = status.told(status.read(tmp_path / "with"), tmp_path / "with")
    assert any(line.startswith("evaluation  of step 10: ") for line in told)


def test_an_evaluation_that_fails_is_told_and_the_run_goes_on(tmp_path, monkeypatch):
    said = "import sys; print('hierbench: error: no such suite', file=sys.stderr); sys.exit(2)"
    popen = midway.subprocess.Popen
    monkeypatch.setattr(
        midway.subprocess, "Popen", lambda command, **how: popen([sys.executable, "-c", said], **how)
    )
    asked = ["train.evaluate.suite=none", "train.evaluate.every=10"]
    trained(tiny("clip", *asked), tmp_path / "run")
    found = lines(tmp_path / "run/evaluations.jsonl")
    assert [(line["step"], line["figures"], line["failed"]) for line in found] == [
        (9, {}, "no such suite"),
        (19, {}, "no such suite"),
    ]


@pytest.mark.parametrize(
    ("override", "told"),
    [
        (
            "train.evaluate={suite: a, every: 1, evry: 2}",
            "config train.evaluate.evry: unknown key, did you mean every?",
        ),
        ("train.evaluate.suite=miniature", "config train.evaluate.every: Field required"),
        ("train.evaluate={suite: miniature, every: 0}", "config train.evaluate.every"),
    ],
)
def test_wrong_evaluations(override, told):
    with pytest.raises(UsageError) as caught:
        tiny("clip", override)
    assert told in str(caught.value)


# ------------------------------------------------------------------------------------------------------ boards


class FakeWandb(types.ModuleType):
    """What is used of wandb, kept."""

    def __init__(self):
        super().__init__("wandb")
        self.begun, self.logged, self.finished = [], [], 0

    def init(self, **settings):
        self.begun.append(settings)
        return self

    def log(self, figures, step):
        self.logged.append((step, figures))

    def finish(self):
        self.finished += 1


def test_weights_and_biases_go_on_with_the_same_run(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    config = tiny("meru", "train.wandb=mine")
    trained(config, tmp_path / "run")
    train(config, tmp_path / "run", device="cpu", resume=True, quiet=True)
    assert [settings["project"] for settings in fake.begun] == ["mine", "mine"]
    assert fake.begun[0]["id"] == fake.begun[1]["id"]
    assert fake.begun[0]["name"] == "run"
    assert [step for step, _ in fake.logged] == [9, 19]
    assert fake.logged[0][1]["loss"] == lines(tmp_path / "run/train.jsonl")[0]["loss"]
    assert fake.finished == 2


def test_boards_that_are_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match="needs the package wandb: pip install wandb"):
        trained(tiny("clip", "train.wandb=mine"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    broken = FakeWandb()
    broken.init = lambda **settings: 1 / 0
    monkeypatch.setitem(sys.modules, "wandb", broken)
    with pytest.raises(HierbenchError, match="Weights & Biases did not begin"):
        trained(tiny("clip", "train.wandb=mine"), tmp_path / "other")
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    train(tiny("clip", "train.steps=10"), tmp_path / "plain", device="cpu")
    assert "no TensorBoard files: the package tensorboard is not installed" in capsys.readouterr().err
    assert not (tmp_path / "plain/tensorboard").exists()


# ------------------------------------------------------------------------------------------------------- speed


def test_operations_by_hand():
    """One layer of width 64, MLP ratio 4, 32-pixel images in 16-pixel patches, texts of 2 and 3 tokens.

    An image has 4 patches and a class token: matrices 2 · 5 · 12 · 64² = 491,520, attention 4 · 25 · 64 = 6,400,
    patches 2 · 4 · 3 · 256 · 64 = 393,216, projection 2 · 64 · 8 = 1,024; 892,160 in all.
    The texts have 5 tokens, 13 squared: 2 · 5 · 12 · 64² + 4 · 13 · 64 = 494,848, and 2 · 1,024 for projections.
    Padded to 10: 2 · 20 · 12 · 64² + 4 · 200 · 64 = 2,017,280.
    """
    encoder = DualEncoder.create(
        "clip",
        vision="vit_tiny_patch16_224",
        vision_sizes={"embed_dim": 64, "depth": 1},
        text="L1_W64",
        embed_dim=8,
        image_size=32,
        vocabulary=20,
        context=10,
    )
    true, padded = flops.Cost.of(encoder).step(2, [2, 3])
    assert true == 3 * (2 * 892_160 + 2_048 + 494_848)
    assert padded == 3 * (2 * 892_160 + 2_048 + 2_017_280)


def test_a_vit_b_has_the_operations_that_are_published():
    """ViT-B/16 at 224 pixels: 17.6 G multiply-adds (Touvron et al., 2021, DeiT-B), twice as many operations."""
    config = resolve("clip/vit-b", ["data.shards=x"])
    with torch.device("meta"):
        encoder = DualEncoder.create(**config.model.model_dump())
    assert flops.Cost.of(encoder).image / 2 == pytest.approx(17.6e9, rel=0.01)


def test_the_meter(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("hierbench.reference.training.meter.time.monotonic", lambda: now[0])

    def batches():
        for _ in range(2):
            now[0] += 3.0
            yield types.SimpleNamespace(pixels=torch.zeros(2, 1), text_lengths=(2, 3))

    cost = types.SimpleNamespace(step=lambda images, lengths: (images * 1e12, images * 2e12))
    meter = Meter(cost, torch.device("cpu"), 2e12)
    for batch in meter.timed(batches()):
        now[0] += 1.0
        meter.count(batch, 10)
    found = meter.figures()
    assert found.pop("memory_gib") > 0
    assert found == {
        "samples_per_second": 2.5,
        "data_wait": 0.75,
        "tflops": 0.5,
        "mfu": 0.25,
        "mfu_padded": 0.5,
    }


def test_peaks_are_known_by_the_devices_names(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    assert flops.peak(torch.device("cuda"), "bfloat16") == pytest.approx(989.4e12)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 PCIe")
    assert flops.peak(torch.device("cuda"), "bfloat16") == pytest.approx(756e12)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Another")
    assert flops.peak(torch.device("cuda"), "bfloat16") is None
    assert flops.peak(torch.device("cpu"), "float32") is None
