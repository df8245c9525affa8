"""A run goes on with more or fewer processes: the same samples in every step, the same losses, none lost or doubled."""

import json
from collections import Counter
from itertools import islice

import pytest
import torch
from closeness import assert_same_each
from processes import together
from safetensors.torch import load_file
from shard_files import grit_sample, pair_members, write_shard
from small_teams import as_killed, trained
from small_training import tiny

from hierbench.errors import UsageError
from hierbench.reference.schema import DataConfig
from hierbench.reference.training.batches import Batches, Piece, loader, pieces
from hierbench.reference.training.loop import train
from hierbench.reference.training.parallel import check_processes

STEPS, STOP = 3, 1


def test_pieces_by_hand():
    """Twelve rows: two shares of six over one, three and four processes; three shares of four over two."""
    assert pieces(0, 1, 2, 12) == [Piece(0, slice(0, 6)), Piece(1, slice(0, 6))]
    assert [pieces(rank, 3, 2, 12) for rank in range(3)] == [
        [Piece(0, slice(0, 4))],
        [Piece(0, slice(4, 6)), Piece(1, slice(0, 2))],
        [Piece(1, slice(2, 6))],
    ]
    assert [pieces(rank, 4, 2, 12) for rank in range(4)] == [
        [Piece(0, slice(0, 3))],
        [Piece(0, slice(3, 6))],
        [Piece(1, slice(0, 3))],
        [Piece(1, slice(3, 6))],
    ]
    assert pieces(1, 2, 3, 12) == [Piece(1, slice(2, 4)), Piece(2, slice(0, 4))]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("world", [1, 3, 4])
def test_every_step_of_two_processes_holds_the_same_samples_with_another_number(world, workers, tmp_path):
    for shard, size in enumerate((7, 5, 9, 4, 6)):
        write_shard(tmp_path / f"{shard}.tar", pair_members(shard, size, ("0-1", "2-0", "2-3")))
    config = DataConfig(kind="pairs", shards=str(tmp_path), shuffle_buffer=3, workers=workers)

    def step_by_step(world, start=0, consumed=None):
        """Pixels, captions and faults of each step over all processes, and what their readers have read."""
        readers = [
            loader(
                Batches(
                    config,
                    image_size=16,
                    rows=12 // world,
                    rank=rank,
                    world=world,
                    shares=2,
                    start=start,
                    consumed=consumed,
                ),
                workers,
                torch.device("cpu"),
            )
            for rank in range(world)
        ]
        for batches in zip(*readers, strict=True):
            pixels = torch.cat([batch.pixels for batch in batches])
            lengths = [length for batch in batches for length in batch.text_lengths]
            skipped = sum((batch.skipped for batch in batches), Counter())
            reached = dict(consumed or {})
            for batch in batches:
                reached |= batch.consumed
            consumed = reached
            yield pixels, lengths, skipped, reached

    straight = list(islice(step_by_step(2), 8))
    reached = straight[2][3]
    for began, other in zip(straight[3:], step_by_step(world, 3, reached), strict=False):
        assert torch.equal(other[0], began[0])
        assert other[1:] == began[1:]
    assert sum((step[2] for step in straight), Counter())["missing member"] > 3


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs that were never stopped, and copies of them that went on after step 1 with another number of processes."""
    folder = tmp_path_factory.mktemp("runs")
    for shard in range(3):
        members = [m for row in range(8) for m in grit_sample(f"{shard * 8 + row:06d}")]
        write_shard(folder / f"{shard}.tar", members)
    shards = ["data.kind=grit", f"data.shards={folder}", "data.boxes=1", "data.shuffle_buffer=3"]
    steps = [
        f"train.steps={STEPS}",
        "train.save_every=1",
        "train.keep_states=9",
        "train.precision=float32",
        "train.warmup_steps=1",
    ]
    copied = tiny("hycoclip", *shards, *steps, "train.ema=0.9")
    cut = tiny("hycoclip", *shards, *steps, "train.ema=0.9", "train.sharding=full")

    def goes_on(run, name, step=STOP):
        return as_killed(folder / run, folder / name, step)

    train(copied, folder / "one", device="cpu", quiet=True)
    together(
        trained,
        [
            (copied, folder / "two", False),
            (cut, folder / "cut", False),
            (copied, goes_on("one", "one-two"), True),
            (cut, goes_on("one", "one-cut"), True),
        ],
    )
    four = [(copied, goes_on("two", "two-four"), True), (cut, goes_on("cut", "cut-four"), True)]
    together(trained, four, processes=4)
    for run, name, step in (("two", "two-one", 1), ("cut", "cut-one", 1), ("two-four", "two-four-one", 2)):
        train(copied, goes_on(run, name, step), device="cpu", resume=True, quiet=True)
    return folder


@pytest.mark.parametrize(
    "name", ["one-two", "one-cut", "two-four", "cut-four", "two-one", "cut-one", "two-four-one"]
)
def test_a_run_goes_on_with_another_number_of_processes(name, runs):
    straight, other = runs / name.split("-")[0], runs / name
    logged = [
        [json.loads(line) for line in (run / "train.jsonl").read_text().splitlines()]
        for run in (straight, other)
    ]
    assert [line["step"] for line in logged[1]] == list(range(STEPS))
    for one, two in zip(*logged, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    for file in ("model.safetensors", "ema.safetensors"):
        assert_same_each(load_file(other / file), load_file(straight / file))
    states = [torch.load(run / f"checkpoints/step-{STEPS:07d}/state.pt") for run in (straight, other)]
    assert states[1]["consumed"] == states[0]["consumed"]
    assert states[1]["skipped"] == states[0]["skipped"]


def test_which_numbers_of_processes_can_share_a_batch(tmp_path):
    train_config = tiny("clip", "train.batch_size=12").train
    for world in (1, 2, 3, 4, 6, 12):
        check_processes(train_config, world)
    with pytest.raises(UsageError, match="cannot be split over 5 processes, but over 4 or 6, or any other"):
        check_processes(train_config, 5)
    with pytest.raises(
        UsageError, match="over 24 processes, but over 12, or any other number that divides it"
    ):
        check_processes(train_config, 24)
