"""`hierbench data`: datasets prepared, checked, shown, exported; training data made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hierbench.cli._shared import (
    Interrupted,
    folder_size,
    locations,
    print_json,
    print_listing,
    print_text,
    register,
    say,
    size,
    sub_app,
)
from hierbench.cli.options import (
    Count,
    Data,
    DataDir,
    Force,
    Json,
    Manifest,
    Out,
    Prompts,
    PromptsName,
    Protocol,
    ProtocolName,
    Workers,
    form_option,
    out_option,
)

app = sub_app("Prepare, check, show and export datasets; make training data.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A dataset (`hierbench datasets` lists them).")]


@app.command()
def prepare(
    name: Name,
    source: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="A folder of yours, or archives and files (repeat the option); without it, it is downloaded.",
        ),
    ] = None,
    out: Annotated[Path | None, out_option("in the cache, where runs look")] = None,
    workers: Workers = None,
    force: Force = False,
    manifest: Manifest = None,
    as_json: Json = False,
) -> None:
    """Bring a dataset into the form that is read fastest, from a download or from a copy of yours.

    Run it again to go on after an interruption.
    """
    from hierbench.acquire import prepare as preparing
    from hierbench.acquire.shards import AGAIN

    register(manifests=manifest)
    try:
        done = preparing.prepare(name, source or (), out, workers=_processes(workers), force=force)
    except KeyboardInterrupt:
        raise Interrupted(AGAIN) from None
    info = done.info
    for note in done.notes:
        say(f"skipped: {note}")
    if not done.fresh:
        say(f"{name} is prepared already in {done.folder}; --force makes it anew")
    for difference in info.differences:
        say(f"not the whole {info.split or 'split'}: {difference}")
    if info.variant:
        say(f"results on it carry the protocol name released+{info.variant}")
    if as_json:
        print_json({"folder": str(done.folder), "fresh": done.fresh, **info.model_dump(by_alias=True)})
        return
    print_listing(_facts(done.folder, info), ["what", "value"])
    for folder in dict.fromkeys(path if path.is_dir() else path.parent for path in done.downloads):
        say(f"the download stays in {folder} ({size(folder_size(folder))}): remove it when you need the room")
    if out is not None:
        say(f"use it: hierbench run … --data {name}={done.folder}")


@app.command()
def verify(
    name: Name,
    pixels: Annotated[
        bool,
        typer.Option(
            "--pixels",
            help="Decode, too: prints what is equal for all lossless or unchanged copies of a dataset.",
        ),
    ] = False,
    data: Data = None,
    data_dir: DataDir = None,
    workers: Workers = None,
    manifest: Manifest = None,
    as_json: Json = False,
) -> None:
    """Read a dataset whole: count, hash, and say what is not as it was prepared."""
    import dataclasses

    from hierbench.acquire import verify as checking

    register(manifests=manifest)
    found = checking.verify(name, locations(data, data_dir), pixels=pixels, workers=_processes(workers))
    for difference in found.differences:
        say(f"not the whole split: {difference}")
    if as_json:
        counts = found.counts.model_dump()
        folder = None if found.folder is None else str(found.folder)
        print_json({**dataclasses.asdict(found), "folder": folder, "counts": counts})
        return
    rows = _facts(found.folder or "built in", found)
    if found.pixels:
        rows.append({"what": "pixels and labels", "value": found.pixels})
    print_listing(rows, ["what", "value"])
    say(
        "as it was prepared"
        if found.prepared
        else "not prepared: there is nothing to compare the content with"
    )


@app.command()
def show(
    name: Name,
    sheet: Annotated[Path | None, out_option("no sheet of samples")] = None,
    count: Count = 20,
    data: Data = None,
    data_dir: DataDir = None,
    manifest: Manifest = None,
    as_json: Json = False,
) -> None:
    """What a dataset is, where it lies or how to get it; and a sheet of samples."""
    from hierbench.data.locate import describe
    from hierbench.data.manifests import load_manifest

    register(manifests=manifest)
    where = locations(data, data_dir)
    told = load_manifest(name)
    status = describe(name, where)
    if sheet is not None:
        from hierbench.data.contact_sheet import write_contact_sheet
        from hierbench.data.readers import open_dataset
        from hierbench.errors import OutputError

        try:
            write_contact_sheet(open_dataset(name, where), sheet, count)
        except OSError as error:
            raise OutputError(f"-o {sheet} cannot be written: {error.strerror or error}") from error
    if as_json:
        at = {"state": status.state, "path": None if status.path is None else str(status.path)}
        print_json({**told.model_dump(mode="json"), **at, "note": status.note, "get": status.obtain})
    else:
        _show(told, status)
    if sheet is not None:
        say(f"samples: {sheet}")


@app.command()
def export(
    name: Name,
    out: Out,
    form: Annotated[str, form_option("wds, as CLIP Benchmark reads it; imagefolder")] = "wds",
    protocol: ProtocolName = Protocol.released,
    prompts: PromptsName = Prompts.default,
    data: Data = None,
    data_dir: DataDir = None,
    manifest: Manifest = None,
) -> None:
    """Write a dataset in a layout that other programs read, images as published."""
    from hierbench.acquire.export import export as write
    from hierbench.data.readers import open_dataset

    register(manifests=manifest)
    record = open_dataset(name, locations(data, data_dir), protocol=protocol.value, prompts=prompts.value)
    say(f"{write(record, form, out)} images of {name} in {out}")


def _processes(workers: int | None) -> int:
    """Processes that work: at least this one, by default one a core."""
    from hierbench.engine.encoding import cores

    return cores() if workers is None else max(1, workers)


def _facts(folder: Any, found: Any) -> list[dict[str, Any]]:
    """What prepare and verify print of a dataset."""
    counts = found.counts
    rows = {"dataset": found.name, "folder": folder}
    rows |= {what: getattr(counts, what) for what in ("images", "captions", "samples")}
    if counts.per_class is not None:
        there = sum(count > 0 for count in counts.per_class.values())
        rows["classes"] = f"{there} of {len(counts.per_class)} occur"
    rows |= {"variant": found.variant or None, "fingerprint": found.fingerprint}
    return [{"what": what, "value": value} for what, value in rows.items() if value is not None]


def _show(told: Any, status: Any) -> None:
    print(f"{told.name}: {told.title}\n")
    ids, names = told.class_ids, told.class_names()
    counts = {what: getattr(told.counts, what) for what in ("images", "captions", "samples")}
    lines = {
        "tasks": ", ".join(told.tasks),
        "split": told.split,
        "counts": ", ".join(f"{count:,} {what}" for what, count in counts.items() if count is not None),
        "classes": _some(
            [f"{i} = {n}" if i != n else n for i, n in zip(ids, names, strict=True)], f"{len(ids)}: "
        ),
        "corrected": "; ".join(f"{class_id} is {name}" for class_id, name in told.corrected_names.items()),
        "prompts": _some([repr(template) for template in told.templates], f"{len(told.templates)}: "),
        "licence": told.licence,
        "citation": told.citation,
        "homepage": told.homepage,
        "state": status.state + (f", {status.path} ({status.found_by})" if status.path else ""),
        "note": status.note,
        "get it": status.obtain,
    }
    for what, text in lines.items():
        if text:
            print_text(text, what, indent=11)
    for source in told.sources:
        places = ", ".join([file.url for file in source.files] or [source.repo or "by hand"])
        variant = f" (another split: +{source.variant})" if source.variant else ""
        print_text(f"{places}{variant} {source.how}".rstrip(), "source", indent=11)


def _some(items: list[str], before: str, count: int = 6) -> str:
    return before + ", ".join(items[:count]) + (", …" if len(items) > count else "") if items else ""


@app.command("grit-prepare")
def grit_prepare(
    raw: Annotated[
        list[str],
        typer.Argument(metavar="RAW...", help="GRIT's tars from img2dataset: files, folders, globs, ranges."),
    ],
    out: Out,
    workers: Workers = None,
    max_boxes: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Keep at most K boxes an image, the best scored.")
    ] = None,
    min_side: Annotated[
        int, typer.Option(metavar="PIXELS", min=1, help="Drop boxes with a shorter side.")
    ] = 16,
) -> None:
    """Make training shards of GRIT: boxes cut out, unusable ones dropped and counted.

    Run it again to go on after an interruption: finished shards are kept.
    """
    from hierbench.reference.training.grit import SUMMARY, Settings, prepare
    from hierbench.reference.training.shards import find_shards

    tars = [file for pattern in raw for file in find_shards(pattern)]
    try:
        report = prepare(tars, out, Settings(max_boxes, min_side), workers=_processes(workers))
    except KeyboardInterrupt:
        raise Interrupted(f"finished shards are kept in {out}, run the command again to go on") from None
    print_listing(report.rows(), ["what", "count", "share"])
    for name in report.damaged_tars:
        say(f"damaged: {name} breaks off; what came before is used. Fetch it again and repeat this command.")
    say(f"{report.shards} shards in {out}, the account in {out / SUMMARY}")
    say(f"train on them: hierbench train hycoclip/vit-b data.shards={out}")


@app.command("grit-check")
def grit_check(
    shards: Annotated[
        list[str], typer.Argument(metavar="SHARDS...", help="Prepared shards: folders, globs, ranges.")
    ],
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Count the samples and boxes of prepared training shards, beside GRIT's published counts.

    Images are not decoded. The exit status is 1 where a shard is damaged: training uses what is whole of it.
    """
    from dataclasses import asdict

    from hierbench.reference.training.account import count
    from hierbench.reference.training.shards import find_shards

    files = [file for pattern in shards for file in find_shards(pattern)]
    found = count(files, workers=_processes(workers))
    if as_json:
        print_json(asdict(found) | {"samples": found.samples, "boxes": found.boxes})
    else:
        print_listing(found.rows(), ["what", "here", "published"])
    for shard in found.damaged:
        say(f"damaged: {shard} breaks off or holds broken members; fetch or prepare it again")
    if found.damaged:
        raise typer.Exit(1)
