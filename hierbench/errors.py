"""The errors a user can cause. Each message is one line: what is wrong, where, and what to do."""

import re
from typing import Any

LONGEST = 2000
"""Characters of a message."""


class HierbenchError(Exception):
    """Base of all errors that end a command with status 2 and one line instead of a traceback."""

    def __str__(self) -> str:
        text = super().__str__()  # which may quote a file without line breaks
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


class UsageError(HierbenchError):
    """Options that contradict each other or are out of range."""


class UnknownNameError(HierbenchError):
    """A model, task, suite, dataset or family that nobody registered."""


class DataError(HierbenchError):
    """A dataset that is missing, damaged or in another layout than its manifest says."""


class MissingDataError(DataError):
    """A dataset that is not there at all; the message ends with how to get it. A run skips its tasks."""


class CheckpointError(HierbenchError):
    """A checkpoint that cannot be read, is unsafe, or does not fit the model family."""


class EncodingError(HierbenchError):
    """A model that returned embeddings of another shape than agreed, or that are not finite."""


class OutputError(HierbenchError):
    """Results that cannot be written or read back."""


class MetricError(HierbenchError):
    """Features, scores or labels that a metric cannot work on: wrong shapes, out of range, not finite."""


class GeometryError(HierbenchError):
    """A curvature, shape or root that a geometry cannot work with, or a question that it has no answer to."""


class ServerError(HierbenchError):
    """A server behind which a model runs that does not answer, or not what was asked for."""


class JudgeError(HierbenchError):
    """A model whose answers to questions of known answer show that it cannot play its role in the cleaning."""


def first_fault(error: Any) -> tuple[str, str]:
    """(place, message) of the first thing that pydantic found wrong; the place is empty for the whole."""
    problem = error.errors()[0]
    return ".".join(map(str, problem["loc"])), problem["msg"].removeprefix("Value error, ")


def one_line(error: BaseException | str, limit: int | None = 300) -> str:
    """An error's text, or any other, as one line of reasonable length, without a terminal's escape codes."""
    text = " ".join(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", str(error)).split())
    if not text and isinstance(error, BaseException):
        text = type(error).__name__
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"


def explained(error: BaseException) -> str:
    """What a user should read in one line: a message of ours whole, of foreign code the type and the text."""
    if isinstance(error, HierbenchError):
        return one_line(error, None)
    return one_line(f"{type(error).__name__}: {error}")
