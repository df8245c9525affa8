"""The embedding store: finds what was put, ignores what is damaged, serves several processes, can be pruned."""

import os
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierbench.contracts import ModelCard
from hierbench.engine.contents import content_id
from hierbench.engine.store import EmbeddingStore, MemoryStore
from hierbench.errors import OutputError

CARD = ModelCard("m", "f", "tests", 4, 8, 0, "as they are", sha256="12" * 32)


def rows(names, dim=4, seed=0):
    """Content ids, labels and features."""
    features = np.random.default_rng(seed).standard_normal((len(names), dim)).astype(np.float32)
    return [content_id(name) for name in names], list(names), features


@pytest.fixture
def store(tmp_path):
    return EmbeddingStore(tmp_path / "embeddings")


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_what_was_put_is_found_in_any_order(tmp_path, kind):
    section = (EmbeddingStore(tmp_path) if kind == "disk" else MemoryStore()).section(CARD, "crop")
    ids, labels, features = rows("abcdefg")
    section.put(ids[:3], labels[:3], features[:3])
    section.put(ids[3:], labels[3:], features[3:])
    wanted = [6, 0, 3, 0]
    found, known = section.get([ids[i] for i in wanted] + [content_id("z")])
    assert known.tolist() == [True] * 4 + [False]
    assert np.array_equal(found[:4], features[wanted])
    assert not found[4].any()
    assert section.get([])[0].shape == (0, 4)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), unique=True), max_size=5), st.lists(st.integers(0, 30)))
def test_a_section_is_a_mapping(tmp_path_factory, shards, wanted):
    section = EmbeddingStore(tmp_path_factory.mktemp("s")).section(CARD, "text")
    content = {}
    for number, shard in enumerate(shards):
        ids, labels, features = rows([str(i) for i in shard], seed=number)
        section.put(ids, labels, features)
        content.update(zip(ids, features, strict=True))
    ids = [content_id(str(i)) for i in wanted]
    found, known = section.get(ids)
    assert known.tolist() == [key in content for key in ids]
    assert all(np.array_equal(row, content[key]) for row, key, k in zip(found, ids, known, strict=True) if k)


def test_another_run_finds_it(store):
    ids, labels, features = rows("ab")
    store.section(CARD, "crop").put(ids, labels, features)
    found, known = EmbeddingStore(store.folder).section(CARD, "crop").get(ids)
    assert known.all()
    assert np.array_equal(found, features)


@pytest.mark.parametrize(
    "other",
    [
        lambda s: s.section(CARD, "squeeze"),
        lambda s: s.section(CARD, "text"),
        lambda s: s.section(CARD, "crop", "cuda"),
        lambda s: s.section(replace(CARD, sha256="34" * 32), "crop"),
        lambda s: s.section(replace(CARD, preprocessing="darker"), "crop"),
        lambda s: s.section(replace(CARD, dtype="bfloat16"), "crop"),
        lambda s: s.section(replace(CARD, family="g"), "crop"),
        lambda s: s.section(replace(CARD, embedding_dim=5), "crop"),
    ],
)
def test_what_could_change_a_feature_keeps_sections_apart(store, other):
    ids, labels, features = rows("ab")
    store.section(CARD, "crop").put(ids, labels, features)
    assert not other(store).get(ids)[1].any()
    assert store.section(replace(CARD, name="renamed", licence="x"), "crop").get(ids)[1].all()


def test_a_model_without_hash_is_not_stored(store):
    with pytest.raises(ValueError, match="no checkpoint hash"):
        store.section(replace(CARD, sha256=None), "crop")


def damage_cut(content):
    return content[: len(content) // 2]


def damage_empty(content):
    return b""


def damage_noise(content):
    return bytes(range(256)) * 10


@pytest.mark.parametrize("damage", [damage_cut, damage_empty, damage_noise])
def test_a_damaged_shard_is_ignored_with_a_warning(store, caplog, damage):
    section = store.section(CARD, "crop")
    ids, labels, features = rows("abcdef")
    section.put(ids[:3], labels[:3], features[:3])
    [shard] = section.folder.glob("*.arrow")
    section.put(ids[3:], labels[3:], features[3:])
    shard.write_bytes(damage(shard.read_bytes()))
    found, known = store.section(CARD, "crop").get(ids)
    assert known.tolist() == [False] * 3 + [True] * 3
    assert np.array_equal(found[3:], features[3:])
    assert str(shard) in caplog.text
    assert "is damaged" in caplog.text


def test_a_shard_whose_offsets_lead_out_of_it_is_ignored(store, caplog):
    """Blanked from within its columns on: Arrow opens such a file, and ends the process when it is read on."""
    ids, labels, features = rows([f"n{i}" for i in range(9)])
    section = store.section(CARD, "crop")
    section.put(ids, labels, features)
    [shard] = section.folder.glob("*.arrow")
    whole = shard.read_bytes()
    for start in range(0, len(whole), 64):
        end = min(start + 64, len(whole))
        shard.write_bytes(whole[:start] + bytes(end - start) + whole[end:])
        found, known = EmbeddingStore(store.folder).section(CARD, "crop").get(ids)  # a later run's
        assert np.array_equal(found, features) if known.all() else not known.any()


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_section_that_does_not_say_what_it_is_about_is_pruned(store, caplog, text):
    ids, labels, features = rows("abc")
    for kind in ("crop", "text"):
        store.section(CARD, kind).put(ids, labels, features)
    (store.section(CARD, "crop").folder / "section.json").write_text(text)
    assert [section.about["kind"] for section in store.stats()] == ["text"]
    assert "section.json is damaged" in caplog.text
    assert store.section(CARD, "crop").get(ids)[1].all()  # its shards are good
    assert store.prune().sections == 1
    assert not store.section(CARD, "crop").folder.exists()


def test_a_flipped_bit_is_noticed(store, caplog):
    section = store.section(CARD, "crop")
    ids, labels, features = rows([f"n{i}" for i in range(200)])
    section.put(ids, labels, features)
    [shard] = section.folder.glob("*.arrow")
    content = bytearray(shard.read_bytes())
    place = bytes(content).index(features[100].tobytes())
    content[place] ^= 1
    shard.write_bytes(content)
    assert not store.section(CARD, "crop").get(ids)[1].any()
    assert "checksum" in caplog.text


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_never_given_out(store, caplog, value):
    ids, labels, features = rows("abc")
    features[1, 2] = value  # another program's work: what is encoded here is checked before it is kept
    store.section(CARD, "crop").put(ids, labels, features)
    assert not store.section(CARD, "crop").get(ids)[1].any()
    assert "NaN" in caplog.text


def test_a_shard_that_arrives_later_is_seen(store):
    reader = store.section(CARD, "crop")
    ids, labels, features = rows("ab")
    assert not reader.get(ids)[1].any()
    store.section(CARD, "crop").put(ids, labels, features)
    assert reader.get(ids)[1].all()


def test_strings_that_are_no_unicode_can_be_labels(store):
    section = store.section(CARD, "text")
    ids, labels, features = rows(["a\ud800b", "\0", ""])
    section.put(ids, labels, features)
    assert section.get(ids)[1].all()


WRITER = """
import numpy as np
from hierbench.contracts import ModelCard
from hierbench.engine.contents import content_id
from hierbench.engine.store import EmbeddingStore
card = ModelCard("m", "f", "tests", 4, 8, 0, "as they are", sha256="12" * 32)
section = EmbeddingStore(folder).section(card, "crop")
for start in range(first, first + 200, 10):
    names = [str(i) for i in range(start, start + 10)]
    ids = [content_id(name) for name in names]
    section.put(ids, names, np.repeat(np.float32(range(start, start + 10)), 4).reshape(-1, 4))
    section.get(ids)
"""


def test_two_processes_write_to_one_store(store, process, tmp_path):
    log = tmp_path / "log"
    writers = [process(WRITER, log, folder=str(store.folder), first=first) for first in (0, 100)]
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0], log.read_text()
    found, known = store.section(CARD, "crop").get([content_id(str(i)) for i in range(300)])
    assert known.all()
    assert np.array_equal(found, np.repeat(np.arange(300, dtype=np.float32), 4).reshape(-1, 4))
    assert not list(store.folder.glob("*/.*"))


def test_stats_count_rows_and_bytes(store):
    assert store.stats() == []
    ids, labels, features = rows("abc")
    store.section(CARD, "crop").put(ids, labels, features)
    store.section(CARD, "crop").put(ids[:1], labels[:1], features[:1])
    store.section(CARD, "text").put(ids[:1], labels[:1], features[:1])
    stats = {section.about["kind"]: section for section in store.stats()}
    assert (stats["crop"].rows, stats["crop"].shards) == (4, 2)
    assert (stats["text"].rows, stats["text"].shards) == (1, 1)
    assert stats["crop"].about["model"] == "m"
    assert stats["crop"].bytes == sum(f.stat().st_size for f in stats["crop"].folder.glob("*.arrow"))


def two_sections(store):
    """The crop section was used a day before the text section."""
    ids, labels, features = rows("abc")
    old, new = store.section(CARD, "crop"), store.section(CARD, "text")
    for section in (old, new):
        section.put(ids, labels, features)
    day = time.time() - 86400
    os.utime(old.folder / "section.json", (day, day))
    return old, new


def test_prune_by_age(store):
    old, new = two_sections(store)
    assert store.prune(older_than=2 * 86400).sections == 0
    pruned = store.prune(older_than=3600)
    assert pruned.sections == 1
    assert pruned.bytes > 0
    assert not old.folder.exists()
    assert new.folder.exists()


def test_prune_by_size_drops_the_least_recently_used(store):
    old, new = two_sections(store)
    size = sum(section.bytes for section in store.stats())
    assert store.prune(max_bytes=size).sections == 0
    assert store.prune(max_bytes=size - 1).sections == 1
    assert not old.folder.exists()
    assert store.prune(max_bytes=0).sections == 1
    assert not new.folder.exists()


def test_using_a_section_makes_it_recent(store):
    old, _ = two_sections(store)
    store.section(CARD, "crop").get([content_id("a")])
    assert store.prune(older_than=3600).sections == 0
    assert old.folder.exists()


def test_prune_removes_damage_and_leftovers(store):
    section = store.section(CARD, "crop")
    ids, labels, features = rows("abc")
    section.put(ids, labels, features)
    broken, left, young = (
        section.folder / name for name in ("0.arrow", ".x.arrow.1.ab.tmp", ".y.arrow.1.cd.tmp")
    )
    for file in (broken, left, young):
        file.write_bytes(b"half")
    os.utime(left, (0, 0))
    assert store.prune() == type(store.prune())(sections=0, bytes=8)
    assert (broken.exists(), left.exists(), young.exists()) == (False, False, True)
    assert section.get(ids)[1].all()


def test_export(store, tmp_path):
    ids, labels, features = rows(["one", "two", "three"])
    store.section(CARD, "text").put(ids, labels, features)
    store.section(CARD, "text").put(ids[:1], labels[:1], features[:1])  # again, by another process
    wide = replace(CARD, name="wide", embedding_dim=5, sha256="56" * 32)
    store.section(wide, "crop").put(*rows(["img"], 5))
    assert store.export(tmp_path / "all.parquet") == 4
    frame = pd.read_parquet(tmp_path / "all.parquet").set_index("label")
    assert frame.loc["two", "feature"].tolist() == features[1].tolist()
    assert frame.loc["two", "content"] == ids[1].hex()
    assert len(frame.loc["img", "feature"]) == 5
    assert store.export(tmp_path / "m.npz", model="m") == 3
    arrays = np.load(tmp_path / "m.npz")
    assert sorted(arrays["0_label"].tolist()) == ["one", "three", "two"]
    assert arrays["0_feature"].shape == (3, 4)


def test_export_refuses(store, tmp_path):
    with pytest.raises(OutputError, match="no stored embeddings"):
        store.export(tmp_path / "x.npz")
    store.section(CARD, "text").put(*rows("a"))
    with pytest.raises(OutputError, match="must end in"):
        store.export(tmp_path / "x.csv")
    with pytest.raises(OutputError, match="of nobody"):
        store.export(tmp_path / "x.npz", model="nobody")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        store.export(tmp_path / "file" / "x.npz")


def test_memory_drops_the_least_recently_used():
    store = MemoryStore(max_bytes=3 * 16)
    section = store.section(CARD, "crop")
    ids, labels, features = rows("abcd")
    section.put(ids[:3], labels[:3], features[:3])
    section.get(ids[:1])
    section.put(ids[3:], labels[3:], features[3:])
    assert section.get(ids)[1].tolist() == [True, False, True, True]
    assert not store.section(CARD, "text").get(ids)[1].any()
