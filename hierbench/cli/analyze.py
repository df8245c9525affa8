"""`hierbench analyze`: radii, traversals, HoroPCA, uncertainty; ambiguity of a benchmark; what the geometry does."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hierbench.cli._shared import (
    locations,
    print_json,
    print_listing,
    print_text,
    register,
    run_folder,
    say,
    sub_app,
)
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
    out_option,
)
from hierbench.errors import UsageError

if TYPE_CHECKING:
    from hierbench.analysis.groups import Embedded
    from hierbench.engine.session import Session

app = sub_app("Look into a model's embeddings; writes CSV files and pictures.")

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A name, FAMILY:CHECKPOINT, or a checkpoint file.")
]
Out = Annotated[Path | None, out_option("runs/TIME-analyze")]
Dataset = Annotated[str, typer.Option(metavar="NAME", help="Whose captions and images.")]

DATASET = "miniature-chains"
READ_OTHERWISE = ("miniature-chains", "miniature-things", "miniature")

Several = Annotated[
    list[str],
    typer.Argument(metavar="MODEL", help="Names, FAMILY:CHECKPOINT, or checkpoint files."),
]
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
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Distances from the root, by level of caption and for images."""
    asked = Asked.of(locals())
    from hierbench.analysis import reports

    embedded = asked.embedded(model, asked.open())
    out = run_folder(out, "{}-analyze")
    _show(reports.norms(embedded, out, f"{model}, {dataset}"), out, as_json)


@app.command()
def uncertainty(
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, as_json: Json = False,
) -> None:  # fmt: skip
    """UNCHA's uncertainty of each caption and image: high near the origin, low far out.

    It is a formula of the norm; models of other families were not trained with it, and the output says so.
    """
    asked = Asked.of(locals())
    from hierbench.analysis import reports

    embedded = asked.embedded(model, asked.open())
    out = run_folder(out, "{}-analyze")
    rows = reports.uncertainties(embedded, out, f"{model}, {dataset}")
    _show(rows, out, as_json)
    if not rows[0]["trained"]:
        say(f"{model} was not trained with this uncertainty: it is UNCHA's formula applied to its norms.")


@app.command()
def horopca(
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, as_json: Json = False,
    centre: Annotated[Centre, typer.Option(metavar="NAME", help="origin or mean.")] = Centre.origin,
) -> None:  # fmt: skip
    """A hyperbolic model's embeddings in the Poincaré disc."""
    asked = Asked.of(locals())
    from hierbench.analysis import reports

    embedded = asked.embedded(model, asked.open())
    out = run_folder(out, "{}-analyze")
    _show(reports.horopca_plane(embedded, out, f"{model}, {dataset}", centre.value), out, as_json)


@app.command()
def traversal(
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, as_json: Json = False,
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
    embedded = asked.embedded(model, with_own(opened, chosen, captions))
    out = run_folder(out, "{}-analyze")
    rows = reports.traversals(embedded, out, chosen, steps=steps, within_cones=not all_captions)
    _show(rows, out, as_json)
    outside = {row["image"] for row in rows if not row["within_cones"]}
    if outside and embedded.geometry.has_cones and not all_captions:
        say(
            f"No caption's cone holds a point on the way from {len(outside)} of {len(chosen)} images to the root: "
            "there the nearest captions are shown without regard to cones."
        )


@app.command()
def ambiguity(
    model: Model, dataset: Dataset = DATASET, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, as_json: Json = False,
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
    embedded = asked.embedded(model, opened)
    finder = asked.embedded(similar_by, opened) if similar_by else embedded
    out = run_folder(out, "{}-analyze")
    title = f"{model}, {dataset}; similar images by {similar_by or 'itself'}"
    _show(
        reports.ambiguities(embedded, opened, finder, out, title, ks=sorted(set(k or REMOVED)), pool=pool),
        out,
        as_json,
    )


@app.command()
def geometry(
    models: Several, on: On = None, data: Data = None, data_dir: DataDir = None, manifest: Manifest = None,
    adapter: Adapter = None, limit: Limit = None, device: Device = "auto", protocol: ProtocolName = Protocol.released,
    dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, workers: Workers = None, no_cache: NoCache = False,
    offline: Offline = False, out: Out = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Whether a model's geometry does any work: where points lie, where depth is, what figures owe to radii.

    Of each dataset: how far out captions, classes and images lie against the curvature, how many cones are
    half-spaces, whether radius or direction tells the level, how tree-like distances are, and how the figure of its
    hierarchy, PEP or retrieval task changes with the radii equal, shuffled, or the space read as flat. Writes
    geometry.json, with every interval and a verdict in words, and geometry.png.
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
    documents = reports.geometries(looks, out, "Does the geometry do any work?")
    if as_json:
        print_json({"looks": documents, "folder": str(out)})
        return
    _show_geometries(looks)
    say(f"\nFiles in {out}")


@dataclass(frozen=True)
class Asked:
    """The options that every analysis has: whose embeddings, and how they are made."""

    dataset: str
    data: list[str] | None
    data_dir: Path | None
    manifest: list[Path] | None
    adapter: list[Path] | None
    limit: int | None
    device: str
    protocol: Protocol
    dtype: Dtype
    batch_size: int | None
    workers: int | None
    no_cache: bool
    offline: bool

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> Asked:
        """From a command's arguments."""
        return cls(**{field.name: arguments[field.name] for field in fields(cls)})

    def open(self) -> Any:
        """The dataset, or its first part; the user's own files are known from here on."""
        from hierbench.data.readers import open_dataset

        register(self.adapter, self.manifest)
        where = locations(self.data, self.data_dir)
        opened = open_dataset(self.dataset, where, protocol=self.protocol.value)
        return opened if self.limit is None else opened.limited(self.limit)

    def to_read_otherwise(self, name: str) -> tuple[Any, Any]:
        """A dataset, opened, and its task `counterfactual/…`. Raises UsageError where it has none."""
        from hierbench import registry
        from hierbench.data.manifests import load_manifest

        opened = replace(self, dataset=name).open()
        if "counterfactual" not in load_manifest(name).tasks:
            raise UsageError(
                f"--on {name}: it has neither levels nor a task that can be read with other radii; its manifest would "
                "name counterfactual in `tasks`"
            )
        return opened, registry.under(f"counterfactual/{name}", self.protocol.value)

    def embedded(self, model: str, opened: Any) -> Embedded:
        """A dataset's embeddings under a model, as the protocol has it."""
        from hierbench.analysis.groups import gather
        from hierbench.data.manifests import load_manifest

        return gather(self.session(model), opened, load_manifest(self.dataset).fit)

    def session(self, model: str) -> Session:
        """A model as the protocol has it, ready to embed."""
        from hierbench.engine.session import Session
        from hierbench.progress import choose

        return Session.open(
            model,
            protocol=self.protocol.value,
            device=self.device,
            dtype=self.dtype.to_measure,
            offline=self.offline,
            cache=not self.no_cache,
            batch_size=self.batch_size,
            workers=self.workers,
            progress=choose(),
        )


def _show_geometries(looks: dict[str, dict[str, Any]]) -> None:
    """A table a dataset, what its marks mean, and a conclusion a model."""
    from hierbench.analysis.geometry_words import LEGEND, NOTHING, conclusion, row

    for dataset, found in looks.items():
        rows = [row(model, look) for model, look in found.items()]
        longest = max(rows, key=len)
        headings = list(longest)
        print(f"{dataset}:")
        print_listing([{h: one.get(h, NOTHING) for h in headings} for one in rows], headings, gap=1)
        print()
    print_text(LEGEND, indent=0)
    for dataset, found in looks.items():
        print(f"\n{dataset}:")
        for model, look in found.items():
            print_text(conclusion(look), f"{model}: ", indent=4)


def _show(rows: list[dict[str, Any]], out: Path, as_json: bool) -> None:
    if as_json:
        print_json({"rows": rows, "folder": str(out)})
        return
    shown = [{k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    print_listing(shown, list(rows[0]) if rows else [])
    say(f"\nFiles in {out}")
