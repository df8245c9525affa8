"""`hierbench cache`: stored embeddings, and the measurements that runs remember."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hierbench.cli._shared import print_json, print_listing, size, sub_app
from hierbench.cli.options import Json

app = sub_app("Stored embeddings and remembered measurements.")


@app.command()
def stats(as_json: Json = False) -> None:
    """What the cache holds: measurements, and embeddings, the last used first."""
    import time

    from hierbench.engine import remembering
    from hierbench.engine.store import EmbeddingStore

    store = EmbeddingStore()
    sections, (count, taken) = store.stats(), remembering.stats()
    rows = [
        {name: section.about[name] for name in ("model", "kind", "dtype", "device")}
        | {
            "rows": section.rows,
            "bytes": section.bytes,
            "last_used": section.last_used,
            "folder": str(section.folder),
        }
        for section in sections
    ]
    if as_json:
        measurements = {"count": count, "bytes": taken}
        total = sum(row["bytes"] for row in rows)
        print_json(
            {"folder": str(store.folder), "bytes": total, "sections": rows, "measurements": measurements}
        )
        return
    print(f"{count:,} measurements remembered: {size(taken)}")
    print(f"{store.folder}: {size(sum(row['bytes'] for row in rows))}\n")
    for row in rows:
        row["size"] = size(row["bytes"])
        row["rows"] = f"{row['rows']:,}"
        row["last_used"] = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["last_used"]))
    print_listing(
        rows, ["model", "kind", "dtype", "device", "rows", "size", "last_used"], empty="(no embeddings)"
    )


@app.command()
def prune(
    days: Annotated[
        float | None, typer.Option(metavar="N", min=0, help="Delete what was not used for so many days.")
    ] = None,
    max_size: Annotated[
        float | None, typer.Option(metavar="GB", min=0, help="Keep at most so much, the last used.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete everything.")] = False,
    as_json: Json = False,
) -> None:
    """Delete embeddings and measurements; without options only damaged files and leftovers of killed runs."""
    from hierbench.engine import remembering
    from hierbench.engine.store import EmbeddingStore

    older_than = None if days is None else days * 86400
    most = 0 if everything else None if max_size is None else int(max_size * 1e9)
    forgotten, freed = remembering.prune(older_than=older_than, max_bytes=most)
    if most:  # measurements are small and save the most time: embeddings get the rest
        most = max(0, most - remembering.stats()[1])
    pruned = EmbeddingStore().prune(older_than=older_than, max_bytes=most)
    freed += pruned.bytes
    if as_json:
        print_json({"sections": pruned.sections, "measurements": forgotten, "bytes": freed})
    else:
        print(f"deleted {pruned.sections} sections and {forgotten} measurements, {size(freed)} freed")


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="Where to: a name in .parquet or .npz.")],
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Only this model's; all by default.")
    ] = None,
) -> None:
    """Write stored embeddings (tangent features) to a file."""
    from hierbench.engine.store import EmbeddingStore

    print(f"{EmbeddingStore().export(file, model):,} rows written to {file}")
