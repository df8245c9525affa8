"""Answers on disk: torn and damaged files cost what they hold, nothing else."""

import logging
import shutil
import zlib

import numpy as np
import pytest

from hierbench.cleaning.answers import HEADING, SUFFIX, Answers, item_key, merge
from hierbench.cleaning.stages import Asking
from hierbench.errors import OutputError

WHO = {"model": "m", "revision": "1"}
KEYS = [item_key("question", str(number), None) for number in range(6)]


def kept(folder, keys=KEYS):
    store = Answers(folder, "verify", WHO)
    store.add(keys, [bytes([number]) * (number + 1) for number in range(len(keys))])
    return next(store.folder.glob(f"*{SUFFIX}"))


def test_what_was_added_is_found_again(tmp_path):
    kept(tmp_path)
    store = Answers(tmp_path, "verify", WHO)
    assert [store[key] for key in KEYS] == [bytes([number]) * (number + 1) for number in range(6)]
    assert store.missing([item_key("x"), KEYS[0], item_key("x")]) == [item_key("x")]
    assert KEYS[0] not in Answers(tmp_path, "verify", {**WHO, "revision": "2"})
    assert KEYS[0] not in Answers(tmp_path, "rerank", WHO)


def test_a_file_torn_anywhere_keeps_what_is_whole(tmp_path):
    path = kept(tmp_path)
    whole = path.read_bytes()
    ends = [len(HEADING)]
    for number in range(6):
        ends.append(ends[-1] + 36 + number + 1 + 4)
    assert ends[-1] == len(whole)
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        store = Answers(tmp_path, "verify", WHO)
        assert sum(key in store for key in KEYS) == sum(end <= cut for end in ends[1:])


def test_a_damaged_answer_is_asked_again(tmp_path, caplog):
    path = kept(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(HEADING) + 41 + 36] ^= 1  # in the second answer
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        store = Answers(tmp_path, "verify", WHO)
    assert [key in store for key in KEYS] == [True] + [False] * 5
    assert "damaged after 1 answers" in caplog.text


def test_two_processes_see_each_other_and_the_first_answer_stays(tmp_path):
    one, other = Answers(tmp_path, "verify", WHO), Answers(tmp_path, "verify", WHO)
    one.add(KEYS[:1], [b"first"])
    other.add(KEYS[:2], [b"second", b"other"])
    one.refresh()
    assert (one[KEYS[0]], one[KEYS[1]]) == (b"first", b"other")
    assert Answers(tmp_path, "verify", WHO)[KEYS[0]] == b"first"


def test_other_files_are_left_alone(tmp_path, caplog):
    path = kept(tmp_path)
    path.with_name(f"0{SUFFIX}").write_bytes(b"something else entirely, of another program")
    with caplog.at_level(logging.WARNING):
        assert KEYS[5] in Answers(tmp_path, "verify", WHO)
    assert "ignored" in caplog.text


def test_keys_tell_items_apart():
    keys = [
        item_key("question", "a", None), item_key("question", "a", "b"), item_key("question", "a", b"b"),
        item_key("text", "a"), item_key("text", b"a"), item_key("pair", "a", "b"),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32}


def test_merging_folders_without_answers(tmp_path):
    with pytest.raises(OutputError, match="no answers"):
        merge([tmp_path], tmp_path / "out")


def number(*values):
    return np.array(values, np.float64).tobytes()


def direction(*values):
    return np.array(values, np.float32).tobytes()


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("verify", [number(0.0), number(1.0), number(0.25, 0.5)],
         [b"", b"1234567", number(1, 1, 1), number(-0.1), number(1.5), number(np.nan), number(0.5, np.inf)]),
        ("rerank", [number(0.5)], [b"12", number(2.0)]),
        ("embed", [direction(0.6, 0.8), direction(0, 1)],
         [b"", b"123", direction(0.6), direction(3, 4), direction(np.nan, 1), direction(0, 0), direction(1)]),
    ],
)  # fmt: skip
def test_whole_records_that_are_no_answers_are_asked_anew(source, truth, tmp_path, caplog, kind, good, bad):
    """As a fault of some program may have left them: checksums are right, contents are not."""
    role = {"verify": "verifier", "rerank": "reranker", "embed": "embedder"}[kind]
    identity = truth.verifier.identity
    keys = [item_key(kind, str(place)) for place in range(len(bad + good))]
    Answers(tmp_path, kind, identity).add(keys, bad + good)
    with caplog.at_level(logging.WARNING):
        answers = Asking(source, truth, tmp_path, 4, 1).answers()[role]
    assert answers.missing(keys) == keys[: len(bad)]
    assert f"{len(bad)} of {len(keys)} answers in {answers.folder} are of a wrong length" in caplog.text
    answers.add(keys[:1], good[:1])  # the right one is what counts from now on
    again = Asking(source, truth, tmp_path, 4, 1).answers()[role]
    assert again[keys[0]] == good[0]
    assert again.missing(keys) == keys[1 : len(bad)]


def test_a_cleaning_over_answers_that_are_none_ends_as_one_without(clean, contents, tmp_path):
    clean(tmp_path / "calm")
    shutil.copytree(tmp_path / "calm" / "answers", tmp_path / "spoilt" / "answers")
    for path in (tmp_path / "spoilt" / "answers").glob(f"*/*{SUFFIX}"):
        content, places = path.read_bytes(), []
        place = len(HEADING)
        while place < len(content):
            places.append(place)
            place += 36 + int.from_bytes(content[place + 32 : place + 36], "little") + 4
        first = content[places[0] : places[1] - 4]
        spoilt = first[:36] + np.full(len(first[36:]) // 4, 7.5, np.float32).tobytes()
        crc = zlib.crc32(spoilt).to_bytes(4, "little")
        path.write_bytes(HEADING + spoilt + crc + content[places[1] :])
    clean(tmp_path / "spoilt")
    assert contents(tmp_path / "spoilt") == contents(tmp_path / "calm")
