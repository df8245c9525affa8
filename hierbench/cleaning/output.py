"""What a finished cleaning leaves in its folder: the split, the pool, scores of every stage, manifest, audit page.

split.csv, pool.csv, test_imgs/  the dataset `hierarcaps-clean`: `pep-v2` takes the folder as it is
decisions.csv                    a row a sample: what was found, and why it stays or goes
verify|embed|rerank|relate.parquet  the scores by pair, with who gave them
audit.html                       the same to look at
manifest.json                    counts, rules, roles, hashes, versions; written last
"""

from __future__ import annotations

import csv
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hierbench.cleaning import audit, questions, select
from hierbench.cleaning.pipeline import Outcome
from hierbench.cleaning.sources import IMAGES, LEVELS, check_apart, image_name
from hierbench.cleaning.stages import STAGES
from hierbench.engine import provenance
from hierbench.errors import OutputError
from hierbench.files import replacing, sha256, sweep
from hierbench.json_files import read_json
from hierbench.progress import Progress, Quiet

log = logging.getLogger(__name__)

SCHEMA = 1
ARROW = " => "
MANIFEST = "manifest.json"
PEP = "pep.csv"  # what `hierbench clean report` measures of the selection
_WHO = ("model", "revision", "backend", "dtype")


def write(outcome: Outcome, out: Path, progress: Progress | None = None) -> dict[str, Any]:
    """Write everything; returns the manifest. The same answers and rules give the same bytes. Raises OutputError."""
    check_apart(outcome.source, out)
    try:
        sweep(out)  # what killed processes have left half-written, here and among the answers
        before = _selection(out) if (out / MANIFEST).exists() else None  # None: nothing finished lies here
        earlier = _split_images(out)
        (out / MANIFEST).unlink(missing_ok=True)  # from here on, the folder is not of one piece
        _images(outcome, out, progress or Quiet())
        _csv(out / "split.csv", ("id", "captions", "image_url"), _split(outcome))
        _csv(out / "pool.csv", ("caption",), ([outcome.source.captions[n.caption]] for n in outcome.pool))
        for name in earlier - _split_images(out):  # of rows that are not among these
            (out / IMAGES / name).unlink(missing_ok=True)
        if _selection(out) != before:
            (out / PEP).unlink(missing_ok=True)
        _csv(out / "decisions.csv", *_decisions(outcome))
        for name, (columns, who) in _stages(outcome).items():
            _parquet(out / f"{name}.parquet", columns, who)
        with replacing(out / "audit.html") as temporary:
            temporary.write_text(audit.page(outcome), encoding="utf-8")
        manifest = _manifest(outcome, out)
        with replacing(out / MANIFEST) as temporary:
            text = json.dumps(manifest, indent=1, ensure_ascii=False, default=str)
            temporary.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"cannot write to {out}: {error.strerror or error}: free space or choose another -o"
        ) from error
    for warning in manifest["warnings"]:
        log.warning(warning)
    return manifest


def read_manifest(out: Path) -> dict[str, Any]:
    """The manifest of a cleaned folder. Raises OutputError."""
    path = Path(out) / MANIFEST
    if not path.exists():
        raise OutputError(f"no {path}: give a folder in which `hierbench clean` has come to its end")
    manifest = read_json(path, "manifest", OutputError, "clean again")
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise OutputError(f"{path} is none of this version: clean again")
    return manifest


def _selection(out: Path) -> list[bytes | None]:
    """What PEP is measured on, as it lies in a folder."""
    paths = (out / "split.csv", out / "pool.csv")
    return [path.read_bytes() if path.is_file() else None for path in paths]


def _split_images(out: Path) -> set[str]:
    """File names of the images of the split in a folder."""
    try:
        with open(out / "split.csv", encoding="utf-8", newline="") as file:
            return {row["image_url"].rpartition("/")[2] for row in csv.DictReader(file)} - {"", ".", ".."}
    except (OSError, ValueError, KeyError, AttributeError, csv.Error):  # none, or not of our making
        return set()


# ------------------------------------------------------------------------------------------------------ tables


def _split(outcome: Outcome) -> Iterable[Sequence[str]]:
    dataset = outcome.source.dataset
    for decision, chain, owner in zip(outcome.decisions, dataset.captions, dataset.owner, strict=True):
        if decision.kept:
            published = outcome.source.urls[decision.sample_id]
            folder, slash, _ = published.rpartition("/")
            yield (
                decision.sample_id,
                ARROW.join(chain),
                folder + slash + image_name(dataset.images.ids[owner]),
            )


def _decisions(outcome: Outcome) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
    levels = range(1, LEVELS + 1)
    heading = (
        "id", "kept", "quality", *(f"truth_{n}" for n in levels), *(f"order_{n}" for n in levels[:-1]),
        *(f"ambiguity_{n}" for n in levels), "rival", "rival_id", "reason", "planted",
    )  # fmt: skip
    source = outcome.source
    faults = source.faults or [None] * len(outcome.decisions)
    rows = (
        (
            d.sample_id, int(d.kept), d.quality, *d.verify, *d.order, *d.ambiguity,
            source.captions[d.rival.caption] if d.rival else "",
            source.dataset.sample_ids[d.rival.sample] if d.rival else "", d.reason, fault or "",
        )
        for d, fault in zip(outcome.decisions, faults, strict=True)
    )  # fmt: skip
    return heading, rows


def _stages(outcome: Outcome) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Stage -> columns of its scores, and who gave them."""
    source, found, asked = outcome.source, outcome.findings, outcome.asked
    dataset, near, captions = source.dataset, found.neighbours, source.captions
    ids, image_ids = dataset.sample_ids, dataset.images.ids
    who = {role: dict(identity) for role, identity in outcome.identities.items()}
    told = {
        "describes": questions.prompt_hash(who["verifier"], questions.DESCRIBES),
        "entails": questions.prompt_hash(who["verifier"], questions.ENTAILS),
    }
    chains, samples = dataset.captions, range(len(ids))
    verify = [
        (ids[s], image_ids[dataset.owner[s]], level + 1, chains[s][level], None, told["describes"],
         float(found.verify[s, level]))
        for s in samples for level in range(LEVELS)
    ] + [
        (ids[s], None, level + 1, chains[s][level], chains[s][level + 1], told["entails"],
         float(found.order[s, level]))
        for s in samples for level in range(LEVELS - 1)
    ]  # fmt: skip
    pairs = list(found.more_general)
    finest = source.chains[:, -1]
    follows, implies = asked["follows"].values().tolist(), asked["implies"].values().tolist()
    relate = [
        row
        for (s, c), forth, back in zip(pairs, follows, implies, strict=True)
        for row in (
            (ids[s], captions[finest[s]], captions[c], told["entails"], forth),
            (ids[s], captions[c], captions[finest[s]], told["entails"], back),
        )
    ]
    shown = {"image_id": [image_ids[i] for i in near.image], "caption": [captions[c] for c in near.caption]}
    return {
        "verify": (
            _columns(("sample_id", "image_id", "level", "caption", "finer_caption", "prompt_hash", "score"), verify),
            who["verifier"],
        ),
        "embed": (
            {**shown, "rank_by_image": near.by_image, "rank_by_caption": near.by_caption,
             "prompt_hash": [questions.prompt_hash(who["embedder"])] * len(near.image), "score": near.similarity},
            who["embedder"],
        ),
        "rerank": (
            {**shown, "prompt_hash": [questions.prompt_hash(who["reranker"])] * len(near.image),
             "score": found.relevance},
            who["reranker"],
        ),
        "relate": (_columns(("sample_id", "specific", "general", "prompt_hash", "score"), relate), who["verifier"]),
    }  # fmt: skip


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _csv(path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heading)
        writer.writerows(rows)


def _parquet(path: Path, columns: Mapping[str, Any], who: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "level": pa.int64(),
        "rank_by_image": pa.int64(),
        "rank_by_caption": pa.int64(),
        "score": pa.float64(),
    }
    table = {name: pa.array(values, kinds.get(name, pa.string())) for name, values in columns.items()}
    count = len(next(iter(table.values())))
    for name in _WHO:
        value = who.get(name)
        table[name] = pa.array([None if value is None else str(value)] * count, pa.string())
    with replacing(path) as temporary:
        pq.write_table(pa.table(table), temporary)


def _images(outcome: Outcome, out: Path, progress: Progress) -> None:
    """The kept samples' images; those that an earlier selection left are taken away."""
    dataset = outcome.source.dataset
    kept = {int(owner) for owner, d in zip(dataset.owner, outcome.decisions, strict=True) if d.kept}
    with progress.bar("write: images", len(dataset.images.ids)) as advance:
        for place, image_id in enumerate(dataset.images.ids):
            path = out / IMAGES / image_name(image_id)
            if place not in kept:
                path.unlink(missing_ok=True)
            elif not path.exists() or sha256(path) != outcome.source.image_hashes[place]:
                with replacing(path) as temporary:
                    temporary.write_bytes(dataset.images.read(image_id))
            advance(1)


# ---------------------------------------------------------------------------------------------------- manifest


def _manifest(outcome: Outcome, out: Path) -> dict[str, Any]:
    source, kept = outcome.source, outcome.kept
    causes = Counter(decision.cause for decision in outcome.decisions if not decision.kept)
    files = [
        "split.csv",
        "pool.csv",
        "decisions.csv",
        *(f"{stage}.parquet" for stage in STAGES),
        "audit.html",
    ]
    images = "".join(source.image_hashes)
    manifest = {
        "schema": SCHEMA,
        "source": dict(source.about),
        "source_sha256": hashlib.sha256(source.dataset.facts() + images.encode()).hexdigest(),
        "counts": {
            "samples": len(kept),
            "kept": sum(kept),
            "dropped": len(kept) - sum(kept),
            "dropped_for": dict(sorted(causes.items())),
            "negatives": len(outcome.pool),
        },
        "rules": asdict(outcome.rules),
        "candidates": {
            "captions_of_an_image": outcome.top_captions,
            "images_of_a_caption": outcome.top_images,
        },
        "answers": {stage: len({item.key for item in batch.items}) for stage, batch in outcome.asked.items()},
        "neither_yes_nor_no": outcome.neither,
        "roles": outcome.identities,
        "probes": outcome.probes,
        "warnings": outcome.warnings,
        "questions": {"describes": questions.DESCRIBES, "entails": questions.ENTAILS},
        "files": {name: sha256(out / name) for name in files},
        "versions": provenance.versions() | {"pyarrow": version("pyarrow")},
        "revision": provenance.revision(),
    }
    if source.faults is not None:
        manifest["planted"] = select.against_truth(source.faults, kept)
    return manifest
