"""`hierbench clean`: make the cleaned benchmark from the published rows; merge shards; PEP before and after."""

from __future__ import annotations

import csv
import inspect
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hierbench.cli._shared import (
    Interrupted,
    locations,
    print_json,
    print_listing,
    register,
    say,
    sub_app,
)
from hierbench.cli.options import (
    HOW,
    WHAT,
    Adapter,
    BatchSize,
    Count,
    Data,
    DataDir,
    Device,
    DryRun,
    Dtype,
    DtypeName,
    Json,
    Limit,
    Models,
    Offline,
    Out,
    Protocol,
    ProtocolName,
    option,
)
from hierbench.errors import CheckpointError, HierbenchError, OutputError, ServerError, UsageError

app = sub_app("Clean caption chains: the benchmark that PEP runs on.")

VERIFIER, EMBEDDER, RERANKER = (
    "Qwen/Qwen3-VL-8B-Instruct",
    "Qwen/Qwen3-VL-Embedding-8B",
    "Qwen/Qwen3-VL-Reranker-8B",
)


class Backend(StrEnum):
    """Who plays the roles."""

    transformers = "transformers"
    server = "server"
    adapter = "adapter"
    oracle = "oracle"


APPLY = {
    (Backend.server,): ("base_url", "concurrency", "timeout", "retries"),
    (Backend.transformers,): ("batch_size",),
    (Backend.transformers, Backend.adapter): ("device", "dtype"),
    (Backend.adapter,): ("adapter",),
}
"""What only some backends have a use for."""

BACKENDS = "transformers, server, adapter; for the miniature oracle, which knows the truth."
WHO, RULES = "Who plays the roles", "What is kept"

Role = Annotated[str | None, option(WHO, "Model name, folder or server's name.", metavar="NAME")]
Url = Annotated[
    list[str] | None,
    option(WHO, "server: one for all, or ROLE=URL for each (verifier, embedder, reranker).", metavar="URL"),
]
Concurrency = Annotated[int, option(WHO, "server: requests at a time.", metavar="N", min=1)]
Timeout = Annotated[float, option(WHO, "server: seconds an answer may take.", metavar="S", min=0.1)]
Retries = Annotated[int, option(WHO, "server: tries after the first.", metavar="N", min=0)]
MinVerify = Annotated[float | None, option(RULES, "Least truth of each caption (default 0.5).", metavar="P")]
MinOrder = Annotated[
    float | None, option(RULES, "Least truth of 'follows from the next finer' (default 0.5).", metavar="P")
]
MaxAmbiguity = Annotated[float | None, option(RULES, "Most ambiguity (default 0.5).", metavar="P")]
Level = Annotated[int, option(RULES, "Rivals of this level or finer count.", metavar="1-4")]
Keep = Annotated[int | None, option(RULES, "Exactly so many, the best, instead of thresholds.", metavar="N")]
Negatives = Annotated[int, option(RULES, "Captions of the negative pool.", metavar="N")]
MaxNegative = Annotated[float, option(RULES, "How well one of them may fit another's image.", metavar="P")]
TopCaptions = Annotated[int, option(HOW, "Captions of others to rerank for an image.", metavar="N", min=1)]
TopImages = Annotated[int, option(HOW, "Images of others to rerank for a caption.", metavar="N", min=1)]
Shard = Annotated[
    str | None, option(HOW, "Ask this share only; all write into one -o, or merge.", metavar="I/N")
]
Chunk = Annotated[
    int | None,
    option(
        HOW,
        "Items a call: what a kill may lose (default: 32; for servers 16 x --concurrency).",
        metavar="N",
        min=1,
    ),
]
Probe = Annotated[
    int, option(HOW, "With --dry-run: ask N items of each kind, to time them.", metavar="N", min=0)
]

NoProbe = Annotated[
    bool,
    option(
        HOW, "Ask models that were not tried on drawn scenes of known truth, or fail there.", "--no-probe"
    ),
]


@app.command()
def hierarcaps(
    context: typer.Context, out: Out, data: Data = None, data_dir: DataDir = None,
    limit: Limit = None,
    backend: Annotated[Backend, option(WHO, BACKENDS, metavar="NAME")] = Backend.transformers,
    verifier: Role = None, embedder: Role = None, reranker: Role = None, adapter: Adapter = None,
    device: Device = "auto", dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, base_url: Url = None,
    concurrency: Concurrency = 16, timeout: Timeout = 120.0, retries: Retries = 6,
    min_verify: MinVerify = None, min_order: MinOrder = None, max_ambiguity: MaxAmbiguity = None,
    ambiguity_level: Level = 3, keep: Keep = None, negatives: Negatives = 100, max_negative: MaxNegative = 0.5,
    top_captions: TopCaptions = 20, top_images: TopImages = 3, shard: Shard = None, chunk: Chunk = None,
    dry_run: DryRun = False, probe: Probe = 0, no_probe: NoProbe = False, as_json: Json = False,
) -> None:  # fmt: skip
    """The published HierarCaps rows.

    \b
    hierbench clean hierarcaps --data hierarcaps=DIR -o clean --keep 522 --negatives 100
    hierbench clean hierarcaps --backend server --base-url http://localhost:8000/v1 -o clean
    torchrun --nproc-per-node 8 -m hierbench clean hierarcaps --data hierarcaps=DIR -o clean
    """
    from hierbench.cleaning import sources

    _clean(
        partial(sources.hierarcaps, locations(data, data_dir), limit), _labelled_by_itself,
        **_common(context, locals()),
    )  # fmt: skip


@app.command()
def miniature(
    context: typer.Context,
    out: Out,
    count: Count = 400,
    share: Annotated[float, option(WHAT, "Share of them with a planted fault.", metavar="P")] = 0.3,
    seed: Annotated[str, option(WHAT, "Which faults are planted.", metavar="TEXT")] = "noise",
    backend: Annotated[Backend, option(WHO, BACKENDS, metavar="NAME")] = Backend.oracle,
    verifier: Role = None, embedder: Role = None, reranker: Role = None, adapter: Adapter = None,
    device: Device = "auto", dtype: DtypeName = Dtype.auto, batch_size: BatchSize = None, base_url: Url = None,
    concurrency: Concurrency = 16, timeout: Timeout = 120.0, retries: Retries = 6,
    min_verify: MinVerify = None, min_order: MinOrder = None, max_ambiguity: MaxAmbiguity = None,
    ambiguity_level: Level = 3, keep: Keep = None, negatives: Negatives = 100, max_negative: MaxNegative = 0.5,
    top_captions: TopCaptions = 20, top_images: TopImages = 3, shard: Shard = None, chunk: Chunk = None,
    dry_run: DryRun = False, probe: Probe = 0, no_probe: NoProbe = False, as_json: Json = False,
) -> None:  # fmt: skip
    """The built-in world's chains with planted faults: shows what a cleaning finds.

    \b
    hierbench clean miniature -o demo                                   roles that know the truth
    hierbench clean miniature --backend adapter --verifier MODEL -o demo    any model's similarities
    """
    from hierbench.cleaning import sources

    _clean(
        partial(sources.miniature, count, share, seed),
        _labelled_miniature,
        **_common(context, locals()),
    )


@app.command()
def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of `hierbench clean`.")],
    out: Out,
) -> None:
    """Bring the answers of several folders together; the same `clean` command then ends without asking."""
    from hierbench.cleaning.answers import merge as merged
    from hierbench.cleaning.pipeline import ANSWERS

    copied = merged([folder.expanduser() / ANSWERS for folder in folders], out.expanduser() / ANSWERS)
    say(f"{copied} files of answers copied to {out / ANSWERS}; now run the `clean` command with -o {out}")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `hierbench clean` has written.")],
    models: Models = None,
    data: Data = None, data_dir: DataDir = None, adapter: Adapter = None, device: Device = "auto",
    protocol: ProtocolName = Protocol.released, offline: Offline = False, as_json: Json = False,
) -> None:  # fmt: skip
    """PEP of models before and after the cleaning, with intervals; writes DIR/pep.csv."""
    from hierbench.cleaning import report as reports
    from hierbench.cleaning.output import PEP, read_manifest
    from hierbench.engine.session import Session
    from hierbench.files import replacing
    from hierbench.models.catalog import list_models
    from hierbench.progress import choose

    register(adapter)
    folder = folder.expanduser()
    read_manifest(folder)  # before any model is loaded
    names = models or [entry.name for entry in list_models() if entry.builtin]
    if not names:
        raise UsageError("no model is built in: name at least one")
    known: dict[str, Any] = {
        "protocol": protocol.value,
        "device": device,
        "offline": offline,
        "progress": choose(),
    }
    sessions = [Session.open(name, **known) for name in names]
    rows = reports.pep(folder, sessions, locations(data, data_dir), protocol=protocol.value)
    try:
        with (
            replacing(folder / PEP) as temporary,
            open(temporary, "w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise OutputError(f"cannot write {folder / PEP}: {error.strerror or error}") from error
    if as_json:
        print_json({"rows": rows})
        return
    table = reports.shown(rows)
    print_listing(table, list(table[0]))
    say(f"\nAlso in {folder / PEP}")


# --------------------------------------------------------------------------------------------------- what is common


def _common(context: typer.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Of a command's arguments those that `_clean` takes. UsageError for one that the backend has no use for."""
    for backends, names in APPLY.items():
        for name in names:
            given = getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
            if given and options["backend"] not in backends:
                raise UsageError(
                    f"--{name.replace('_', '-')} has no effect with --backend {options['backend'].value}: "
                    f"it is of {' and '.join(backend.value for backend in backends)}"
                )
    return {name: options[name] for name in inspect.signature(_clean).parameters if name in options}


def _clean(
    open_source, labelled, *, out: Path, backend: Backend, verifier, embedder, reranker, adapter, device: str,
    dtype: Dtype, batch_size, base_url, concurrency: int, timeout: float, retries: int, min_verify, min_order,
    max_ambiguity, ambiguity_level: int, keep, negatives: int, max_negative: float, top_captions: int,
    top_images: int, shard, chunk: int | None, dry_run: bool, probe: int, no_probe: bool, as_json: bool,
) -> None:  # fmt: skip
    from hierbench.cleaning import output, pipeline
    from hierbench.cleaning.estimate import estimate
    from hierbench.engine import processes
    from hierbench.progress import Quiet, choose

    register(adapter)
    rules = _rules(
        min_verify=min_verify, min_order=min_order, max_ambiguity=max_ambiguity, max_negative=max_negative,
        ambiguity_level=ambiguity_level, keep=keep, negatives=negatives,
    )  # fmt: skip
    if probe and not dry_run:
        raise UsageError("--probe goes with --dry-run")
    world = processes.world_size()
    if shard and world > 1:
        raise UsageError("--shard and torchrun are both given: choose one")
    share = (processes.rank(), world) if world > 1 else pipeline.parse_shard(shard or "0/1")
    out = out.expanduser()
    source = open_source()
    if keep is not None and keep > len(source.chains):
        raise UsageError(f"--keep {keep}: there are only {len(source.chains)} samples")
    cast = _cast(
        backend, source, labelled, {"verifier": verifier, "embedder": embedder, "reranker": reranker}, device,
        dtype.value, batch_size, base_url, concurrency, timeout, retries, answers=out / pipeline.ANSWERS,
        fetch=bool(probe) or not dry_run,
    )  # fmt: skip
    if chunk is None:  # servers are kept busy: a request to the reranker takes many pairs
        chunk = max(pipeline.CHUNK, 16 * concurrency) if backend is Backend.server else pipeline.CHUNK
    progress = choose() if processes.rank() == 0 else Quiet()
    options: dict[str, Any] = {"top_captions": top_captions, "top_images": top_images, "progress": progress}
    if dry_run:
        found = estimate(source, cast, out, timed=probe, probe=not no_probe, processes=share[1], **options)
        _tell_estimate(found, as_json)
        return
    team = pipeline.Team() if world > 1 else pipeline.Alone()
    try:
        outcome = pipeline.clean(
            source, cast, rules, out, shard=share, chunk=chunk, team=team, probe=not no_probe, **options
        )
        team.end()
        if processes.rank() > 0:
            return
        if isinstance(outcome, pipeline.Waiting):
            _tell_waiting(outcome, share, out, as_json)
            return
        manifest = output.write(outcome, out, progress)
    except ServerError as error:
        raise ServerError(f"{error}; what was answered is kept in {out}: the same command goes on") from None
    except KeyboardInterrupt:
        raise Interrupted(f"answers are kept in {out}: the same command goes on") from None
    _tell(manifest, out, as_json)


def _labelled_by_itself(source):
    from hierbench.cleaning import adapter_roles

    return adapter_roles.labelled_by_itself(source)


def _labelled_miniature(source):
    from hierbench.cleaning import adapter_roles

    return adapter_roles.labelled_miniature()


def _rules(**given: Any):
    """Thresholds or exact counts. UsageError for both."""
    from hierbench.cleaning.select import Rules

    if given["keep"] is not None:
        for name in ("min_verify", "min_order", "max_ambiguity"):
            if given[name] is not None:
                raise UsageError(f"--keep and --{name.replace('_', '-')} are both given: choose one")
    return Rules(**{name: value for name, value in given.items() if value is not None})


def _cast(
    backend: Backend, source, labelled, names: dict[str, str | None], device: str, dtype: str, batch_size,
    base_url, concurrency: int, timeout: float, retries: int, answers: Path, fetch: bool,
):  # fmt: skip
    """Who plays the roles. Models are not loaded before they are asked; without `fetch`, none is downloaded.

    A cast that cannot be reached is known by its `answers`, if it has given any: enough where nothing is left to ask.
    """
    if backend is Backend.oracle:
        return _oracle(source, names)
    if backend is Backend.adapter:
        return _adapters(source, labelled, names, device, dtype)
    options: dict[str, Any] = {
        "concurrency": concurrency,
        "timeout": timeout,
        "retries": retries,
        **_urls(base_url),
    }
    if backend is Backend.transformers:
        from hierbench.engine.device import resolve_device

        options = {"device": resolve_device(device), "dtype": dtype, "batch_size": batch_size}
    return _judges(backend.value, names, options, dtype, answers, fetch)


def _oracle(source, names: dict[str, str | None]):
    from hierbench.cleaning import oracle
    from hierbench.miniature.noise import noisy_chains

    about = source.about
    if about["dataset"] != "miniature-noisy":
        raise UsageError("--backend oracle: nobody knows the truth of photographs; choose another backend")
    if given := [f"--{role}" for role, name in names.items() if name]:
        raise UsageError(f"--backend oracle plays all roles itself: leave out {', '.join(given)}")
    return oracle.cast(noisy_chains(about["count"], about["share"], about["seed"]))


def _adapters(source, labelled, names: dict[str, str | None], device: str, dtype: str):
    from hierbench.cleaning.adapter_roles import AdapterRole
    from hierbench.cleaning.roles import Cast
    from hierbench.engine.device import resolve_device
    from hierbench.models.reference import load_model

    given = [name for name in names.values() if name]
    if not given:
        raise UsageError("--backend adapter: name a model, --verifier NAME; it plays the other roles too")
    known, place = labelled(source), resolve_device(device)
    options: dict[str, Any] = {} if dtype == "auto" else {"dtype": dtype}
    made: dict[str, Any] = {
        name: AdapterRole(load_model(name, device=place, **options), source.fit, known)
        for name in dict.fromkeys(given)
    }
    return Cast(**{role: made[name or given[0]] for role, name in names.items()})


def _judges(
    backend: str,
    names: dict[str, str | None],
    options: dict[str, Any],
    dtype: str,
    answers: Path,
    fetch: bool,
):
    from hierbench.cleaning.backends import open_cast, remembered
    from hierbench.cleaning.roles import Absent

    asked: dict[str, Any] = dict(zip(names, (VERIFIER, EMBEDDER, RERANKER), strict=True)) | {
        role: name for role, name in names.items() if name
    }
    try:
        cast = open_cast(backend, **asked, **options, fetch=fetch)
        absent = [asked[role] for role in names if isinstance(getattr(cast, role), Absent)]
        error: HierbenchError = CheckpointError(f"not on this machine: {', '.join(absent)}")
    except (ServerError, CheckpointError) as reason:
        cast, absent, error = None, [], reason
    if cast is None or absent:
        kept = remembered(answers, backend, asked, dtype, error)
        if kept is not None:
            return kept
    if cast is None:
        raise error
    if absent:
        say(f"Not on this machine yet, so counted as never asked: {', '.join(absent)}")
    return cast


def _urls(given: list[str] | None) -> dict[str, Any]:
    """--base-url once, or ROLE=URL for each role."""
    if not given:
        return {}
    parts = [text.partition("=") for text in given]
    if all(role in ("verifier", "embedder", "reranker") and equals for role, equals, _ in parts):
        return {"base_url": {role: url for role, _, url in parts}}
    if len(given) > 1:
        raise UsageError(
            "--base-url: give one URL for all roles, or ROLE=URL for verifier, embedder and reranker"
        )
    return {"base_url": given[0]}


# ------------------------------------------------------------------------------------------------------ telling


def _tell(manifest: dict[str, Any], out: Path, as_json: bool) -> None:
    if as_json:
        print_json({**manifest, "folder": str(out)})
        return
    counts = manifest["counts"]
    rows = [("samples", counts["samples"]), ("kept", counts["kept"]), ("dropped", counts["dropped"])]
    rows += [(f"  for {reason}", number) for reason, number in counts["dropped_for"].items()]
    rows.append(("negative captions", counts["negatives"]))
    if (neither := manifest["neither_yes_nor_no"]) and neither["answers"]:
        rows.append(("answers neither yes nor no", f"{neither['answers']:,} of {neither['of']:,}"))
    if planted := manifest.get("planted"):
        rows += [
            ("precision of dropped", f"{planted['precision']:.3f}"),
            ("recall of planted", f"{planted['recall']:.3f}"),
        ]
        rows += [(f"  {fault}", found) for fault, found in planted["found_by_fault"].items()]
    print_listing([{"cleaning": name, "result": value} for name, value in rows], ["cleaning", "result"])
    say(f"\nTo look at: {out / 'audit.html'}")
    say(f"To measure: hierbench run MODEL --task pep-v2 --data hierarcaps-clean={out}")


def _tell_waiting(waiting, share: tuple[int, int], out: Path, as_json: bool) -> None:
    if as_json:
        print_json({"waiting_for": waiting.stage, "missing": waiting.missing, "folder": str(out)})
        return
    say(
        f"shard {share[0]}/{share[1]} has answered its share of {waiting.stage}; {waiting.missing:,} answers of other "
        f"shards are missing in {out}: run this again when they are there (or `hierbench clean merge`)"
    )


def _tell_estimate(found, as_json: bool) -> None:
    if as_json:
        print_json({"stages": [vars(stage) for stage in found]})
        return
    print_listing(
        [
            {
                "stage": e.stage,
                "role": e.role,
                "answers": f"{'at most ' if e.at_most else ''}{e.calls:,}",
                "left_to_ask": f"{e.missing:,}",
                "time": "?" if e.seconds is None else _duration(e.seconds),
            }
            for e in found
        ],
        ["stage", "role", "answers", "left_to_ask", "time"],
    )
    known = [e.seconds for e in found if e.seconds is not None]
    if len(known) == len(found):
        say(f"\nIn all about {_duration(sum(known))}")
    else:
        say("\nNo pace is known yet: --probe 8 asks eight items of each kind (their answers are kept)")


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
