"""Several processes give the numbers of one; when one fails or dies, none is left waiting."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hierbench.contracts import Fit
from hierbench.distributed import _merge
from hierbench.encoding import Job
from hierbench.errors import EncodingError

SCRIPT = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import fakes
from hierbench import run_setup
from hierbench.contracts import Fit
from hierbench.data.datasets import ImageFiles
from hierbench.errors import DataError
from hierbench.runner import run

folder, out, what = Path(sys.argv[2]), sys.argv[3], sys.argv[4]
things = fakes.dataset(ImageFiles(folder, tuple(sorted(p.name for p in folder.glob("*.png")))))
rank = int(os.environ["RANK"])

def open_dataset(name, locations, **how):
    if name == "broken" and rank == 1:
        raise DataError("rank 1 cannot see it")
    return things

run_setup.open_dataset = open_dataset
adapter = fakes.Adapter()
if what == "dies" and rank == 1:
    adapter.encode_images = lambda pixels: os._exit(7)
tasks = [fakes.Task("broken", "broken", fit=Fit.SQUEEZE), fakes.Task()]
options = {"limit": -1} if what == "refuses" and rank == 0 else {}
found = run(adapter, tasks, out=out, batch_size=3, cache=what != "dies", **options)
print(f"RANK {rank} encoded {adapter.images} images, has {len(found)} records", flush=True)
"""


def start(fakes, images, out, cache, what="measures"):
    """Two processes as torchrun would start them; returns their exit status and output."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                SCRIPT,
                str(Path(fakes.__file__).parent),
                str(images.folder),
                str(out),
                what,
            ],
            env=os.environ
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "HIERBENCH_CACHE": str(cache)}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], said


def test_two_processes_give_the_numbers_of_one(fakes, images, opens, tmp_path):
    from hierbench.results import read_results
    from hierbench.runner import run

    status, said = start(fakes, images, tmp_path / "two", tmp_path / "cache")
    assert status == [0, 0], said
    shares = [int(text.split("encoded ")[1].split()[0]) for text in said]
    assert shares == [11 + 11, 9]  # batches of 3; with the first task rank 1 could not help
    assert "RANK 0 encoded 22 images, has 2 records" in said[0]
    assert "has 0 records" in said[1]
    broken, two = read_results(tmp_path / "two")
    assert broken.error == "rank 1 cannot see it"
    opens(things=fakes.dataset(images))
    [one] = run(fakes.Adapter(), [fakes.Task()], batch_size=3, cache=False)
    assert two.metrics == one.metrics
    assert two.provenance["dataset_fingerprint"] == one.provenance["dataset_fingerprint"]
    assert two.provenance["processes"] == 2
    assert json.loads((tmp_path / "two" / "run.json").read_text())["models"] == ["fake"]


def test_a_rank_that_dies_ends_the_others(fakes, images, tmp_path):
    status, said = start(fakes, images, tmp_path / "out", tmp_path / "cache", "dies")
    assert status[1] == 7
    assert status[0] not in (0, None)
    assert "LostRankError: rank 0: another process of the run has ended" in said[0]


def test_what_rank_0_refuses_ends_the_others(fakes, images, tmp_path):
    status, said = start(fakes, images, tmp_path / "out", tmp_path / "cache", "refuses")
    assert 0 not in status
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
