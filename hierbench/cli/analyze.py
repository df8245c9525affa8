"""`hierbench analyze`: radii, traversals, HoroPCA, uncertainty; ambiguity of a benchmark; what the geometry does."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from hierbench.cli._asked import DATASET, Asked, Dataset, Form, Form_, Out, Several
from hierbench.cli._shared import print_json, print_listing, print_text, run_folder, say, sub_app, width
from hierbench.cli.options import (
    Adapter,
    BatchSize,
    Count,
    Data,
    DataDir,
    Device,
    Dtype,
    DtypeName,
    Json,
    Limit,
    Manifest,
    NoCache,
    Offline,
    Protocol,
    ProtocolName,
    Workers,
)
from hierbench.errors import UsageError

app = sub_app("Look into a model's embeddings; writes CSV files and pictures.")

READ_OTHERWISE = ("miniature-chains", "miniature-things", "miniature")

On = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="NAME",
        help="A dataset that has counterfactual/NAME; repeatable (default: the built-in world's three).",
    ),
]


class Centre(StrEnum):
    """What lies in the middle of the picture."""

    origin = "origin"
    mean = "mean"


@app.command()
def norms(
    models: Several, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, form: Form_ = Form.png, as_json: Json = False,
) -> None:  # fmt: skip
    """Distances from the root, by level of caption and for images."""
    asked = Asked.of(locals())
    from hierbench.analysis import reports

    found = asked.several(models, asked.open())
    out = run_folder(out, "{}-analyze")
    _show(reports.norms(found, out, dataset, form), out, as_json)


@app.command()
def uncertainty(
    models: Several, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, form: Form_ = Form.png, as_json: Json = False,
) -> None:  # fmt: skip
    """UNCHA's uncertainty of each caption and image: high near the origin, low far out.

    It is a formula of the norm; models of other families were not trained with it, and the output says so.
    """
    asked = Asked.of(locals())
    from hierbench.analysis import reports

    found = asked.several(models, asked.open())
    out = run_folder(out, "{}-analyze")
    rows = reports.uncertainties(found, out, dataset, form)
    _show(rows, out, as_json)
    untrained = dict.fromkeys(row["model"] for row in rows if not row["trained"])
    if untrained:
        say(
            f"{', '.join(untrained)}: not trained with this uncertainty, it is UNCHA's formula applied to norms."
        )


@app.command()
def horopca(
    models: Several, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, form: Form_ = Form.png, as_json: Json = False,
    centre: Annotated[Centre, typer.Option(metavar="NAME", help="origin or mean.")] = Centre.origin,
) -> None:  # fmt: skip
    """A hyperbolic model's embeddings in the Poincaré disc."""
    asked = Asked.of(locals())
    from hierbench.analysis import reports

    found = asked.several(models, asked.open())
    out = run_folder(out, "{}-analyze")
    _show(reports.horopca_plane(found, out, dataset, centre.value, form), out, as_json)


@app.command()
def traversal(
    models: Several, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, form: Form_ = Form.png, as_json: Json = False,
    image: Annotated[
        list[str] | None, typer.Option(metavar="ID|FILE", help="An image of the dataset, or a file of yours.")
    ] = None,
    count: Count = 5,
    captions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Captions to meet, one a line, instead of the dataset's.")
    ] = None,
    steps: Annotated[
        int, typer.Option(metavar="N", min=2, help="How many steps (points between image and root).")
    ] = 50,
    all_captions: Annotated[
        bool, typer.Option("--all-captions", help="Also captions whose cone does not hold the point.")
    ] = False,
) -> None:  # fmt: skip
    """The captions met on the way from an image to the root (MERU, section 5).

    At each point on the way the nearest caption is met of those whose entailment cone holds the point, as in MERU's
    released script; the root holds all. Where no caption's cone does (ARGENT's models are trained by angles, not by
    cones), or with --all-captions, the nearest caption is met, whatever its cone.
    """
    asked = Asked.of(locals())
    from hierbench.analysis import reports
    from hierbench.analysis.groups import with_own
    from hierbench.data.datasets import spread

    opened = asked.open()
    chosen = image or [opened.images.ids[row] for row in spread(len(opened.images.ids), count)]
    own = with_own(opened, chosen, captions)
    found = asked.several(models, own)
    out = run_folder(out, "{}-analyze")
    rows = reports.traversals(
        found, own.images, out, chosen, steps=steps, within_cones=not all_captions, form=form
    )
    _show(rows, out, as_json)
    if len(set(chosen)) > reports.DRAWN:
        say(f"The picture has the first {reports.DRAWN} of {len(set(chosen))} images; traversal.csv has all.")
    for model, embedded in found.items():
        outside = {row["image"] for row in rows if row["model"] == model and not row["within_cones"]}
        if outside and embedded.geometry.has_cones and not all_captions:
            say(
                f"{model}: no caption's cone holds a point on the way from {len(outside)} of {len(chosen)} images to "
                "the root: there the nearest captions are shown without regard to cones."
            )


@app.command()
def ambiguity(
    models: Several, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, form: Form_ = Form.png, as_json: Json = False,
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
    asked = Asked.of(locals())
    from hierbench.analysis import reports
    from hierbench.analysis.ambiguity import REMOVED
    from hierbench.data.datasets import CaptionChains

    opened = asked.open()
    if not isinstance(opened, CaptionChains):
        raise UsageError(f"--dataset {dataset} has no chains of captions: choose hierarcaps or {DATASET}")
    found = asked.several(models, opened)
    finder = asked.embedded(similar_by, opened) if similar_by else None
    out = run_folder(out, "{}-analyze")
    title = f"{dataset}; similar images by {similar_by or 'each model itself'}"
    rows = reports.ambiguities(
        found, opened, finder, out, title, ks=sorted(set(k or REMOVED)), pool=pool, form=form
    )
    _show(rows, out, as_json)


@app.command()
def entailment(
    models: Several, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, form: Form_ = Form.png, as_json: Json = False,
) -> None:  # fmt: skip
    """Entailment scores of true and false pairs: distributions, ROC and precision-recall by level of caption.

    The pairs and scores are PEP's: each level's captions with their images against a pool of captions with all images.
    Models without cones are seen from the empty caption, as in PEP radial. Writes entailment.csv, entailment.json (with
    curves and histograms) and a picture; says where so many scores tie that AUC and AP say little.
    """
    asked = Asked.of(locals())
    from hierbench.analysis import reports

    found = asked.scored(models, ("pep-v2", "pep-uncleaned"), "pairs of captions and images to tell apart")
    out = run_folder(out, "{}-analyze")
    rows = reports.entailments(found, out, dataset, form)
    _show(rows, out, as_json, _show_entailments)


@app.command()
def confusion(
    models: Several, dataset: Dataset = "miniature-things", data: Data = None, data_dir: DataDir = None,
    manifest: Manifest = None, adapter: Adapter = None, limit: Limit = None, device: Device = "auto",
    protocol: ProtocolName = Protocol.released, dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None,
    workers: Workers = None, no_cache: NoCache = False, offline: Offline = False, out: Out = None,
    form: Form_ = Form.png, as_json: Json = False, count: Count = 3,
) -> None:  # fmt: skip
    """Errors over the class tree: how far off they are, at which nodes they part, which classes are confused.

    The predictions are those of the dataset's hierarchy task. Writes confusion.csv (each node with its images, those
    right, those predicted within it, and the errors that part there), confusion.json with every pair of confused
    classes, and a picture: which branches are taken for which, with at most 24 branches, and how far off.
    """
    asked = Asked.of(locals())
    from hierbench.analysis import reports

    found = asked.scored(models, ("hierarchy",), "tree of its classes")
    out = run_folder(out, "{}-analyze")
    rows = reports.confusions(found, asked.tree(), out, dataset, count, form)
    _show(rows, out, as_json, _show_confusions)


@app.command()
def geometry(
    models: Several, on: On = None, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, form: Form_ = Form.png, as_json: Json = False,
) -> None:  # fmt: skip
    """Whether a model's geometry does any work: where points lie, where depth is, what figures owe to radii.

    Of each dataset: how far out captions, classes and images lie against the curvature, how many cones are
    half-spaces, whether radius or direction tells the level, how tree-like distances are, and how the figure of its
    hierarchy, PEP or retrieval task changes with the radii equal, shuffled, or the space read as flat. Writes
    geometry.json, with every interval and a verdict in words, and a picture.
    """
    asked = Asked.of({**locals(), "dataset": ""})
    from hierbench.analysis import reports
    from hierbench.analysis.geometry import look

    chosen = [asked.to_read_otherwise(name) for name in dict.fromkeys(on or READ_OTHERWISE)]
    looks: dict[str, dict[str, Any]] = {opened.name: {} for opened, _ in chosen}
    for model in dict.fromkeys(models):
        session = asked.session(model)
        for opened, task in chosen:
            found = session.embed(opened, task.requests(opened), task.spec.fit)
            looks[opened.name][model] = look(session.geometry, found, opened, task)
    out = run_folder(out, "{}-analyze")
    documents = reports.geometries(looks, out, "Does the geometry do any work?", form)
    if as_json:
        print_json({"looks": documents, "folder": str(out)})
        return
    _show_geometries(looks)
    say(f"\nFiles in {out}")


def _show_entailments(rows: list[dict[str, Any]]) -> None:
    """A row a model and level, then whose figures say little."""
    shown = [
        {
            "model": row["model"], "group": row["group"], "positives": row["positives"],
            **{name.upper(): _bounded(row, name) for name in ("auc", "ap")},
            "score 0,\npos. %": f"{row['zero_positives']:.1f}", "score 0,\nneg. %": f"{row['zero_negatives']:.1f}",
            "ties\n%": f"{row['tied']:.1f}",
        }
        for row in rows
    ]  # fmt: skip
    print_listing(shown, list(shown[0]))
    for model, why in {row["model"]: row["degenerate"] for row in rows if row["degenerate"]}.items():
        print_text(f"{model}: {why}: its AUC and AP say little.")


def _show_confusions(rows: list[dict[str, Any]]) -> None:
    """A row a model, then the classes that each confuses most."""
    shown = [
        {
            "model": row["model"], "images": row["images"], "right %": f"{row['right']:.1f}",
            "edges off": f"{row['edges']:.2f}",
            "of errors": "" if row["edges_of_errors"] is None else f"{row['edges_of_errors']:.2f}",
            "errors part at": ", ".join(f"{node['name']} {node['share']:.0f} %" for node in row["parting"]) or "–",
        }
        for row in rows
    ]  # fmt: skip
    print_listing(shown, list(shown[0]))
    pairs = [
        {
            "model": row["model"], "true": one["true_name"], "taken for": one["predicted_name"],
            "images": one["images"], "of its class %": f"{100 * one['share']:.0f}", "edges": one["edges"],
        }
        for row in rows
        for one in row["confusions"]
    ]  # fmt: skip
    if pairs:
        print()
        print_listing(pairs, list(pairs[0]))
    for row in rows:
        if row["degenerate"]:
            print_text(f"{row['model']}: {row['degenerate']}: this says little about it.")


def _bounded(row: dict[str, Any], name: str) -> str:
    """A figure in percent with its interval."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.1f}" + ("" if low is None or high is None else f" [{low:.1f}, {high:.1f}]")


def _show_geometries(looks: dict[str, dict[str, Any]]) -> None:
    """A table a dataset with a summary of its models, and what the marks mean."""
    from hierbench.analysis.geometry_words import LEGEND, summary, table

    left_out: dict[str, None] = {}
    for found in looks.values():
        rows, spared = table(found, width())
        left_out |= dict.fromkeys(spared)
        print_listing(rows, list(rows[0]), gap=1)
        print_text(summary(found), indent=0)
        print()
    more = f" For want of room without {', '.join(left_out)}." if left_out else ""
    print_text(f"{LEGEND}{more}", indent=0)


def _show_rows(rows: list[dict[str, Any]]) -> None:
    shown = [{k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    print_listing(shown, list(rows[0]) if rows else [])


def _show(
    rows: list[dict[str, Any]],
    out: Path,
    as_json: bool,
    table: Callable[[list[dict[str, Any]]], None] = _show_rows,
) -> None:
    """Print an analysis' rows, as one JSON document or as `table` has them, and where its files are."""
    if as_json:
        print_json({"rows": rows, "folder": str(out)})
        return
    table(rows)
    say(f"\nFiles in {out}")
