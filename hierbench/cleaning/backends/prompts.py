"""The instructions around what the models are asked, and the hashes that stand for them.

The verifier's questions are in `hierbench.cleaning.questions`; the layout of a prompt (turns, places of images) is the
chat template's in the model's own folder. Here are the words of embedder and reranker.
`python -m hierbench.cleaning.backends.prompts` prints the template that a server needs for the reranker.
"""

from __future__ import annotations

import hashlib
import json

# ------------------------------------------------------------------------------------------------------- embedder

REPRESENT = "Represent the user's input."
"""The instruction that Qwen3-VL-Embedding has by default (its model card)."""

# ------------------------------------------------------------------------------------------------------- reranker

JUDGE = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
"""The system turn that Qwen3-VL-Reranker was trained with (its model card)."""
RELEVANT = "Given an image, retrieve the captions that truly describe it."
INSTRUCT, QUERY, DOCUMENT = "<Instruct>: {instruction}\n", "<Query>: ", "\n<Document>: {document}"
"""The parts of the user turn; the query, an image, stands between the last two."""


def before_query() -> str:
    """What the reranker reads before the image."""
    return INSTRUCT.format(instruction=RELEVANT) + QUERY


def after_query(caption: str) -> str:
    """What the reranker reads after the image."""
    return DOCUMENT.format(document=plain(caption))


def plain(text: str) -> str:
    """A caption or question as text alone: what a tokenizer would read as a control token is broken up."""
    return text.replace("<|", "< |").replace("|>", "| >")


def prompt_hash(role: str) -> str:
    """12 hex digits that change with the words that surround what the role (verifier, embedder, reranker) is asked."""
    words = {
        "verifier": [],  # the question is all it reads
        "embedder": [REPRESENT],
        "reranker": [JUDGE, RELEVANT, INSTRUCT, QUERY, DOCUMENT],
    }[role]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:12]


def score_template() -> str:
    """A Jinja chat template that makes a server's score endpoint ask the reranker what is asked here.

    vLLM renders it with two messages, of the roles `query` and `document`, whose content is text in which each
    image is `<|vision_start|><|image_pad|><|vision_end|>` already (its examples/pooling/score).
    """
    start, end = DOCUMENT.split("{document}")
    parts = [
        _literal(f"<|im_start|>system\n{JUDGE}<|im_end|>\n<|im_start|>user\n{before_query()}"),
        _content("query"),
        _literal(start),
        _content("document"),
        _literal(f"{end}<|im_end|>\n<|im_start|>assistant\n"),
    ]
    return "".join(parts)


def _literal(text: str) -> str:
    return "{{ " + json.dumps(text, ensure_ascii=False) + " }}"


def _content(role: str) -> str:
    return '{{ messages | selectattr("role", "eq", "ROLE") | map(attribute="content") | first }}'.replace(
        "ROLE", role
    )


if __name__ == "__main__":
    print(score_template())
