"""What the verifier is asked, in words; the one home of these texts.

`understood` reads a question back, for those who play the verifier without reading prose (oracle, adapters).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DESCRIBES = (
    'Here is a caption: "{caption}"\n'
    "Is everything that the caption says true of the image? It need not mention all that the image shows. "
    "Answer with yes or no only."
)
ENTAILS = (
    'Here are two captions.\nFirst: "{specific}"\nSecond: "{general}"\n'
    "If the first is true of an image, is the second certainly true of it as well? "
    "Answer with yes or no only."
)


@dataclass(frozen=True)
class Describes:
    """Does the caption describe the image?"""

    caption: str


@dataclass(frozen=True)
class Entails:
    """Is `general` true wherever `specific` is?"""

    specific: str
    general: str


def describes(caption: str) -> str:
    """The question whether a caption is true of an image."""
    return DESCRIBES.replace("{caption}", caption)


def entails(specific: str, general: str) -> str:
    """The question whether one caption follows from another."""
    before, middle, after = re.split(r"\{specific\}|\{general\}", ENTAILS)
    return f"{before}{specific}{middle}{general}{after}"


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    told = (re.escape(part) if i % 2 == 0 else f"(?P<{part}>.*)" for i, part in enumerate(parts))
    return re.compile("".join(told), re.DOTALL)


_PATTERNS = {Describes: _pattern(DESCRIBES), Entails: _pattern(ENTAILS)}


def understood(text: str) -> Describes | Entails:
    """What a question of this module asks. Raises ValueError for any other text."""
    for meaning, pattern in _PATTERNS.items():
        if found := pattern.fullmatch(text):
            return meaning(**found.groupdict())
    raise ValueError(f"not a question of the cleaning: {text[:60]!r}")


def prompt_hash(identity: Mapping[str, Any], template: str = "") -> str:
    """16 hex digits over a question's wording and the prompt that the role's player puts around it."""
    text = json.dumps([template, identity.get("prompt_hash")], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
