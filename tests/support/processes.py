"""Functions run by several processes of torch.distributed, started by torchrun's own agent.

The agent runs in the test's process and forks its workers off a server that has imported torch already: seconds less
for each of them than `torchrun SCRIPT` takes. Functions are found by name, so they lie in a module of tests/support.
"""

import multiprocessing
import os
import signal
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor

PRELOADED = [
    "hierbench.cli",
    "hierbench.reference.training.launch",
    "hierbench.engine.runner",
    "open_clip.tokenizer",
    "torch.distributed.checkpoint",
    "webdataset.tariterators",
]
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""The agent sets handlers of these and leaves them."""


def forkserver():
    """The context whose processes are forked off a server that has the package's slow imports behind it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def together(function, *arguments, processes=2, restarts=0, nodes=1):
    """rank -> what function(*arguments) returned there. Raises AssertionError with the first one's traceback.

    `processes` of each node; several nodes are as many agents, which find each other at a port of this machine.
    """
    forkserver()
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    name = uuid.uuid4().hex

    def node():
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch

        config = LaunchConfig(
            min_nodes=nodes,
            max_nodes=nodes,
            nproc_per_node=processes,
            max_restarts=restarts,
            monitor_interval=0.05,
            start_method="forkserver",
            rdzv_backend="c10d",
            rdzv_endpoint=f"localhost:{port}",
            rdzv_configs={"last_call_timeout": 1},
            run_id=name,
        )
        try:
            return elastic_launch(config, _alone)(function, *arguments)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            raise AssertionError(f"rank {rank}: {failure.message}") from None

    before = [signal.getsignal(number) for number in SIGNALS]
    try:
        if nodes == 1:
            return node()
        with ThreadPoolExecutor(nodes) as pool:
            return {
                rank: value
                for found in pool.map(lambda _: node(), range(nodes))
                for rank, value in found.items()
            }
    finally:
        os.environ.pop("TORCHELASTIC_SIGNALS_TO_HANDLE", None)
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)


def _alone(function, *arguments):
    import torch

    torch.set_num_threads(1)  # the cores are shared
    return function(*arguments)
