"""MATLAB files that make SciPy's reader end its process, or never end: one line, and this process lives on."""

import io

import numpy as np
import pytest
from scipy.io import savemat

from hierbench.data.readers import _mat
from hierbench.errors import DataError


def annotations():
    """Three annotations as Stanford Cars has them."""
    told = np.zeros((1, 3), dtype=[("fname", object), ("class", object)])
    for number in range(3):
        told[0, number] = (f"{number}.jpg", np.array([[number + 1]]))
    return {"annotations": told}


def labels():
    return {"labels": np.array([[77, 77, 1, 102, 5, 5, 1, 33]])}


@pytest.fixture
def saved(tmp_path):
    """saved(variables, {place: byte}) -> a file with these bytes changed."""

    def save(variables, changed):
        content = io.BytesIO()
        savemat(content, variables)
        octets = bytearray(content.getvalue())
        for place, byte in changed.items():
            octets[place] = byte
        (tmp_path / "a.mat").write_bytes(octets)
        return tmp_path / "a.mat"

    return save


def test_variables_come_as_they_were_saved(saved):
    path = saved({**annotations(), **labels()}, {})
    found = _mat.read_mat(path, ["annotations", "labels"])
    assert found.keys() == {"annotations", "labels"}
    assert found["labels"].tolist() == [77, 77, 1, 102, 5, 5, 1, 33]
    assert found["annotations"]["fname"].tolist() == ["0.jpg", "1.jpg", "2.jpg"]
    assert found["annotations"]["class"].astype(int).tolist() == [1, 2, 3]


# Found by bytes drawn at random: read in this process, each of them ended it.
@pytest.mark.parametrize(("made", "changed"), [(labels, {185: 112}), (annotations, {433: 154})])
def test_a_file_that_ends_its_reader_is_damaged(saved, made, changed):
    path = saved(made(), changed)
    with pytest.raises(DataError) as caught:
        _mat.read_mat(path, list(made()))
    message = str(caught.value)
    assert message.startswith(f"annotation file {path} is damaged (")
    assert message.endswith("): fetch it again")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("process", "told"),
    [
        ("import os; os.kill(os.getpid(), 11)", r"its reader died: Segmentation fault"),
        ("import os; os.abort()", r"its reader died: Aborted"),
        ("import time; time.sleep(60)", r"reading it had not ended after 1 s"),
        ("import sys; sys.exit('a\\nb')", r"a b"),
    ],
)
def test_whatever_becomes_of_the_reader_is_one_line(saved, tmp_path, monkeypatch, process, told):
    program = tmp_path / "program.py"
    program.write_text(process)
    monkeypatch.setattr(_mat, "_PROGRAM", str(program))
    monkeypatch.setattr(_mat, "SECONDS", 1.0 if "sleep" in process else _mat.SECONDS)
    path = saved(labels(), {})
    with pytest.raises(
        DataError, match=rf"^annotation file \S+a\.mat is damaged \({told}\): fetch it again$"
    ):
        _mat.read_mat(path, ["labels"])


def test_no_process_for_the_reader_is_no_damage(saved, monkeypatch):
    monkeypatch.setattr(_mat.sys, "executable", "/nowhere/python")
    with pytest.raises(DataError, match="no process could be started to read it: No such file"):
        _mat.read_mat(saved(labels(), {}), ["labels"])


def test_a_damaged_size_takes_no_memory_without_bound(saved):
    """The header says 2**31 numbers where there are eight."""
    content = io.BytesIO()
    savemat(content, labels())
    at = content.getvalue().index(b"\x05\x00\x00\x00\x08\x00\x00\x00") + 8  # the dimensions: int32, 8 bytes
    path = saved(labels(), dict(zip(range(at + 4, at + 8), b"\xff\xff\xff\x7f", strict=True)))
    with pytest.raises(DataError, match="is damaged"):
        _mat.read_mat(path, ["labels"])
