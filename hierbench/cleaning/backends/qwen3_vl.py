"""The transformers backend: Qwen3-VL, its embedding and its reranker variant in this process, on CUDA or the CPU.

All three roles come down to the hidden state of a prompt's last token. Prompts are padded on the left, so that this
is the last position; positions count from a prompt's own first token, so that padding changes nothing. Prompts about
one image are neighbours in the order of work, and the image goes through the vision tower once for all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from hierbench.cleaning.backends import prompts
from hierbench.cleaning.backends.qwen3_folder import (
    EXPECTED,
    check_fit,
    find,
    is_elsewhere,
    quietly,
    read_config,
    read_processor,
)
from hierbench.cleaning.backends.yes_no import Tally, probability, spelled
from hierbench.cleaning.roles import Absent, Cast, Pair, Question
from hierbench.data.images import decode
from hierbench.engine.device import resolve_device
from hierbench.errors import CheckpointError, DataError, EncodingError, UsageError, one_line

BATCH_SIZES = {"cuda": 32, "mps": 4, "cpu": 4}
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def cast(
    models: Mapping[str, str], device: str, dtype: str, batch_size: int | None, fetch_models: bool = True
) -> Cast:
    """The three roles of `open_cast`; weights are read when a role is first asked, and one model's at a time."""
    device = resolve_device(device)
    kind = device.partition(":")[0]
    if dtype == "auto":
        dtype = "bfloat16" if kind == "cuda" else "float32"
    if dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is not offered: choose auto, {', '.join(DTYPES)}")
    how = (device, dtype, batch_size or BATCH_SIZES[kind], Seat())
    kinds: dict[str, Any] = {"verifier": QwenVerifier, "embedder": QwenEmbedder, "reranker": QwenReranker}
    return Cast(
        **{
            role: Absent(
                {"model": models[role], "backend": "transformers", "dtype": dtype},
                CheckpointError(f"{models[role]} is not on this machine"),
            )
            if not fetch_models and is_elsewhere(models[role])
            else kind(Qwen(models[role], role, *how))
            for role, kind in kinds.items()
        }
    )


# ---------------------------------------------------------------------------------------------------------- roles


class QwenVerifier:
    """Asks Qwen3-VL-Instruct; the probability of yes is that of all spellings of yes against those of no."""

    def __init__(self, model: Qwen):
        self.model = model
        self.identity = model.identity
        self.tally = Tally(model.identity["model"])
        self.yes, self.no = _spellings(model)

    def probability_of_yes(self, questions: Sequence[Question]) -> np.ndarray:
        """(n,) float64 in [0, 1]."""
        return self.probability_and_share(questions)[:, 0]

    def probability_and_share(self, questions: Sequence[Question]) -> np.ndarray:
        """(n, 2) float64 in [0, 1]: probability of yes; share of all probability that is on yes and no together.

        `tally` keeps count of answers that are neither.
        """
        asked = [(self.prompt(question), question.image) for question in questions]
        yes, no, share = np.zeros((3, len(asked)))
        for rows, hidden in self.model.last_states(asked):
            yes[rows], no[rows], share[rows] = self._masses(hidden)
        self.tally.count(share, [question.text for question in questions])
        return np.stack([probability(yes, no), share], axis=1)

    def prompt(self, question: Question) -> str:
        """The whole prompt, with one image token for the image."""
        text = {"type": "text", "text": prompts.plain(question.text)}
        content = [text] if question.image is None else [{"type": "image"}, text]
        return self.model.prompt([{"role": "user", "content": content}])

    def _masses(self, hidden: Tensor) -> np.ndarray:
        """(B, D) -> (3, B): probabilities of yes and of no relative to each other, and that of both together."""
        rows = self.model.head_rows([*self.yes, *self.no])
        logits = hidden.float() @ rows.T  # in float32: half precision would quantise the probability
        together = logits.logsumexp(1)
        yes = (logits[:, : len(self.yes)].logsumexp(1) - together).exp()
        no = (logits[:, len(self.yes) :].logsumexp(1) - together).exp()
        everything = self.model.logits(hidden).float().logsumexp(1)
        share = (together - everything).exp().clamp(max=1)
        return torch.stack([yes, no, share]).double().cpu().numpy()


class QwenEmbedder:
    """Embeds with Qwen3-VL-Embedding: the instruction as system turn, the item as user turn."""

    def __init__(self, model: Qwen):
        self.model = model
        self.identity = model.identity

    def embed_images(self, images: Sequence[bytes]) -> np.ndarray:
        """(n, D) float32, each row of length 1."""
        return self._embed([(self.prompt(None), image) for image in images])

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32, each row of length 1."""
        return self._embed([(self.prompt(text), None) for text in texts])

    def prompt(self, text: str | None) -> str:
        """The whole prompt for a text, or for an image (None)."""
        content = {"type": "image"} if text is None else {"type": "text", "text": prompts.plain(text)}
        return self.model.prompt([_system(prompts.REPRESENT), {"role": "user", "content": [content]}])

    def _embed(self, asked: Sequence[tuple[str, bytes | None]]) -> np.ndarray:
        found = np.zeros((len(asked), self.model.width), np.float32)
        for rows, hidden in self.model.last_states(asked):
            found[rows] = nn.functional.normalize(hidden.float(), dim=1).cpu().numpy()
        return found


class QwenReranker:
    """Scores with Qwen3-VL-Reranker: sigmoid of the logit of `yes` minus that of `no`; the image is the query."""

    def __init__(self, model: Qwen):
        self.model = model
        self.identity = model.identity
        self.yes, self.no = (_one_token(model, word) for word in ("yes", "no"))

    def relevance(self, pairs: Sequence[Pair]) -> np.ndarray:
        """(n,) float64 in [0, 1]."""
        asked = [(self.prompt(pair.caption), pair.image) for pair in pairs]
        found = np.zeros(len(asked))
        for rows, hidden in self.model.last_states(asked):
            yes, no = (hidden.float() @ self.model.head_rows([self.yes, self.no]).T).unbind(1)
            found[rows] = (yes - no).double().sigmoid().cpu().numpy()
        return found

    def prompt(self, caption: str) -> str:
        """The whole prompt for a caption, with one image token for the image."""
        content = [
            {"type": "text", "text": prompts.before_query()},
            {"type": "image"},
            {"type": "text", "text": prompts.after_query(caption)},
        ]
        return self.model.prompt([_system(prompts.JUDGE), {"role": "user", "content": content}])


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": [{"type": "text", "text": text}]}


def _spellings(model: Qwen) -> tuple[list[int], list[int]]:
    """Ids of all tokens that are a spelling of yes, and of no. Raises CheckpointError where there is none."""
    found: dict[str, list[int]] = {"yes": [], "no": []}
    for token, number in sorted(model.tokenizer.get_vocab().items(), key=lambda item: item[1]):
        if (word := spelled(token)) is not None:
            found[word].append(number)
    for word, numbers in found.items():
        if not numbers:
            raise CheckpointError(
                f"{model.folder}: the tokenizer has no token for {word!r}, a verifier needs one"
            )
    return found["yes"], found["no"]


def _one_token(model: Qwen, word: str) -> int:
    numbers = model.tokenizer.encode(word, add_special_tokens=False)
    if len(numbers) != 1:
        raise CheckpointError(
            f"{model.folder}: the tokenizer splits {word!r}, a reranker needs it as one token"
        )
    return numbers[0]


# ---------------------------------------------------------------------------------------------------------- model


class Seat:
    """For the one model whose weights are in memory: the roles are played one after the other."""

    def __init__(self):
        self.taken: Qwen | None = None

    def take(self, model: Qwen) -> None:
        """Make room for a model, if it is not the one that sits here."""
        if self.taken is not None and self.taken is not model:
            self.taken.unload()
        self.taken = model


@dataclass(frozen=True)
class Seen:
    """An image after the vision tower: its (tokens, D) features, and those for the first layers (DeepStack)."""

    grid: Tensor  # (3,) int64: frames, rows, columns of patches
    features: Tensor
    deepstack: tuple[Tensor, ...]


class Qwen:
    """A Qwen3-VL model folder in one role: the processor now, the weights when first needed.

    Raises CheckpointError, one line, for a folder that is none or whose parts do not fit together.
    """

    def __init__(self, name: str, role: str, device: str, dtype: str, batch_size: int, seat: Seat):
        self.role, self.device, self.dtype, self.batch_size = role, torch.device(device), dtype, batch_size
        self.folder, title, revision = find(name, role)
        config = read_config(self.folder, role)
        self.processor: Any = read_processor(self.folder)
        self.tokenizer = self.processor.tokenizer
        self.width = config.text_config.hidden_size
        self.image_id = config.image_token_id
        check_fit(self.folder, config, self.processor)
        self.identity: Mapping[str, Any] = {
            "model": title,
            "revision": revision,
            "prompt_hash": prompts.prompt_hash(role),
            "backend": "transformers",
            "dtype": dtype,
        }
        self._seat = seat
        self._body: Any = None
        self._head: Any = None  # a Linear; the embedder has none
        self._rows: dict[tuple[int, ...], Tensor] = {}
        self._seen: dict[bytes, Seen] = {}

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Messages under the folder's chat template, with the assistant's turn opened."""
        try:
            return self.processor.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # of Jinja, or a template that is not there
            raise CheckpointError(
                f"{self.folder}: the chat template does not work: {one_line(error)}"
            ) from error

    def last_states(self, asked: Sequence[tuple[str, bytes | None]]) -> Iterator[tuple[list[int], Tensor]]:
        """Prompts with their images -> batches of (rows in `asked`, (B, D) hidden states of the last token).

        Raises DataError for an image that cannot be decoded, EncodingError for states that are not finite.
        """
        images = [None if image is None else hashlib.sha256(image).digest() for _, image in asked]
        first: dict[bytes | None, int] = {}
        for row, image in enumerate(images):
            first.setdefault(image, row)
        left = sorted(range(len(asked)), key=lambda row: (first[images[row]], len(asked[row][0])))
        size = self.batch_size
        while left:
            rows = left[:size]
            try:
                hidden = self._last_state([asked[row] for row in rows], [images[row] for row in rows])
            except torch.OutOfMemoryError:
                if size == 1:
                    raise UsageError(
                        f"{self.identity['model']} on {self.device}: the memory does not hold one prompt: choose a "
                        "smaller model, --dtype bfloat16 or --device cpu"
                    ) from None
                size = max(1, min(size, len(rows)) // 2)
                self._seen = {}
                torch.cuda.empty_cache()
                continue
            if not bool(torch.isfinite(hidden).all()):
                raise EncodingError(
                    f"{self.identity['model']} in {self.dtype} gives NaN or infinity: use another --dtype"
                )
            left = left[size:]
            yield rows, hidden  # images of the last batch stay: the next call may go on with them

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, D) -> (B, V) over the whole vocabulary."""
        return self._head(hidden)

    def head_rows(self, tokens: Sequence[int]) -> Tensor:
        """(len(tokens), D) float32: the output weights of some tokens."""
        key = tuple(tokens)
        if key not in self._rows:
            self._rows[key] = self._head.weight[list(key)].float()
        return self._rows[key]

    def unload(self) -> None:
        """Give the weights' memory back."""
        self._body = self._head = None
        self._rows, self._seen = {}, {}
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    @torch.inference_mode()
    def _last_state(
        self, asked: Sequence[tuple[str, bytes | None]], images: Sequence[bytes | None]
    ) -> Tensor:
        self._load()
        contents = {
            key: content
            for key, (_, content) in zip(images, asked, strict=True)
            if key is not None and content is not None
        }
        self._see(contents)
        seen = [self._seen[key] for key in images if key is not None]
        texts = [
            prompt if key is None else self._widened(prompt, len(self._seen[key].features))
            for (prompt, _), key in zip(asked, images, strict=True)
        ]
        tokens = self.tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")
        ids, mask = tokens["input_ids"], tokens["attention_mask"]
        positions, _ = self._body.get_rope_index(
            ids,
            mm_token_type_ids=(ids == self.image_id).int(),
            image_grid_thw=torch.stack([image.grid for image in seen]) if seen else None,
            attention_mask=mask,
        )
        output = self._body(
            input_ids=ids.to(self.device),
            attention_mask=mask.to(self.device),
            position_ids=positions.to(self.device),
            mm_encoder_outputs={"image": _together(seen)} if seen else None,
            use_cache=False,
        )
        return output.last_hidden_state[:, -1]

    def _widened(self, prompt: str, tokens: int) -> str:
        """The prompt with as many image tokens as the image has features."""
        token = self.processor.image_token
        if prompt.count(token) != 1:
            raise CheckpointError(
                f"{self.folder}: the chat template places {prompt.count(token)} images instead of one"
            )
        return prompt.replace(token, token * tokens)

    def _see(self, contents: Mapping[bytes, bytes]) -> None:
        """Run the vision tower on what is new in this batch; forget what is not in it."""
        new = [key for key in contents if key not in self._seen]
        self._seen = {key: self._seen[key] for key in contents if key in self._seen}
        if not new:
            return
        pictures = [decode(contents[key], f"with SHA-256 {key.hex()[:12]}") for key in new]
        try:
            pixels = self.processor.image_processor(images=pictures, return_tensors="pt")
        except ValueError as error:  # an aspect ratio beyond 200, for one
            raise DataError(f"an image does not suit {self.identity['model']}: {one_line(error)}") from error
        grids = pixels["image_grid_thw"]
        found = self._body.get_image_features(pixels["pixel_values"].to(self.device), grids.to(self.device))
        for number, key in enumerate(new):
            deep = tuple(layer[number] for layer in found.deepstack_features)
            self._seen[key] = Seen(grids[number], found.pooler_output[number], deep)

    def _load(self) -> None:
        if self._body is not None:
            return
        self._seat.take(self)
        whole = self.role != "embedder"  # the embedder has no use for the output layer
        kind: Any = transformers.Qwen3VLForConditionalGeneration if whole else transformers.Qwen3VLModel
        try:
            with quietly():
                model, report = kind.from_pretrained(
                    self.folder, dtype=DTYPES[self.dtype], local_files_only=True, output_loading_info=True
                )
        except Exception as error:
            raise CheckpointError(
                f"{self.folder} does not load as {EXPECTED[self.role]}: {one_line(error)}"
            ) from error
        wrong = sorted(
            str(key) for part in ("missing_keys", "mismatched_keys") for key in report.get(part) or ()
        )
        if wrong:
            raise CheckpointError(
                f"{self.folder} is no complete {EXPECTED[self.role]}: {len(wrong)} weights are missing or of another "
                f"shape, the first is {wrong[0]}"
            )
        model = model.eval().requires_grad_(False).to(self.device)
        self._body, self._head = (model.model, model.lm_head) if whole else (model, None)


def _together(seen: Sequence[Seen]) -> Any:
    """Images in the order of their prompts, as the model's forward takes them ready-made."""
    from transformers.models.qwen3_vl import modeling_qwen3_vl

    output: Any = (
        modeling_qwen3_vl.BaseModelOutputWithDeepstackFeatures
    )  # takes an image's features each as well
    return output(
        pooler_output=tuple(image.features for image in seen),
        deepstack_features=[tuple(layer) for layer in zip(*(image.deepstack for image in seen), strict=True)],
    )
