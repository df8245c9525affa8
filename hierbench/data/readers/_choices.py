"""Builds the record of questions that ask which caption fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hierbench.contracts import ImageSource
from hierbench.data.datasets import CaptionChoices
from hierbench.data.manifests import Manifest
from hierbench.data.readers._files import check_distinct, check_unicode
from hierbench.errors import DataError


@dataclass(frozen=True)
class Question:
    """One question as a reader found it; caption i is true of image i."""

    id: str
    kind: str
    images: tuple[str, ...]  # ids
    captions: tuple[str, ...]
    where: str  # the file, for messages


def choices(manifest: Manifest, images: ImageSource, questions: Sequence[Question]) -> CaptionChoices:
    """Raises DataError for no questions, one twice, or an empty caption."""
    if not questions:
        raise DataError(f"dataset {manifest.name} holds no questions")
    for question in questions:
        if not all(caption.strip() for caption in question.captions):
            raise DataError(f"captions file {question.where}, question {question.id}: a caption is empty")
    where = f"dataset {manifest.name}"
    check_unicode((c for question in questions for c in question.captions), f"{where}: the caption")
    check_distinct([question.id for question in questions], "question", where)
    position = {image_id: row for row, image_id in enumerate(images.ids)}
    return CaptionChoices(
        manifest.name,
        images,
        sample_ids=tuple(question.id for question in questions),
        kinds=tuple(question.kind for question in questions),
        shown=tuple(tuple(position[image] for image in question.images) for question in questions),
        captions=tuple(question.captions for question in questions),
    )
