"""Preparing a dataset: from archives, a folder or a download to the form of `hierbench.data.prepared`.

All work is done in a hidden folder beside the target, `.NAME.preparing`, which takes the target's name when it is
complete: a folder of that name is never half prepared. A killed preparation goes on where it stopped: with the bytes
of a download, after the last unpacked archive, after the last finished shard. What nobody goes on with is taken away by
a later preparation beside it.
"""

from __future__ import annotations

import contextlib
import glob
import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hierbench import __version__
from hierbench.acquire import archives
from hierbench.acquire.counting import check, variant_of
from hierbench.acquire.download import DownloadError, Expected, download, hub_dataset, recorded_from
from hierbench.acquire.shards import plan_shards, write_shards
from hierbench.cache import cache_dir
from hierbench.data import prepared
from hierbench.data.datasets import AnyDataset, CaptionChains, MultiLabel
from hierbench.data.locate import Locations
from hierbench.data.manifests import Manifest, load_manifest
from hierbench.data.prepared import Info, Origin
from hierbench.data.readers import open_folder
from hierbench.errors import DataError, HierbenchError, MissingDataError, OutputError, UsageError
from hierbench.files import ABANDONED_SECONDS, locked
from hierbench.json_files import known_json, write_json
from hierbench.progress import Progress, choose

PREPARING = ".preparing"


@dataclass(frozen=True)
class Prepared:
    """A prepared dataset, and whether it was there before."""

    folder: Path
    info: Info
    fresh: bool  # made now
    notes: tuple[str, ...] = ()  # on sources that could not be used
    downloads: tuple[Path, ...] = ()  # files or folders of the source that stay where they were brought


@dataclass(frozen=True)
class _Source:
    """What to open, and what to say of it."""

    folder: Path
    origin: Origin
    variant: str = ""
    downloads: tuple[Path, ...] = ()


def prepare(
    name: str,
    sources: Sequence[Path] = (),
    out: Path | None = None,
    *,
    workers: int = 1,
    force: bool = False,
    progress: Progress | bool | None = None,
) -> Prepared:
    """Prepare a dataset into `out` (default: CACHE/datasets/NAME).

    `sources`: one folder, or archives and files that belong together; without any, the sources of the manifest are
    tried in turn, also where one was downloaded but cannot be opened. A dataset that is prepared there already is left
    alone unless `force`. The bytes written do not depend on `workers`. Images are never decoded or encoded.
    Raises UnknownNameError; UsageError (a built-in dataset, `out` in use, sources that are not there or do not go
    together); MissingDataError (nothing to download: says what to do); DataError (damaged, unsafe or other data, too
    little space); OutputError.
    """
    manifest = load_manifest(name)
    if manifest.reader == "miniature":
        raise UsageError(f"dataset {name} is built in: there is nothing to prepare")
    sources = [Path(path).expanduser() for path in sources]
    for path in sources:
        if not path.exists():
            raise UsageError(f"--from {path}: there is no such file or folder")
    if len(sources) > 1 and any(path.is_dir() for path in sources):
        raise UsageError("--from: give one folder, or archives and files that belong together")
    target = Path(os.path.abspath((out or cache_dir() / "datasets" / name).expanduser()))
    progress = choose(progress)
    with _alone(target):
        _sweep(target)
        staging = _staging(target)
        there = _existing(target, name, force)
        if there is not None:
            shutil.rmtree(staging, ignore_errors=True)
            return Prepared(target, there, fresh=False)
        notes: list[str] = []
        try:
            info, source = _prepare(manifest, sources, staging, workers, progress, notes)
            _put_in_place(staging / "prepared", target, staging)
        except OSError as error:
            raise OutputError(
                f"{staging} cannot be written ({error.strerror or error}): free some space or choose another "
                "--out"
            ) from error
        except DataError as error:  # wrong data stay wrong: only what helps to go on is kept
            told = _named(error, staging)
            if not (staging / "plan.json").exists():
                shutil.rmtree(staging, ignore_errors=True)
            if told is error:
                raise
            raise told from error
        shutil.rmtree(staging, ignore_errors=True)
    return Prepared(target, info, fresh=True, notes=tuple(notes), downloads=source.downloads)


def _prepare(
    manifest: Manifest,
    given: Sequence[Path],
    staging: Path,
    workers: int,
    progress: Progress,
    notes: list[str],
) -> tuple[Info, _Source]:
    """Everything that goes into `staging`/prepared; dataset.json comes last."""
    staging.mkdir(parents=True, exist_ok=True)
    if given:
        record, source = _open_given(manifest, given, staging, progress)
    else:
        record, source = _open_downloaded(manifest, staging, progress, notes)
    counts, differences = check(manifest, record)
    own = getattr(record, "variant", "") or source.variant
    plan = plan_shards(record, source.origin, staging)
    total, shards = write_shards(record, plan, staging, workers, progress)
    info = Info(
        schema=prepared.SCHEMA,
        name=manifest.name,
        kind=prepared.kind_of(record),
        split=manifest.split,
        variant=own or variant_of(manifest, counts, differences),
        complete=not differences,
        differences=tuple(differences),
        counts=counts,
        fingerprint=prepared.as_fingerprint(total),
        source=source.origin,
        hierbench=__version__,
        pool=record.pool if isinstance(record, CaptionChains) else None,
        classes=None
        if manifest.class_ids or not isinstance(record, MultiLabel)
        else dict(zip(record.class_ids, record.class_names, strict=True)),
        shards=tuple(shards),
    )
    write_json(staging / "prepared" / prepared.RECORD, info.model_dump(by_alias=True, exclude_none=True))
    return info, source


# ------------------------------------------------------------------------------------------------- the target


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Hold the target; UsageError where another process does, OutputError where its folder cannot be made."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(_lock(target), timeout=2))  # a killed run's workers hold it
        except TimeoutError:
            raise UsageError(
                f"another process is preparing a dataset into {target}: wait for it, or choose another --out"
            ) from None
        except OSError as error:
            raise OutputError(
                f"cannot write to {target.parent}: {error.strerror or error}: choose another --out"
            ) from error
        yield


def _staging(target: Path) -> Path:
    return target.with_name(f".{target.name}{PREPARING}")


def _sweep(target: Path) -> None:
    """Take away what killed preparations have left beside the target: of datasets that are there by now, and what
    nobody has gone on with for `ABANDONED_SECONDS`. What another process works on is left alone, by its lock.
    """
    for leftover in target.parent.glob(f".*{PREPARING}"):
        other = target.with_name(leftover.name[1:].removesuffix(PREPARING))
        if other == target or not leftover.is_dir():
            continue
        with contextlib.suppress(OSError), locked(_lock(other), timeout=0):
            touched = max(
                path.stat().st_mtime for path in (leftover, *leftover.glob("*"), *leftover.glob("*/*"))
            )
            if (other / prepared.RECORD).is_file() or time.time() - touched > ABANDONED_SECONDS:
                shutil.rmtree(leftover, ignore_errors=True)


def _lock(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


def _existing(target: Path, name: str, force: bool) -> Info | None:
    """What is prepared at the target already; None where there is nothing that stands in the way."""
    if not (target / prepared.RECORD).is_file():
        if target.is_dir() and not any(target.iterdir()):
            return None
        if target.exists() or target.is_symlink():
            raise UsageError(
                f"{target} exists and holds no prepared dataset: choose another folder with --out (a copy of the "
                "data that lies there may be given as --from)"
            )
        return None
    try:
        info = prepared.load(target)
    except DataError:
        if not force:
            raise
        return None
    if info.name != name:
        raise UsageError(f"{target} holds the prepared dataset {info.name}: choose another folder with --out")
    return None if force else info


def _put_in_place(made: Path, target: Path, staging: Path) -> None:
    """Give the complete folder its name; one of that name, prepared before, makes room."""
    if target.is_dir() and any(target.iterdir()):
        old = staging / "old"
        shutil.rmtree(old, ignore_errors=True)
        os.rename(target, old)
    os.replace(made, target)


# -------------------------------------------------------------------------------------------------- the source


def _open_given(
    manifest: Manifest, given: Sequence[Path], staging: Path, progress: Progress
) -> tuple[AnyDataset, _Source]:
    places = tuple(str(path.resolve()) for path in given)
    if len(given) == 1 and given[0].is_dir():
        source = _Source(given[0], Origin(kind="folder", places=places))
    else:
        unpacked = _unpacked(given, staging, progress, _most_files(manifest))
        source = _Source(unpacked, Origin(kind="archives", places=places))
    return _open(manifest, source, staging, progress), source


def _open_downloaded(
    manifest: Manifest, staging: Path, progress: Progress, notes: list[str]
) -> tuple[AnyDataset, _Source]:
    """The first source of the manifest that can be had. Raises MissingDataError with what to do by hand."""
    by_hand = " ".join(
        dict.fromkeys(
            [source.how for source in manifest.sources if source.kind == "manual"] or [manifest.obtain]
        )
    ).strip()
    failure: HierbenchError | None = None
    for source in manifest.sources:
        if source.kind == "manual":
            continue
        files: list[Path] = []
        try:
            if source.kind == "url":
                files = [_downloaded(manifest.name, file) for file in source.files]
                origin = Origin(kind="url", places=tuple(file.url for file in source.files))
                found = _Source(
                    _unpacked(files, staging, progress, _most_files(manifest)),
                    origin,
                    source.variant,
                    tuple(files),
                )
            else:
                folder, revision = _from_hub(manifest.name, source)
                origin = Origin(kind="hub", places=(str(source.repo),), revision=revision)
                found = _Source(folder, origin, source.variant, (_hub_cache(folder),))
            return _open(manifest, found, staging, progress), found
        except archives.NoRoomError:
            raise
        except DataError as error:
            failure = _named(error, staging)
            notes.append(str(failure))
            if isinstance(error, DownloadError):  # what a killed run has unpacked of another source stays
                continue
            for path, file in zip(files, source.files, strict=False):
                if file.sha256 is None and file.md5 is None:  # perhaps an error page in its place
                    path.unlink(missing_ok=True)
            shutil.rmtree(staging / "unpacked", ignore_errors=True)
            (staging / "unpacked.json").unlink(missing_ok=True)
    advice = f"{by_hand} " if by_hand else ""
    advice += f"Then run `hierbench data prepare {manifest.name} --from PATH`"
    if failure is not None:
        raise DataError(f"dataset {manifest.name}: {'; '.join(notes)}. By hand: {advice}") from failure
    raise MissingDataError(f"dataset {manifest.name} cannot be downloaded by a program. {advice}")


def _named(error: DataError, staging: Path) -> DataError:
    """The error with the archives' names in place of the folder they were unpacked into, which nobody knows."""
    unpacked = ", ".join(known_json(staging / "unpacked.json") or ())
    folder = str(staging / "unpacked")
    if not unpacked or folder not in str(error):
        return error
    return type(error)(str(error).replace(folder, unpacked))


def _downloaded(name: str, file: Any) -> Path:
    base = unquote(Path(urlsplit(file.url).path).name) or "download"
    base = base.replace("/", "_")
    expected = Expected(file.size, file.sha256, file.md5, by=f"the manifest of {name}")
    target = cache_dir() / "downloads" / name / base
    for other in sorted(cache_dir().glob(f"downloads/*/{glob.escape(base)}")):  # datasets share archives
        if other != target and not target.exists() and recorded_from(other, file.url, expected):
            return other
    return download(file.url, target, expected)


def _from_hub(name: str, source: Any) -> tuple[Path, str | None]:
    """Folder and revision of a hub source. Where the manifest names none, the first fetch decides for good."""
    pins = cache_dir() / "downloads" / name / "revisions.json"
    pinned = known_json(pins) or {}
    folder = hub_dataset(source.repo, source.revision or pinned.get(source.repo), source.patterns)
    revision = folder.name if folder.parent.name == "snapshots" else source.revision
    if revision and not source.revision:
        write_json(pins, pinned | {source.repo: revision})
    return folder, revision


def _hub_cache(folder: Path) -> Path:
    """The folder of a repository in the hub's cache, which holds all its revisions."""
    return folder.parent.parent if folder.parent.name == "snapshots" else folder


def _most_files(manifest: Manifest) -> float:
    """Members that an archive of the dataset may have: training images, annotation files and others lie there too."""
    return math.inf if manifest.counts.images is None else 100_000 + 100 * manifest.counts.images


def _unpacked(files: Sequence[Path], staging: Path, progress: Progress, most_files: float) -> Path:
    """A folder with the content of the archives and with the other files; archives done before are not done again."""
    folder, marker = staging / "unpacked", staging / "unpacked.json"
    files = [Path(file).resolve() for file in files]
    names = Counter(file.name for file in files)
    if repeated := [name for name, count in names.items() if count > 1]:
        raise UsageError(f"--from: two files are called {repeated[0]}: rename one")
    stamps = {str(file): _stamp(file) for file in files}
    done = known_json(marker) or {}
    if any(stamps.get(file) != stamp for file, stamp in done.items()) or not folder.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        done = {}
    for file in files:
        if str(file) in done:
            continue
        if archives.is_archive(file):
            archives.unpack(file, folder, progress, most_files)
        elif len(files) == 1:
            raise DataError(
                f"{file} is neither a folder nor an archive that can be unpacked here (zip, tar, tar.gz, tar.bz2, "
                "tar.xz): unpack it yourself and give the folder"
            )
        else:
            _link(file, folder / file.name)
        done[str(file)] = stamps[str(file)]
        write_json(marker, done)
    return folder


def _open(manifest: Manifest, source: _Source, staging: Path, progress: Progress) -> AnyDataset:
    """The dataset in a folder; where no reader knows the folder and it holds archives, in those."""

    def read() -> AnyDataset:
        return open_folder(manifest, source.folder, locations=Locations())

    try:
        return read()
    except DataError:
        own = source.folder == staging / "unpacked"
        inside = _archives_in(source.folder, deep=own)
        if not inside:
            raise
    if own:  # archives in an archive, one level
        for archive in inside:
            archives.unpack(archive, archive.parent, progress, _most_files(manifest))
            archive.unlink()
        return read()
    files = [path for path in sorted(source.folder.iterdir()) if path.is_file() and path.name[0] != "."]
    return _open(
        manifest,
        replace(source, folder=_unpacked(files, staging, progress, _most_files(manifest))),
        staging,
        progress,
    )


def _archives_in(folder: Path, deep: bool) -> list[Path]:
    found = folder.rglob("*") if deep else folder.iterdir()
    return sorted(
        path
        for path in found
        if archives.has_archive_name(path.name) and path.name[0] != "." and archives.is_archive(path)
    )


def _link(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    try:
        os.link(file, place)
    except OSError:  # another file system
        shutil.copyfile(file, place)


def _stamp(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]
