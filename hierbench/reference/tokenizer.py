"""Captions to token ids: CLIP's byte-pair vocabulary as open_clip holds it, ragged, with start and end tokens.

The same cleaning as the lineage's: ftfy, HTML entities twice, white space, lower case.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

START, END = 49_406, 49_407
CONTEXT = 77


def tokenize(texts: Iterable[str], *, context: int = CONTEXT, keep_end: bool = True) -> list[list[int]]:
    """Strings -> token ids, START … END, at most `context` a text.

    Over-long texts lose their last words and keep the END token. `keep_end=False` gives what UNCHA's released code
    does: the first `context` tokens stay and END is lost, so that the feature is read at START.
    """
    return [_fit(_tokens(text), context, keep_end) for text in texts]


def _fit(tokens: tuple[int, ...], context: int, keep_end: bool) -> list[int]:
    if len(tokens) <= context:
        return list(tokens)
    return [*tokens[: context - 1], END] if keep_end else list(tokens[:context])


@lru_cache(maxsize=1 << 16)
def _tokens(text: str) -> tuple[int, ...]:
    return (START, *_bpe().encode(text), END)


@cache
def _bpe():
    from open_clip.tokenizer import (
        SimpleTokenizer,
    )  # takes seconds to import; nobody needs it before the first text

    return SimpleTokenizer()
