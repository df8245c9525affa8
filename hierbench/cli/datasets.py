"""`hierbench datasets`: what can be measured on, and where it lies."""

from __future__ import annotations

from typing import Any

from hierbench.cli._shared import locations, print_json, print_listing, register
from hierbench.cli.options import Data, DataDir, Json, Manifest


def datasets(
    data: Data = None,
    data_dir: DataDir = None,
    manifest: Manifest = None,
    as_json: Json = False,
) -> None:
    """Datasets: which are at hand, and how to get the others."""
    from hierbench import registry
    from hierbench.data.locate import describe

    register(manifests=manifest)
    where = locations(data, data_dir)
    rows: list[dict[str, Any]] = []
    for entry in registry.list_datasets():
        status = describe(entry.name, where)
        rows.append(
            {
                "name": entry.name,
                "title": entry.title,
                "ready": status.ready,
                "state": status.state,
                "note": status.note,
                "path": None if status.path is None else str(status.path),
                "found_by": status.found_by,
                "obtain": status.obtain,
                "tasks": list(entry.tasks),
                "licence": entry.licence,
                "homepage": entry.homepage,
                "classes": len(entry.class_ids),
                "counts": entry.counts.model_dump(),
            }
        )
    if as_json:
        print_json({"datasets": rows})
        return
    for row in rows:
        row["kinds"] = ", ".join(row["tasks"])
        first = row["note"].partition("; ")[0]
        row["where"] = f"{row['path'] or ''} {first and f'({first})'}".strip()
    print_listing(rows, ["name", "title", "kinds", "state", "where"], empty="(no datasets)")
    missing = [row for row in rows if not row["ready"]]
    if missing:
        print("\nHow to get what is missing:\n")
        print_listing(missing, ["name", "obtain"])
