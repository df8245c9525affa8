"""Who can play the roles of the cleaning pipeline: Qwen3-VL models in this process, or behind servers."""

from __future__ import annotations

from collections.abc import Mapping

from hierbench.cleaning.roles import Cast
from hierbench.errors import UsageError

BACKENDS = ("transformers", "server")
ROLES = ("verifier", "embedder", "reranker")
DEFAULT_URL = "http://localhost:8000/v1"


def open_cast(
    backend: str,
    *,
    verifier: str,
    embedder: str,
    reranker: str,
    device: str = "auto",
    dtype: str = "auto",
    batch_size: int | None = None,
    base_url: str | Mapping[str, str] = DEFAULT_URL,
    concurrency: int = 16,
    timeout: float = 120.0,
    retries: int = 6,
) -> Cast:
    """The three models of a backend, checked but (in this process) not yet loaded.

    `verifier`, `embedder`, `reranker`: for "transformers" a folder or a hub name, ORG/REPO or ORG/REPO@REVISION; for
    "server" the names under which they are served. `device`, `dtype` ("auto" = bfloat16 on CUDA, else float32) and
    `batch_size` (prompts at a time; default by device) matter to "transformers"; `base_url` (one for all, or by
    role), `concurrency` (requests at a time to each server), `timeout` (seconds an answer may take) and `retries`
    (after the first try) to "server".

    Raises UsageError, CheckpointError for a folder of the wrong kind, ServerError for a server that does not answer.
    """
    models = {"verifier": verifier, "embedder": embedder, "reranker": reranker}
    if backend not in BACKENDS:
        raise UsageError(f"no backend {backend!r}: choose {' or '.join(BACKENDS)}")
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"a batch of {batch_size} is too small: at least 1")
    if backend == "transformers":
        from hierbench.cleaning.backends import qwen3_vl

        return qwen3_vl.cast(models, device, dtype, batch_size)
    from hierbench.cleaning.backends import server

    urls = dict.fromkeys(ROLES, base_url) if isinstance(base_url, str) else dict(base_url)
    if set(urls) != set(ROLES):
        raise UsageError(f"servers are needed for {', '.join(ROLES)}, given for {', '.join(urls) or 'none'}")
    return server.cast(models, urls, concurrency=concurrency, timeout=timeout, retries=retries)
