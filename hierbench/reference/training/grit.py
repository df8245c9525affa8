"""GRIT's raw tars (img2dataset's output) -> training shards with the boxes cut out, and an account of what was dropped.

In: KEY.jpg, KEY.json (`caption`; `noun_chunks` and `ref_exps`: lists of [start, end, x1, y1, x2, y2, score], character
offsets into the caption, coordinates as shares of the image). Out, as HyCoCLIP's preparation names them: KEY.child.jpg,
KEY.child.txt, KEY.numparents.txt, KEY.parentNNN.jpg, KEY.parentNNN.txt; child = the whole image, parents = its boxes.

Boxes refer to the pixels as they are stored, as far as can be told: the detector behind GRIT knew no EXIF orientation.
So they are cut out first and then turned upright, as the whole image is when it is read.
"""

from __future__ import annotations

import io
import json
import math
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from hierbench.data.images import MAX_ASPECT, decode_stored
from hierbench.errors import DataError, OutputError, UsageError
from hierbench.files import locked, replacing, sweep
from hierbench.json_files import known_json, write_json
from hierbench.pool import each
from hierbench.progress import Progress, choose

FORMAT = 2
"""Of shards and reports; rises when the same input would give other bytes."""

JPEG_QUALITY = 95
SUMMARY = "report.json"


@dataclass(frozen=True)
class Settings:
    """What decides which boxes of an image are kept."""

    max_boxes: int | None = None  # per image, those of the highest scores
    min_side: int = 16  # pixels of a box's shorter side


@dataclass(frozen=True)
class Report:
    """What became of raw tars: counts of what was written and of what was dropped, by reason."""

    shards: int
    samples: int
    boxes: int
    dropped_samples: dict[str, int]
    dropped_boxes: dict[str, int]
    turned: int = 0  # samples that EXIF turns: their boxes were cut from the pixels as stored, then turned
    damaged_tars: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """The report as a table: what, count, share of all samples or boxes."""
        rows = []
        for kind, written, dropped in (
            ("samples", self.samples, self.dropped_samples),
            ("boxes", self.boxes, self.dropped_boxes),
        ):
            total = written + sum(dropped.values())
            counts = {"written": written, **dict(sorted(dropped.items(), key=lambda entry: -entry[1]))}
            for name, count in counts.items():
                what = f"{kind} written" if name == "written" else f"{kind} dropped: {name}"
                rows.append({"what": what, "count": count, "share": f"{count / total:.2%}" if total else ""})
        if self.turned:
            share = f"{self.turned / self.samples:.2%}"
            rows.append({"what": "samples turned upright (EXIF)", "count": self.turned, "share": share})
        if self.damaged_tars:
            rows.append({"what": "damaged raw tars", "count": len(self.damaged_tars), "share": ""})
        return rows


def prepare(
    raw: Sequence[str | Path],
    out: Path,
    settings: Settings = Settings(),
    *,
    workers: int = 0,
    progress: Progress | bool | None = None,
) -> Report:
    """Make a shard `out/NAME.tar` and its report `out/NAME.json` of each raw tar NAME.tar; `out/report.json` sums up
    all shards of the folder, as does what is returned.

    A shard that stands there with its report is not made again, so a killed run goes on where it was. The bytes do not
    depend on `workers` (processes; 0 = this one). A raw tar that breaks off gives what is whole, and is named in the
    report. Raises UsageError (two tars of one name, other settings than before), DataError, OutputError.
    """
    tars = [Path(path) for path in raw]
    _check_names(tars, out)
    with _alone(out):
        _check_settings(out, settings)
        todo = [path for path in tars if not _is_finished(path, out, settings)]
        with choose(progress).bar("raw tars", len(tars)) as advance:
            advance(len(tars) - len(todo))
            for _ in _made(todo, out, settings, workers):
                advance(1)
        total = _sum(_reports(out))
        if not total.samples:
            dropped = total.dropped_samples or "no samples at all"
            raise DataError(f"no usable sample in {len(raw)} raw tar(s) such as {raw[0]}: {dropped}")
        _write_json(out / SUMMARY, asdict(total) | {"settings": asdict(settings)})
    return total


def _made(todo: Sequence[Path], out: Path, settings: Settings, workers: int) -> Iterator[None]:
    """Make the shards of the tars in `todo`; stops after each."""

    def make(path: Path) -> None:
        _make(path, out, settings)

    yield from each(
        make,
        todo,
        workers,
        f"finished shards are kept in {out}, run again to go on, perhaps with fewer --workers",
    )


# ------------------------------------------------------------------------------------------------ one shard


def _make(path: Path, out: Path, settings: Settings) -> None:
    """Write the shard of a raw tar, then its report. A tar without a usable sample has a report alone."""
    samples: Counter = Counter()
    boxes: Counter = Counter()
    written = kept = turned = 0
    target = out / f"{path.stem}.tar"
    damage: list[str] = []
    try:
        with (
            replacing(target) as temporary,
            tarfile.open(temporary, "w", format=tarfile.GNU_FORMAT) as archive,
        ):
            for key, members in _raw_samples(path, damage):
                made = _prepared(members, settings, samples, boxes)
                if made is None:
                    continue
                sample, was_turned = made
                for name, content in sample.items():
                    info = tarfile.TarInfo(f"{key}.{name}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
                written += 1
                kept += int(sample["numparents.txt"])
                turned += was_turned
        if not written:
            target.unlink()
    except OSError as error:
        raise OutputError(f"shard {target} could not be written: {error.strerror or error}") from error
    report = {
        "raw": _identity(path),
        "settings": _stamp(settings),
        "samples": written,
        "boxes": kept,
        "turned": turned,
        "dropped_samples": dict(sorted(samples.items())),
        "dropped_boxes": dict(sorted(boxes.items())),
        "damage": damage[0] if damage else None,
    }
    _write_json(out / f"{path.stem}.json", report)


def _raw_samples(path: Path, damage: list[str]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """(key, {suffix: content}) of the samples of a raw tar; where it breaks off, `damage` gets a line."""
    key: str | None = None
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r|*") as archive:
            for info in archive:
                base, _, suffix = Path(info.name).name.partition(".")
                if not info.isfile() or not base:
                    continue
                if base != key:
                    if key is not None:
                        yield key, members
                    key, members = base, {}
                if (content := archive.extractfile(info)) is not None:
                    members[suffix.lower()] = content.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        damage.append(f"{type(error).__name__}: {error}")
        members = {}  # what broke off may be half a sample
    if members and key is not None:
        yield key, members


def _prepared(
    members: dict[str, bytes], settings: Settings, samples: Counter, boxes: Counter
) -> tuple[dict[str, bytes], bool] | None:
    """Members of the prepared sample, and whether EXIF turns its image; None where nothing can be made of it.

    Why is counted in `samples`.
    """
    content = next((members[suffix] for suffix in ("jpg", "jpeg", "png", "webp") if suffix in members), None)
    if content is None or "json" not in members:
        samples["no image" if content is None else "no json"] += 1
        return None
    try:
        told = json.loads(members["json"])
        caption = told["caption"]
        entries = [*(told.get("noun_chunks") or ()), *(told.get("ref_exps") or ())]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        samples["unreadable json"] += 1
        return None
    if not isinstance(caption, str) or not caption.strip():
        samples["no caption"] += 1
        return None
    try:
        image, turn = decode_stored(content, "in a raw tar")
    except DataError:
        samples["damaged image"] += 1
        return None
    parts = _boxes(entries, caption, image.size, settings, boxes)
    if not parts:
        samples["no usable box"] += 1
        return None
    prepared = {
        "child.jpg": content,
        "child.txt": caption.strip().encode("utf-8", "replace"),
        "numparents.txt": str(len(parts)).encode(),
    }
    for index, (phrase, box) in enumerate(parts):
        part = image.crop(box)
        prepared[f"parent{index:03d}.jpg"] = _jpeg(part if turn is None else part.transpose(turn))
        prepared[f"parent{index:03d}.txt"] = phrase.encode("utf-8", "replace")
    return prepared, turn is not None


Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels


def _boxes(
    entries: Sequence[Any], caption: str, size: tuple[int, int], settings: Settings, dropped: Counter
) -> list[tuple[str, Box]]:
    """(phrase, box) of the usable entries in their order, each pair once; the others are counted in `dropped`."""
    scores: dict[tuple[str, Box], float] = {}
    for entry in entries:
        found = _box(entry, caption, size, settings.min_side)
        if isinstance(found, str):
            dropped[found] += 1
            continue
        phrase, box, score = found
        if (phrase, box) in scores:
            dropped["duplicate"] += 1
        scores[phrase, box] = max(score, scores.get((phrase, box), score))
    kept = list(scores)
    if settings.max_boxes is not None and len(kept) > settings.max_boxes:
        best = sorted(kept, key=lambda pair: -scores[pair])[: settings.max_boxes]
        dropped["more than max_boxes"] += len(kept) - len(best)
        kept = [pair for pair in kept if pair in best]
    return kept


def _box(entry: Any, caption: str, size: tuple[int, int], min_side: int) -> tuple[str, Box, float] | str:
    """Phrase, box in whole pixels around the given one, and score of an entry; or why it is of no use."""
    numbers = entry if isinstance(entry, list) and len(entry) == 7 else ()
    if not numbers or not all(type(n) in (int, float) and abs(n) < 1e9 for n in numbers):
        return "malformed"
    start, end, x1, y1, x2, y2, score = numbers
    if start != int(start) or end != int(end) or not 0 <= start <= end <= len(caption):
        return "phrase outside the caption"
    phrase = caption[int(start) : int(end)].strip()
    if not phrase:
        return "empty phrase"
    if x1 >= x2 or y1 >= y2:
        return "no area"
    if x1 >= 1 or y1 >= 1 or x2 <= 0 or y2 <= 0:
        return "outside the image"
    width, height = size
    left, top = math.floor(max(x1, 0) * width), math.floor(max(y1, 0) * height)
    right, bottom = math.ceil(min(x2, 1) * width), math.ceil(min(y2, 1) * height)
    short, long = sorted((right - left, bottom - top))
    if short < min_side or long > MAX_ASPECT * short:  # longer strips are refused as images, too
        return "too small"
    return phrase, (left, top, right, bottom), float(score)


def _jpeg(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()


# ------------------------------------------------------------------------------------------------ reports


def _identity(path: Path) -> dict[str, Any]:
    return {"name": path.name, "bytes": path.stat().st_size}


def _stamp(settings: Settings) -> dict[str, Any]:
    return {"format": FORMAT, **asdict(settings)}


def _is_finished(path: Path, out: Path, settings: Settings) -> bool:
    """Whether the shard of this raw tar is made already, and whole: its report is written after it."""
    report = _read_json(out / f"{path.stem}.json")
    if report is None or report["raw"] != _identity(path) or report["settings"] != _stamp(settings):
        return False
    return (out / f"{path.stem}.tar").is_file() or not report["samples"]


def _reports(out: Path) -> list[dict[str, Any]]:
    """The reports of all shards of a folder, in the order of names."""
    found = (_read_json(path) for path in sorted(out.glob("*.json")) if path.name != SUMMARY)
    return [report for report in found if report is not None]


def _sum(reports: Sequence[dict[str, Any]]) -> Report:
    def total(field: str) -> dict[str, int]:
        return dict(sum((Counter(report[field]) for report in reports), Counter()))

    return Report(
        shards=sum(report["samples"] > 0 for report in reports),
        samples=sum(report["samples"] for report in reports),
        boxes=sum(report["boxes"] for report in reports),
        turned=sum(report["turned"] for report in reports),
        dropped_samples=total("dropped_samples"),
        dropped_boxes=total("dropped_boxes"),
        damaged_tars=tuple(report["raw"]["name"] for report in reports if report["damage"]),
    )


def _read_json(path: Path) -> dict[str, Any] | None:
    """A shard's report; None where there is none, or something else."""
    document = known_json(path)
    return document if document is not None and {"raw", "settings"} <= document.keys() else None


def _write_json(path: Path, document: dict[str, Any]) -> None:
    try:
        write_json(path, document)
    except OSError as error:
        raise OutputError(f"{path} could not be written: {error.strerror or error}") from error


# ------------------------------------------------------------------------------------------------ refusals


def _check_names(raw: Sequence[Path], out: Path) -> None:
    by_name: dict[str, Path] = {}
    for path in raw:
        if not path.is_file():
            raise DataError(f"no raw tar {path}: give .tar files, folders of them or globs")
        if path.resolve().parent == out.resolve():
            raise UsageError(f"{path} lies in the output folder {out}, where a shard would take its place")
        if f"{path.stem}.json" == SUMMARY:
            raise UsageError(f"{path}: {SUMMARY} is the name of the summary, rename this tar")
        if path.stem in by_name:
            raise UsageError(
                f"{by_name[path.stem]} and {path} would give one shard {path.stem}.tar: "
                "prepare them into two folders"
            )
        by_name[path.stem] = path


def _check_settings(out: Path, settings: Settings) -> None:
    """A folder holds shards of one kind."""
    for report in _reports(out):
        if report["settings"] != _stamp(settings):
            raise UsageError(
                f"{out} holds shards made with {_told(report['settings'])}, not {_told(_stamp(settings))}: "
                "choose another folder, or delete them"
            )


def _told(stamp: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in stamp.items())


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Hold the output folder, which is made; OutputError where another run holds it or it cannot be made."""
    busy = OutputError(f"another process is preparing shards in {out}: wait for it")
    with ExitStack() as held:
        try:
            held.enter_context(
                locked(out / ".lock", 3, busy)
            )  # workers of a killed run hold it a moment longer
        except OSError as error:
            raise OutputError(f"cannot write to {out}: {error.strerror or error}") from error
        sweep(out, ".*.tmp", held=True)
        yield
