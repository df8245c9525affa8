"""Counting prepared shards: by hand, beside the published counts, with damage."""

import pytest
from shard_files import cut_short, grit_sample, write_shard

from hierbench.errors import DataError, UsageError
from hierbench.reference.training.account import PUBLISHED, count


@pytest.fixture
def shards(tmp_path):
    """Two shards: samples with 1, 1, 2 boxes, and with 3 and none; one sample has lost its caption."""
    first = [m for key, boxes in ((1, 1), (2, 1), (3, 2)) for m in grit_sample(f"{key:06d}", boxes)]
    lost = [m for m in grit_sample("000006", 1) if not m[0].endswith("child.txt")]
    second = [*grit_sample("000004", 3), *grit_sample("000005", 0), *lost]
    return [str(write_shard(tmp_path / "0.tar", first)), str(write_shard(tmp_path / "1.tar", second))]


@pytest.mark.parametrize("workers", [0, 2])
def test_counts_by_hand(shards, workers):
    found = count(shards, workers=workers)
    assert (found.shards, found.samples, found.boxes) == (2, 5, 7)
    assert found.by_boxes == {0: 1, 1: 2, 2: 1, 3: 1}
    assert found.unusable == {"missing member": 1}
    assert found.damaged == ()
    rows = {row["what"]: (row["here"], row["published"]) for row in found.rows()}
    assert rows["samples with one box"] == ("40.00%", "40.68%")
    assert rows["boxes a sample"] == ("1.400", "1.915")
    assert rows["samples"] == ("5", "13,149,251")


def test_published_counts_agree_with_each_other():
    """40.68 % with one box and 1.915 in the mean: the others have 2.54 in the mean, so more than two."""
    samples, boxes, one = PUBLISHED["samples"], PUBLISHED["boxes"], PUBLISHED["one"]
    assert (boxes - one * samples) / (samples * (1 - one)) > 2


@pytest.mark.parametrize(("member", "whole"), [(5, 1), (8, 1), (-2, 2)])
def test_a_truncated_shard_is_named_and_what_is_whole_counts(shards, tmp_path, member, whole):
    """Of 5 + 5 + 7 members: broken off where the second or the third sample begins, and before the last phrase."""
    path = cut_short(tmp_path / "0.tar", member)
    found = count(shards)
    assert found.damaged == (str(path),)
    assert whole <= found.samples - 2 <= whole + 1  # the broken sample may be usable without its last box


def test_refusals(tmp_path):
    empty = write_shard(tmp_path / "0.tar", [("a.txt", b"a caption alone")])
    with pytest.raises(DataError, match=r"no usable sample in 1 shard\(s\) such as .*0\.tar"):
        count([str(empty)])
    with pytest.raises(UsageError, match="counted on disk, fetch them first"):
        count(["https://host/0.tar"])
    noise = tmp_path / "1.tar"
    noise.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(DataError, match="damaged shard"):
        count([str(noise)])
