"""A tiny campaign of faults (benchmarks/faults): every kind of malformed input ends in one line, or is read."""

import os
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("table layout", "image", "archive", "manifest", "raw GRIT tar", "parquet")
"""Those that take milliseconds; `python -m benchmarks.faults` has them all."""


@pytest.fixture
def faults(monkeypatch):
    """The modules of the campaign, by name."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.faults import __main__ as command
    from benchmarks.faults import kinds, pool, spoil

    return {"command": command, "kinds": kinds, "pool": pool, "spoil": spoil}


@pytest.mark.parametrize("kind", KINDS)
def test_malformed_inputs_are_refused_in_one_line_or_read(faults, monkeypatch, tmp_path, kind):
    monkeypatch.setenv("HIERBENCH_CACHE", str(tmp_path / "cache"))
    faults["kinds"].prepare(tmp_path / "base", [kind])
    work = faults["kinds"].worker(tmp_path / "base")
    told = {}
    for number in range(12):
        case = faults["pool"].Case(kind, number)
        told[number] = faults["pool"].outcome_of(lambda case=case: work(case, tmp_path / str(case.number)))
    assert {n: text for n, (outcome, text) in told.items() if outcome not in ("used", "refused")} == {}
    assert {outcome for outcome, _ in told.values()} >= {"refused"}


def test_a_hang_a_death_and_a_fault_of_ours_are_counted(faults, tmp_path):
    from hierbench.errors import DataError

    def work(case, folder):
        if case.kind == "hang":
            os.mkfifo(folder / "f")
            (folder / "f").read_bytes()
        if case.kind == "died":
            os.kill(os.getpid(), signal.SIGKILL)
        if case.kind == "refused":
            raise DataError("one line")
        if case.kind == "internal error":
            raise DataError("two\nlines") if case.number else KeyError("x")

    pool = faults["pool"]
    cases = [pool.Case(kind, number) for kind in pool.OUTCOMES for number in range(2)]
    told = list(pool.run_cases(work, cases, 2, tmp_path, seconds=5))
    assert len(told) == len(cases)
    assert {one.case for one in told if one.outcome != one.case.kind} == set()
    rows = faults["command"].counts(told)
    assert rows["hang"] == {**dict.fromkeys(pool.OUTCOMES, 0), "hang": 2}
    assert "| all | 2 | 2 | 2 | 2 | 2 |" in faults["command"].table(told)


def test_an_input_is_the_same_each_time_and_cases_cover_every_kind(faults, tmp_path):
    faults["kinds"].prepare(tmp_path / "base", ["table layout"])
    kind = faults["kinds"].KINDS["table layout"]
    from random import Random

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        kind.make(tmp_path / name)
        kind.change(tmp_path / name, Random("5"))
    same = [{p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert same[0] == same[1]
    assert same[0] != {p.name: p.read_bytes() for p in (tmp_path / "base" / "table layout").iterdir()}
    cases = faults["command"].cases(100, faults["kinds"].KINDS)
    assert {case.kind for case in cases} == set(faults["kinds"].KINDS)
    assert abs(len(cases) - 100) <= len(faults["kinds"].KINDS)
