"""Several processes give the numbers of one; when one fails or dies, none is left waiting."""

import json
import socket
from pathlib import Path

import numpy as np
import pytest

from hierbench.contracts import Fit
from hierbench.engine.distributed import _merge
from hierbench.engine.encoding import Job
from hierbench.engine.runner import run
from hierbench.errors import EncodingError
from hierbench.results import read_results

RANK = """
sys.path.insert(0, here)
from dataclasses import replace
from pathlib import Path
import fakes
from hierbench.engine import setup
from hierbench.contracts import Fit
from hierbench.data.datasets import ImageFiles
from hierbench.errors import DataError
from hierbench.engine.runner import run

things = fakes.dataset(ImageFiles(Path(folder), tuple(sorted(p.name for p in Path(folder).glob("*.png")))))

def open_dataset(name, locations, **how):
    if name == "broken" and rank == 1:
        raise DataError("rank 1 cannot see it")
    return replace(things, name=name)

setup.open_dataset = open_dataset
adapter = fakes.Adapter()
if what == "dies" and rank == 1:
    adapter.encode_images = lambda pixels: os._exit(7)
tasks = [fakes.Task("broken", "broken", fit=Fit.SQUEEZE), fakes.Task()]
options = {"limit": -1} if what == "refuses" and rank == 0 else {}
found = run(adapter, tasks, out=out, batch_size=3, cache=what != "dies", **options)
print(f"encoded {adapter.images} images, has {len(found)} records")
"""


@pytest.fixture
def pair(fakes, images, process, tmp_path):
    """pair(what) -> exit status and output of two processes with the environment that torchrun gives them."""

    def start(what):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        names = {"folder": str(images.folder), "out": str(tmp_path / "two"), "what": what}
        names["here"] = str(Path(fakes.__file__).parent)
        ranks = [
            process(RANK, tmp_path / f"log{n}", env | {"RANK": str(n), "LOCAL_RANK": str(n)}, rank=n, **names)
            for n in range(2)
        ]
        for rank in ranks:
            rank.join(100)
        status = [rank.exitcode for rank in ranks]
        for rank in ranks:
            rank.kill()
        return status, [(tmp_path / f"log{n}").read_text() for n in range(2)]

    return start


def test_two_processes_give_the_numbers_of_one(fakes, images, opens, tmp_path, pair):
    status, said = pair("measures")
    assert status == [0, 0], said
    shares = [int(text.split("encoded ")[1].split()[0]) for text in said]
    assert shares == [11 + 11, 9]  # batches of 3; with the first task rank 1 could not help
    assert "encoded 22 images, has 2 records" in said[0]
    assert "has 0 records" in said[1]
    broken, two = read_results(tmp_path / "two")
    assert broken.error == "rank 1 cannot see it"
    opens(things=fakes.dataset(images))
    [one] = run(fakes.Adapter(), [fakes.Task()], batch_size=3, cache=False)
    assert two.metrics == one.metrics
    assert two.provenance["dataset_fingerprint"] == one.provenance["dataset_fingerprint"]
    assert two.provenance["processes"] == 2
    assert json.loads((tmp_path / "two" / "run.json").read_text())["models"] == ["fake"]


def test_a_rank_that_dies_ends_the_others(pair):
    status, said = pair("dies")
    assert status[1] == 7
    assert status[0] not in (0, None)
    assert "LostRankError: rank 0: another process of the run has ended" in said[0]


def test_what_rank_0_refuses_ends_the_others(pair):
    status, said = pair("refuses")
    assert status == [1, 1]
    assert "UsageError: limit is -1" in said[0]
    assert "HierbenchError: rank 0: limit is -1" in said[1]


JOB = Job(Fit.CROP, ((("a", b"1"), ("b", b"2")), (("c", b"3"),)), ())


def test_parts_come_back_in_order():
    parts = [JOB.part(0, 2).images, JOB.part(1, 2).images]
    rows = _merge(JOB.images, parts, [np.float32([[1], [2]]), np.float32([[3]])])
    assert rows.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("parts", "rows"),
    [
        ([JOB.images[:1], ()], [np.zeros((2, 1)), np.zeros((0, 1))]),  # one batch is missing
        ([JOB.images[:1], JOB.images[1:]], [np.zeros((1, 1)), np.zeros((1, 1))]),  # a row is missing
        ([JOB.images[:1], ((("x", b"9"),),)], [np.zeros((2, 1)), np.zeros((1, 1))]),  # another item
    ],
)
def test_coverage_is_checked(parts, rows):
    with pytest.raises(EncodingError, match="embeddings for"):
        _merge(JOB.images, parts, rows)
