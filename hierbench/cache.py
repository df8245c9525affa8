"""Where hierbench keeps what it can make or fetch again: embeddings, downloads, prepared datasets."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """$HIERBENCH_CACHE, or ~/.cache/hierbench. Not created: whoever writes makes the folders it needs."""
    return Path(os.environ.get("HIERBENCH_CACHE") or "~/.cache/hierbench").expanduser()
