"""hierbench: hierarchy-aware evaluation of hyperbolic and Euclidean vision-language models.

The names below are the public API. They load on first use, so that `hierbench --help` does not wait for torch.
"""

from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"

_root = Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "tasks" / "__init__.py").is_file():
    # In a checkout the folders tasks/, model_adapters/, data_manifests/ and leaderboard/ stand beside this
    # package; the wheel maps them into it. This line gives a checkout the same names.
    __path__.append(str(_root))

_API = {
    "list_models": "hierbench.models.catalog",
    "list_tasks": "hierbench.registry",
    "list_datasets": "hierbench.registry",
    "load_model": "hierbench.models.reference",
    "load_manifest": "hierbench.data.manifests",
    "run": "hierbench.engine.runner",
    "check_adapter": "hierbench.models.conformance",
    "HierbenchError": "hierbench.errors",
}
_MODULES = ("geometry", "metrics", "taxonomy", "reference", "contracts", "miniature")

__all__ = [*_API, *_MODULES]


def __getattr__(name: str):
    if name in _API:
        return getattr(import_module(_API[name]), name)
    if name in _MODULES:
        return import_module(f"hierbench.{name}")
    raise AttributeError(f"module 'hierbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
