"""Writing a dataset in layouts that other programs read; images go as published, they are not encoded again.

wds: as CLIP Benchmark's `wds_*` datasets: test/0.tar … with KEY.jpg and KEY.cls (label number), KEY.txt (a caption a
line) or KEY.npy (0 and 1 a class); test/nshards.txt, dataset_type.txt, classnames.txt,
zeroshot_classification_templates.txt with `{c}`. Source: github.com/LAION-AI/CLIP_benchmark, webdataset_builder.py.
Beside them class_ids.txt, the dataset's own ids in label order: names may be those of the released protocol, where two
classes can bear each other's.
imagefolder: a folder a class id, with the images in it; classes.tsv says which class id a folder is, of every class.
Both: variant.txt says what sets the images apart from the released split (nothing in it: nothing does). What reads them
back is `hierbench.data.readers.wds` and `.imagefolder`.
"""

from __future__ import annotations

import glob
import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from hierbench.data.datasets import AnyDataset, CaptionChoices, Classification, MultiLabel, Retrieval
from hierbench.data.readers._files import VARIANT
from hierbench.data.readers.imagefolder import INDEX
from hierbench.data.readers.wds import IGNORED
from hierbench.errors import OutputError, UsageError
from hierbench.files import alive, safe_name
from hierbench.progress import Progress, choose

Exportable = Classification | MultiLabel | Retrieval
FORMATS = ("wds", "imagefolder")
EXPORTING = ".exporting"
SHARD_IMAGES = 10_000
SHARD_BYTES = 1_000_000_000
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
"""What Windows takes for devices."""

SPLIT = "test"  # what CLIP Benchmark asks for unless told otherwise


def export(record: AnyDataset, form: str, out: Path, progress: Progress | bool | None = None) -> int:
    """Write a dataset into the new folder `out` in one of `FORMATS` -> the number of images.

    Raises UsageError: no such format, one that cannot hold this kind of dataset, `out` is not empty; DataError for
    an image that cannot be read; OutputError. Nothing is left behind then.
    """
    if form not in FORMATS:
        raise UsageError(f"no export format {form!r}: it is {' or '.join(FORMATS)}")
    if form == "imagefolder" and not isinstance(record, Classification):
        raise UsageError(f"dataset {record.name} has no single label an image: export it with --format wds")
    if not isinstance(record, Classification | MultiLabel | Retrieval):
        what = "choices of" if isinstance(record, CaptionChoices) else "chains of"
        raise UsageError(f"dataset {record.name} holds {what} captions, which {form} has no place for")
    out = Path(os.path.abspath(out.expanduser()))
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"-o {out} exists and is not an empty folder: choose another one")
    for leftover in out.parent.glob(f".{glob.escape(out.name)}.*{EXPORTING}"):  # of killed exports
        number = leftover.name.removesuffix(EXPORTING).rpartition(".")[2]
        if number.isdigit() and not alive(int(number)):
            shutil.rmtree(leftover, ignore_errors=True)
    made = out.with_name(f".{out.name}.{os.getpid()}{EXPORTING}")
    count = len(record.images.ids)
    try:
        made.mkdir(parents=True)
        with choose(progress).bar(f"exporting {record.name}", count) as advance:
            steps = (
                _wds(record, made)
                if not isinstance(record, Classification) or form == "wds"
                else (_imagefolder(record, made))
            )
            for _ in steps:
                advance(1)
        _write(made / VARIANT, [record.variant] if record.variant else [])
        os.replace(made, out)
    except OSError as error:
        raise OutputError(f"{out} cannot be written: {error.strerror or error}: choose another -o") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return count


def extension(content: bytes) -> str:
    """File ending for encoded bytes by what they begin with; jpg where that says nothing."""
    for ending, begins in (
        ("jpg", b"\xff\xd8\xff"), ("png", b"\x89PNG"), ("gif", b"GIF8"), ("bmp", b"BM"),
        ("tif", b"II*\0"), ("tif", b"MM\0*"), ("ppm", b"P6"), ("pgm", b"P5"),
    ):  # fmt: skip
        if content.startswith(begins):
            return ending
    return "webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else "jpg"


def _wds(record: Exportable, folder: Path) -> Iterator[None]:
    """Stops after each image. Images other than JPEG, PNG and WebP are called jpg, or CLIP Benchmark would not see
    them; its reader looks at the content.
    """
    split = folder / SPLIT
    split.mkdir()
    kind, annotation = _wds_annotation(record)
    shard, number, images, size = None, 0, 0, 0
    try:
        for row, image_id in enumerate(record.images.ids):
            content = record.images.read(image_id)
            if shard is not None and (images >= SHARD_IMAGES or size + len(content) > SHARD_BYTES):
                shard.close()
                shard = None
            if shard is None:
                shard = tarfile.open(split / f"{number}.tar", "w", format=tarfile.GNU_FORMAT)  # noqa: SIM115
                number, images, size = number + 1, 0, 0
            ending = extension(content)
            ending = ending if ending in ("jpg", "png", "webp") else "jpg"
            for suffix, member in ((ending, content), *annotation(row)):
                info = tarfile.TarInfo(f"s{row:07d}.{suffix}")
                info.size = len(member)
                shard.addfile(info, io.BytesIO(member))
            images, size = images + 1, size + len(content)
            yield
    finally:
        if shard is not None:
            shard.close()
    _write(split / "nshards.txt", [str(number)])
    _write(folder / "dataset_type.txt", [kind])
    if not isinstance(record, Retrieval):
        _write(folder / "classnames.txt", record.class_names)
        _write(folder / "class_ids.txt", record.class_ids)
        templates = [template.replace("{}", "{c}") for template in record.templates]
        _write(folder / "zeroshot_classification_templates.txt", templates)


def _wds_annotation(record: Exportable) -> tuple[str, Callable[[int], list[tuple[str, bytes]]]]:
    """CLIP Benchmark's word for the kind of dataset, and a function from a row to suffixes and bytes."""
    if isinstance(record, Classification):
        labels = record.labels.tolist()
        return "classification", lambda row: [("cls", str(labels[row]).encode())]
    if isinstance(record, MultiLabel):
        matrices = {"npy": record.present, IGNORED: record.ignored}

        def vectors(row: int) -> list[tuple[str, bytes]]:
            return [(suffix, _npy(matrix[row])) for suffix, matrix in matrices.items() if matrix is not None]

        return "multilabel", vectors
    captions: list[list[str]] = [[] for _ in record.images.ids]
    for caption, image in zip(record.captions, record.owner.tolist(), strict=True):
        captions[image].append(re.sub(r"\r\n|\r|\n", " ", caption.strip("\r\n")))  # a caption a line
    return "retrieval", lambda row: [("txt", "\n".join(captions[row]).encode())]


def _npy(flags: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, flags.astype(np.int64))
    return buffer.getvalue()


def _imagefolder(record: Classification, folder: Path) -> Iterator[None]:
    """Stops after each image."""
    names = folder_names(record.class_ids)
    _write(
        folder / INDEX,
        [f"{name}\t{class_id}" for name, class_id in zip(names, record.class_ids, strict=True)],
    )
    used: set[str] = set()
    for row, image_id in enumerate(record.images.ids):
        content = record.images.read(image_id)
        class_folder = folder / names[record.labels[row]]
        path = PurePosixPath(image_id)
        stem, ending = safe_name(path.stem), _ending(path.suffix, content)
        name = f"{stem}{ending}"
        if f"{class_folder.name}/{name}".lower() in used:  # two folders of one class
            name = f"{stem}_{row}{ending}"
        used.add(f"{class_folder.name}/{name}".lower())
        class_folder.mkdir(exist_ok=True)
        (class_folder / name).write_bytes(content)
        yield


def folder_names(class_ids: Sequence[str]) -> list[str]:
    """A folder name for each class id: the id itself where every file system takes it, with `_` for what some do not.

    Names differ in more than case.
    """
    names: list[str] = []
    used: set[str] = set()
    for number, class_id in enumerate(class_ids):
        name = re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", class_id[:100]).rstrip(" .")
        name = f"_{name}" if not name or name[0] in ". " or name.lower() in RESERVED else name
        if name.lower() in used:
            name = f"{name}_{number}"
        used.add(name.lower())
        names.append(name)
    return names


def _ending(suffix: str, content: bytes) -> str:
    """The published file's own ending where it says what the content is."""
    right = extension(content)
    alike = {".jpeg": "jpg", ".jpg": "jpg", ".tiff": "tif"}
    return suffix if alike.get(suffix.lower(), suffix.lower()[1:]) == right else f".{right}"


def _write(path: Path, lines: Sequence[str]) -> None:
    """An item a line. Raises UsageError for an item of several lines."""
    if odd := [line for line in lines if "\n" in line]:
        raise UsageError(
            f"{odd[0]!r} has no place in {path.name}, which has an item a line: mend the manifest"
        )
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
