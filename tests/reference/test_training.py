"""The loop: one process and two, whole batches and pieces, killed and resumed, all with the same result."""

import json
import os
import signal
import socket

import pytest
import torch
from closeness import assert_same_each
from processes import forkserver, together
from safetensors.torch import load_file
from small_teams import APART, copied_families, dying_in_a_run_of_two, gradients_and_weights, killed_after
from small_training import batch_of, tiny

from hierbench.errors import DataError, HierbenchError, OutputError, UsageError
from hierbench.miniature.vocabulary import BACKGROUNDS, COLOURS
from hierbench.reference.checkpoint import read_state
from hierbench.reference.configuration import resolve
from hierbench.reference.training import launch
from hierbench.reference.training import state as checkpoints
from hierbench.reference.training.batches import Batches
from hierbench.reference.training.loop import train
from hierbench.reference.training.schedule import learning_rate_factor
from hierbench.reference.training.trainer import Trainer
from hierbench.reference.training.watch import DivergedError

CPU = torch.device("cpu")


def gradients(config, batch):
    trainer = Trainer(config, CPU)
    trainer.model.double()  # a statement about algebra
    trainer._apply = lambda train, number: torch.zeros(())  # keep the gradients, do not step
    trainer.step(batch, 0)
    return {name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("family", ["clip", "hycoclip", "uncha", "argent"])
def test_cached_gradients_equal_whole_batch(family):
    config, cut = tiny(family, *APART), tiny(family, *APART, "train.micro_batch=3")
    whole = gradients(config, batch_of(config))
    pieces = gradients(cut, batch_of(cut))
    assert_same_each(pieces, whole)


DEEPER = ["model.vision_sizes.depth=2", "model.text=L2_W16"]


def test_checkpointed_activations_have_the_same_gradients_and_keep_less():
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    found, sizes = [], []
    for asked in ("false", "true"):
        config = tiny("hycoclip", *APART, *DEEPER, f"train.checkpoint_activations={asked}")
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            found.append(gradients(config, batch_of(config)))
        sizes.append(sum(kept.values()))
    assert_same_each(found[1], found[0])
    assert found[1].keys() == found[0].keys()
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize(("families", "processes"), [(["hycoclip"], 4), (["uncha", "phyclip"], 2)])
def test_several_processes_equal_one(families, processes, tmp_path):
    together(copied_families, families, tmp_path, processes=processes)
    for family in families:
        several, one = torch.load(tmp_path / f"{family}.pt", weights_only=True), gradients_and_weights(family)
        assert_same_each(several["gradients"], one["gradients"])
        assert_same_each(several["weights"], one["weights"])


def test_killed_process_ends_the_others_with_a_message(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        forkserver().Process(target=dying_in_a_run_of_two, args=(rank, port, tmp_path)) for rank in range(2)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(100)
        rank.kill()
    said = (tmp_path / "said0").read_text()
    assert [rank.exitcode for rank in ranks] == [2, -9], said[-2000:]
    last = said.splitlines()[-1]
    assert last.startswith("hierbench: error: another process of the run has ended: rank 0 stops too")
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer"), HierbenchError),
        (torch.distributed.DistBackendError("NCCL error: remote process exited"), HierbenchError),
        (RuntimeError("shapes do not match"), RuntimeError),
        (DataError("a shard is gone: connection reset by peer"), DataError),
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Terminated. "), HierbenchError),
        (DataError("a data worker has ended (... is killed by signal: Terminated. )"), HierbenchError),
    ],
)
def test_what_counts_as_the_end_of_another_process(error, told):
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(Exception) as caught, launch._ending_with_the_others(3):  # noqa: PT011
            raise error
    finally:
        signal.signal(signal.SIGTERM, before)
    assert type(caught.value) is told


def test_sigterm_ends_a_process_with_a_message():
    before = signal.getsignal(signal.SIGTERM)
    try:
        with (
            pytest.raises(HierbenchError, match="rank 3 was told to stop"),
            launch._ending_with_the_others(3),
        ):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    with launch._ending_with_the_others(3):
        pass
    assert signal.getsignal(signal.SIGTERM) == before


def test_weights_are_for_everyone_to_read(tmp_path):
    before = os.umask(0o022)
    try:
        checkpoints.save_weights(tmp_path / "w.safetensors", {"a": torch.ones(1)})
    finally:
        os.umask(before)
    assert (tmp_path / "w.safetensors").stat().st_mode & 0o777 == 0o644


def test_twenty_steps_equal_ten_a_kill_and_ten(tmp_path):
    steps = ["train.steps=20", "train.save_every=10"]
    straight = train(tiny("hycoclip", *steps), tmp_path / "straight", device="cpu", quiet=True)
    broken = tmp_path / "broken"
    asked = (tiny("hycoclip", *steps), broken, 10, torch.get_num_threads())
    killed = forkserver().Process(target=killed_after, args=asked)
    killed.start()
    killed.join(100)
    assert killed.exitcode == -9
    resumed = train(tiny("hycoclip", *steps), broken, device="cpu", resume=True, quiet=True)
    one, two = load_file(straight), load_file(resumed)
    assert one.keys() == two.keys()
    for name in one:
        assert torch.equal(one[name], two[name]), name
    states = [
        torch.load(run / "checkpoints/step-0000020/state.pt") for run in (tmp_path / "straight", broken)
    ]
    assert leaves(states[1]) == leaves(states[0])  # or the next kill would resume from another place
    logged = [json.loads(line)["step"] for line in (broken / "train.jsonl").read_text().splitlines()]
    assert logged == list(range(20))


def leaves(value, place=""):
    """Every number of nested containers by its place; tensors as bytes."""
    if isinstance(value, dict | list | tuple):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for name, part in pairs for k, v in leaves(part, f"{place}/{name}").items()}
    return {place: value.numpy().tobytes() if torch.is_tensor(value) else value}


def test_readers_resume_where_they_stood():
    config = tiny("hycoclip")

    def batches(start, count):
        stream = iter(Batches(config.data, image_size=64, rows=4, seed=3, start=start))
        return [next(stream) for _ in range(count)]

    straight = batches(0, 5)
    late = batches(3, 2)
    for one, two in zip(straight[3:], late, strict=True):
        assert torch.equal(one.pixels, two.pixels)
        assert torch.equal(one.texts[0].tokens, two.texts[0].tokens)


def test_early_steps_of_the_miniature_see_the_finest_captions_and_close_ups_show_one_thing():
    overrides = ["data.full_caption_steps=1", "data.close_ups=0.5", "data.caption_levels=[1,0,0,0]"]
    config = tiny("hycoclip", *overrides, "train.batch_size=200")
    drawn = Batches(config.data, image_size=64, rows=200, seed=0)._miniature(0, 1)
    places = [words for wordings in BACKGROUNDS.values() for words in wordings]
    for step in (0, 1):
        samples = [next(drawn) for _ in range(200)]
        scenes = [sample for sample in samples if sample.image.size == (64, 64)]
        close_ups = [sample for sample in samples if sample.image.size != (64, 64)]
        assert 70 < len(close_ups) < 130
        placed = [any(words in sample.caption for words in places) for sample in scenes]
        assert all(placed) if step == 0 else 0.1 < sum(placed) / len(placed) < 0.4  # level 1: one in four
        assert not any(words in sample.caption for sample in close_ups for words in places)
        coloured = [
            any(c in phrase for c in COLOURS)
            for sample in samples
            for phrase in (
                *(said for _, said in sample.parts),
                *([sample.caption] if sample in close_ups else []),
            )
            if sample in scenes or phrase == sample.caption  # of a close-up's full phrase a part says less
        ]
        assert all(coloured) if step == 0 else not all(coloured)


def test_trained_file_has_the_released_layout(tmp_path, golden):
    final = train(
        tiny("meru", "train.steps=3", "train.save_every=3"), tmp_path / "run", device="cpu", quiet=True
    )
    released = golden("meru_tiny_7")["models"]["MERU"]["state_dict_shapes"]

    def shallow(names):  # one block stands for all
        return {name for name in names if "blocks." not in name or "blocks.0." in name}

    assert shallow(read_state(final)) == shallow(released)


def test_learning_moves_the_loss_down(tmp_path):
    config = tiny("clip", "train.steps=30", "train.batch_size=32", "train.learning_rate=0.003")
    train(config, tmp_path / "run", device="cpu", quiet=True)
    losses = [
        json.loads(line)["loss"] for line in (tmp_path / "run" / "train.jsonl").read_text().splitlines()
    ]
    assert sum(losses[-5:]) < sum(losses[:5]) - 1


def test_step_without_finite_gradient_changes_nothing():
    config = tiny("clip")
    trainer = Trainer(config, CPU)
    batch = batch_of(config)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    objective = trainer.model.objective
    trainer.model.objective = lambda *arguments: (objective(*arguments)[0] * float("nan"), {})
    trainer.step(batch, 0)
    assert int(trainer.bad_steps) == 1
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[name]), name
    trainer.model.objective = objective
    trainer.step(batch, 1)
    assert int(trainer.bad_steps) == 1
    assert not torch.equal(trainer.model.state_dict()["visual_proj.weight"], before["visual_proj.weight"])


def test_too_many_such_steps_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "hierbench.reference.model.total_loss", lambda terms, batch: (batch.image.sum() * float("nan"), {})
    )
    with pytest.raises(DivergedError, match=r"3 steps .* more than train\.max_nonfinite_steps=2"):
        train(
            tiny("clip", "train.steps=9", "train.max_nonfinite_steps=2"),
            tmp_path / "x",
            device="cpu",
            quiet=True,
        )


def test_scalars_are_not_decayed_and_gains_only_on_request():
    for decayed in (False, True):
        trainer = Trainer(tiny("meru", f"train.decay_gains_and_biases={decayed}"), CPU)
        spared = {id(p) for g in trainer.optimiser.param_groups if not g["weight_decay"] for p in g["params"]}
        named = dict(trainer.model.encoder.named_parameters())
        for name in ("curv", "visual_alpha", "textual_alpha", "logit_scale"):
            assert id(named[name]) in spared
        assert (id(named["visual.norm.weight"]) in spared) is not decayed
        assert id(named["visual_proj.weight"]) not in spared


def test_schedule():
    factors = [learning_rate_factor(step, steps=10, warmup_steps=4) for step in range(10)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors[4] == 1.0
    assert factors[7] == pytest.approx(0.5)
    assert factors == sorted(factors[:4]) + sorted(factors[4:], reverse=True)


# -------------------------------------------------------------------------------------------------- bad input


def test_resume_needs_the_same_config(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(UsageError, match="nothing to resume"):
        train(tiny("clip"), out, device="cpu", resume=True)
    train(tiny("clip", "train.steps=3"), out, device="cpu", quiet=True)
    with pytest.raises(UsageError, match="holds a run already: add --resume"):
        train(tiny("clip", "train.steps=3"), out, device="cpu")
    with pytest.raises(UsageError, match="another config, it differs in: train"):
        train(tiny("clip", "train.steps=4"), out, device="cpu", resume=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_where_there_is_none(tmp_path):
    with pytest.raises(UsageError, match="no CUDA device here, use --device cpu"):
        train(tiny("clip"), tmp_path / "run", device="cuda")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.stepz=3", "config train.stepz: unknown key"),
        ("data.boxes=-1", "config data.boxes"),
        ("train.warmup_steps=2000", "warmup_steps=2000 must be below train.steps=1800"),
        ("data.kind=pairs", "needs data.shards"),
        ("data.crop_scale=[0.9, 0.2]", "crop_scale must be"),
        ("train.steps", "not of the form key=value"),
    ],
)
def test_wrong_configs(override, message):
    with pytest.raises(UsageError) as caught:
        resolve("miniature/clip", [override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    weights = {"a": torch.ones(3)}
    checkpoints.save(tmp_path, 1, {"model.safetensors": weights}, {"step": 1}, keep=2)

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints.torch, "save", full)
    with pytest.raises(OutputError, match=r"earlier ones are whole: .*No space left"):
        checkpoints.save(tmp_path, 2, {"model.safetensors": weights}, {"step": 2}, keep=2)
    assert [path.name for path in checkpoints.saved(tmp_path)] == ["step-0000001"]
    assert not list((tmp_path / "checkpoints").glob(".*"))
    restored = checkpoints.load(checkpoints.saved(tmp_path)[0])
    assert restored.state["step"] == 1
    assert torch.equal(restored.weights["a"], weights["a"])


def test_old_checkpoints_go(tmp_path):
    for step in (1, 2, 3):
        checkpoints.save(tmp_path, step, {"model.safetensors": {"a": torch.ones(1)}}, {"step": step}, keep=2)
    assert [path.name for path in checkpoints.saved(tmp_path)] == ["step-0000002", "step-0000003"]
