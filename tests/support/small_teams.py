"""Trainings of seconds, and what several processes of them do; run by `processes.together`."""

import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from small_training import TINY, batch_of, tiny

from hierbench.cli import main
from hierbench.errors import HierbenchError
from hierbench.reference.training import compiling, loop, sharded
from hierbench.reference.training import trainer as training
from hierbench.reference.training.batches import Batches
from hierbench.reference.training.launch import _of_the_first, launch
from hierbench.reference.training.trainer import Processes, Trainer

CPU = torch.device("cpu")
APART = ["data.caption_levels=[0,0,0,1]", "data.close_ups=0"]
"""No caption equals the phrase of its part: of two points that differ by rounding alone (equal texts that were packed
with other neighbours) the exterior angle is any angle, and no two computations of it need agree."""
DEEPER = ["model.vision_sizes.depth=2", "model.text=L2_W16", "train.warmup_steps=1", *APART]
FAMILIES = {  # and what of a step differs besides
    "hycoclip": ["train.clip_norm=0.5", "train.micro_batch=2", "train.loss_tile_mib=1"],
    "phyclip": ["train.checkpoint_activations=true"],
    "uncha": ["train.decay_gains_and_biases=true"],
}
STEPS = 2


def deeper(family, *overrides):
    """A config of `small_training` with two layers a tower."""
    return tiny(family, *DEEPER, *overrides)


def in_float64(config, processes=Processes()):
    """A trainer whose weights are float64 from the beginning: DDP and FSDP take them as they are."""
    build = training.build
    training.build = lambda config: build(config).double()
    try:
        return Trainer(config, CPU, processes)
    finally:
        training.build = build


def stepped(family, sharding, processes=Processes(), steps=STEPS):
    """A trainer in float64 after a few steps, and the norms of their gradients."""
    config = deeper(family, *FAMILIES[family], "train.ema=0.9", f"train.sharding={sharding}")
    trainer = in_float64(config, processes)
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
    figures = [trainer.step(next(batches), number) for number in range(steps)]
    return trainer, {"norms": torch.stack([each["gradient_norm"] for each in figures])}


def here():
    """This process among those that began together; their group is ready."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    return Processes(dist.get_rank(), dist.get_world_size())


def cut_families(out):
    """Every family in float64, cut over the processes: whole weights and a sharded checkpoint in OUT/FAMILY."""
    processes = here()
    assert _of_the_first(Path(f"by the clock of {processes.rank}")) == Path("by the clock of 0")
    for family in FAMILIES:
        trainer, figures = stepped(family, "full", processes)
        held = sum(p.to_local().numel() for p in trainer.encoders.parameters())
        figures["share"] = torch.tensor(held / sum(p.numel() for p in trainer.encoders.parameters()))
        found, run, lead = trainer.weights(), out / family, processes.rank == 0
        state = {"step": STEPS, "scaler": trainer.scaler.state_dict(), "bad_steps": float(trainer.bad_steps)}
        sharded.save(run, STEPS, trainer.tensors(), state, keep=2, temporary=".step-0000002.tmp", lead=lead)
        if lead:
            torch.save(found | {"figures": figures}, run / "whole.pt")
    dist.barrier()


def copied_families(names, out):
    """Every one of these families after a step of whole copies, in float64: OUT/FAMILY.pt of the first process."""
    processes = here()
    for family in names:
        found = gradients_and_weights(family, processes)
        if processes.rank == 0:
            torch.save(found, out / f"{family}.pt")
    dist.barrier()


def gradients_and_weights(family, processes=Processes()):
    """Gradients of the first step, and the weights after it (plain gradient descent), in float64."""
    config = tiny(family, *APART)
    trainer = in_float64(config, processes)
    trainer.optimiser = torch.optim.SGD(trainer.model.parameters(), lr=0.1, fused=True)
    trainer.step(batch_of(config, rank=processes.rank, world=processes.world), 0)
    gradients = {n: p.grad for n, p in trainer.model.named_parameters() if p.grad is not None}
    return {"gradients": gradients, "weights": dict(trainer.model.state_dict())}


def trained(runs):
    """Train each of (config, out, resume) by all processes, one after the other."""
    for config, out, resume in runs:
        loop.train(config, out, device="cpu", resume=resume, processes=here(), quiet=True)
        dist.barrier()


def as_killed(run, copy, step):
    """A copy of a run as a kill after its checkpoint `step` leaves it."""
    shutil.copytree(run, copy)
    for checkpoint in (copy / "checkpoints").iterdir():
        if checkpoint.name > f"step-{step:07d}":
            shutil.rmtree(checkpoint)
    for weights in copy.glob("*.safetensors"):
        weights.unlink()
    return copy


def dying_in_a_run_of_two(rank, port, folder):
    """One of two processes as torchrun starts them, of which the second is killed in the third step."""
    address = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= address | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    sys.stderr = (folder / f"said{rank}").open("w", buffering=1)
    step = Trainer.step

    def step_or_die(trainer, batch, number):
        if (rank, number) == (1, 2):
            os.kill(os.getpid(), signal.SIGKILL)
        return step(trainer, batch, number)

    Trainer.step = step_or_die
    words = [*TINY, "train.steps=1000", "--out", str(folder / "run"), "--device", "cpu"]
    main(["train", "miniature/clip", *words])


def killed_after(config, out, step, threads):
    """A run that is killed when the checkpoint of a step is written; with other `threads` bits differ."""
    torch.set_num_threads(threads)
    save = loop._save

    def save_and_die(trainer, folder, done, *more):
        save(trainer, folder, done, *more)
        if done == step:
            os.kill(os.getpid(), signal.SIGKILL)

    loop._save = save_and_die
    loop.train(config, out, device="cpu", quiet=True)


def losing_one_once(config, out, straight, step):
    """`launch` of which the second process is killed in a step, once; then the same without that, to STRAIGHT."""
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    stepping = Trainer.step

    def step_or_die(trainer, batch, number):
        if first and (trainer.processes.rank, number) == (1, step):
            os.kill(os.getpid(), signal.SIGKILL)
        return stepping(trainer, batch, number)

    Trainer.step = step_or_die
    sys.stderr = (out.parent / f"said{os.environ['RANK']}").open("a", buffering=1)
    launch(config, out, device="cpu")
    launch(config, straight, device="cpu")


def launched(config, out):
    """`launch`; (RANK, LOCAL_RANK) of this process."""
    launch(config, out, device="cpu")
    return os.environ["RANK"], os.environ["LOCAL_RANK"]


def launched_each(configs, folder):
    """Every config trained to FOLDER/NAME; `compile` without a C++ compiler."""
    compiling.BACKEND = "eager"
    for name, config in configs.items():
        launch(config, folder / name, device="cpu")


def launched_on_a_full_disk(config, out, size):
    """What the error says of a launch whose second process can write no file of more than `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        if os.environ["RANK"] == "1":
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        launch(config, out, device="cpu")
    except HierbenchError as error:
        return str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
