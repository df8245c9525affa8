"""The script for two nodes in docs/slurm.md, run on this machine: two nodes of two processes, beside one process.

`python benchmarks/two_nodes.py` stands in for Slurm (its variables, srun, scontrol), takes a tiny model in place of the
script's and prints how far losses and embeddings are from those of one process; status 1 beyond 1e-5. A CPU's minute.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from safetensors.torch import load_file

from hierbench.reference.configuration import build, resolve
from hierbench.reference.training.batches import Batches

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = 1e-5
TINY = [
    *("model.vision_sizes.embed_dim=64", "model.vision_sizes.depth=2", "model.vision_sizes.patch_size=16"),
    *(
        "model.text=L2_W64",
        "model.embed_dim=32",
        "train.batch_size=16",
        "train.warmup_steps=1",
        "train.steps=6",
    ),
    *("train.save_every=3", "train.log_every=1", "train.precision=float32", "data.workers=1"),
    *(
        "data.caption_levels=[0,0,0,1]",
        "data.close_ups=0",
    ),  # equal texts have no angle that two sums agree on
]
SRUN = """#!/bin/bash
# One task a node, as `--ntasks-per-node=1` asks for.
for node in $(seq 0 $((SLURM_NNODES - 1))); do
  SLURM_NODEID=$node SLURM_PROCID=$node SLURM_LOCALID=0 "$@" &
  tasks="$tasks $!"
done
for task in $tasks; do wait "$task" || status=$?; done
exit "${status:-0}"
"""
SCONTROL = """#!/bin/bash
[ "$1 $2 $3" = "show hostnames localhost,localhost" ] && printf 'localhost\\nlocalhost\\n'
"""


def documented() -> str:
    """The script of docs/slurm.md that starts torchrun."""
    blocks = re.findall(r"^```bash\n(.*?)^```", (ROOT / "docs/slurm.md").read_text(), re.S | re.M)
    (script,) = [block for block in blocks if "srun torchrun" in block]
    return script


def adapted(script: str, words: list[str], out: Path, port: int) -> str:
    """The script with another model, folder and port. Raises ValueError where the script has become another one."""
    for pattern, ours in (
        (
            r"hycoclip/vit-b data\.shards=grit",
            "miniature/hycoclip " + " ".join(f"'{word}'" for word in words),
        ),
        (r"runs/hycoclip-b", f"{out} --device cpu"),
        (r":29500", f":{port}"),
    ):
        script, found = re.subn(pattern, ours.replace("\\", r"\\"), script)
        if found != 1:
            raise ValueError(f"docs/slurm.md: {pattern} stands there {found} times")
    return script


def run_as_slurm(script: str, folder: Path) -> subprocess.CompletedProcess:
    """Run a script with what Slurm would give it on two nodes of two GPUs."""
    tools = folder / "tools"
    tools.mkdir()
    for name, content in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tools / name).write_text(content)
        (tools / name).chmod(0o755)
    slurm = {
        "SLURM_JOB_ID": "4711",
        "SLURM_NNODES": "2",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_JOB_NODELIST": "localhost,localhost",
        "SLURM_SUBMIT_DIR": str(folder),
    }
    places = {
        "PATH": os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
    }
    (folder / "job.sh").write_text(script)
    return subprocess.run(
        ["bash", str(folder / "job.sh")], env=os.environ | slurm | places, capture_output=True, text=True
    )


def losses(run: Path) -> list[float]:
    """The loss of each step."""
    return [json.loads(line)["loss"] for line in (run / "train.jsonl").read_text().splitlines()]


def embeddings(run: Path) -> torch.Tensor:
    """What the finished model of a run makes of sixteen samples of the built-in world: images, captions, parts.

    Compared in place of the weights: some of those (biases of keys) move no output, have a gradient of rounding alone,
    and are moved by AdamW all the same.
    """
    config = resolve(str(run / "config.yaml"))
    model = build(config)
    model.encoder.load_state_dict(load_file(run / "model.safetensors"))
    batch = next(iter(Batches(config.data, image_size=config.model.image_size, rows=16, seed=1)))
    with torch.no_grad():
        return torch.cat(model.encode(batch.pixels.float() / 255, batch.texts[0]))


def compared(one: Path, several: Path) -> dict[str, float]:
    """The largest relative difference of a step's loss, and that of the embeddings of the finished models."""
    pairs = zip(losses(one), losses(several), strict=True)
    expected = embeddings(one)
    return {
        "losses": max(abs(b - a) / abs(a) for a, b in pairs),
        "embeddings": float((embeddings(several) - expected).norm() / expected.norm()),
    }


def main() -> int:
    """Run both and print the comparison."""
    with tempfile.TemporaryDirectory() as temporary, socket.socket() as free:
        folder = Path(temporary)
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
        free.close()
        done = run_as_slurm(adapted(documented(), TINY, folder / "two", port), folder)
        if done.returncode:
            print(done.stdout, done.stderr, sep="\n")
            return 1
        words = ["train", "miniature/hycoclip", *TINY, "--out", str(folder / "one"), "--device", "cpu"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-m", "hierbench", *words], env=environment, check=True)
        found = compared(folder / "one", folder / "two")
        steps = len(losses(folder / "two"))
    for name, value in found.items():
        print(
            f"{name}: two nodes of two processes are {value:.1e} from one process, relative, over {steps} steps"
        )
    return int(max(found.values()) > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
