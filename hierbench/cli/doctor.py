"""`hierbench doctor`: what is installed, what is missing, what to type next."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from hierbench import __version__
from hierbench.cli._shared import (
    folder_size,
    locations,
    print_json,
    print_listing,
    print_text,
    register,
    size,
)
from hierbench.cli.options import Data, DataDir, Json, Manifest

PACKAGES = [  # what moves figures or is needed by a command
    "torch", "torchvision", "timm", "open_clip_torch", "transformers", "safetensors", "huggingface_hub", "numpy",
    "scipy", "scikit-learn", "nltk", "pandas", "pyarrow", "pydantic", "typer", "rich", "matplotlib", "pillow",
    "webdataset", "tensorboard", "openai",
]  # fmt: skip
OPTIONAL = {"webdataset": "training", "tensorboard": "training", "openai": "cleaning with a server"}


def doctor(
    data: Data = None,
    data_dir: DataDir = None,
    manifest: Manifest = None,
    as_json: Json = False,
) -> None:
    """What is installed, what is missing, what to type next."""
    register(manifests=manifest)
    report = examine(locations(data, data_dir))
    if as_json:
        print_json(report)
    else:
        _print(report)


def examine(where) -> dict[str, Any]:
    """Everything that the doctor looks at, as one JSON-able mapping. `where`: the `Locations` to look in."""
    from hierbench.cache import cache_dir

    datasets = _datasets(where)
    return {
        "hierbench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "folder": str(Path(__file__).resolve().parent.parent),
        "packages": {name: _version(name) for name in PACKAGES},
        "devices": _devices(),
        "datasets": datasets,
        "cache": {
            "folder": str(cache_dir()),
            "bytes": folder_size(cache_dir()),
            "downloads": folder_size(cache_dir() / "downloads"),
        },
        "wordnet": _wordnet(),
        "models": _models(),
        "next": _next(datasets),
    }


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> list[dict[str, Any]]:
    try:
        import torch
    except ImportError as error:
        return [{"name": "none", "what": f"torch does not import: {error}"}]
    found = [
        {"name": "cpu", "what": f"{os.cpu_count()} cores, {torch.get_num_threads()} threads used by torch"}
    ]
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        found.append(
            {"name": f"cuda:{number}", "what": f"{properties.name}, {size(properties.total_memory)}"}
        )
    if torch.backends.mps.is_available():
        found.append({"name": "mps", "what": "Apple GPU"})
    return found


def _datasets(where) -> list[dict[str, Any]]:
    from hierbench import registry
    from hierbench.data.locate import describe

    rows = []
    for manifest in registry.list_datasets():
        status = describe(manifest.name, where)
        path = None if status.path is None else str(status.path)
        rows.append(
            {
                "name": status.name,
                "ready": status.ready,
                "state": status.state,
                "path": path,
                "by": status.found_by,
                "obtain": status.obtain,
                "downloads": not manifest.by_hand,
            }
        )
    return rows


def _wordnet() -> dict[str, Any]:
    """WordNet 3.0's files, needed only to rebuild the class trees that the package ships."""
    from hierbench.taxonomy import find_wordnet

    folder = find_wordnet()
    return {"folder": folder and str(folder)}


def _models() -> dict[str, Any]:
    from hierbench.models.catalog import list_models
    from hierbench.models.families import families

    entries = list_models()
    return {
        "families": list(families()),
        "builtin": [entry.name for entry in entries if entry.builtin],
        "catalog": len(entries),
    }


def _next(datasets: list[dict[str, Any]]) -> str:
    """The most useful command for what there is."""
    real = [row for row in datasets if row["ready"] and row["by"] != "built in"]
    given = " ".join(f"--data {row['name']}={row['path']}" for row in real if row["by"] == "--data")
    if real:
        return f"hierbench run --family FAMILY --checkpoint FILE --suite argent {given}".rstrip()
    return "hierbench run"


def _print(report: dict[str, Any]) -> None:
    print_text(f"hierbench {report['hierbench']} in {report['folder']}")
    print_text(f"Python {report['python']} on {report['platform']}")
    print()
    packages = report["packages"]
    installed = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    print_text(f"Packages: {installed}")
    for name, version in packages.items():
        if version is None:
            why = f"only for {OPTIONAL[name]}" if name in OPTIONAL else "required: reinstall hierbench"
            print_text(f"  not installed: {name} ({why}; pip install {name})", indent=4)
    print("\nDevices\n")
    print_listing(report["devices"], ["name", "what"])
    models = report["models"]
    bundled = f"; bundled: {', '.join(models['builtin'])}" if models["builtin"] else ""
    print()
    print_text(
        f"Models: families {', '.join(models['families'])}; {models['catalog']} in the catalog{bundled}"
    )
    print("\nDatasets\n")
    rows = [
        row
        | {
            "where": f"{row['path']} ({row['by']})"
            if row["path"]
            else ""
            if row["ready"]
            else f"hierbench data prepare {row['name']}{'' if row['downloads'] else ' --from PATH'}",
        }
        for row in report["datasets"]
    ]
    print_listing(rows, ["name", "state", "where"], empty="(no datasets)")
    if not all(row["ready"] for row in rows):
        print()
        print_text("`hierbench datasets` says where each comes from.")
    print()
    cache = report["cache"]
    of_it = f", of it {size(cache['downloads'])} in downloads/, needed no more once a dataset is prepared"
    print_text(
        f"Cache: {cache['folder']}, {size(cache['bytes'])}{of_it if cache['downloads'] else ''} "
        "(HIERBENCH_CACHE moves it)"
    )
    wordnet = report["wordnet"]["folder"]
    print_text(
        f"WordNet: {wordnet or 'not found; only rebuilding the class trees needs it (apt install wordnet-base)'}"
    )
    print(f"\nNext: {report['next']}")  # a command to copy stays on one line
