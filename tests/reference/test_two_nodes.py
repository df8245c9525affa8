"""Two nodes of two processes train as one process does; the documented script for Slurm says what is tried here."""

import sys
from pathlib import Path

import pytest
from processes import together
from small_teams import APART, launched
from small_training import tiny

from hierbench.reference.training.loop import train

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import two_nodes


def test_two_nodes_of_two_processes_equal_one_process(tmp_path):
    steps = ["train.steps=3", "train.precision=float32"]
    one, two = tmp_path / "one", tmp_path / "two"
    train(tiny("hycoclip", *APART, *steps), one, device="cpu", quiet=True)
    ranks = together(launched, tiny("hycoclip", *APART, *steps, "train.sharding=full"), two, nodes=2)
    assert sorted(ranks.values()) == [("0", "0"), ("1", "1"), ("2", "0"), ("3", "1")]  # RANK, LOCAL_RANK
    assert max(two_nodes.compared(one, two).values()) < 1e-5


def test_the_documented_script_is_the_one_that_the_benchmark_runs(tmp_path):
    """With Slurm's variables and a torchrun that only says what it is told."""
    script = two_nodes.adapted(two_nodes.documented(), ["train.steps=2"], tmp_path / "run", 4711)
    script = script.replace("srun torchrun", "srun echo")
    done = two_nodes.run_as_slurm(script, tmp_path)
    assert done.returncode == 0, done.stderr
    asked = (
        "--nnodes 2 --nproc-per-node 2 --max-restarts 3 --rdzv-backend c10d --rdzv-endpoint localhost:4711 "
        "--rdzv-id 4711 -m hierbench train miniature/hycoclip train.steps=2 train.sharding=full "
        f"--out {tmp_path / 'run'} --device cpu"
    )
    assert done.stdout.splitlines() == [asked, asked]  # one torchrun a node
    headers = [line for line in two_nodes.documented().splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --ntasks-per-node=1" in headers


def test_a_node_that_fails_fails_the_script(tmp_path):
    script = two_nodes.adapted(two_nodes.documented(), [], tmp_path / "run", 4711)
    assert two_nodes.run_as_slurm(script.replace("srun torchrun", "srun false"), tmp_path).returncode == 1
    with pytest.raises(ValueError, match="stands there 0 times"):
        two_nodes.adapted("srun torchrun", [], tmp_path, 1)
