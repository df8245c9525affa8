"""`hierbench analyze`: radii by level, image-to-root traversals, HoroPCA, uncertainty; ambiguity of a benchmark."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from hierbench.cli._shared import (
    Json,
    existing_folder,
    locations,
    print_json,
    print_listing,
    register,
    say,
    sub_app,
)
from hierbench.errors import UsageError

app = sub_app("Look into a model's embeddings; writes CSV files and pictures.")

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A name, FAMILY:CHECKPOINT, or a checkpoint file.")
]
Dataset = Annotated[str, typer.Option(metavar="NAME", help="Whose captions and images.")]
Data = Annotated[
    list[str] | None, typer.Option(metavar="NAME=PATH", help="Where a dataset lies; repeatable.")
]
DataDir = Annotated[Path | None, typer.Option(metavar="DIR", help="A folder of datasets by name.")]
Adapter = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="A model family of yours, in Python.")
]
Limit = Annotated[int | None, typer.Option(metavar="N", min=1, help="At most N items of the dataset.")]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda, cuda:1, mps.")]
Offline = Annotated[bool, typer.Option("--offline", help="Download nothing.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Where files go (default: runs/TIME-analyze).")]

DATASET = "miniature-chains"


class Centre(StrEnum):
    """What lies in the middle of the picture."""

    origin = "origin"
    mean = "mean"


@app.command()
def norms(
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, adapter: Adapter = None,
    limit: Limit = None, device: Device = "auto", offline: Offline = False, out: Out = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Distances from the root, by level of caption and for images."""
    from hierbench.analysis import reports

    embedded = _embedded(model, dataset, data, data_dir, adapter, limit, device, offline)
    out = _folder(out)
    _show(reports.norms(embedded, out, f"{model}, {dataset}"), out, as_json)


@app.command()
def uncertainty(
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, adapter: Adapter = None,
    limit: Limit = None, device: Device = "auto", offline: Offline = False, out: Out = None, as_json: Json = False,
) -> None:  # fmt: skip
    """UNCHA's uncertainty of each caption and image: high near the origin, low far out."""
    from hierbench.analysis import reports

    embedded = _embedded(model, dataset, data, data_dir, adapter, limit, device, offline)
    out = _folder(out)
    _show(reports.uncertainties(embedded, out, f"{model}, {dataset}"), out, as_json)


@app.command()
def horopca(
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, adapter: Adapter = None,
    limit: Limit = None, device: Device = "auto", offline: Offline = False, out: Out = None, as_json: Json = False,
    centre: Annotated[Centre, typer.Option(metavar="NAME", help="origin or mean.")] = Centre.origin,
) -> None:  # fmt: skip
    """A hyperbolic model's embeddings in the Poincaré disc."""
    from hierbench.analysis import reports

    embedded = _embedded(model, dataset, data, data_dir, adapter, limit, device, offline)
    out = _folder(out)
    _show(reports.horopca_plane(embedded, out, f"{model}, {dataset}", centre.value), out, as_json)


@app.command()
def traversal(
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, adapter: Adapter = None,
    limit: Limit = None, device: Device = "auto", offline: Offline = False, out: Out = None, as_json: Json = False,
    image: Annotated[
        list[str] | None, typer.Option(metavar="ID|FILE", help="An image of the dataset, or a file of yours.")
    ] = None,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="Without --image: so many of the dataset.")] = 5,
    captions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Captions to meet, one a line, instead of the dataset's.")
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", min=2, help="Points between image and root.")] = 50,
    all_captions: Annotated[
        bool, typer.Option("--all-captions", help="Also captions whose cone does not hold the point.")
    ] = False,
) -> None:  # fmt: skip
    """The captions met on the way from an image to the root."""
    from hierbench.analysis import reports

    embedded = _embedded(
        model,
        dataset,
        data,
        data_dir,
        adapter,
        limit,
        device,
        offline,
        own_images=image,
        own_captions=captions,
    )
    labels = embedded.groups["images"].labels
    chosen = image or [
        labels[i * len(labels) // min(count, len(labels))] for i in range(min(count, len(labels)))
    ]
    out = _folder(out)
    rows = reports.traversals(embedded, out, chosen, steps=steps, within_cones=not all_captions)
    _show(rows, out, as_json)


@app.command()
def ambiguity(
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, adapter: Adapter = None,
    limit: Limit = None, device: Device = "auto", offline: Offline = False, out: Out = None, as_json: Json = False,
    similar_by: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Whose images say which are similar, e.g. blip:Salesforce/blip-itm-large-coco (default: MODEL's).",
        ),
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", metavar="N", min=0, help="Similar images to remove; repeatable (default: 0, 5, 10)."),
    ] = None,
    pool: Annotated[int, typer.Option(metavar="N", min=1, help="Similar images in the local pool.")] = 5,
) -> None:  # fmt: skip
    """How many captions of similar images are taken for an image's own (ARGENT, Table 1 and Figure 5)."""
    from hierbench.analysis import reports
    from hierbench.analysis.ambiguity import REMOVED
    from hierbench.data.datasets import CaptionChains

    opened = _opened(dataset, data, data_dir, adapter, limit)
    if not isinstance(opened, CaptionChains):
        raise UsageError(f"--dataset {dataset} has no chains of captions: choose hierarcaps or {DATASET}")
    embedded = _under(model, dataset, opened, device, offline)
    finder = _under(similar_by, dataset, opened, device, offline) if similar_by else embedded
    out = _folder(out)
    title = f"{model}, {dataset}; similar images by {similar_by or 'itself'}"
    _show(
        reports.ambiguities(embedded, opened, finder, out, title, ks=sorted(set(k or REMOVED)), pool=pool),
        out,
        as_json,
    )


def _embedded(
    model: str, dataset: str, data: Any, data_dir: Path | None, adapters: Any, limit: int | None, device: str,
    offline: bool, own_images: list[str] | None = None, own_captions: Path | None = None,
):  # fmt: skip
    """The dataset's embeddings under the model, with images and captions of the user's own where given."""
    from hierbench.analysis.groups import with_own

    files = {name: Path(name) for name in own_images or () if Path(name).is_file()}
    if own_captions is not None and not own_captions.is_file():
        raise UsageError(f"--captions {own_captions}: there is no such file")
    opened = with_own(_opened(dataset, data, data_dir, adapters, limit), files, own_captions)
    return _under(model, dataset, opened, device, offline)


def _opened(dataset: str, data: Any, data_dir: Path | None, adapters: Any, limit: int | None):
    """The dataset, or its first part; the user's own adapter files are known from here on."""
    from hierbench.data.readers import open_dataset

    register(adapters)
    existing_folder("--data-dir", data_dir)
    opened = open_dataset(dataset, locations(data, data_dir))
    return opened if limit is None else opened.limited(limit)


def _under(model: str, dataset: str, opened: Any, device: str, offline: bool):
    """A dataset's embeddings under a model."""
    from hierbench.analysis.groups import gather
    from hierbench.data.manifests import load_manifest
    from hierbench.engine.setup import resolve_device
    from hierbench.engine.store import EmbeddingStore
    from hierbench.models.reference import load_model
    from hierbench.progress import choose

    device = resolve_device(device)
    adapter = load_model(model, device=device, offline=offline)
    store = EmbeddingStore() if adapter.card.sha256 else None
    return gather(adapter, opened, load_manifest(dataset).fit, store=store, progress=choose(), device=device)


def _folder(out: Path | None) -> Path:
    return (out or Path("runs") / f"{time.strftime('%Y-%m-%d-%H%M%S')}-analyze").expanduser()


def _show(rows: list[dict[str, Any]], out: Path, as_json: bool) -> None:
    if as_json:
        print_json({"rows": rows, "folder": str(out)})
        return
    shown = [{k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    print_listing(shown, list(rows[0]) if rows else [])
    say(f"\nFiles in {out}")
