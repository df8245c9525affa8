"""Submissions: a model's results packed to be sent, and filed in a leaderboard's folder after they were verified.

A bundle is a folder, or a zip of its content, with a folder a model (a *submission*): `submission.json` says what it
holds, with the hash of every file, `card.json` who the model is; `run.json`, `results/` and `items/` are those of a
run's folder, so that every command that reads runs reads submissions. `leaderboard/results` is itself such a folder.
No images, no weights, and no paths of the machine that measured.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hierbench.acquire import archives
from hierbench.errors import DataError, HierbenchError, OutputError, one_line
from hierbench.files import regular_file, safe_name, sync, temporary_name
from hierbench.results.record import strict_json

SCHEMA = 1
INDEX, CARD = "submission.json", "card.json"
MOST_FILES = 20_000  # of an archive: a model has a few hundred


@dataclass(frozen=True)
class Index:
    """Content of submission.json."""

    model: str
    family: str
    checkpoint_sha256: str
    tasks: tuple[str, ...]
    files: Mapping[str, str]  # path with slashes -> SHA-256, of every other file


# ---------------------------------------------------------------------------------------------------------- reading


@contextmanager
def opened(bundle: str | Path) -> Iterator[list[Path]]:
    """The folders of a bundle's submissions; of a zip they are there until the block ends.

    `bundle` may also be a single submission. Raises DataError for anything else, and for an archive whose members would
    leave it or that is damaged.
    """
    bundle = Path(bundle)
    if bundle.is_dir():
        yield _submissions(bundle, bundle)
        return
    if not bundle.exists():
        raise DataError(
            f"there is no bundle {bundle}: give the folder or zip that `leaderboard submit` wrote"
        )
    with tempfile.TemporaryDirectory() as unpacked:
        archives.unpack(bundle, Path(unpacked), False, MOST_FILES)
        yield _submissions(Path(unpacked), bundle)


def _submissions(folder: Path, bundle: Path) -> list[Path]:
    if (folder / INDEX).exists():
        return [folder]
    found = [path for path in sorted(folder.iterdir()) if path.name != "README.md" and path.name[0] != "."]
    for path in found:
        if not (path / INDEX).exists():
            raise DataError(f"{bundle}: {path.name} is no submission (it has no {INDEX}): leave it out")
    if not found:
        raise DataError(f"{bundle} holds no submission: `leaderboard submit RUN -o BUNDLE` makes one")
    return found


def read_index(folder: Path) -> Index:
    """What a submission says it holds. Raises DataError: damaged, of another schema, or with a path that leaves it."""
    path = folder / INDEX
    try:
        content = strict_json(regular_file(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is not a mapping")
        if content.get("schema") != SCHEMA:
            raise ValueError(f"it has schema {content.get('schema')!r}, this hierbench reads {SCHEMA}")
        texts = [content[name] for name in ("model", "family", "checkpoint_sha256")]
        tasks, files = content["tasks"], content["files"]
        if not isinstance(tasks, list) or not isinstance(files, dict):
            raise ValueError("tasks is no list, or files no mapping")
        if not all(isinstance(text, str) for text in [*texts, *tasks, *files, *files.values()]):
            raise ValueError("a name, a task or a hash is no text")
    except KeyError as error:
        raise DataError(f"{path} is damaged: it has no {error.args[0]}") from error
    except (OSError, ValueError, HierbenchError) as error:
        raise DataError(f"{path} is damaged: {one_line(error)}") from error
    for name in files:
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\\" in name or ":" in name:
            raise DataError(f"{path} names the file {name!r}, which leaves the submission")
    model, family, checkpoint = texts
    return Index(model, family, checkpoint, tuple(tasks), files)


def listed(folder: Path) -> dict[str, Path]:
    """Every file below a folder but its own submission.json, by its path with slashes.

    Raises DataError for what is neither a folder nor an ordinary file: a link could lead anywhere.
    """
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise DataError(f"{folder}: {name} is a link or a device, not a file: remove it")
        if path.is_file() and name != INDEX:
            found[name] = path
    return found


# ----------------------------------------------------------------------------------------------------------- filing


def add(folders: Sequence[Path], board: str | Path, again: bool = False) -> list[Path]:
    """Copy submissions that were verified into a leaderboard's folder; returns their places.

    `again`: those of models that are there already are replaced; without it they are refused. Each comes whole or not
    at all, and none where one is refused. Raises OutputError.
    """
    board = Path(board)
    targets = {folder: board / safe_name(read_index(folder).model) for folder in folders}
    if len(set(targets.values())) < len(targets):
        raise OutputError("two submissions of the bundle are of one model: submit one")
    for target in targets.values():
        if target.exists() and not (again and (target / INDEX).is_file()):
            advice = (
                "--replace puts the new ones there" if (target / INDEX).is_file() else "it is no submission"
            )
            raise OutputError(f"{target} exists already: {advice}")
    try:
        for folder, target in targets.items():
            old = target.with_name(temporary_name(target.name)) if target.exists() else None
            if old is not None:
                target.rename(old)
            try:
                place(folder, target)
            except OSError:
                if old is not None:
                    old.rename(target)
                raise
            if old is not None:
                shutil.rmtree(old)
    except OSError as error:
        raise OutputError(f"cannot file into {board}: {error.strerror or error}") from error
    return list(targets.values())


def place(content: Path, target: Path) -> None:
    """Copy a folder to a name that nothing has, whole or not at all. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(temporary_name(target.name))
    try:
        shutil.copytree(content, temporary)
        temporary.rename(target)
        sync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
