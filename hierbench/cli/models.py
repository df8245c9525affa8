"""`hierbench models`: adapter families and the catalog of known checkpoints."""

from __future__ import annotations

from dataclasses import asdict
from urllib.parse import urlsplit

from hierbench.cli._shared import print_json, print_listing, register, size
from hierbench.cli.options import Adapter, Json


def models(adapter: Adapter = None, as_json: Json = False) -> None:
    """Model families and known checkpoints."""
    from hierbench.models.catalog import list_models
    from hierbench.models.families import families

    register(adapter)
    known, entries = families().values(), list_models()
    if as_json:
        print_json(
            {"families": [asdict(family) for family in known], "models": [asdict(entry) for entry in entries]}
        )
        return
    print("Families: hierbench run --family NAME --checkpoint FILE, or NAME:CHECKPOINT\n")
    print_listing([asdict(family) for family in known], ["name", "summary"])
    print("\nModels: hierbench run NAME; downloaded at the first use\n")
    rows = [
        {
            "name": entry.name,
            "family": entry.family,
            "trained_on": entry.trained_on,
            "size": size(entry.size),
            "licence": entry.licence,
            "from": _source(entry),
        }
        for entry in entries
    ]
    told = [name for name in ("trained_on", "size", "licence") if any(row[name] for row in rows)]
    print_listing(rows, ["name", "family", *told, "from"], empty="(the catalog is empty)")


def _source(entry) -> str:
    if entry.builtin:
        return "this package"
    if entry.url:
        return urlsplit(entry.url).hostname or entry.url
    return f"hf: {entry.repo}" if entry.repo else entry.reference or ""
