"""The folder of a training run: held by one run at a time, swept of what dead ones left, with the config it is of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hierbench.errors import OutputError, UsageError, one_line
from hierbench.files import locked, replacing, safe_name, sweep
from hierbench.reference.schema import ReferenceConfig
from hierbench.reference.training import state as checkpoints
from hierbench.yaml_files import read_yaml

FREE = ("name", "train.sharding", "processes", "launch")
"""What may differ when a run goes on: its folder may have been moved, its model may lie otherwise, over others."""

BEFORE: dict[str, dict[str, Any]] = {"data": {"draft": False}}
"""By sections, what runs did that were recorded before a key was there, where its default now is something else."""

WAIT_FOR_WORKERS = 6.0  # seconds: the data workers of a killed run may hold its lock a moment longer


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Hold the folder of a run, made if need be: nobody else trains in it, and what dead processes left goes.

    The lock ends with the process, however that ends. A run that could not begin (it wrote no config.yaml) leaves
    nothing. Raises UsageError where another process trains there, OutputError where nothing can be written.
    """
    missing = [folder for folder in (out, *out.parents) if not folder.exists()]
    busy = UsageError(f"another process is training in {out}: wait for it, or choose another --out")
    with ExitStack() as held:
        with writing(f"{out}"):
            held.enter_context(locked(out / ".lock", WAIT_FOR_WORKERS, busy))
        try:
            for folder in (out, out / "checkpoints"):
                sweep(folder, ".*.tmp", held=True)
            yield
        finally:
            if not (out / "config.yaml").exists():
                (out / ".lock").unlink(missing_ok=True)
                with suppress(OSError):
                    for folder in missing:
                        folder.rmdir()


@contextmanager
def writing(what: str) -> Iterator[None]:
    """A full or read-only disk as one OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{what} could not be written: {error.strerror or error}; make room or mend it, then --resume goes on"
        ) from error


def record(config: ReferenceConfig, out: Path, world: int, launch: str | None = None) -> None:
    """Write `out/config.yaml`, with the id of the torchrun launch that begins it. Raises OutputError."""
    recorded = _recorded(config, out, world) | ({"launch": launch} if launch else {})
    with writing(str(out / "config.yaml")), replacing(out / "config.yaml") as temporary:
        text = yaml.safe_dump(recorded, sort_keys=False, allow_unicode=True)
        temporary.write_text(text, encoding="utf-8")


def require_shared(out: Path) -> None:
    """Raise UsageError where the folder of the run, which has begun, is not the one that the first process has."""
    if not (out / "config.yaml").exists():
        raise UsageError(
            f"train.sharding=full writes from every process, and {out} is not the first one's: "
            "give an --out on a disk that all machines see"
        )


def begun_by(out: Path) -> str | None:
    """The id of the torchrun launch that began the run in `out`; None where there is no run or none began it."""
    try:
        return _before(out / "config.yaml")["launch"]
    except UsageError:
        return None


def refuse_other_run(out: Path) -> None:
    """Raise UsageError where the folder holds a run already."""
    if (out / "config.yaml").exists():
        raise UsageError(f"{out} holds a run already: add --resume to go on with it, or choose another --out")


def as_begun(config: ReferenceConfig, out: Path) -> ReferenceConfig:
    """`config` with what the run in `out` did, where its config.yaml is older than a key and `config` leaves it open.

    Raises UsageError for a config.yaml that is none.
    """
    if not (out / "config.yaml").exists():
        return config
    recorded = read_yaml(out / "config.yaml", "config", UsageError)
    for name, keys in BEFORE.items():
        section, told = getattr(config, name), recorded.get(name)
        open_keys = (
            keys.keys() - section.model_fields_set - (told.keys() if isinstance(told, dict) else set())
        )
        changed = section.model_copy(update={key: keys[key] for key in open_keys})
        config = config.model_copy(update={name: changed})
    return config


def restore(config: ReferenceConfig, out: Path, world: int) -> tuple[checkpoints.Saved | None, int]:
    """The newest checkpoint of the run in `out`, None before there is one; and how many processes it had when it began.

    Raises UsageError where there is no run or one of another config, OutputError for a damaged checkpoint.
    """
    recorded = out / "config.yaml"
    if not recorded.exists():
        raise UsageError(f"nothing to resume in {out}: it has no config.yaml")
    before = _before(recorded)
    changed = _differing(before, _recorded(config, out, world))
    # scenes of the built-in world are drawn by step and rank alone
    free = (*FREE, "data.workers") if config.data.kind == "miniature" else FREE
    if told := [
        f"{key} ({_short(one)} there, {_short(two)} here)" for key, one, two in changed if key not in free
    ]:
        raise UsageError(f"{out} was begun with another config, it differs in: {', '.join(told)}")
    found = checkpoints.saved(out)
    return checkpoints.to_go_on_from(found[-1]) if found else None, before["processes"] or world


def _before(recorded: Path) -> dict[str, Any]:
    """What a run's config.yaml says, with what keys that it is too old to have stood for. Raises UsageError."""
    values = read_yaml(recorded, "config", UsageError)
    for name, keys in BEFORE.items():
        if isinstance(values.get(name), dict):
            values[name] = keys | values[name]
    try:
        return ReferenceConfig(**values).model_dump(mode="json")
    except (TypeError, ValidationError) as error:
        raise UsageError(f"{recorded} is not what a training run writes: {one_line(error, 120)}") from None


def _differing(before: dict[str, Any], wanted: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Keys whose values differ, with both; those of the sections model, data and train by their own names."""
    found: list[tuple[str, Any, Any]] = []
    for key in sorted({*before, *wanted}):
        one, two = before.get(key), wanted.get(key)
        if key in ("model", "data", "train") and isinstance(one, dict) and isinstance(two, dict):
            found += [(f"{key}.{part}", was, now) for part, was, now in _differing(one, two)]
        elif one != two:
            found.append((key, one, two))
    return found


def _short(value: Any) -> str:
    """A value of a config as YAML has it, in few characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _recorded(config: ReferenceConfig, out: Path, world: int) -> dict[str, Any]:
    """What config.yaml says: the whole config, the run's name, and how many processes it has."""
    given = config.name if config.processes is None else None  # of another run's file the name is that run's
    name = given or safe_name(out.resolve().name or "run")
    told = json.loads(config.model_dump_json(exclude={"launch"}))  # another run's file has another's
    return told | {"name": name, "processes": world}
