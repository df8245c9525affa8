"""Scripts run by several processes of torch.distributed, as torchrun starts them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def torchrun(script, *arguments, processes=2, options=("--standalone",), timeout=240, **environment):
    """Run a script, or with ("-m", MODULE) a module, in so many processes of gloo; returns the ended process."""
    script = [script] if isinstance(script, str | Path) else script
    command = [sys.executable, "-m", "torch.distributed.run", *options, "--nproc-per-node", str(processes)]
    return subprocess.run(
        [*command, *map(str, (*script, *arguments))],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
