"""Who can play the roles of the cleaning pipeline: Qwen3-VL models in this process, or behind servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hierbench.cleaning.answers import identities
from hierbench.cleaning.backends.prompts import prompt_hash
from hierbench.cleaning.roles import Absent, Cast
from hierbench.errors import HierbenchError, UsageError

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
    fetch: bool = True,
) -> Cast:
    """The three models of a backend, checked but (in this process) not yet loaded.

    `verifier`, `embedder`, `reranker`: for "transformers" a folder or a hub name, ORG/REPO or ORG/REPO@REVISION; for
    "server" the names under which they are served. `device`, `dtype` ("auto" = bfloat16 on CUDA, else float32) and
    `batch_size` (prompts at a time; default by device) matter to "transformers"; `base_url` (one for all, or by
    role), `concurrency` (requests at a time to each server), `timeout` (seconds an answer may take) and `retries`
    (after the first try) to "server". `fetch`: False puts an `Absent` in the place of a hub's model that is not on
    this machine, instead of downloading it.

    Raises UsageError, CheckpointError for a folder of the wrong kind, ServerError for a server that does not answer.
    """
    models = {"verifier": verifier, "embedder": embedder, "reranker": reranker}
    if backend not in BACKENDS:
        raise UsageError(f"no backend {backend!r}: choose {' or '.join(BACKENDS)}")
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"a batch of {batch_size} is too small: at least 1")
    if backend == "transformers":
        from hierbench.cleaning.backends import qwen3_vl

        return qwen3_vl.cast(models, device, dtype, batch_size, fetch)
    from hierbench.cleaning.backends import server

    urls = dict.fromkeys(ROLES, base_url) if isinstance(base_url, str) else dict(base_url)
    if set(urls) != set(ROLES):
        raise UsageError(f"servers are needed for {', '.join(ROLES)}, given for {', '.join(urls) or 'none'}")
    return server.cast(models, urls, concurrency=concurrency, timeout=timeout, retries=retries)


KINDS = {"verifier": "verify", "embedder": "embed", "reranker": "rerank"}  # role -> kind of its answers


def remembered(
    answers: Path, backend: str, models: Mapping[str, str], dtype: str, reason: HierbenchError
) -> Cast | None:
    """The cast as the answers in a folder know it, where it cannot be reached: other rules need no model.

    `models` by role, as for `open_cast`. Whoever is asked after all raises `reason`. None where the answers do not
    tell one player for each role, and for models in folders that are there: what is wrong with them is to be said.
    """
    players: dict[str, Any] = {}
    for role, name in models.items():
        title, _, revision = name.partition("@")
        found = [
            told
            for told in identities(answers, KINDS[role])
            if (told.get("model"), told.get("backend"), told.get("prompt_hash"))
            == (title if backend == "transformers" else name, backend, prompt_hash(role))
            and (backend == "server" or dtype in ("auto", told.get("dtype")))
            and str(told.get("revision")).startswith(revision if backend == "transformers" else "")
        ]
        if len(found) != 1 or (backend == "transformers" and Path(name).expanduser().exists()):
            return None
        players[role] = Absent(found[0], reason)
    return Cast(**players)
