"""Tar shards: who reads what, what is skipped, what is refused."""

import random
from collections import Counter
from itertools import islice

import pytest
import torch
from shard_files import grit_sample, jpeg, pair_members, write_shard

from hierbench.errors import DataError
from hierbench.reference.schema import DataConfig
from hierbench.reference.training.batches import Batches, loader
from hierbench.reference.training.shards import Stream, find_shards, parse_grit, parse_pair, read_stream


@pytest.fixture
def grit(tmp_path):
    for shard in range(3):
        members = [m for row in range(8) for m in grit_sample(f"{shard * 8 + row:06d}")]
        write_shard(tmp_path / f"{shard:05d}.tar", members)
    return tmp_path


def keys(shards, stream, count, parse=parse_grit):
    return [
        sample.key for sample in islice(read_stream(shards, stream, parse, seed=0, tally=Counter()), count)
    ]


@pytest.mark.parametrize("readers", [1, 2, 3, 4, 5, 8])
def test_an_epoch_gives_every_sample_to_one_reader(grit, readers):
    shards = find_shards(str(grit))
    seen = []
    for index in range(readers):
        if readers <= 3:  # whole shards
            share = 8 * len(range(index, 3, readers))
        else:  # every m-th sample of one shard
            sharing = range(index % 3, readers, 3)
            share = len(range(sharing.index(index), 8, len(sharing)))
        seen += keys(shards, Stream(index, readers), share)
    assert sorted(seen) == [f"{number:06d}" for number in range(24)]


def test_damaged_samples_are_skipped_and_counted(tmp_path):
    good = grit_sample("000001")
    no_caption = [m for m in grit_sample("000002") if not m[0].endswith("child.txt")]
    empty_caption = [(n, b" " if n.endswith("child.txt") else c) for n, c in grit_sample("000003")]
    bad_count = [(n, b"x" if n.endswith("numparents.txt") else c) for n, c in grit_sample("000004")]
    lost_box = [m for m in grit_sample("000005") if not m[0].endswith("parent001.jpg")]
    bad_image = [(n, c[:40] if n.endswith("child.jpg") else c) for n, c in grit_sample("000006")]
    write_shard(tmp_path / "0.tar", [*good, *no_caption, *empty_caption, *bad_count, *lost_box, *bad_image])
    config = DataConfig(kind="grit", shards=str(tmp_path), boxes=2, shuffle_buffer=1, workers=0)
    batch = next(iter(Batches(config, image_size=32, rows=2)))
    assert batch.pixels.shape == (2 * 3 - 1, 3, 32, 32)
    assert batch.part_valid.tolist() == [[True, True], [True, False]]  # 000005 has one box left
    assert batch.places.tolist() == [0, 1, 2, 3, 4, 1]
    batches = iter(Batches(config, image_size=32, rows=4))
    counted = sum((next(batches).skipped for _ in range(2)), Counter())
    assert counted["missing member"] >= 1
    assert counted["empty caption"] >= 1
    assert counted["unreadable numparents"] >= 1
    assert counted["missing box"] >= 1
    assert counted["damaged image"] >= 1


def test_truncated_shard_gives_what_is_whole(tmp_path):
    path = write_shard(tmp_path / "0.tar", [m for n in range(4) for m in grit_sample(f"{n:06d}")])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    tally = Counter()
    stream = read_stream([str(path)], Stream(0, 1), parse_grit, seed=0, tally=tally)
    assert next(stream).key == "000000"
    list(islice(stream, 3))
    assert tally["damaged shard"] + tally["damaged member"] >= 1


def test_pairs(tmp_path):
    members = [
        ("a.jpg", jpeg(1)),
        ("a.txt", b"a caption"),
        ("b.png", jpeg(2)),
        ("b.txt", b"another"),
        ("c.txt", b"x"),
    ]
    write_shard(tmp_path / "0.tar", members)
    tally = Counter()
    samples = list(
        islice(read_stream([str(tmp_path / "0.tar")], Stream(0, 1), parse_pair, seed=0, tally=tally), 3)
    )
    assert [sample.caption for sample in samples[:2]] == ["a caption", "another"]
    assert tally["missing member"] == 1


def test_batches_of_shards_resume_exactly(grit):
    config = DataConfig(kind="grit", shards=str(grit), boxes=1, shuffle_buffer=5, workers=0)
    straight = iter(Batches(config, image_size=32, rows=4, seed=1))
    first = [next(straight) for _ in range(4)]
    resumed = iter(Batches(config, image_size=32, rows=4, seed=1, start=2, consumed=first[1].consumed))
    for one, two in zip(first[2:], resumed, strict=False):
        assert torch.equal(one.pixels, two.pixels)
        assert torch.equal(one.texts[0].tokens, two.texts[0].tokens)


@pytest.mark.parametrize(
    ("prepare", "pattern", "message"),
    [
        (lambda folder: None, "{}", "no tar shards match"),
        (lambda folder: None, "{}/x-{{00..03}}.tar", "x-00.tar does not exist"),
        (lambda folder: (folder / "0.tar").write_bytes(b""), "{}", "0.tar is empty"),
    ],
)
def test_shards_that_cannot_be_read(tmp_path, prepare, pattern, message):
    prepare(tmp_path)
    with pytest.raises(DataError, match=message):
        find_shards(pattern.format(tmp_path))


def test_shard_without_usable_samples(tmp_path):
    write_shard(tmp_path / "0.tar", [("a.txt", b"only a caption")])
    stream = read_stream([str(tmp_path / "0.tar")], Stream(0, 1), parse_pair, seed=0, tally=Counter())
    with pytest.raises(DataError, match="no usable sample in 1 shard"):
        next(stream)


def pairs_of(folder, sizes, damaged=()):
    """Shards of so many image-caption pairs; captions tell shard and row, those in `damaged` have no image."""
    for shard, size in enumerate(sizes):
        write_shard(folder / f"{shard:05d}.tar", pair_members(shard, size, damaged))
    return DataConfig(kind="pairs", shards=str(folder), shuffle_buffer=1, crop_scale=(1, 1), workers=4)


def test_shards_shorter_than_their_readers_are_many(tmp_path):
    """Four readers of shards of 1, 1 and 40 pairs: in an epoch one reader may have no share of a short shard."""
    config = pairs_of(tmp_path, (1, 1, 40))
    shards = find_shards(config.shards)
    for reader in range(4):
        assert len(keys(shards, Stream(reader, 4), 60, parse_pair)) == 60
    batches = loader(Batches(config, image_size=16, rows=2), 4, torch.device("cpu"))
    assert [len(batch.pixels) for batch in islice(batches, 8)] == [2] * 8


def test_more_readers_than_samples_are_advised(tmp_path):
    config = pairs_of(tmp_path, (1, 1))
    shards = find_shards(config.shards)
    assert len(keys(shards, Stream(1, 4), 3, parse_pair)) == 3
    with pytest.raises(DataError, match=r"set data\.workers so that there are at most 2") as caught:
        keys(shards, Stream(3, 4), 3, parse_pair)
    assert "\n" not in str(caught.value)


def test_the_error_of_a_data_worker_is_its_own_line(tmp_path):
    write_shard(tmp_path / "0.tar", [("a.txt", b"no image")])
    config = DataConfig(kind="pairs", shards=str(tmp_path), shuffle_buffer=1)
    here = loader(Batches(config, image_size=16, rows=2), 0, torch.device("cpu"))
    there = loader(Batches(config, image_size=16, rows=2), 1, torch.device("cpu"))
    said = []
    for batches in (here, there):
        with pytest.raises(DataError) as caught:
            next(batches)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert said[0].startswith("no usable sample in 1 shard(s) such as ")
    assert "Traceback" not in said[0]


def test_a_shard_that_goes_while_it_is_trained_on(tmp_path):
    config = pairs_of(tmp_path, (4,))
    batches = Batches(config, image_size=16, rows=2)
    (tmp_path / "00000.tar").unlink()
    with pytest.raises(DataError, match=r"training data cannot be read: .*00000\.tar: No such file"):
        next(loader(batches, 1, torch.device("cpu")))


def test_what_is_skipped_is_counted_once_over_a_resumption(tmp_path):
    config = pairs_of(tmp_path, (6, 6), damaged=("0-1", "1-0", "1-4"))

    def stream(start=0, consumed=None):
        return iter(Batches(config, image_size=16, rows=2, start=start, consumed=consumed))

    straight = list(islice(stream(), 9))
    third = straight[2]
    resumed = list(islice(stream(3, third.consumed), 6))
    for one, two in zip(straight[3:], resumed, strict=True):
        assert torch.equal(one.pixels, two.pixels)
        assert (one.skipped, one.consumed) == (two.skipped, two.consumed)
    whole = sum((batch.skipped for batch in straight), Counter())
    assert whole["missing member"] >= 5  # two epochs of nine usable samples, three skipped in each


def test_a_range_without_end_is_refused():
    with pytest.raises(DataError, match="more than 1,000,000 shards"):
        find_shards("x/{0..999999999}.tar")


def test_ten_stops_lose_no_sample_and_double_none(tmp_path):
    """Two processes of two workers, stopped at ten of thirty steps: each step holds what it holds without a stop."""
    config = pairs_of(tmp_path, (7, 5, 9, 4, 6)).model_copy(update={"shuffle_buffer": 3})

    def batches(rank, start=0, consumed=None):
        one = Batches(config, image_size=16, rows=2, rank=rank, world=2, start=start, consumed=consumed)
        return loader(one, 2, torch.device("cpu"))

    stops = sorted(random.Random(0).sample(range(1, 30), 10))
    for rank, chosen in enumerate((stops, stops[::4])):  # the first process has all ten, each costs a second
        straight = [batch.texts[0].tokens.tolist() for batch in islice(batches(rank), 30)]
        lived, consumed = [], {}
        for begin, end in zip([0, *chosen], [*chosen, 30], strict=True):
            for batch in islice(batches(rank, begin, consumed), end - begin):
                lived.append(batch.texts[0].tokens.tolist())
                consumed |= batch.consumed
        assert lived == straight
