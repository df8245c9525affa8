"""The server backend: the three models behind OpenAI-compatible endpoints, vLLM's above all.

The verifier is asked by chat completions with the probabilities of the first token, the embedder by embeddings of a
chat (vLLM's extension, as images need), the reranker by vLLM's score endpoint, for which there is no standard. One
request is about one item (of the reranker: one image), so an answer depends on nothing else.

What may pass is tried again, after a pause that doubles each time: no connection, no answer in time, status 408, 409,
429 and 5xx, an answer that is no JSON or lacks what was asked for. What stays wrong ends the call with one line.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from hierbench.cleaning.backends import prompts
from hierbench.cleaning.backends.yes_no import Tally, probability, spelled
from hierbench.cleaning.roles import Cast, Pair, Question
from hierbench.data.images import as_plain_png
from hierbench.errors import ServerError, UsageError, one_line

log = logging.getLogger(__name__)

T = TypeVar("T")

TOP = 20  # the most likely first tokens that a server may be asked for (OpenAI's limit, and vLLM's default)
UNCHANGED = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Sampling that leaves the model's probabilities as they are, so that a server that tells them after sampling's changes
(vLLM's --logprobs-mode processed_logprobs) tells the raw ones. Named all, as a server takes what a request leaves out
from the model's generation_config.json (Qwen3-VL's has a temperature of 0.7 and a top_k of 20). Not temperature 0: how
a server makes that a probability is its own affair. Which token is drawn is of no interest."""
CAPTIONS = 32  # of one image in one request to the reranker
PASSING = {408, 409, 425, 429}  # … and 5xx: statuses that may be others next time
LONGEST_PAUSE = 60.0  # seconds
TOLD_EVERY = 30.0  # seconds between two notices that a server is waited for
PATHS = {"verifier": "/chat/completions", "embedder": "/embeddings", "reranker": "/score"}
START = {  # role -> the command that starts its server
    "verifier": "vllm serve {model}",
    "embedder": "vllm serve {model} --runner pooling",
    "reranker": "vllm serve {model} --runner pooling --hf_overrides … (see docs/cleaning.md)",
}
HINTS = {  # status -> what to do about it
    401: ": check OPENAI_API_KEY",
    403: ": check OPENAI_API_KEY",
    404: ": is it a server for this role? start it: {start}",
    405: ": is it a server for this role? start it: {start}",
    501: ": is it a server for this role? start it: {start}",
}


def cast(
    models: Mapping[str, str],
    urls: Mapping[str, str],
    *,
    concurrency: int = 16,
    timeout: float = 120.0,
    retries: int = 6,
    pause: float = 0.5,
) -> Cast:
    """The three roles of `open_cast`, each server asked once whether it is there. `pause`: seconds before the
    first retry."""
    if concurrency < 1 or retries < 0 or not timeout > 0:
        raise UsageError(
            "a server needs a concurrency of at least 1, no negative retries and a timeout above 0"
        )
    servers = {
        role: Server(role, models[role], urls[role], concurrency, timeout, retries, pause) for role in models
    }
    for server in servers.values():
        server.greet()
    return Cast(
        ServedVerifier(servers["verifier"]),
        ServedEmbedder(servers["embedder"]),
        ServedReranker(servers["reranker"]),
    )


# ---------------------------------------------------------------------------------------------------------- roles


class ServedVerifier:
    """Chat completions of one token: the probability of yes among the server's `TOP` most likely first tokens.

    All spellings of yes and of no among them count; a spelling that is not among them counts as impossible.
    """

    def __init__(self, server: Server):
        self.server = server
        self.identity = server.identity
        self.tally = Tally(server.model)

    def probability_of_yes(self, questions: Sequence[Question]) -> np.ndarray:
        """(n,) float64 in [0, 1]."""
        return self.probability_and_share(questions)[:, 0]

    def probability_and_share(self, questions: Sequence[Question]) -> np.ndarray:
        """(n, 2) float64 in [0, 1]: probability of yes; share of all probability that is on yes and no together.

        `tally` keeps count of answers that are neither.
        """
        calls = [(PATHS["verifier"], self._body(question), _first_token) for question in questions]
        yes, no = np.array(self.server.ask(calls), np.float64).reshape(-1, 2).T
        share = (yes + no).clip(max=1)
        self.tally.count(share, [question.text for question in questions])
        return np.stack([probability(yes, no), share], axis=1)

    def _body(self, question: Question) -> dict[str, Any]:
        text = {"type": "text", "text": prompts.plain(question.text)}
        content = [text] if question.image is None else [_picture(question.image), text]
        return {
            "messages": [{"role": "user", "content": content}],
            "max_tokens": 1,
            "logprobs": True,
            "top_logprobs": TOP,
            **UNCHANGED,
        }


class ServedEmbedder:
    """Embeddings of a chat: the instruction as system turn, the item as user turn; normalised here."""

    def __init__(self, server: Server):
        self.server = server
        self.identity = server.identity

    def embed_images(self, images: Sequence[bytes]) -> np.ndarray:
        """(n, D) float32, each row of length 1."""
        return self._embed([_picture(image) for image in images])

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32, each row of length 1."""
        return self._embed([{"type": "text", "text": prompts.plain(text)} for text in texts])

    def _embed(self, parts: Sequence[dict[str, Any]]) -> np.ndarray:
        found = self.server.ask([(PATHS["embedder"], self._body(part), _embedding) for part in parts])
        widths = sorted({len(row) for row in found})
        if len(widths) > 1:
            raise ServerError(
                f"{self.server}: embeddings of {widths[0]} and of {widths[-1]} numbers: one model only"
            )
        rows = np.array(found, np.float64).reshape(len(found), *widths or [0])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def _body(self, part: dict[str, Any]) -> dict[str, Any]:
        system = {"role": "system", "content": [{"type": "text", "text": prompts.REPRESENT}]}
        return {
            "messages": [system, {"role": "user", "content": [part]}],
            "encoding_format": "float",
            "add_generation_prompt": True,  # these two: as the model's own processor does it
            "add_special_tokens": True,
        }


class ServedReranker:
    """vLLM's score endpoint: the image against up to `CAPTIONS` of its captions a request."""

    def __init__(self, server: Server):
        self.server = server
        self.identity = server.identity

    def relevance(self, pairs: Sequence[Pair]) -> np.ndarray:
        """(n,) float64 in [0, 1]."""
        rows: dict[bytes, list[int]] = {}
        for row, pair in enumerate(pairs):
            rows.setdefault(pair.image, []).append(row)
        parts = [
            (image, of[start : start + CAPTIONS])
            for image, of in rows.items()
            for start in range(0, len(of), CAPTIONS)
        ]
        calls = [
            (PATHS["reranker"], self._body(image, [pairs[row].caption for row in of]), _Scores(len(of)))
            for image, of in parts
        ]
        found = np.zeros(len(pairs))
        for (_, of), scores in zip(parts, self.server.ask(calls), strict=True):
            found[of] = scores
        return found

    def _body(self, image: bytes, captions: Sequence[str]) -> dict[str, Any]:
        # vLLM has other names for these two as well; all its versions know these.
        return {
            "text_1": {"content": [_picture(image)]},
            "text_2": [prompts.plain(text) for text in captions],
        }


# -------------------------------------------------------------------------------------------------------- answers


class UnusableError(Exception):
    """An answer that lacks what was asked for, in words."""


def _first_token(answer: Any) -> tuple[float, float]:
    """A chat completion -> probabilities of yes and of no, all spellings together."""
    try:
        (choice,) = answer["choices"]
        position = choice["logprobs"]["content"][0]
        listed = {
            entry["token"]: float(entry["logprob"]) for entry in position["top_logprobs"]
        }  # not the one drawn
    except (KeyError, IndexError, TypeError, ValueError):
        raise UnusableError(
            "the answer has no log probabilities of its first token; the server must support logprobs and top_logprobs"
        ) from None
    mass = {"yes": 0.0, "no": 0.0}
    for token, logprob in listed.items():
        if (word := spelled(token)) is not None:
            mass[word] += math.exp(min(logprob, 0.0))
    if math.isnan(mass["yes"] + mass["no"]):
        raise UnusableError("log probabilities of the answer are not numbers")
    return mass["yes"], mass["no"]


def _embedding(answer: Any) -> list[float]:
    try:
        (entry,) = answer["data"]
        row = [float(number) for number in entry["embedding"]]
    except (KeyError, TypeError, ValueError):
        raise UnusableError("the answer holds no embedding") from None
    if not any(row) or not all(map(math.isfinite, row)):
        raise UnusableError("the embedding is zero or not finite")
    return row


@dataclass(frozen=True)
class _Scores:
    """Reads a number of scores, in the order of the captions."""

    count: int

    def __call__(self, answer: Any) -> list[float]:
        try:
            scores = {int(entry["index"]): float(entry["score"]) for entry in answer["data"]}
            found = [scores[number] for number in range(self.count)]
        except (KeyError, TypeError, ValueError):
            raise UnusableError(f"the answer does not hold {self.count} scores") from None
        if not all(0 <= score <= 1 for score in found):
            raise UnusableError("scores are not between 0 and 1")
        return found


@lru_cache(maxsize=4)  # what is asked about one image comes in a row, and shares the text made of it
def _picture(image: bytes) -> dict[str, Any]:
    """An image as part of a message. Raises DataError for no image."""
    data = base64.b64encode(as_plain_png(image, "for a server")).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


# --------------------------------------------------------------------------------------------------------- server

Call = tuple[str, dict[str, Any], Callable[[Any], T]]  # path, body without the model, how to read the answer


@dataclass
class Server:
    """One role's endpoint. `ask` may be called from one thread at a time; it uses up to `concurrency` of its own."""

    role: str
    model: str
    url: str
    concurrency: int
    timeout: float
    retries: int
    pause: float
    identity: dict[str, Any] = field(init=False)
    _told: float = field(init=False, default=-TOLD_EVERY)

    def __post_init__(self):
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{self.url!r} is no address of a server: write http://HOST:PORT/v1")
        if parts.path in ("", "/"):
            self.url = self.url.rstrip("/") + "/v1"
        try:
            import openai
        except ModuleNotFoundError:
            raise UsageError(
                "the server backend needs the package openai: pip install 'hierbench[clean]'"
            ) from None
        self._openai = openai
        self._client = openai.OpenAI(
            base_url=self.url,
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            timeout=self.timeout,
            max_retries=0,  # what is tried again is decided here, answers without JSON included
        )
        self.identity = {
            "model": self.model,
            "revision": "",
            "prompt_hash": prompts.prompt_hash(self.role),
            "backend": "server",
            "dtype": "as served",
            "images": "8-bit upright PNG",  # earlier versions sent files as stored: their answers are others
        }

    def __str__(self) -> str:
        return f"the {self.role}'s server at {self.url}"

    def greet(self) -> None:
        """See that the server is there, serves the model and has what the role needs. Raises ServerError at once where
        not."""
        try:
            listed = json.loads(
                self._client.get("/models", cast_to=str, options={"timeout": min(10, self.timeout)})
            )
            served = {entry["id"]: entry for entry in listed["data"]}
        except self._openai.APIConnectionError as error:
            raise ServerError(
                f"{self} does not answer ({_reason(error)}): start it ({self._start}) or give its address"
            ) from None
        except self._openai.APIStatusError as error:
            raise ServerError(f"{self} answers {_status(error)}: check address and OPENAI_API_KEY") from None
        except (ValueError, KeyError, TypeError):
            raise ServerError(f"{self} has no OpenAI-compatible list of models: check the address") from None
        if self.model not in served:
            others = ", ".join(map(repr, served)) or "nothing"
            raise ServerError(f"{self} does not serve {self.model!r}: it serves {others}")
        self.identity["revision"] = str(served[self.model].get("root") or "")
        try:  # a request without content: what is there refuses it as incomplete, and computes nothing
            self._client.post(
                PATHS[self.role],
                cast_to=str,
                body={"model": self.model},
                options={"timeout": min(10, self.timeout)},
            )
        except self._openai.APIConnectionError:
            pass  # it was there a moment ago: the first question will tell
        except self._openai.APIStatusError as error:
            if error.status_code in HINTS:
                raise self._refused(PATHS[self.role], error) from None

    @property
    def _start(self) -> str:
        return START[self.role].format(model=self.model)

    def _refused(self, path: str, error: Any) -> ServerError:
        hint = HINTS.get(error.status_code, "").format(start=self._start)
        return ServerError(f"{self} refuses {path}: {_status(error)}{hint}")

    def ask(self, calls: Sequence[Call[T]]) -> list[T]:
        """Answers in the order of the calls; the first that fails for good ends the others. Raises ServerError."""
        found: list[Any] = [None] * len(calls)
        stop = threading.Event()
        left: queue.SimpleQueue[int] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
        for place in range(len(calls)):
            left.put(place)

        def work() -> None:
            while not stop.is_set():
                try:
                    place = left.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put((place, self._answer(calls[place], stop), None))
                except BaseException as error:
                    done.put((place, None, error))

        for _ in range(min(self.concurrency, len(calls))):
            # Daemons: an answer that hangs keeps nobody from leaving.
            threading.Thread(target=work, daemon=True).start()
        try:
            for _ in calls:
                place, answer, error = done.get()
                if error is not None:
                    raise error
                found[place] = answer
        finally:
            stop.set()  # whoever pauses gives up
        return found

    def _answer(self, call: Call[T], stop: threading.Event) -> T:
        path, body, read = call
        for attempt in range(self.retries + 1):
            wished = 0.0
            try:
                text = self._client.post(path, cast_to=str, body={"model": self.model, **body})
                return read(json.loads(text))
            except self._openai.APIConnectionError as error:  # timeouts too
                reason = _reason(error)
            except self._openai.APIStatusError as error:
                reason = _status(error)
                if error.status_code < 500 and error.status_code not in PASSING:
                    raise self._refused(path, error) from None
                wished = _retry_after(error)
            except ValueError:
                reason = "the answer is no JSON"
            except UnusableError as error:
                reason = str(error)
            if attempt < self.retries:
                pause = max(wished, self.pause * 2**attempt * random.uniform(0.5, 1.5))
                pause = min(pause, LONGEST_PAUSE)
                self._tell(reason, pause)
                if stop.wait(pause):
                    break
        raise ServerError(f"{self} failed {self.retries + 1} times at {path}: {reason}")

    def _tell(self, reason: str, pause: float) -> None:
        """Say that the server is waited for, where that takes long enough to be noticed; not once for every thread."""
        now = time.monotonic()
        if pause >= 2 and now - self._told >= TOLD_EVERY:
            self._told = now
            log.warning("%s: %s; next try in %.0f s", self, reason, pause)


def _reason(error: BaseException) -> str:
    """The bottom of a chain of connection errors, in one line."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return one_line(error)


def _status(error: Any) -> str:
    return f"status {error.status_code}, {one_line(str(error.message))}"


def _retry_after(error: Any) -> float:
    """Seconds that the server asks to wait for; 0 where it does not say."""
    try:
        return max(0.0, float(error.response.headers.get("retry-after", 0)))
    except ValueError:
        return 0.0
